"""Segments as bytes: what is written comes back, and damage costs what it hits and no more."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.journal import journal_folder as made
from tests.journal.any_row import ROWS

from phalanx.errors import JournalError
from phalanx.journal import blocks, columns, reader
from phalanx.journal import schema as ev
from phalanx.journal.segment import file_name, header_bytes


@settings(deadline=None)
@given(ROWS.filter(bool))
def test_rows_of_every_table_come_back_as_they_were(rows: list[ev.Event]) -> None:
    one = [
        msgspec.structs.replace(row, group="g", member="ada", incarnation=1, lseq=i, step=i)
        for i, row in enumerate(rows, 1)
    ]
    assert columns.unpack(columns.pack(one)[0], "ada", 1, "g") == one


def test_a_value_that_repeats_is_kept_once() -> None:
    few, many = columns.pack(made.rows(1, 10))[0], columns.pack(made.rows(1, 10_000))[0]
    assert len(many) < len(few) + 4 * 10_000, "only the one column that differs grows"


def test_a_segment_says_whose_it_is_and_what_made_it(tmp_path: Path) -> None:
    path = made.segment(tmp_path, made.rows(1, 3), config={"mode": "flow"}, number=7)
    segment = reader.read(path)
    assert segment.header == made.header(config={"mode": "flow"}, number=7)
    assert segment.rows == made.rows(1, 3)
    assert (segment.first, segment.last, segment.count) == (1, 3, 3)
    assert not segment.sealed
    assert segment.problems == []


def test_a_torn_tail_costs_a_suffix_and_is_counted(tmp_path: Path) -> None:
    path = made.segment(tmp_path, made.rows(1, 3), made.rows(4, 5), made.rows(6, 9))
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    segment = reader.read(path)
    assert segment.rows == made.rows(1, 5)
    assert segment.torn_bytes == len(whole) - 5 - whole.rfind(blocks.MAGIC)
    assert segment.problems == [f"{segment.torn_bytes} bytes torn off"]
    assert segment.corrupt == 0


def test_a_corrupt_block_becomes_a_row_in_its_place_and_the_next_is_read(tmp_path: Path) -> None:
    path = made.segment(tmp_path, made.rows(1, 3), made.rows(4, 5), made.rows(6, 9))
    data = bytearray(path.read_bytes())
    second = data.find(blocks.MAGIC, data.find(blocks.MAGIC) + 1)
    third = data.find(blocks.MAGIC, second + 1)
    data[second + blocks.HEAD_BYTES + 3] ^= 1
    path.write_bytes(data)
    segment = reader.read(path)
    corrupt = segment.rows[3]
    assert isinstance(corrupt, ev.Corrupt)
    assert (corrupt.offset, corrupt.length, corrupt.lseq) == (second, third - second, 4)
    assert corrupt.file == str(path)
    assert [*segment.rows[:3], *segment.rows[4:]] == [*made.rows(1, 3), *made.rows(6, 9)]


def test_a_magic_inside_a_body_is_no_block(tmp_path: Path) -> None:
    text = "\U000f1234PJB" + blocks.MAGIC.decode("latin-1")
    bodies = [blocks.Bodies("ada", 1, 1, (8, 4), blocks.MAGIC * 3)]
    path = made.segment(tmp_path, [made.row(1, view=text)])
    path.write_bytes(path.read_bytes() + blocks.bodies_block(bodies))
    segment = reader.read(path, bodies=True)
    assert segment.bodies == bodies
    assert [list(b) for b in segment.bodies] == [[blocks.MAGIC * 2, blocks.MAGIC]]
    assert segment.problems == []


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "the file is empty"),
        (b"PHAL", "the header is torn"),
        (b"hello, world", "not a journal"),
        (header_bytes(made.header())[:-1], "the header is torn"),
        (header_bytes(made.header())[:-1] + b"\xff", "the header is corrupt"),
        (b"PHALANXJ\x02\0\0\0" + bytes(20), "format 2 is newer than 1"),
        (header_bytes(made.header(schema=99)), "schema version 99 is newer than 10"),
    ],
)
def test_what_is_no_journal_says_so_with_a_remedy(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    path = tmp_path / "x.phj"
    path.write_bytes(content)
    with pytest.raises(JournalError, match=problem) as caught:
        reader.read(path)
    assert caught.value.file == str(path)
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


def _read_or_refused(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    try:
        segment = reader.read(path, bodies=True)
    except JournalError:
        return
    intact = {r.lseq: r for r in made.rows(1, 9)}
    for row in segment.rows:
        if not isinstance(row, ev.Corrupt):
            assert row == intact[row.lseq], "damage never makes up a row"


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_refused_or_read_and_nothing_worse(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.phj"
        for start in (b"", header_bytes(made.header()), header_bytes(made.header()) + blocks.MAGIC):
            _read_or_refused(path, start + content)


def test_flipped_bits_and_cuts_anywhere_make_up_no_row(tmp_path: Path) -> None:
    path = made.segment(tmp_path, made.rows(1, 3), made.rows(4, 5), made.rows(6, 9))
    whole = path.read_bytes()
    dice = random.Random(7)
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(dice.randint(1, 4)):
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        if dice.random() < 0.3:
            begin = dice.randrange(len(data))
            del data[begin : begin + dice.randint(1, 60)]
        _read_or_refused(path, bytes(data))


@settings(deadline=None)
@given(st.binary(max_size=200))
@example(b"\x80")
@example(b"\x90")
def test_a_block_with_the_right_checksum_and_any_body_is_corrupt_at_worst(body: bytes) -> None:
    framed = blocks._framed(blocks.ROWS, 1, 1, (1, 1, 0, 0), body)
    framed += blocks._framed(blocks.BODIES, 0, 1, (0, 0, 0, 0), body)
    framed += blocks.footer_block(body)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.phj"
        path.write_bytes(header_bytes(made.header()) + framed)
        assert reader.read(path, bodies=True).corrupt == 3


def test_file_names_are_safe_and_sort_by_number() -> None:
    assert file_name("orders", "ada", 3, 12) == "orders-ada-000003-000012.phj"
    strange = file_name("../a b-c", "ü" * 100, 1, 1)
    assert "/" not in strange
    assert len(strange.encode()) < 200
    assert strange.startswith("%2E%2E%2Fa%20b%2Dc-")
    assert file_name("a-b", "c", 1, 1) != file_name("a", "b-c", 1, 1)
    numbers = [file_name("g", "a", 1, n) for n in (1, 9, 10, 99, 100)]
    assert numbers == sorted(numbers)
