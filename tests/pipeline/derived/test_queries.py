"""Every query of docs/queries.md, and every join of docs/tables.md, in DuckDB and in Spark.

The answers are written by hand from the journals of `tests.pipeline.orders`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession
from tests.pipeline.orders import NEXT_DAY, orders, stock, written_to

from phalanx.pipeline.derived.derive import derive
from phalanx.pipeline.ingest import ingest
from phalanx.pipeline.lake.lake import Lake
from phalanx.pipeline.lake_sql import register_duckdb

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
AT_NOON = {"instant": after(120_000)}
"""When ada and bea are in v1, and cyd was killed a second ago."""
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
    derive(Lake(folder / "lake"))
    return folder / "lake"


@pytest.fixture(scope="module")
def in_duckdb(lake: Path) -> Ask:
    database = duckdb.connect()
    register_duckdb(database, lake)

    def ask(query: str) -> Answer:
        given = {name: PARAMETERS[name] for name in set(re.findall(r"\$(\w+)", query))}
        return plain(database.sql(query, params=given).to_arrow_table())

    return ask


def in_spark(spark: SparkSession) -> Ask:
    def ask(query: str) -> Answer:
        given = {name: PARAMETERS[name] for name in set(re.findall(r":(\w+)", query))}
        return plain(spark.sql(query, args=given).toArrow())

    return ask


def plain(table: Any) -> Answer:
    return [tuple(_value(v) for v in row.values()) for row in table.to_pylist()]


def _value(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value)
    if isinstance(value, float):
        return pytest.approx(value)
    return value.astimezone(UTC) if isinstance(value, datetime) else value


@pytest.mark.parametrize("heading", QUERIES)
def test_a_query_of_the_page_gives_the_right_answer_in_duckdb(
    in_duckdb: Ask, heading: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "at an instant" in heading:
        monkeypatch.setitem(PARAMETERS, "instant", AT_NOON["instant"])
    assert in_duckdb(queries("duckdb")[heading]) == QUERIES[heading]


def test_every_query_of_the_page_is_tested_in_both_dialects() -> None:
    assert list(queries("duckdb")) == list(queries("spark"))
    assert sorted(queries("duckdb")) == sorted(QUERIES)
