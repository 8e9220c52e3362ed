"""Verdicts of the audit on the page, with the rows of the counter-examples.

The audit names rows by member and number. Here they are fetched, so that the page can show their
columns and their place in time; a run without violations costs no query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from phalanx.journal.schema import Row as Common
from phalanx.pipeline.report.model import EvidenceRow, Example, ReportFinding
from phalanx.pipeline.report.time_axis import Axis
from phalanx.pipeline.schemas import EVENTS, IDENTITY
from phalanx.pipeline.tables import Tables
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


def wanted(axis: Axis, findings: Findings) -> list[tuple[str, int]]:
    """Journal and number of every row that a counter-example of a run that is shown points at."""
    places: set[tuple[str, int]] = set()
    for run in axis.runs:
        journals = {(j.member, j.incarnation): j.name for j in run.journals}
        for finding in findings.get(run.key, ()):
            for example in finding.examples[: axis.caps.examples]:
                places.update(
                    (journals[row.member, row.incarnation], row.lseq)
                    for row in example.rows
                    if (row.member, row.incarnation) in journals
                )
    return sorted(places)


def rows_at(tables: Tables, axis: Axis, places: Sequence[tuple[str, int]]) -> DataFrame:
    """These rows, whatever their table: run_no, life, lseq, at, table, columns (as JSON)."""
    spots = F.broadcast(
        tables.spark.createDataFrame(list(places), "journal string, lseq bigint").distinct()
    )
    found = []
    for name in EVENTS:
        frame = tables[name]
        own = [column for column in frame.columns if column not in COMMON]
        found.append(
            frame.join(spots, ["journal", "lseq"]).select(
                *("journal", "lseq", "t_ns", "sim_ns"),
                F.lit(name).alias("table"),
                F.to_json(F.struct(*own)).alias("columns"),
            )
        )
    placed = axis.place(reduce(DataFrame.unionByName, found))
    return placed.select("run_no", "life", "lseq", "at", "table", "columns")


def with_rows(tables: Tables, axis: Axis, findings: Findings) -> list[list[ReportFinding]]:
    """The findings of each run that is shown, with their rows."""
    places = wanted(axis, findings)
    shown_rows: dict[tuple[int, int, int], tuple[int, str, str]] = {}
    if places:
        for row in rows_at(tables, axis, places).collect():
            shown_rows[row.run_no, row.life, row.lseq] = row.at, row.table, worded(row.columns)

    def rows(no: int, given: Sequence[EvidenceRow]) -> list[EvidenceRow]:
        lives = axis.runs[no].lives
        full = []
        for row in given:
            at, table, text = shown_rows.get(
                (no, lives.get((row.member, row.incarnation), -1), row.lseq), (None, "", "")
            )
            full.append(msgspec.structs.replace(row, at=at, table=table, text=text))
        return full

    return [
        [
            msgspec.structs.replace(
                finding,
                examples=[
                    msgspec.structs.replace(example, rows=rows(no, example.rows))
                    for example in finding.examples[: axis.caps.examples]
                ],
            )
            for finding in findings.get(run.key, ())
        ]
        for no, run in enumerate(axis.runs)
    ]


def worded(columns: str) -> str:
    """The columns of a row by name, without those that say nothing, not too long."""
    known: dict[str, Any] = msgspec.json.decode(columns)
    parts = [
        f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in known.items()
        if value is not None and value != []
    ]
    text = " ".join(parts)
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"
