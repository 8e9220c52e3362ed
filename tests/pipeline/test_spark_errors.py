"""Journals and lakes that something happened to, without a JVM: nothing is lost that is there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.journal.journal_folder import MS, header, keep, rows, segment
from tests.pipeline.lakes import held, written
from tests.verify.trace_builder import odyssey

from phalanx.errors import PipelineError
from phalanx.journal import parquet_export as parquet
from phalanx.journal.blocks import bodies_block, rows_block
from phalanx.journal.segment import ending
from phalanx.journal.segment_file import SegmentFile
from phalanx.pipeline import segment_source as offers
from phalanx.pipeline.ingest import ingest
from phalanx.pipeline.ingest_task import can_refer
from phalanx.pipeline.lake.lake import Lake
from phalanx.pipeline.open_tables import literal_path
from phalanx.pipeline.segment_source import find_offers


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journals of five members, sealed."""
    return keep(tmp_path_factory.mktemp("fleet"), odyssey().rows)


def spoiled(path: Path) -> Path:
    """With one bit of the first block turned over."""
    data = bytearray(path.read_bytes())
    data[data.index(b"\xf1PJB") + 80] ^= 1
    path.write_bytes(data)
    return path


def test_a_whole_copy_replaces_a_damaged_one_whenever_it_comes(fleet: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    shutil.copytree(fleet, bad)
    spoiled(min(bad.glob("*.phj")))
    lake = tmp_path / "lake"
    first = ingest([bad], lake)
    assert (first.segments, first.corrupt) == (5, 1)
    assert held(lake) == written(bad)
    same = ingest([bad], lake)
    assert (same.version, same.segments, same.before, same.again) == (1, 0, 5, 0)
    files = set(lake.glob("*/*.parquet"))
    healed = ingest([fleet], lake)
    assert (healed.version, healed.segments, healed.again, healed.before) == (2, 1, 1, 4)
    assert held(lake) == written(fleet)
    assert held(lake, 1) == written(bad)
    assert files < set(lake.glob("*/*.parquet")), "of the second attempt nothing is left"
    assert ingest([bad], lake).version == 2


def test_a_segment_sealed_while_it_is_looked_at_can_still_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A live segment that is sealed in the middle of an ingest must not share files with others:
    those would go with it when it is taken again."""
    folder = tmp_path / "j"
    folder.mkdir()
    for member in ("bea", "cyd"):
        other = SegmentFile(folder, header(member=member, journal=member.ljust(32, "0")))
        other.append(rows_block(rows(1, 5)), rows(1, 5))
        other.seal()
    file = SegmentFile(folder, header())
    file.append(rows_block(rows(1, 3)), rows(1, 3))
    sealed: list[Path] = []

    def looked(path: Path) -> object:
        found = ending(path)
        if path == file.path and not sealed:
            sealed.append(path)
            file.append(rows_block(rows(4, 9)), rows(4, 9))
            file.seal()
        return found

    monkeypatch.setattr(offers, "ending", looked)
    lake = tmp_path / "lake"
    ingest([folder], lake)
    assert sealed
    ingest([folder], lake)
    assert held(lake) == written(folder)


def test_a_segment_of_which_nothing_can_be_read_follows_the_one_before(tmp_path: Path) -> None:
    """The numbers of rows are those of the journal, not of the segment."""
    first = SegmentFile(tmp_path, header())
    first.append(rows_block(rows(1, 9)), rows(1, 9))
    first.seal()
    second = spoiled(segment(tmp_path, rows(10, 12), number=2))
    second.write_bytes(second.read_bytes() + bodies_block([]))
    ingest([tmp_path], tmp_path / "lake")
    found = held(tmp_path / "lake")
    assert found["journals"] == written(tmp_path)["journals"]
    assert [row["lseq"] for row in found["corrupt"]] == [10]
    (facts,) = found["journals"]
    assert (facts["last"], facts["torn"]) == (10, 1)
    assert facts["end_t_ns"] == 9 * MS, (
        "where the clock of the part that is missing stood is unknown"
    )


def test_a_damaged_beginning_of_a_later_segment_has_the_number_of_what_is_missing(
    tmp_path: Path,
) -> None:
    first = SegmentFile(tmp_path, header())
    first.append(rows_block(rows(1, 9)), rows(1, 9))
    first.seal()
    second = SegmentFile(tmp_path, header(number=2))
    for part in (rows(10, 12), rows(13, 15)):
        second.append(rows_block(part), part)
    second.seal()
    spoiled(second.path)
    ingest([tmp_path], tmp_path / "lake")
    assert [row["lseq"] for row in held(tmp_path / "lake")["corrupt"]] == [10]
    assert held(tmp_path / "lake") == written(tmp_path)
    ingest([second.path], tmp_path / "alone")
    assert [row["lseq"] for row in held(tmp_path / "alone")["corrupt"]] == [10]
    assert held(tmp_path / "alone") == written(second.path)


def test_the_clock_of_a_simulation_outlives_a_damaged_end(tmp_path: Path) -> None:
    events = [row for row in odyssey().rows if row.member == "a" and row.incarnation == 1]
    file = SegmentFile(tmp_path, header(member="a"))
    for part in (events[:5], events[5:]):
        file.append(rows_block(part), part)
    file.seal()
    data = bytearray(file.path.read_bytes())
    data[data.index(b"\xf1PJB", data.index(b"\xf1PJB") + 4) + 80] ^= 1
    file.path.write_bytes(data)
    ingest([tmp_path], tmp_path / "lake")
    (facts,) = held(tmp_path / "lake")["journals"]
    assert facts["end_sim_ns"] == events[4].sim_ns
    assert held(tmp_path / "lake") == written(tmp_path)


@pytest.mark.parametrize("group", ["_ops", ".ops", "ops"])
def test_names_that_spark_passes_over_are_not_given(tmp_path: Path, group: str) -> None:
    journal = SegmentFile(tmp_path, header(group=group))
    journal.append(rows_block(rows(1, 3)), rows(1, 3))
    journal.seal()
    parquet.export([tmp_path], tmp_path / "export")
    (exported,) = (tmp_path / "export" / "stable").iterdir()
    assert exported.name[0] not in "_."
    (offer,) = find_offers([tmp_path / "export"])
    assert can_refer(offer)


def test_an_export_under_a_hidden_name_is_copied_and_not_referred_to(tmp_path: Path) -> None:
    segment(tmp_path, rows(1, 3))
    parquet.export([tmp_path], tmp_path / "export", cut_short=True)
    for path in (tmp_path / "export").glob("*/*"):
        path.rename(path.with_name(f"_{path.name}"))
    (offer,) = find_offers([tmp_path / "export"])
    assert not can_refer(offer)
    ingest([tmp_path / "export"], tmp_path / "lake")
    assert len(held(tmp_path / "lake")["stable"]) == 3


def test_segments_are_exported_by_what_they_are_not_by_the_names_of_their_files(
    tmp_path: Path,
) -> None:
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        made = rows(3 * number - 2, 3 * number)
        file = SegmentFile(folder, header(number=number))
        file.append(rows_block(made), made)
        file.seal()
        file.path.rename(folder / "journal.phj")
    done = parquet.export([tmp_path / "1", tmp_path / "2"], tmp_path / "export")
    assert (done.segments, done.before) == (2, 0)
    ingest([tmp_path / "export"], tmp_path / "lake")
    assert [row["lseq"] for row in held(tmp_path / "lake")["stable"]] == [1, 2, 3, 4, 5, 6]


def test_journals_behind_a_link_are_found_and_a_circle_ends(fleet: Path, tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    (tmp_path / "all" / "here").symlink_to(fleet)
    (tmp_path / "all" / "again").symlink_to(tmp_path / "all")
    ingest([tmp_path / "all"], tmp_path / "lake")
    assert held(tmp_path / "lake") == written(fleet)


def test_strange_files_beside_the_notes_of_writers_cost_nothing(
    fleet: Path, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    ingest([fleet], lake)
    before = held(lake)
    (lake / "_work" / "e").touch()
    ingest([fleet], lake)
    assert held(lake) == before


@pytest.mark.parametrize("harm", ["cut", "gone"])
def test_a_lake_whose_own_table_is_damaged_says_so_in_one_line(
    fleet: Path, tmp_path: Path, harm: str
) -> None:
    lake = tmp_path / "lake"
    ingest([fleet], lake)
    (table,) = (lake / "segments").glob("*.parquet")
    if harm == "gone":
        table.unlink()
    else:
        table.write_bytes(table.read_bytes()[:100])
    with pytest.raises(PipelineError, match=r"missing or damaged; restore it, or"):
        ingest([fleet], lake)
    assert [one.version for one in Lake(lake).versions()] == [1]


def test_a_path_is_never_a_pattern() -> None:
    assert literal_path("/a b/[x]{y}*?é") == r"/a b/\[x\]\{y\}\*\?é"
