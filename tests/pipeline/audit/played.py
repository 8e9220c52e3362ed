"""Runs as tables, many in one, and what the checkers of the simulator say of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from phalanx.journal.reader import Reading
from phalanx.journal.schema import SCHEMA_VERSION, Event, Life, Row
from phalanx.journal.segment import Header, Segment
from phalanx.pipeline.group_tables import GroupTables, groups_of_rows
from phalanx.verify.checkers import Mode
from phalanx.verify.evidence import ENDS, JournalEvidence, judge
from phalanx.verify.properties import PROPERTIES


@dataclass(frozen=True)
class Played:
    """The rows of one run, under a name of its own, and what its simulator knows of it."""

    name: str
    rows: Sequence[Event]
    settled: bool = True
    mode: Mode | None = None
    undisturbed_ns: int = 0
    changes_max: int | None = None
    ended: bool = True
    """Of a settled run: nothing is torn off the ends of its journals."""

    def journals(self) -> list[tuple[Header, list[Event]]]:
        config: dict[str, Any] = {} if self.mode is None else {"mode": self.mode}
        if self.settled:
            truth: dict[str, Any] = {"settled": True, "undisturbed_ns": self.undisturbed_ns}
            if self.changes_max is not None:
                truth["changes_max"] = self.changes_max
            config["truth"] = truth
        by_member: dict[tuple[str, int], list[Event]] = {}
        for row in self.rows:
            row = msgspec.structs.replace(row, run=self.name, group="g")
            by_member.setdefault((row.member, row.incarnation), []).append(row)
        for rows in by_member.values():
            rows.sort(key=lambda row: row.lseq)
            if self.settled and self.ended:
                self._end(rows)
        return [
            (_header(self.name, member, incarnation, config), rows)
            for (member, incarnation), rows in by_member.items()
        ]

    def _end(self, rows: list[Event]) -> None:
        """As at the end of a run, unless the life ended before."""
        last = rows[-1]
        if not (isinstance(last, Life) and last.op in ENDS):
            same = {n: getattr(last, n) for n in Row.__struct_fields__}
            same |= {"lseq": last.lseq + 1, "sim_ns": max(row.sim_ns or 0 for row in self.rows)}
            rows.append(Life(op="STOP", **same))

    def evidence(self) -> JournalEvidence:
        """What the checkers say of the journals."""
        segments, journals = [], {}
        for header, rows in self.journals():
            segments.append(Segment(path=Path(header.journal), header=header))
            journals[header.journal] = rows
        (found,) = judge(Reading(segments, journals))
        return found

    def verdicts(self) -> dict[str, str]:
        found = self.evidence()
        return {name: found.judgement(name).verdict for name in PROPERTIES}


def _header(run: str, member: str, incarnation: int, config: dict[str, Any]) -> Header:
    return Header(
        journal=f"{run}/{member}/{incarnation}",
        cluster="c",
        group="g",
        member=member,
        incarnation=incarnation,
        number=1,
        schema=SCHEMA_VERSION,
        wall_ns=0,
        mono_ns=0,
        boot_id="b",
        config=config,
    )


def groups_of(runs: Iterable[Played]) -> list[GroupTables]:
    return groups_of_rows(journal for run in runs for journal in run.journals())


def apart(found: Mapping[str, str], expected: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Where two sets of verdicts differ: (audit, checkers)."""
    return {n: (found[n], expected[n]) for n in PROPERTIES if found[n] != expected[n]}
