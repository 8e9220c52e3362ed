"""Verdicts and findings as derived tables: those of the audit of each view, replaced if changed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.journal.journal_folder import keep
from tests.verify.trace_builder import odyssey

from phalanx.journal import schema as ev
from phalanx.journal.arrow_schema import arrow
from phalanx.pipeline.audit import audit_groups
from phalanx.pipeline.derived.derive import derive
from phalanx.pipeline.derived.derive_verdicts import VERDICT_TABLES
from phalanx.pipeline.group_tables import read_groups
from phalanx.pipeline.history.instant import parse
from phalanx.pipeline.ingest import ingest
from phalanx.pipeline.lake.lake import Lake
from phalanx.pipeline.time_window import TimeWindow
from phalanx.pipeline.verdict_tables import FINDINGS, VERDICTS, verdict_schema
from phalanx.pipeline.watch import unit_audit
from phalanx.pipeline.watch.fill_verdicts import fill_verdicts

Said = dict[str, list[dict[str, Any]]]


def said(lake: Path, *without: str) -> Said:
    """The rows of both tables, in order."""
    snapshot = Lake(lake).snapshot()
    found = {}
    for table in VERDICT_TABLES:
        rows = snapshot.read(table, columns=verdict_schema(table).names).to_pylist()
        rows = [{k: v for k, v in row.items() if k not in without} for row in rows]
        found[table] = sorted(rows, key=lambda row: (row["view"], row.get("nth", 0), str(row)))
    return found


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five members; b lacks the delivery of a message that all others have."""
    rows = odyssey().rows
    (lost,) = [
        row
        for row in rows
        if isinstance(row, ev.Deliver) and (row.member, row.sender, row.view) == ("b", "b", "v1")
    ]
    folder = tmp_path_factory.mktemp("broken")
    return keep(folder, [row for row in rows if row is not lost], mode="flow")


@pytest.fixture(scope="module")
def ingested(journals: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = tmp_path_factory.mktemp("verdicts") / "lake"
    ingest([journals], lake)
    return lake


@pytest.fixture
def lake(ingested: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(ingested, tmp_path / "lake"))


def test_a_view_has_the_verdict_of_its_audit_and_the_examples(lake: Path, journals: Path) -> None:
    done = derive(Lake(lake), names=VERDICT_TABLES)
    found = said(lake)
    views = {row["view"]: row for row in found[VERDICTS]}
    assert done.violated == sum(row["verdict"] == "violated" for row in found[VERDICTS]) == 1
    assert views["v1"]["verdict"] == "violated"
    whole = audit_groups(read_groups([journals]))
    assert sorted(views["v1"]["violated"]) == sorted(whole.violated)
    assert {row["property"] for row in found[FINDINGS]} == set(whole.violated)
    assert {row["view"] for row in found[FINDINGS]} == {"v1"}
    assert done.tables[VERDICTS].rows == len(views) == len(whole_views(journals))
    filled = fill_verdicts(Lake(lake))
    assert filled.views == len(views)
    assert said(lake, "judged", "lake_version") == {
        table: [
            {k: v for k, v in row.items() if k not in ("judged", "lake_version")} for row in rows
        ]
        for table, rows in found.items()
    }


def whole_views(journals: Path) -> set[str]:
    (group,) = read_groups([journals])
    return set(group["view_installed"].column("view").to_pylist())


def test_a_second_derivation_leaves_verdicts_as_they_are(lake: Path) -> None:
    first = derive(Lake(lake), names=[FINDINGS])
    assert list(first.tables) == [VERDICTS, FINDINGS], "both, whichever was named"
    before = said(lake)
    again = derive(Lake(lake), names=VERDICT_TABLES)
    assert (again.version, again.violated) == (first.version, 1)
    assert [count.replaced for count in again.tables.values()] == [0, 0]
    assert said(lake) == before, "with the time at which they were reached"


def test_late_journals_replace_the_verdicts_that_they_change(
    journals: Path, ingested: Path, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    files = sorted(journals.glob("*.phj"))
    ingest(files[:-2], lake)
    derive(Lake(lake), names=VERDICT_TABLES)
    before = {row["view"]: row for row in said(lake)[VERDICTS]}
    ingest(files, lake)
    derive(Lake(lake), names=VERDICT_TABLES)
    found = {row["view"]: row for row in said(lake)[VERDICTS]}
    changed = [view for view, row in before.items() if row != found[view]]
    assert changed
    assert all(found[view]["lake_version"] == 3 for view in changed)
    shutil.copytree(ingested, tmp_path / "whole")
    derive(Lake(tmp_path / "whole"), names=VERDICT_TABLES)
    moments = ("judged", "lake_version")
    assert said(lake, *moments) == said(tmp_path / "whole", *moments)


def test_a_verdict_on_a_later_version_is_not_replaced_by_an_older_one(lake: Path) -> None:
    """Another process judged newer rows while this one computed."""
    derive(Lake(lake), names=VERDICT_TABLES)
    rows = said(lake)
    newer = [row | {"lake_version": 99, "rows": 12345} for row in rows[VERDICTS]]
    fresh = arrow().Table.from_pylist(newer, schema=verdict_schema(VERDICTS))
    Lake(lake).replace(VERDICTS, fresh)
    assert derive(Lake(lake), names=VERDICT_TABLES).tables[VERDICTS].replaced == 0
    assert {row["rows"] for row in said(lake)[VERDICTS]} == {12345}


def test_a_window_judges_the_views_in_it(lake: Path) -> None:
    window = TimeWindow(until=parse("2000-01-01T00:00:00Z"))
    done = derive(Lake(lake), names=VERDICT_TABLES, window=window)
    assert (done.tables[VERDICTS].rows, done.violated) == (0, 0)
    assert said(lake) == {VERDICTS: [], FINDINGS: []}
    window = TimeWindow(since=parse("2000-01-01T00:00:00Z"))
    assert derive(Lake(lake), names=VERDICT_TABLES, window=window).violated == 1


def test_large_groups_have_the_same_verdicts(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of them only the files of some days are read, which `segments` tells."""
    derive(Lake(lake), names=VERDICT_TABLES)
    small = said(lake, "rows", "judged", "lake_version")
    monkeypatch.setattr(unit_audit, "MEMORY_ROWS", 0)
    derive(Lake(lake), names=VERDICT_TABLES)
    assert said(lake, "rows", "judged", "lake_version") == small


def test_spark_gives_the_same_verdicts(spark: SparkSession, lake: Path) -> None:
    derive(Lake(lake), names=VERDICT_TABLES, engine="spark")
    found = said(lake)
    assert found[FINDINGS]
    assert derive(Lake(lake), names=VERDICT_TABLES).tables[VERDICTS].replaced == 0
    assert said(lake) == found
