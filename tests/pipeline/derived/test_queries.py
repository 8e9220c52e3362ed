"""Every query of docs/queries.md, and every join of docs/tables.md, in DuckDB and in Spark.

The answers are written by hand from the journals of `tests.pipeline.orders`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest
from pyspark.sql import SparkSession
from tests.pipeline.orders import NEXT_DAY, orders, stock, written_to
from tools.column_values import FAILED, OPEN, column_values
from tools.generate_tables_doc import KINDS, RESERVED, all_columns

from phalanx.pipeline.derived.derive import derive
from phalanx.pipeline.derived.derived_tables import DERIVED
from phalanx.pipeline.ingest import ingest
from phalanx.pipeline.lake.lake import Lake
from phalanx.pipeline.lake.lake_schema import OWN_TABLES
from phalanx.pipeline.lake_sql import register_duckdb, register_spark
from phalanx.pipeline.verdict_tables import (
    FindingRow,
    ViewVerdictRow,
    finding_rows,
    verdict_rows,
)
from phalanx.runtime import member_runner

DOCS = Path(__file__).resolve().parents[3] / "docs"
ZERO = datetime(2027, 1, 15, 8, tzinfo=UTC)
Answer = list[tuple[Any, ...]]
Ask = Callable[[str], Answer]


def after(ms: float) -> datetime:
    return ZERO + timedelta(milliseconds=ms)


def tomorrow(ms: float) -> datetime:
    return after(NEXT_DAY + ms)


PARAMETERS = {
    "since": after(0),
    "instant": tomorrow(6000) + timedelta(minutes=10),
    "group": "orders",
    "member": "cyd",
}
WHEN_CYD_WAS_KILLED = after(120_000)
"""ada and bea are in v1."""
QUERIES: dict[str, Answer] = {
    "The slowest view changes": [
        (tomorrow(3050), "orders", "cyd", "join", "v3", 3050.0, []),
        (tomorrow(3000), "orders", "ada", "join", "v3", 3000.0, []),
        (tomorrow(3100), "orders", "bea", "join", "v3", 2600.0, []),
        (after(121_700), "orders", "bea", "removal", "v2", 600.0, ["cyd.1"]),
        (after(121_500), "orders", "ada", "removal", "v2", 500.0, ["cyd.1"]),
    ],
    "Loss by link": [
        ("orders", "cyd", "ada", 600, 150 / 600),
        ("orders", "cyd", "bea", 400, 8 / 400),
        ("orders", "bea", "ada", 1000, 10 / 1000),
    ],
    "p99 latency by service over time": [
        (after(0), "orders", "AGREED", 200, 30.0),
        (after(0), "orders", "BASIC", 5, 20.0),
        (after(0), "orders", "SAFE", 20, 50.0),
        (after(60_000), "orders", "AGREED", 20, 300.0),
    ],
    "Who was in which view at an instant": [
        ("orders", "ada", 1, "v1", ["ada", "bea", "cyd"]),
        ("orders", "bea", 1, "v1", ["ada", "bea", "cyd"]),
        ("stock", "dov", 1, "w1", ["dov", "eve"]),
    ],
    "Detectors that flap": [(date(2027, 1, 15), "orders", "ada", "bea", 3, 800.0)],
    "Members that stopped writing": [
        ("stock", "eve", 1, after(5000)),
        ("orders", "cyd", 2, tomorrow(3050)),
        ("orders", "bea", 1, tomorrow(5000)),
    ],
    "The biggest senders": [
        ("orders", "ada", 120, 1200),
        ("stock", "dov", 3, 300),
        ("orders", "bea", 5, 100),
    ],
    "Messages per second over time": [
        (after(0), "orders", "ada", 110 / 60),
        (after(0), "orders", "bea", 115 / 60),
        (after(0), "orders", "cyd", 115 / 60),
        (after(0), "stock", "dov", 3 / 60),
        (after(0), "stock", "eve", 3 / 60),
        (after(60_000), "orders", "ada", 10 / 60),
        (after(60_000), "orders", "bea", 10 / 60),
        (after(60_000), "orders", "cyd", 10 / 60),
    ],
    "Removals and their causes": [
        (after(121_500), "orders", "cyd", 1, "ada", "SILENCE", "ENDED", 400.0, 100.0),
        (after(121_700), "orders", "cyd", 1, "bea", "SILENCE", "ENDED", 320.0, 280.0),
    ],
    "Findings of the last day": [("orders", "v1", after(0), "fifo", 2, "ada is wrong")],
    "The course of the removals of one member": [
        (after(121_000), "ada", "suspects cyd.1: no packets received"),
        (after(121_100), "bea", "suspects cyd.1: no packets received"),
        (after(121_400), "ada", "considers cyd.1 faulty: no packets received"),
        (after(121_400), "ada", "proposes to remove cyd.1 (FA)"),
        (after(121_420), "bea", "proposes to remove cyd.1 (FA)"),
        (after(121_450), "ada", "closes the view (CLOSED)"),
        (after(121_500), "ada", "installs v2 of ada.1, bea.1"),
        (after(121_650), "bea", "closes the view (CLOSED)"),
        (after(121_700), "bea", "installs v2 of ada.1, bea.1"),
    ],
}


JOINS: list[Answer] = [
    [
        ("dov", "dov", "CAUSAL", 3, 0.0),
        ("ada", "ada", "AGREED", 100, 2.0),
        ("bea", "ada", "AGREED", 100, 10.0),
        ("cyd", "ada", "AGREED", 100, 30.0),
        ("ada", "ada", "SAFE", 10, 20.0),
        ("cyd", "ada", "SAFE", 10, 40.0),
        ("bea", "ada", "SAFE", 10, 50.0),
        ("bea", "bea", "BASIC", 5, 1.0),
        ("cyd", "bea", "BASIC", 5, 20.0),
        ("ada", "ada", "AGREED", 10, 1.0),
        ("bea", "ada", "AGREED", 10, 7.0),
        ("cyd", "ada", "AGREED", 10, 300.0),
    ],
    [
        (after(0), "ada", "v1", ["ada", "bea", "cyd"]),
        (after(0), "bea", "v1", ["ada", "bea", "cyd"]),
        (after(0), "cyd", "v1", ["ada", "bea", "cyd"]),
        (after(0), "dov", "w1", ["dov", "eve"]),
        (after(0), "eve", "w1", ["dov", "eve"]),
        (after(121_500), "ada", "v2", ["ada", "bea"]),
        (after(121_700), "bea", "v2", ["ada", "bea"]),
        (tomorrow(-1000), "cyd", "v0", ["cyd"]),
        (tomorrow(3000), "ada", "v3", ["ada", "bea", "cyd"]),
        (tomorrow(3050), "cyd", "v3", ["ada", "bea", "cyd"]),
        (tomorrow(3100), "bea", "v3", ["ada", "bea", "cyd"]),
    ],
    [("ada", "v1", 3), ("bea", "v1", 4), ("cyd", "v1", 4), ("dov", "w1", 1), ("eve", "w1", 1)],
    [
        (after(121_500), "ada", "cyd", "SILENCE", 500.0, "ENDED"),
        (after(121_700), "bea", "cyd", "SILENCE", 600.0, "ENDED"),
    ],
    [
        (after(0), "v1", "fifo", "ada is wrong", ["causal"]),
        (after(0), "v1", "fifo", "second", ["causal"]),
    ],
]
UNIT: dict[str, Any] = {"cluster": "c", "run": "c", "group": "orders", "view": "v1"}
JUDGED: dict[str, Any] = {"lake_version": 1, "judged": after(1)}
FINDING: dict[str, Any] = {
    **UNIT,
    **JUDGED,
    "property": "fifo",
    "nth": 0,
    "violations": 2,
    "text": "ada is wrong",
    "members": ["ada"],
    "sender": "bea",
    "sender_incarnation": 1,
    "first": 3,
    "last": 4,
    "row_members": [],
    "row_incarnations": [],
    "row_lseqs": [],
}
VERDICT = ViewVerdictRow(
    **UNIT,
    **JUDGED,
    joins=0,
    removals=0,
    members=["ada.1"],
    began=after(0),
    ended=None,
    status="open",
    verdict="violated",
    violated=["fifo"],
    holds=[],
    unverifiable=["causal"],
    violations=2,
    absent=[],
    torn=[],
    rows=1,
    evidence="ada.1:left:1",
)


def joins() -> list[str]:
    """The joins of docs/tables.md."""
    page = (DOCS / "tables.md").read_text(encoding="utf-8")
    return re.findall(r"^```sql\n(.*?)^```$", page, re.M | re.S)


def queries(dialect: str) -> dict[str, str]:
    """The queries of the page by their headings."""
    found = {}
    for part in (DOCS / "queries.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        blocks = re.findall(rf"^```sql {dialect}\n(.*?)^```$", part, re.M | re.S)
        assert len(blocks) == 1, part
        found[part.partition("\n")[0]] = blocks[0]
    return found


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("queries")
    ingest(written_to(folder / "journals", [*orders(), *stock()]), folder / "lake")
    derive(Lake(folder / "lake"), names=tuple(DERIVED))
    Lake(folder / "lake").replace("verdicts", verdict_rows([VERDICT]))
    some = [FINDING, {"nth": 1, "text": "second"}, {"view": "v0", "judged": after(-1)}]
    found = [msgspec.convert(FINDING | one, FindingRow) for one in some]
    Lake(folder / "lake").replace("findings", finding_rows(found))
    return folder / "lake"


@pytest.fixture(scope="module")
def in_duckdb(lake: Path) -> Ask:
    database = duckdb.connect()
    register_duckdb(database, lake)

    def ask(query: str) -> Answer:
        return plain(database.sql(query, params=given(query, "$")).to_arrow_table())

    return ask


def plain(table: Any) -> Answer:
    return [tuple(_value(v) for v in row.values()) for row in table.to_pylist()]


def _value(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value)
    if isinstance(value, float):
        return pytest.approx(value)
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def given(query: str, mark: str) -> dict[str, Any]:
    """The parameters that a query names, behind the mark of its dialect."""
    names = set(re.findall(rf"{re.escape(mark)}(\w+)", query))
    found = {name: PARAMETERS[name] for name in names}
    if "view_intervals" in query and "instant" in names:
        found["instant"] = WHEN_CYD_WAS_KILLED
    return found


@pytest.mark.parametrize("heading", QUERIES)
def test_a_query_of_the_page_gives_the_right_answer_in_duckdb(in_duckdb: Ask, heading: str) -> None:
    assert in_duckdb(queries("duckdb")[heading]) == QUERIES[heading]


@pytest.mark.parametrize("nth", range(len(JOINS)))
def test_a_join_of_the_tables_gives_the_right_answer_in_duckdb(in_duckdb: Ask, nth: int) -> None:
    assert in_duckdb(joins()[nth]) == JOINS[nth]


def test_every_query_and_join_is_tested_in_both_dialects() -> None:
    assert list(queries("duckdb")) == list(queries("spark"))
    assert sorted(queries("duckdb")) == sorted(QUERIES)
    assert len(joins()) == len(JOINS)


def test_spark_gives_the_same_answers(spark: SparkSession, lake: Path) -> None:
    register_spark(spark, lake)

    def ask(query: str) -> Answer:
        return plain(spark.sql(query, args=given(query, ":")).toArrow())

    wrong = {
        heading: found
        for heading, query in queries("spark").items()
        if (found := ask(query)) != QUERIES[heading]
    }
    assert wrong == {}
    assert [ask(query.replace('"', "`")) for query in joins()] == JOINS
    for name in sorted(all_columns()):
        spark.sql(f"select {name} from (select 1 as {name})")
    assert spark.sql('select "group" as found from views limit 1').toArrow().to_pylist() == [
        {"found": "group"}
    ], "a name in double quotes is a string"


# ---------------------------------------------------------------------- names and tables


def test_the_names_that_need_quotes_in_duckdb_are_those_of_the_document(in_duckdb: Ask) -> None:
    refused = set()
    for name in all_columns():
        try:
            in_duckdb(f'select {name} from (select 1 as "{name}")')
        except duckdb.ParserException:
            refused.add(name)
    assert refused == RESERVED
    tables = set()
    for name in (*OWN_TABLES, *DERIVED, "verdicts", "findings"):
        try:
            in_duckdb(f"select count(*) from {name}")
        except duckdb.ParserException:
            tables.add(name)
    assert tables == {"window"}


def test_all_tables_of_a_version_can_be_queried_empty_ones_too(lake: Path) -> None:
    database = duckdb.connect()
    names = register_duckdb(database, lake, version=1)
    assert {*OWN_TABLES, *DERIVED, "verdicts", "findings"} <= set(names)
    for name in names:
        database.execute(f'select * from "{name}"').fetchall()
    count = "select count(*) from "
    assert database.execute(count + "changes").fetchall() == [(0,)], "derived later"
    assert database.execute(count + "view_installed").fetchall() == [(11,)]
    assert database.execute(count + "versions where lake_version = 1").fetchall() != [(0,)]
    register_duckdb(database, lake)
    assert database.execute(count + "changes").fetchall() == [(5,)]


def test_a_wrong_query_fails(in_duckdb: Ask) -> None:
    """The answers tell queries apart that differ in one word."""
    for heading, right, wrong in (
        ("The slowest view changes", "desc", "asc"),
        ("Loss by link", "sum(missed) /", "max(missed) /"),
        ("p99 latency by service over time", "p99_ns", "p50_ns"),
        ("Who was in which view at an instant", "< i.to_at", "<= i.from_at"),
        ("Detectors that flap", "= 'MISTAKE'", "= 'RIGHT'"),
        ("Members that stopped writing", "stopped = 0", "stopped = 1"),
        ("The biggest senders", "+ 1", ""),
    ):
        query = queries("duckdb")[heading]
        assert right in query
        assert in_duckdb(query.replace(right, wrong)) != QUERIES[heading], heading


# ---------------------------------------------------------------------- values of columns


def test_values_that_the_code_has_and_the_document_lacks_are_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    column_values(KINDS)
    monkeypatch.setitem(OPEN, ("life", "reason"), (*OPEN["life", "reason"], "tired"))
    with pytest.raises(AssertionError, match="tired"):
        column_values(KINDS)
    monkeypatch.undo()
    fewer = {name: kind for name, kind in KINDS.items() if name != "window"}
    with pytest.raises(AssertionError, match=r"no column has .*OPENED"):
        column_values(fewer)


def test_a_stop_after_an_error_has_the_reason_of_the_document() -> None:
    assert f'"{FAILED}" if error is not None' in inspect.getsource(member_runner)
