"""Members in network namespaces on one bridge, each writing a journal that is checked at the end.

Needs root, `ip` and `nft`; where that is not so the tests skip and say why.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from bench.namespaces import Lan, available

from phalanx.harness.controller import MemberProcess, all_in_view
from phalanx.journal import reader
from phalanx.verify.evidence import judge

NAMES = ("ada", "bea", "cyd", "dov", "eli", "fay")


class Theatre:
    """A network, the members on it, and their journals."""

    def __init__(self, lan: Lan, folder: Path, n: int, undo: ExitStack) -> None:
        self.lan = lan
        self.folder = folder
        self.names = NAMES[:n]
        self.group = f"real-{os.getpid()}"
        self._undo = undo
        self.errors = folder / "errors"
        self.journals = folder / "journals"

    def start(self, i: int, wrapper: Sequence[str] = (), **more: Any) -> MemberProcess:
        """Member i, in its own namespace, started by a wrapper if one is given; returns at once."""
        part = {
            "group": self.group,
            "name": NAMES[i],
            "state": str(self.folder / "state"),
            "journal": str(self.journals),
            **more,
        }
        errors = self._undo.enter_context((self.folder / f"errors-{NAMES[i]}").open("a"))
        prefix = ["ip", "netns", "exec", self.lan.namespace(i), *wrapper]
        member = MemberProcess(part, prefix, errors)
        self._undo.callback(member.close)
        return member

    def start_all(self, **more: Any) -> list[MemberProcess]:
        """All of them, in one view."""
        members = [self.start(i, **more) for i in range(len(self.names))]
        for member in members:
            member.joined()
        all_in_view(members)
        return members

    def said(self, i: int) -> str:
        """What member i wrote to its standard error."""
        return (self.folder / f"errors-{NAMES[i]}").read_text()


@pytest.fixture
def theatre(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Theatre]:
    reason = available()
    if reason:
        pytest.skip(reason)
    n = getattr(request, "param", 4)
    with ExitStack() as undo:
        lan = undo.enter_context(Lan(n))
        yield Theatre(lan, tmp_path, n, undo)
    (evidence,) = judge(reader.read_all([tmp_path / "journals"]))
    assert not evidence.report.violations, "\n".join(map(str, evidence.report.violations[:5]))
    put = evidence.report.properties["virtual-synchrony"].evaluated
    assert put, "nothing was put to the test"
