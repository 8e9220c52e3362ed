"""Journals of simulated groups that grow while they are watched."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from phalanx.journal.blocks import rows_block
from phalanx.journal.schema import Deliver, Event
from phalanx.journal.segment import Header
from phalanx.journal.segment_file import SegmentFile
from phalanx.pipeline.lake.lake import Lake
from phalanx.pipeline.verdict_tables import FINDINGS, UNIT, VERDICTS
from phalanx.sim.generators import scenario_of
from phalanx.sim.journal_export import journals
from phalanx.sim.run import run

Journals = Sequence[tuple[Header, Sequence[Event]]]


def simulated_journals(*seeds: int) -> list[tuple[Header, list[Event]]]:
    """The journals of simulated groups with changes of membership, as real members leave them."""
    found = []
    for seed in seeds:
        for header, rows in journals(run(scenario_of(seed, 3, 5, "membership"))):
            own = {"group": f"g{seed}", "config": {"mode": header.config.get("mode")}}
            mine = [msgspec.structs.replace(row, group=own["group"]) for row in rows]
            found.append((msgspec.structs.replace(header, **own), mine))
    return found


def with_a_lost_message(made: Journals) -> list[tuple[Header, list[Event]]]:
    """The same; a member does not deliver a message that others deliver in the same view, which
    they leave together. The rows after it are numbered anew."""
    found = [(header, list(rows)) for header, rows in made]
    for header, rows in found:
        for at, row in enumerate(rows):
            if (
                isinstance(row, Deliver)
                and row.service == "AGREED"
                and row.sender != header.member
                and any(type(later).__name__ == "ViewInstalled" for later in rows[at:])
            ):
                del rows[at]
                for number in range(at, len(rows)):
                    rows[number] = msgspec.structs.replace(rows[number], lseq=number + 1)
                return found
    raise AssertionError("no such message")


class LiveJournals:
    """Journals in a folder that grow step by step."""

    def __init__(self, folder: Path, made: Journals) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._files = [(SegmentFile(folder, header), list(rows)) for header, rows in made]
        self._written = [0] * len(self._files)

    def grow(self, part: float, only: Sequence[int] | None = None) -> None:
        """Up to this part of all rows, of all journals or some."""
        for i, (file, rows) in enumerate(self._files):
            upto = int(len(rows) * part)
            if (only is None or i in only) and upto > self._written[i]:
                some = rows[self._written[i] : upto]
                file.append(rows_block(some), some)
                self._written[i] = upto

    def close(self) -> None:
        for file, _ in self._files:
            file.abandon()


def verdicts_of(lake: Path) -> dict[tuple[str, ...], tuple[str, str, int]]:
    """By unit: status, verdict, violations. Each unit is there once."""
    rows = Lake(lake).snapshot().read(VERDICTS).to_pylist()
    found = {
        tuple(row[name] for name in UNIT): (row["status"], row["verdict"], row["violations"])
        for row in rows
    }
    assert len(found) == len(rows), "a unit has one verdict"
    return found


def findings_of(lake: Path) -> list[tuple[object, ...]]:
    columns = (*UNIT, "property", "nth", "text")
    rows = Lake(lake).snapshot().read(FINDINGS).to_pylist()
    return sorted(tuple(row[name] for name in columns) for row in rows)
