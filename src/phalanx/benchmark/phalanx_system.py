"""Phalanx as a benchmarked system: worker processes in network namespaces or on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import msgspec

from phalanx.benchmark.process_group import ProcessGroup
from phalanx.benchmark.trial import Trial
from phalanx.benchmark.worker import WorkerPlan
from phalanx.config import ADDRESSED, Config, lan, local
from phalanx.harness.loopback_host import loopback_host

_numbers = count()


class BenchPlace(Protocol):
    """Where processes run: `run(i, argv, ...)` starts the process of member `i`, which has the
    address `address(i)`."""

    n: int

    def address(self, i: int) -> str: ...

    def run(self, i: int, argv: list[str], **popen: Any) -> subprocess.Popen[Any]: ...


class Loopback:
    """All members on this machine, over the loopback interface."""

    def __init__(self, n: int) -> None:
        self.n = n

    def address(self, i: int) -> str:
        return loopback_host(i)

    def run(self, i: int, argv: list[str], **popen: Any) -> subprocess.Popen[Any]:
        return subprocess.Popen(argv, **{"start_new_session": True, **popen})


class PhalanxSystem:
    """Groups of Phalanx members. With a `journal` folder, every trial gets a folder of its own in
    it, which `journals` lists."""

    def __init__(
        self, name: str, place: BenchPlace, *, journal: Path | None = None, **settings: Any
    ) -> None:
        self.name = name
        self.n = place.n
        self.journals: list[Path] = []
        self._place = place
        self._journal = journal
        make = local if isinstance(place, Loopback) else lan
        cluster = f"bench-{os.getpid()}"  # so that runs on one machine do not meet
        self._settings = {"cluster": cluster, **settings}
        if settings.get("network") in ADDRESSED:
            make = lan
            peers = tuple(f"{place.address(i)}:{Config().port}" for i in range(place.n))
            self._settings["peers"] = peers
        self._config = make(**self._settings)

    def _config_of(self, i: int) -> Config:
        """The settings of one member: with fan-out and mesh it has an address of its own."""
        if self._config.network not in ADDRESSED:
            return self._config
        return msgspec.structs.replace(self._config, address=self._place.address(i))

    @contextmanager
    def start_group(self, task: Trial) -> Iterator[ProcessGroup]:
        turn = next(_numbers)
        journal = None
        if self._journal is not None:
            journal = _folder(self._journal)
            self.journals.append(journal)

        def start(i: int, **popen: Any) -> subprocess.Popen[Any]:
            plan = WorkerPlan(
                task=task,
                i=i,
                group=f"trial-{turn}",
                config=self._config_of(i),
                journal=None if journal is None else str(journal),
            )
            worker = [sys.executable, "-m", "phalanx.benchmark.worker"]
            return self._place.run(i, [*worker, msgspec.json.encode(plan).decode()], **popen)

        with ProcessGroup(self._place.n, start) as group:
            yield group


def _folder(root: Path) -> Path:
    """A new folder in `root`."""
    for k in count():
        folder = root / f"trial-{k:03}"
        with suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
    raise AssertionError("unreachable")
