"""Which segments go: the oldest, unless somebody writes them or has yet to read them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.journal import journal_folder as made
from tests.journal.journal_folder import journal, row, rows, until

from phalanx.errors import JournalError
from phalanx.journal import reader, retention
from phalanx.journal.retention import mark, marks, tidy, unmark

JOURNAL = "00" * 16


def segments(folder: Path, count: int) -> list[Path]:
    """Sealed or not, each a minute older than the next."""
    paths = []
    for number in range(1, count + 1):
        path = made.segment(folder, rows(number, number), number=number)
        minutes = count - number + 1
        at = time.time_ns() - minutes * 60_000_000_000
        os.utime(path, ns=(at, at))
        paths.append(path)
    return paths


def test_the_oldest_go_until_the_rest_fits(tmp_path: Path) -> None:
    paths = segments(tmp_path, 5)
    size = paths[0].stat().st_size
    assert tidy(tmp_path, 3 * size, 0) == paths[:2]
    assert sorted(tmp_path.glob("*.phj")) == paths[2:]
    assert tidy(tmp_path, 0, 0) == []


def test_those_that_are_too_old_go(tmp_path: Path) -> None:
    paths = segments(tmp_path, 5)
    assert tidy(tmp_path, 0, 150_000_000_000) == paths[:3]


def test_what_a_reader_has_not_taken_stays_whatever_the_limits(tmp_path: Path) -> None:
    paths = segments(tmp_path, 5)
    mark(tmp_path, "lake", {JOURNAL: 2})
    mark(tmp_path, "other", {JOURNAL: 4, "ff" * 16: 9})
    assert tidy(tmp_path, 1, 1) == paths[:2]
    mark(tmp_path, "lake", {JOURNAL: 3})
    assert tidy(tmp_path, 1, 1) == paths[2:3]
    unmark(tmp_path, "lake")
    unmark(tmp_path, "lake")
    assert tidy(tmp_path, 1, 1) == paths[3:4]
    unmark(tmp_path, "other")
    assert tidy(tmp_path, 1, 1) == paths[4:]


def test_a_journal_that_a_reader_does_not_know_yet_stays(tmp_path: Path) -> None:
    segments(tmp_path, 2)
    mark(tmp_path, "lake", {})
    assert tidy(tmp_path, 1, 1) == []


def test_marks_never_go_back_and_keep_other_journals(tmp_path: Path) -> None:
    mark(tmp_path, "lake", {JOURNAL: 5, "ff" * 16: 1})
    mark(tmp_path, "lake", {JOURNAL: 3})
    assert [m.taken for m in marks(tmp_path)] == [{JOURNAL: 5, "ff" * 16: 1}]


def test_a_mark_that_cannot_be_read_protects_everything(tmp_path: Path) -> None:
    segments(tmp_path, 2)
    mark(tmp_path, "lake", {JOURNAL: 5})
    (tmp_path / "marks" / "lake.json").write_text("{")
    assert tidy(tmp_path, 1, 1) == []
    with pytest.raises(JournalError, match="not a mark"):
        marks(tmp_path)


@pytest.mark.parametrize("reader_name", ["", "../x", ".x", "a/b", "a" * 200])
def test_a_reader_with_an_impossible_name_is_refused(tmp_path: Path, reader_name: str) -> None:
    with pytest.raises(JournalError, match="cannot name a mark"):
        mark(tmp_path, reader_name, {})


def test_a_segment_that_is_being_written_stays_and_one_of_the_dead_goes(tmp_path: Path) -> None:
    live = journal(tmp_path, "bea")
    assert live.path is not None
    assert retention.is_open(live.path)
    dead = made.segment(tmp_path, rows(1, 3))
    assert not retention.is_open(dead)
    assert tidy(tmp_path, 1, 1) == [dead]
    assert live.path.exists()
    live.close()
    assert len(tidy(tmp_path, 1, 1)) == 1


def test_a_writer_keeps_its_folder_within_the_limit(tmp_path: Path) -> None:
    written = journal(tmp_path, segment_bytes=4096, keep_bytes=40_000)
    for n in range(1, 2001, 20):
        written.write([row(n + i, view=os.urandom(60).hex()) for i in range(20)])
        time.sleep(0.001)
    until(lambda: not list(tmp_path.glob("*-000001.phj")))
    written.close()
    left = reader.read_all([tmp_path])
    assert left.rows[-1].lseq == 2000
    assert sum(s.size for s in left.segments) < 80_000
