"""What is new in live journals: every row once, whatever copies, damage and rotation there are."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.journal.journal_folder import header, journal, row, rows, segment

from phalanx.errors import JournalError
from phalanx.journal import schema as ev
from phalanx.journal.blocks import ROWS, Block, Bodies, Damage, bodies_block, rows_block
from phalanx.journal.segment import Footer, footer_bytes
from phalanx.journal.tail_reader import (
    Missing,
    Place,
    SegmentList,
    Stretch,
    plan,
    read_blocks,
    replan,
)

JOURNAL = "00" * 16


def footer(first: int, last: int) -> bytes:
    known: dict[str, Any] = {"rows": last - first + 1, "first": first, "last": last}
    return footer_bytes(Footer(**known, begin_ns=0, end_ns=0, crc=0))


def append(path: Path, data: bytes) -> None:
    path.write_bytes(path.read_bytes() + data)


def numbers(stretches: list[Stretch]) -> list[Any]:
    """The numbers of all rows, and where something could not be read or is missing."""
    found: list[Any] = []
    for stretch in stretches:
        if stretch.missing:
            found.append(stretch.missing)
        reached = stretch.after
        for part in read_blocks(stretch):
            if isinstance(part, Damage):
                found.append("damage")
            elif part.kind == ROWS:
                found += range(max(part.first, reached + 1), part.last + 1)
                reached = part.last
    return found


class Follower:
    """Reads what is new, time after time."""

    def __init__(self, *paths: Path, bytes_max: int | None = None) -> None:
        self._list = SegmentList(paths)
        self._bytes_max = bytes_max
        self.places: dict[str, Place] = {}

    def more(self) -> list[Any]:
        start = self.places
        segments = self._list.find()
        self.places, found = plan(segments, start, self._bytes_max)
        assert replan(segments, start, self.places) == found, "a batch is the same when repeated"
        return [n for stretches in found.values() for n in numbers(stretches)]

    def everything(self) -> list[Any]:
        found: list[Any] = []
        while more := self.more():
            found += more
        return found


def test_a_live_segment_gives_each_block_once(tmp_path: Path) -> None:
    path = segment(tmp_path, rows(1, 3))
    follower = Follower(tmp_path)
    assert follower.more() == [1, 2, 3]
    assert follower.more() == []
    append(path, rows_block(rows(4, 5)))
    assert follower.more() == [4, 5]


def test_a_block_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    path = segment(tmp_path, rows(1, 3))
    follower = Follower(tmp_path)
    block = rows_block(rows(4, 9))
    whole = path.read_bytes()
    for cut in range(0, len(block), 7):
        path.write_bytes(whole + block[:cut])
        assert follower.more() == ([1, 2, 3] if cut == 0 else [])
    path.write_bytes(whole + block)
    assert follower.more() == [4, 5, 6, 7, 8, 9]


def test_rotation_is_followed_and_journals_that_appear_are_read_from_their_beginning(
    tmp_path: Path,
) -> None:
    path = segment(tmp_path, rows(1, 3))
    follower = Follower(tmp_path)
    assert follower.more() == [1, 2, 3]
    append(path, rows_block(rows(4, 4)) + footer(1, 4))
    segment(tmp_path, rows(5, 6), number=2)
    segment(tmp_path, rows(1, 2), journal="11" * 16, member="bea")
    assert follower.more() == [4, 5, 6, 1, 2]
    assert sorted(follower.places) == [JOURNAL, "11" * 16]


def test_a_batch_is_bounded_and_all_journals_advance(tmp_path: Path) -> None:
    for i, name in enumerate("ab"):
        blocks = [rows(n, n) for n in range(1, 21)]
        segment(tmp_path, *blocks, journal=f"{i}" * 32, member=name)
    size = len(rows_block(rows(1, 1)))
    follower = Follower(tmp_path, bytes_max=4 * size)
    assert follower.more() == [1, 2, 1, 2]
    assert sorted(follower.everything()) == sorted([*range(3, 21)] * 2)
    assert Follower(tmp_path, bytes_max=1).more() == [1], "at least one block"


def test_damage_between_blocks_is_found_once(tmp_path: Path) -> None:
    path = segment(tmp_path, rows(1, 3), rows(4, 6), rows(7, 9))
    data = bytearray(path.read_bytes())
    data[data.find(b"\xf1PJB", data.find(b"\xf1PJB") + 1) + 80] ^= 1
    path.write_bytes(data)
    for size in (None, 1):
        assert Follower(tmp_path, bytes_max=size).everything() == [1, 2, 3, "damage", 7, 8, 9]


def test_damage_of_the_last_rows_is_found_at_the_footer(tmp_path: Path) -> None:
    path = segment(tmp_path, rows(1, 3))
    block = bytearray(rows_block(rows(4, 6)))
    block[-1] ^= 1
    append(path, bytes(block))
    follower = Follower(tmp_path)
    assert follower.more() == [1, 2, 3]
    append(path, footer(1, 6))
    segment(tmp_path, rows(7, 7), number=2)
    assert follower.more() == ["damage", 7]


def test_damaged_bodies_cost_no_row(tmp_path: Path) -> None:
    path = segment(tmp_path, rows(1, 3))
    block = bytearray(bodies_block([Bodies("ada", 1, 1, (3,), b"abc")]))
    block[-1] ^= 1
    append(path, bytes(block) + rows_block(rows(4, 4)))
    assert Follower(tmp_path).everything() == [1, 2, 3, 4]


def test_copies_complete_each_other(tmp_path: Path) -> None:
    path = segment(tmp_path, rows(1, 3), rows(4, 6), rows(7, 9))
    whole = path.read_bytes()
    (tmp_path / "copy").mkdir()
    damaged = bytearray(whole)
    damaged[whole.find(b"\xf1PJB") + 80] ^= 1
    path.write_bytes(damaged)
    (tmp_path / "copy" / path.name).write_bytes(whole[:-20])
    assert Follower(tmp_path).everything() == [*range(1, 10)]


def test_a_copy_that_appears_later_doubles_nothing(tmp_path: Path) -> None:
    path = segment(tmp_path, rows(1, 3), rows(4, 6))
    follower = Follower(tmp_path)
    follower.more()
    shutil.copy(path, tmp_path / "a-copy.phj")
    append(path, rows_block(rows(7, 7)))
    assert follower.more() == [7]


def test_rows_that_were_pruned_are_missing(tmp_path: Path) -> None:
    one = segment(tmp_path, rows(1, 3))
    append(one, footer(1, 3))
    two = segment(tmp_path, rows(4, 6), number=2)
    append(two, footer(4, 6))
    segment(tmp_path, rows(7, 8), number=3)
    follower = Follower(tmp_path, bytes_max=1)
    assert follower.more() == [1, 2, 3]
    one.unlink()
    two.unlink()
    assert follower.more() == [Missing(4, 6, "pruned"), 7, 8]
    assert Follower(tmp_path).more() == [Missing(1, 6, "pruned"), 7, 8]


def test_a_planned_batch_whose_segment_was_deleted_says_what_it_misses(tmp_path: Path) -> None:
    one = segment(tmp_path, rows(1, 3), rows(4, 6))
    listed = SegmentList([tmp_path])
    end, _ = plan(listed.find(), {}, None)
    append(one, footer(1, 6))
    segment(tmp_path, rows(7, 8), number=2)
    one.unlink()
    (stretch,) = replan(listed.find(), {}, end)[JOURNAL]
    assert stretch.missing == Missing(1, 6, "pruned")
    assert stretch.end == 0


def test_a_segment_deleted_before_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = segment(tmp_path, rows(1, 3))
    _, found = plan(SegmentList([tmp_path]).find(), {}, None)
    path.unlink()
    with pytest.raises(JournalError, match="are gone; do not delete segments"):
        numbers(found[JOURNAL])


def test_a_gap_row_of_the_writer_explains_what_is_missing(tmp_path: Path) -> None:
    like = {name: getattr(row(1), name) for name in ("run", "profile", "group", "member")}
    gap = ev.Gap(**like, incarnation=1, lseq=7, step=7, t_ns=7, first=4, last=7, reason="full")
    segment(tmp_path, rows(1, 3), [gap, row(8)])
    assert Follower(tmp_path).more() == [1, 2, 3, 7, 8]
    segment(tmp_path, rows(1, 3), rows(8, 9))
    assert Follower(tmp_path).more() == [1, 2, 3, Missing(4, 7, "missing"), 8, 9]


def test_a_journal_that_rotates_while_it_is_followed_loses_nothing(tmp_path: Path) -> None:
    """A real writer, segments of some blocks, and readings at random moments."""
    random = Random(1)
    writer = journal(tmp_path, segment_bytes=4096)
    follower = Follower(tmp_path, bytes_max=2000)
    found: list[Any] = []
    done = 0
    while done < 20_000:
        count = random.randint(1, 60)
        writer.write(rows(done + 1, done + count))
        done += count
        if random.random() < 0.3:
            found += follower.more()
    writer.close()
    found += follower.everything()
    assert found == [*range(1, done + 1)]
    assert len(list(tmp_path.glob("*.phj"))) > 2


def test_blocks_are_read_at_their_places(tmp_path: Path) -> None:
    path = segment(tmp_path, rows(1, 3), rows(4, 6))
    _, found = plan(SegmentList([path]).find(), {}, None)
    (stretch,) = found[JOURNAL]
    offsets = [part.offset for part in read_blocks(stretch) if isinstance(part, Block)]
    data = path.read_bytes()
    assert [data[at : at + 4] for at in offsets] == [b"\xf1PJB"] * 2
    assert header().journal == JOURNAL
