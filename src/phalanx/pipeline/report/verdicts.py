"""Verdicts of the audit on the page, with the rows of the counter-examples.

The audit names rows by member and number. Here they are looked up, so that the page can show their
columns and their place in time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from phalanx.journal.arrow_schema import IDENTITY, arrow
from phalanx.journal.schema import TABLES
from phalanx.journal.schema import Row as Common
from phalanx.pipeline.group_tables import GroupTables
from phalanx.pipeline.report.model import Caps, EvidenceRow, Example, ReportFinding
from phalanx.pipeline.report.time_axis import RunAxis
from phalanx.verify.properties import MEANING

if TYPE_CHECKING:
    from phalanx.pipeline.audit import Audit

RunKey = tuple[str, str, str]
Findings = Mapping[RunKey, Sequence[ReportFinding]]
COMMON = (*IDENTITY, *Common.__struct_fields__)
TEXT_MAX = 400


def findings_of(audit: Audit) -> Findings:
    """What an audit found, as the page tells it."""
    return {
        (run.cluster, run.run, run.group): [
            ReportFinding(
                name=name,
                verdict=result.verdict,
                checked=result.checked,
                violations=result.violations,
                why=result.why,
                meaning=MEANING.get(name, ""),
                examples=[
                    Example(
                        found.text,
                        list(found.members),
                        [EvidenceRow(row.member, row.incarnation, row.lseq) for row in found.rows],
                    )
                    for found in result.counterexamples
                ],
            )
            for name, result in run.properties.items()
        ]
        for run in audit.runs
    }


def judge_group(group: GroupTables) -> list[ReportFinding]:
    """The verdicts of the audit on one group."""
    from phalanx.pipeline.audit import audit_groups

    return list(findings_of(audit_groups([group]))[group.key])


def with_rows(
    group: GroupTables, axis: RunAxis, caps: Caps, findings: Sequence[ReportFinding]
) -> list[ReportFinding]:
    """The findings, with the rows of as many examples as are shown."""
    shown = [
        msgspec.structs.replace(finding, examples=finding.examples[: caps.examples])
        for finding in findings
    ]
    named = [row for finding in shown for example in finding.examples for row in example.rows]
    full = _looked_up(group, axis, named)
    return [
        msgspec.structs.replace(
            finding,
            examples=[
                msgspec.structs.replace(example, rows=[full.get(row, row) for row in example.rows])
                for example in finding.examples
            ],
        )
        for finding in shown
    ]


def _looked_up(
    group: GroupTables, axis: RunAxis, wanted: Sequence[EvidenceRow]
) -> dict[EvidenceRow, EvidenceRow]:
    """Rows whatever their table, with their columns and their place in time."""
    pa = arrow()
    journals = {(one.member, one.incarnation): one for one in axis.journals}
    by_place = {
        (journals[row.member, row.incarnation].name, row.lseq): row
        for row in wanted
        if (row.member, row.incarnation) in journals
    }
    numbers = pa.array(sorted({lseq for _, lseq in by_place}), pa.int64())
    found: dict[EvidenceRow, EvidenceRow] = {}
    for name in TABLES if by_place else ():
        some = pa.compute.is_in(group[name].column("lseq"), value_set=numbers)
        for row in group[name].filter(some).to_pylist():
            named = by_place.get((row["journal"], row["lseq"]))
            if named is None:
                continue
            own = row["t_ns"] if row["sim_ns"] is None else row["sim_ns"]
            shift = journals[named.member, named.incarnation].shift_ns
            at = (own + shift) // 1000
            columns = {key: value for key, value in row.items() if key not in COMMON}
            found[named] = msgspec.structs.replace(
                named, at=at if 0 <= at <= axis.span else None, table=name, text=worded(columns)
            )
    return found


def worded(columns: Mapping[str, Any]) -> str:
    """The columns of a row by name, without those that say nothing, not too long."""
    parts = [
        f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in columns.items()
        if value is not None and value != []
    ]
    text = " ".join(parts)
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"
