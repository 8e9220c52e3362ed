"""Runs as tables, many in one, and what the checkers of the simulator say of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from phalanx.journal.events import SCHEMA_VERSION, Event, Life, ViewInstall
from phalanx.journal.segment import Header
from phalanx.pipeline.tables import Tables, from_rows
from phalanx.sim.checkers import PROPERTIES, Mode, Report, check
from phalanx.sim.evidence import ALONE, SETTLED


@dataclass(frozen=True)
class Played:
    """The rows of one run, under a name of its own, and what its simulator knows of it."""

    name: str
    rows: Sequence[Event]
    settled: bool = True
    mode: Mode | None = None
    undisturbed_ns: int = 0
    changes_max: int | None = None

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
            by_member.setdefault((row.node, row.inc), []).append(row)
        return [
            (_header(self.name, node, inc, config), sorted(rows, key=lambda row: row.lseq))
            for (node, inc), rows in by_member.items()
        ]

    def report(self) -> Report:
        if self.settled:
            return check(
                self.rows,
                expect_liveness=True,
                mode=self.mode,
                undisturbed_ns=self.undisturbed_ns,
                changes_max=self.changes_max,
            )
        apart = [msgspec.structs.replace(row, sim_ns=None) for row in self.rows]
        return check(apart, expect_liveness=False, mode=self.mode)

    def verdicts(self) -> dict[str, str]:
        """As `evidence` has it where nobody knows that the run settled."""
        report = self.report()
        verdicts = {name: str(r.verdict) for name, r in report.properties.items()}
        if self.settled:
            return verdicts
        named: set[tuple[str, int]] = set()
        have: set[tuple[str, int]] = set()
        for row in self.rows:
            have.add((row.node, row.inc))
            if isinstance(row, ViewInstall):
                named.update(zip(row.members, row.member_incs, strict=True))
        absent = named - have
        torn = report.statistics["torn-journals"]
        for name, verdict in verdicts.items():
            lacking = name in SETTLED or (absent and name not in ALONE) or torn
            if verdict == "holds" and lacking:
                verdicts[name] = "unverifiable"
        return verdicts


def _header(run: str, node: str, inc: int, config: dict[str, Any]) -> Header:
    return Header(
        journal=f"{run}/{node}/{inc}",
        cluster="c",
        group="g",
        node=node,
        inc=inc,
        number=1,
        schema=SCHEMA_VERSION,
        wall_ns=0,
        mono_ns=0,
        boot_id="b",
        config=config,
    )


def tables_of(spark: SparkSession, runs: Iterable[Played]) -> Tables:
    return from_rows(spark, (journal for run in runs for journal in run.journals()))


def stopped(rows: Sequence[Event]) -> bool:
    return any(isinstance(row, Life) and row.op == "STOP" for row in rows)


def apart(found: Mapping[str, str], expected: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Where two sets of verdicts differ: (audit, checkers)."""
    return {n: (found[n], expected[n]) for n in PROPERTIES if found[n] != expected[n]}
