"""A disk that is full under the journal: the member goes on, says so once, and the gap is told."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.real.conftest import Theatre

from phalanx.harness.controller import all_in_view
from phalanx.journal import reader
from phalanx.journal.schema import Gap


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "phalanx-test", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"a small disk cannot be mounted: {made.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_costs_rows_and_not_the_member(theatre: Theatre, small_disk: Path) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(bytes(200 << 10))
    members = [theatre.start(i) for i in range(1, 4)]
    members.insert(0, theatre.start(0, journal=str(small_disk / "journal")))
    for member in members:
        member.joined()
    all_in_view(members)
    deadline = time.monotonic() + 30
    while "no space left" not in theatre.said(0).lower():
        assert time.monotonic() < deadline, theatre.said(0)
        for member in members:
            member.do("send", count=1, service="causal")
            member.do("send", count=1, service="safe", stable=True)
        members[0].report()
    views = [len(member.views) for member in members]
    filler.unlink()
    journal = small_disk / "journal"
    while not any(isinstance(row, Gap) for row in reader.read_all([journal]).rows):
        assert time.monotonic() < deadline, "the gap is not told"
        members[0].do("send", count=1, service="safe", stable=True)
        members[0].report()
    assert [len(member.views) for member in members] == views
    for member in members:
        member.leave()
    assert theatre.said(0).lower().count("no space left") == 1
    gap = next(row for row in reader.read_all([journal]).rows if isinstance(row, Gap))
    assert gap.last >= gap.first
