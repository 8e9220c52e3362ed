"""Members of a mesh over TLS in processes of their own, on addresses of the loopback interface."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from phalanx.config import Config, Tls, mesh
from phalanx.harness.controller import MemberProcess, all_in_view
from phalanx.harness.loopback_host import loopback_host
from phalanx.journal import reader
from phalanx.verify.evidence import judge

NAMES = ("ada", "bea", "cyd", "dov", "eli")
SETTLE_SECONDS = 20.0


def built(config: Config) -> Any:
    """The settings as a member process takes them."""
    return msgspec.to_builtins(config)


class Mesh:
    """Members on addresses of their own of the loopback interface."""

    def __init__(self, folder: Path, undo: ExitStack, tls: Callable[[str], Tls]) -> None:
        self.journals = folder / "journals"
        self._folder = folder
        self._undo = undo
        self._tls = tls

    def address(self, name: str) -> str:
        return loopback_host(NAMES.index(name))

    def start(self, name: str, **settings: Any) -> MemberProcess:
        config = mesh(
            f"{self.address('ada')}:7117",
            f"{self.address('bea')}:7117",
            **{"address": self.address(name), "tls": self._tls(name)} | settings,
        )
        part = {
            "group": f"mesh-{os.getpid()}",
            "name": name,
            "state": str(self._folder / "state"),
            "journal": str(self.journals),
            "config": built(config),
        }
        errors = self._undo.enter_context((self._folder / f"errors-{name}").open("a"))
        member = MemberProcess(part, errors=errors)
        self._undo.callback(member.close)
        return member

    def start_all(self, n: int, **settings: Any) -> list[MemberProcess]:
        members = [self.start(name, **settings) for name in NAMES[:n]]
        for member in members:
            member.joined()
        all_in_view(members)
        fully_connected(members)
        return members


def checked(folder: Path, tls: Callable[[str], Tls]) -> Iterator[Mesh]:
    with ExitStack() as undo:
        made = Mesh(folder, undo, tls)
        yield made
    (evidence,) = judge(reader.read_all([made.journals]))
    assert not evidence.report.violations, "\n".join(map(str, evidence.report.violations[:5]))
    assert evidence.report.properties["virtual-synchrony"].evaluated, "nothing was put to the test"


def network(member: MemberProcess) -> dict[str, int]:
    counts: dict[str, int] = member.report()["network"]
    return counts


def channels(member: MemberProcess) -> int:
    counts = network(member)
    return counts.get("channel-up", 0) - counts.get("channel-down", 0)


def fully_connected(members: Sequence[MemberProcess], seconds: float = 10.0) -> None:
    """Wait until each has a channel to each other one."""
    end = time.monotonic() + seconds
    while any(channels(member) != len(members) - 1 for member in members):
        assert time.monotonic() < end, [network(member) for member in members]
        time.sleep(0.02)


def talk(members: Sequence[MemberProcess], count: int = 50) -> None:
    """Each sends some of each service, and all of it is everywhere."""
    marks = [len(member.events) for member in members]
    for member in members:
        for service in ("basic", "causal", "agreed", "safe"):
            member.do("send", count=count, service=service, stable=True)
    for member, mark in zip(members, marks, strict=True):
        member.wait(lambda e: e["event"] == "sent" and e["service"] == "safe", 30, mark, "all sent")


def views(members: Sequence[MemberProcess]) -> list[int]:
    return [len(member.views) for member in members]


def leave(members: Sequence[MemberProcess]) -> None:
    delivered = [member.leave()["delivered"] for member in members]
    # The first to leave does not wait for basic messages of others, so the ordered ones count.
    assert delivered
