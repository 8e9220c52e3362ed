"""Journals in files and folders, copies included."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.journal import journal_folder as made

from phalanx.errors import JournalError
from phalanx.journal import blocks, reader
from phalanx.journal import jsonl as eventfile
from phalanx.journal import schema as ev


def test_segments_of_a_journal_are_read_in_order_from_folders_at_any_depth(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    made.segment(tmp_path, made.rows(4, 6), number=2)
    made.segment(deep, made.rows(1, 3), number=1)
    reading = reader.read_all([tmp_path])
    assert reading.rows == made.rows(1, 6)
    assert [s.header.number for s in reading.segments] == [1, 2]
    assert list(reading.headers) == ["00" * 16]


def test_overlapping_copies_give_each_row_once(tmp_path: Path) -> None:
    early, late = tmp_path / "early", tmp_path / "late"
    early.mkdir()
    late.mkdir()
    path = made.segment(late, made.rows(1, 3), made.rows(4, 9))
    shutil.copy(path, early)
    whole = path.read_bytes()
    (early / path.name).write_bytes(whole[:-7])  # taken while it was written
    assert reader.read_all([early, late]).rows == made.rows(1, 9)
    assert reader.read_all([late, late, path]).rows == made.rows(1, 9)


def test_a_whole_copy_makes_a_corrupt_one_good(tmp_path: Path) -> None:
    path = made.segment(tmp_path, made.rows(1, 3), made.rows(4, 9))
    data = bytearray(path.read_bytes())
    data[data.find(blocks.MAGIC) + blocks.HEAD_BYTES] ^= 1
    (tmp_path / "copy.phj").write_bytes(data)
    assert reader.read_all([tmp_path]).rows == made.rows(1, 9)
    path.unlink()
    corrupt, *rest = reader.read_all([tmp_path]).rows
    assert isinstance(corrupt, ev.Corrupt)
    assert corrupt.run == "r", "it belongs to the run of the rows around it"
    assert rest == made.rows(4, 9)
    assert eventfile.damage([corrupt, *rest]) == []


def test_journals_of_two_lives_stay_apart(tmp_path: Path) -> None:
    made.segment(tmp_path, made.rows(1, 2))
    again = [made.row(1, incarnation=2)]
    made.segment(tmp_path, again, incarnation=2, journal="01" * 16)
    assert reader.read_all([tmp_path]).journals == {
        "00" * 16: made.rows(1, 2),
        "01" * 16: again,
    }


def test_a_folder_without_journals_and_a_path_that_is_not_there_say_so(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="there are no journals"):
        reader.read_all([tmp_path])
    with pytest.raises(JournalError, match=r"No such file.*check the path"):
        reader.read_all([tmp_path / "none.phj"])
