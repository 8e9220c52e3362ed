"""Journals into a lake, without a JVM: each row once, nothing half done, every version kept."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.journal.journal_folder import MS, header, keep, rows, segment
from tests.pipeline.lakes import gathered, held, written
from tests.verify.trace_builder import odyssey

from phalanx.errors import JournalError, PipelineError
from phalanx.journal import parquet_export as parquet
from phalanx.journal.arrow_schema import arrow
from phalanx.journal.blocks import rows_block
from phalanx.journal.schema import Event
from phalanx.journal.segment import header_bytes
from phalanx.journal.segment_file import SegmentFile
from phalanx.pipeline.ingest import ingest
from phalanx.pipeline.lake.lake import Lake
from phalanx.pipeline.lake.lake_groups import lake_groups

SCHEMA7 = Path(__file__).parent.parent / "journal" / "schema7"
"""Files that schema version 7 wrote, see tests/journal/test_renamed.py."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journals of five members."""
    return keep(tmp_path_factory.mktemp("fleet"), odyssey().rows)


def test_every_row_is_taken_once_and_a_second_ingest_takes_nothing(
    fleet: Path, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    done = ingest([fleet], lake)
    assert (done.version, done.segments, done.journals) == (1, 5, 5)
    assert held(lake) == written(fleet)
    again = ingest([fleet], lake)
    assert (again.version, again.segments, again.before) == (1, 0, 5)


def test_a_lake_written_before_segments_had_order_and_early_takes_more(
    fleet: Path, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    files = sorted(fleet.glob("*.phj"))
    ingest(files[:1], lake)
    pa = arrow()
    for file in Lake(lake).snapshot().files("segments"):
        old = pa.parquet.read_table(file.path).drop_columns(["order", "early", "deleted"])
        pa.parquet.write_table(old, file.path)
    done = ingest([fleet], lake)
    assert (done.segments, done.before, done.journals) == (4, 1, 5)
    assert held(lake) == written(fleet)


def test_settings_that_must_agree_are_in_the_facts_of_journals(tmp_path: Path) -> None:
    own: dict[str, dict[str, Any]] = {"a": {"order": "toto", "early": True}, "b": {"early": False}}
    keep(tmp_path / "journals", odyssey().rows, settings=own)
    ingest([tmp_path / "journals"], tmp_path / "lake")
    facts = Lake(tmp_path / "lake").snapshot().journals()
    found = {(journal.member, journal.order, journal.early) for journal in facts}
    assert {one for one in found if one[0] in "ab"} == {("a", "toto", 1), ("b", None, 0)}


def test_copies_enter_once_and_a_fleet_may_come_in_parts(fleet: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    files = sorted(fleet.glob("*.phj"))
    shutil.copytree(fleet, tmp_path / "copy")
    ingest([files[0], tmp_path / "copy" / files[0].name, files[1]], lake)
    assert held(lake) == written(*files[:2])
    done = ingest([tmp_path / "copy", fleet], lake)
    assert (done.segments, done.before) == (3, 2)
    assert held(lake) == written(fleet)


def test_of_a_live_segment_that_has_grown_the_new_rows_are_taken(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    path = segment(tmp_path, rows(1, 3))
    ingest([path], lake)
    path.write_bytes(path.read_bytes() + rows_block(rows(4, 5))[:-7])
    torn = ingest([path], lake)
    assert (torn.version, torn.segments, torn.before, torn.rows) == (1, 0, 1, 0)
    path.write_bytes(segment(tmp_path, rows(1, 3), rows(4, 5)).read_bytes())
    done = ingest([path], lake)
    assert (done.version, done.segments, done.again, done.rows) == (2, 1, 1, 2)
    assert [r["lseq"] for r in held(lake)["stable"]] == [1, 2, 3, 4, 5]
    assert held(lake) == written(path)
    assert sorted(file.rows for file in Lake(lake).snapshot().files("stable")) == [2, 3]
    shorter = tmp_path / "old" / path.name
    shorter.parent.mkdir()
    shorter.write_bytes(segment(shorter.parent, rows(1, 3)).read_bytes())
    assert ingest([shorter], lake).before == 1


def test_a_live_segment_that_is_sealed_without_new_rows_is_known_as_sealed(tmp_path: Path) -> None:
    live = SegmentFile(tmp_path, header())
    live.append(rows_block(rows(1, 3)), rows(1, 3))
    ingest([live.path], tmp_path / "lake")
    live.seal()
    done = ingest([live.path], tmp_path / "lake")
    assert (done.segments, done.again, done.rows) == (1, 1, 0)
    (facts,) = Lake(tmp_path / "lake").snapshot().segments()
    assert (facts.sealed, facts.rows, facts.whole) == (1, 3, 1)
    assert held(tmp_path / "lake") == written(live.path)


def test_a_segment_with_an_unreadable_part_is_replaced_by_a_whole_copy(tmp_path: Path) -> None:
    """The others of the same group keep their rows, which are in the same files."""
    (tmp_path / "bad").mkdir()
    whole = segment(tmp_path, rows(1, 3), rows(4, 6), rows(7, 9))
    other = segment(tmp_path, rows(1, 3), member="bea", journal="22" * 16)
    data = bytearray(whole.read_bytes())
    data[len(header_bytes(header())) + len(rows_block(rows(1, 3))) + 80] ^= 1
    bad = tmp_path / "bad" / whole.name
    bad.write_bytes(data)
    lake = tmp_path / "lake"
    assert ingest([bad, other], lake).corrupt == 1
    assert ingest([bad, other], lake).version == 1, "it has no more than it had"
    done = ingest([tmp_path], lake)
    assert (done.version, done.segments, done.again) == (2, 1, 1)
    assert held(lake) == written(whole, other)
    assert held(lake)["journals"][0]["torn"] == 0


def test_a_segment_that_grows_beyond_an_unreadable_part_is_replaced(tmp_path: Path) -> None:
    path = segment(tmp_path, rows(1, 3), rows(4, 6), rows(7, 9))
    data = bytearray(path.read_bytes())
    data[len(header_bytes(header())) + len(rows_block(rows(1, 3))) + 80] ^= 1
    path.write_bytes(data)
    ingest([path], tmp_path / "lake")
    path.write_bytes(bytes(data) + rows_block(rows(10, 12)))
    done = ingest([path], tmp_path / "lake")
    assert (done.again, done.corrupt) == (1, 1)
    assert held(tmp_path / "lake") == written(path)


def test_an_old_version_shows_the_tables_as_they_were(fleet: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    files = sorted(fleet.glob("*.phj"))
    ingest(files[:1], lake)
    ingest(files[1:], lake)
    assert held(lake, 1) == written(files[0])
    assert held(lake, 2) == held(lake) == written(fleet)
    assert held(lake, 0) == {}
    with pytest.raises(PipelineError, match="no version 3; there are 1 to 2"):
        Lake(lake).snapshot(3)


def test_a_corrupt_block_is_a_row_and_the_journal_counts_as_torn(tmp_path: Path) -> None:
    path = segment(tmp_path, rows(1, 3), rows(4, 6), rows(7, 9))
    data = bytearray(path.read_bytes())
    second = len(header_bytes(header())) + len(rows_block(rows(1, 3)))
    data[second + 80] ^= 1
    path.write_bytes(data)
    done = ingest([path], tmp_path / "lake")
    assert (done.rows, done.corrupt) == (7, 1)
    (corrupt,) = held(tmp_path / "lake")["corrupt"]
    assert (corrupt["offset"], corrupt["run"], corrupt["lseq"]) == (second, "r", 4)
    assert held(tmp_path / "lake")["journals"][0]["torn"] == 1
    assert held(tmp_path / "lake") == written(path)


def test_a_journal_of_many_segments_is_one_and_a_missing_one_leaves_it_torn(
    tmp_path: Path,
) -> None:
    parts = [segment(tmp_path, rows(9 * n - 8, 9 * n), number=n) for n in (1, 2, 3)]
    ingest([tmp_path], tmp_path / "whole")
    (facts,) = held(tmp_path / "whole")["journals"]
    assert (facts["rows"], facts["last"], facts["torn"]) == (27, 27, 0)
    ingest([parts[0], parts[2]], tmp_path / "lake")
    assert held(tmp_path / "lake")["journals"][0]["torn"] == 1
    ingest([parts[1]], tmp_path / "lake")
    assert held(tmp_path / "lake") == held(tmp_path / "whole")


def sealed(folder: Path, events: list[Event], **given: Any) -> Path:
    file = SegmentFile(folder, header(**given))
    file.append(rows_block(events), events)
    file.seal()
    return file.path


def test_since_passes_over_segments_that_ended_before(tmp_path: Path) -> None:
    """Row n is written n milliseconds after the clocks were read."""
    clocks = {"wall_ns": 10**18, "mono_ns": 0}
    for n in (1, 2, 3):
        sealed(tmp_path, rows(9 * n - 8, 9 * n), number=n, **clocks)
    segment(tmp_path, rows(28, 29), number=4, **clocks)
    lake = tmp_path / "lake"
    done = ingest([tmp_path], lake, since_ns=10**18 + 18 * MS + 1)
    assert (done.segments, done.passed) == (2, 2), "the one that is open may still grow"
    assert [r["lseq"] for r in held(lake)["stable"]] == list(range(19, 30))
    assert held(lake)["journals"][0]["torn"] == 1
    parquet.export([tmp_path], tmp_path / "export")
    exported = ingest([tmp_path / "export"], tmp_path / "l", since_ns=10**18 + 18 * MS + 1)
    assert (exported.segments, exported.passed) == (1, 2)


# ---------------------------------------------------------------------- exported segments


def test_exported_segments_give_the_same_tables(fleet: Path, tmp_path: Path) -> None:
    parquet.export([fleet], tmp_path / "export")
    ingest([tmp_path / "export"], tmp_path / "lake")
    assert held(tmp_path / "lake") == written(fleet)
    assert ingest([fleet], tmp_path / "lake").before == 5
    assert ingest([fleet, tmp_path / "export"], tmp_path / "other").segments == 5


def test_of_an_exported_segment_that_has_grown_the_new_rows_are_taken(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    path = segment(tmp_path, rows(1, 3))
    sealed(tmp_path, rows(1, 9), member="bea", journal="22" * 16)
    parquet.export([tmp_path], tmp_path / "export", cut_short=True)
    ingest([tmp_path / "export"], lake)
    assert held(lake) == written(tmp_path)
    path.write_bytes(path.read_bytes() + rows_block(rows(4, 5)))
    parquet.export([tmp_path], tmp_path / "export", cut_short=True)
    done = ingest([tmp_path / "export"], lake)
    assert (done.again, done.rows) == (1, 2)
    assert held(lake) == written(tmp_path)


def test_an_export_of_the_first_layout_is_read_as_ever(fleet: Path, tmp_path: Path) -> None:
    pa = arrow()
    export = tmp_path / "export"
    parquet.export([fleet], export)
    for path in export.glob("*/*.parquet"):
        table = pa.parquet.read_table(path)
        pa.parquet.write_table(table.drop_columns(["cluster", "journal"]), path)
    for path in (export / "_segments").iterdir():
        note = msgspec.json.decode(path.read_bytes())
        del note["layout"], note["found"]
        path.write_bytes(msgspec.json.encode(note))
    ingest([export], tmp_path / "lake")
    assert held(tmp_path / "lake") == written(fleet)
    assert gathered([export], tmp_path / "scratch") == written(fleet)


def test_exported_files_are_read_where_they_are(fleet: Path, tmp_path: Path) -> None:
    parquet.export([fleet], tmp_path / "export")
    assert gathered([tmp_path / "export"], tmp_path / "scratch") == written(fleet)
    assert not list((tmp_path / "scratch").glob("*/*.parquet"))


def test_an_exported_file_that_is_missing_or_no_table_is_named(fleet: Path, tmp_path: Path) -> None:
    parquet.export([fleet], tmp_path / "export")
    lake = tmp_path / "lake"
    victim = next((tmp_path / "export" / "life").iterdir())
    victim.write_bytes(b"nonsense")
    with pytest.raises(JournalError, match=f"{victim}: not a table"):
        ingest([tmp_path / "export"], lake)
    victim.unlink()
    with pytest.raises(JournalError, match=f"{victim}: the exported file is missing"):
        ingest([tmp_path / "export"], lake)
    assert Lake(lake).versions() == []
    assert not list(lake.glob("*/*.parquet"))


# ---------------------------------------------------------------------- what goes wrong


def test_one_lake_holds_journals_of_many_clusters_and_groups(tmp_path: Path) -> None:
    for cluster in ("red", "blue"):
        for group in ("g", "h"):
            folder = tmp_path / cluster / group
            folder.mkdir(parents=True)
            events = [msgspec.structs.replace(row, run=cluster, group=group) for row in rows(1, 3)]
            journal = f"{cluster}-{group}"
            segment(folder, events, cluster=cluster, group=group, journal=journal)
    lake = tmp_path / "lake"
    ingest([tmp_path / "red"], lake)
    ingest([tmp_path / "red", tmp_path / "blue"], lake)
    assert held(lake) == written(tmp_path / "red", tmp_path / "blue")
    found = [tables.key for tables in lake_groups(Lake(lake).snapshot())]
    keys = [("blue", "blue", "g"), ("red", "red", "g"), ("blue", "blue", "h"), ("red", "red", "h")]
    assert found == keys
    (some,) = lake_groups(Lake(lake).snapshot(), clusters=["red"], groups=["h"])
    assert (some.key, some["stable"].num_rows) == (("red", "red", "h"), 3)


def test_a_folder_with_something_else_is_not_written_to(tmp_path: Path) -> None:
    path = segment(tmp_path, rows(1, 3))
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("meow")
    with pytest.raises(PipelineError, match="holds something that is no lake; give an empty"):
        ingest([path], tmp_path / "photos")
    with pytest.raises(PipelineError, match="holds something that is no lake"):
        ingest([path], tmp_path / "photos" / "cat.jpg")
    assert [p.name for p in (tmp_path / "photos").iterdir()] == ["cat.jpg"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "the file is empty"),
        (b"%PDF-1.7", "not a journal"),
        (header_bytes(header(schema=99)), "schema version 99 is newer"),
        (header_bytes(header())[:-3], "the header is torn"),
    ],
)
def test_a_bad_file_is_named_and_nothing_is_published(
    fleet: Path, tmp_path: Path, content: bytes, problem: str
) -> None:
    bad = tmp_path / "bad.phj"
    bad.write_bytes(content)
    with pytest.raises(JournalError, match=f"{bad}: .*{problem}"):
        ingest([fleet, bad], tmp_path / "lake")
    assert not (tmp_path / "lake").exists()


def test_journals_of_schema_version_7_are_ingested_with_the_names_of_now(tmp_path: Path) -> None:
    ingest([SCHEMA7 / "run"], tmp_path / "lake")
    assert held(tmp_path / "lake") == written(SCHEMA7 / "run")


def test_an_export_of_schema_version_7_is_ingested_with_the_names_of_now(tmp_path: Path) -> None:
    raw = SCHEMA7 / "run" / "sim-bea-000002-000001.phj"
    ingest([SCHEMA7 / "export"], tmp_path / "lake")
    found = held(tmp_path / "lake")
    assert found == written(raw)
    assert {row["cause"] for row in found["view_installed"]} == {"boot", "join", "removal"}
    assert gathered([SCHEMA7 / "export"], tmp_path / "scratch") == written(raw)
