"""Verdicts of the checkers (`phalanx check`) on one group, as findings of the page.

The checkers look at every message, so this suits groups of up to some hundred thousand messages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from phalanx.journal.reader import Reading
from phalanx.journal.schema import SCHEMA_VERSION, TABLES, Event
from phalanx.journal.segment import Header, Segment
from phalanx.pipeline.group_tables import GroupTables
from phalanx.pipeline.report.model import EvidenceRow, Example, ReportFinding
from phalanx.pipeline.segment_stats import JournalFacts
from phalanx.verify.evidence import judge
from phalanx.verify.properties import MEANING

KEPT = 3
"""Counter-examples of one property."""


def check_group(group: GroupTables) -> list[ReportFinding]:
    """One finding for each property. JournalError for two journals of one life."""
    return [
        ReportFinding(
            name=name,
            verdict=evidence.judgement(name).verdict,
            checked=result.evaluated,
            violations=result.found,
            why=evidence.judgement(name).why,
            meaning=MEANING.get(name, ""),
            examples=[
                Example(
                    found.text,
                    list(found.members),
                    [EvidenceRow(row.member, row.incarnation, row.lseq) for row in found.places],
                )
                for found in result.violations[:KEPT]
            ],
        )
        for evidence in judge(_reading(group))
        for name, result in evidence.report.properties.items()
    ]


def _reading(group: GroupTables) -> Reading:
    """The rows of the group one by one, as the checkers take them."""
    journals: dict[str, list[Event]] = {facts.journal: [] for facts in group.journals}
    for name, kind in TABLES.items():
        for row in group[name].drop_columns(["cluster"]).to_pylist():
            journal = row.pop("journal")
            known: Any = msgspec.convert(row | {"table": name}, kind)
            journals[journal].append(known)
    for rows in journals.values():
        rows.sort(key=lambda row: row.lseq)
    segments = [Segment(path=Path(one.journal), header=_header(one)) for one in group.journals]
    return Reading(segments, journals)


def _header(facts: JournalFacts) -> Header:
    config: dict[str, Any] = {"mode": facts.mode}
    if facts.order is not None:
        config["order"] = facts.order
    if facts.early is not None:
        config["early"] = bool(facts.early)
    if facts.settled:
        config["truth"] = {
            "settled": True,
            "undisturbed_ns": facts.undisturbed_ns,
            "changes_max": facts.changes_max,
        }
    return Header(
        journal=facts.journal,
        cluster=facts.cluster,
        group=facts.group,
        member=facts.member,
        incarnation=facts.incarnation,
        number=1,
        schema=SCHEMA_VERSION,
        wall_ns=facts.wall_ns,
        mono_ns=facts.mono_ns,
        boot_id=facts.boot_id,
        config=config,
    )
