"""The schemas of `verdicts` and `findings`."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from phalanx.pipeline.verdict_tables import (
    FINDINGS,
    VERDICTS,
    FindingRow,
    ViewVerdictRow,
    finding_rows,
    verdict_rows,
    verdict_schema,
)

JUDGED = datetime(2026, 11, 18, tzinfo=UTC)
VERDICT = ViewVerdictRow(
    cluster="phalanx",
    run="phalanx",
    group="orders",
    view="1.0:5c1e",
    joins=1,
    removals=0,
    members=["ada.1", "bea.1"],
    began=JUDGED,
    ended=None,
    status="open",
    verdict="violated",
    violated=["fifo"],
    holds=["causal"],
    unverifiable=["basic"],
    violations=1,
    absent=["bea.1"],
    torn=[],
    rows=12,
    evidence="ada.1:here:7 bea.1:absent:0",
    lake_version=3,
    judged=JUDGED,
)
FINDING = FindingRow(
    cluster="phalanx",
    run="phalanx",
    group="orders",
    view="1.0:5c1e",
    property="fifo",
    nth=0,
    violations=1,
    text="ada delivered ...",
    members=["ada"],
    sender="bea",
    sender_incarnation=1,
    first=3,
    last=4,
    row_members=["ada", "ada"],
    row_incarnations=[1, 1],
    row_lseqs=[7, 8],
    lake_version=3,
    judged=JUDGED,
)


@pytest.mark.parametrize(("table", "kind"), [(VERDICTS, ViewVerdictRow), (FINDINGS, FindingRow)])
def test_a_table_has_the_columns_of_its_rows_in_their_order(
    table: str, kind: type[msgspec.Struct]
) -> None:
    assert tuple(verdict_schema(table).names) == kind.__struct_fields__


def test_rows_survive_a_round_trip() -> None:
    for row, made in ((VERDICT, verdict_rows([VERDICT])), (FINDING, finding_rows([FINDING]))):
        (found,) = made.to_pylist()
        assert msgspec.convert(found, type(row)) == row
