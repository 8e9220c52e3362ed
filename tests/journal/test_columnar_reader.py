"""Reading as columns: the same rows and the same refusals as reading rows."""

from __future__ import annotations

import random
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.journal.any_row import ROWS
from tests.journal.journal_folder import header, row, rows, segment
from tests.verify.trace_builder import odyssey

from phalanx.errors import JournalError
from phalanx.journal import parquet_export as parquet
from phalanx.journal import reader
from phalanx.journal import schema as ev
from phalanx.journal.blocks import rows_block
from phalanx.journal.column_buffer import ColumnBuffer, contradictory
from phalanx.journal.columnar_reader import ColumnarReader, Copy, ScanSummary
from phalanx.journal.columns import columns_of, pack, unpack
from phalanx.journal.segment import Footer, file_name, footer_bytes, header_bytes

pytest.importorskip("pyarrow")

Keyed = dict[str, list[dict[str, Any]]]


def scanned(paths: list[Path]) -> tuple[Keyed, ScanSummary]:
    """The rows by table, through Arrow, without the columns that all of them share."""
    scan = ColumnarReader([Copy(str(path), path.stat().st_size) for path in paths])
    tables: dict[str, ColumnBuffer] = {}
    for table, count, columns in scan:
        tables.setdefault(table, ColumnBuffer(table)).add(count, columns)
    found = {name: gathered.take().to_pylist() for name, gathered in tables.items()}
    for some in found.values():
        some.sort(key=lambda r: r["lseq"])
        for known in some:
            assert known.pop("cluster") == scan.header.cluster
            assert known.pop("journal") == scan.header.journal
    return found, scan.found


def read(paths: list[Path]) -> Keyed:
    found: Keyed = {}
    for events in reader.read_all(paths).journals.values():
        for event in events:
            known = msgspec.structs.asdict(event)
            found.setdefault(str(event.__struct_config__.tag), []).append(known)
    return found


def block_of(decoded: Any) -> bytes:
    return msgspec.msgpack.encode(decoded)


def judged(body: bytes) -> tuple[bool, bool]:
    """Whether the block is taken as rows, and whether as columns."""
    try:
        unpack(body, "ada", 1, "g")
        as_rows = True
    except (ValueError, RecursionError, OverflowError):
        as_rows = False
    try:
        as_columns = not any(map(contradictory, columns_of(body).values()))
    except (ValueError, RecursionError, OverflowError):
        as_columns = False
    return as_rows, as_columns


VALUES: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.integers(-3, 3),
    st.sampled_from([2**44 - 2, 2**44 - 1, 2**63 - 1, 2**63, -(2**63), "ada", "REGULAR"]),
    st.lists(st.integers(0, 2), max_size=2),
    st.lists(st.sampled_from(["ada", "bea"]), max_size=2),
)


@given(ROWS.filter(len), st.data())
def test_a_block_is_refused_as_columns_if_and_only_if_it_is_as_rows(
    events: list[ev.Event], data: st.DataObject
) -> None:
    decoded = msgspec.msgpack.decode(pack(events)[0])
    assert judged(block_of(decoded)) == (True, True)
    for _ in range(data.draw(st.integers(1, 3))):
        table = decoded[data.draw(st.sampled_from(sorted(decoded)))]
        place = data.draw(st.integers(0, len(table) - 1))
        if place == 0 or not isinstance(table[place], list):
            table[place] = data.draw(st.integers(-1, 4))
        elif not table[place] or data.draw(st.booleans()):
            table[place] = data.draw(st.lists(VALUES, max_size=3))
        else:
            at = data.draw(st.integers(0, len(table[place]) - 1))
            table[place][at] = data.draw(VALUES)
    as_rows, as_columns = judged(block_of(decoded))
    assert as_rows == as_columns


@settings(deadline=None)  # the first batch imports pyarrow
@given(ROWS.filter(len))
def test_columns_hold_every_value_of_every_row(events: list[ev.Event]) -> None:
    same: dict[str, Any] = {"group": ["g"], "member": ["ada"], "incarnation": [1]}
    same |= {"cluster": ["c"], "journal": ["j"]}
    gathered: dict[str, ColumnBuffer] = {}
    for block in (events, events[:1]):  # a column may be one value in one of them only
        for name, packed in columns_of(pack(block)[0]).items():
            gathered.setdefault(name, ColumnBuffer(name)).add(packed.rows, packed.columns | same)
    told: dict[str, Any] = {
        "cluster": "c",
        "journal": "j",
        "group": "g",
        "member": "ada",
        "incarnation": 1,
    }
    for name, table in gathered.items():
        made = table.take()
        assert made.schema.equals(parquet.schema(name))
        assert table.rows == 0
        assert made.to_pylist() == [
            msgspec.structs.asdict(r) | told
            for r in [*events, events[0]]
            if r.__struct_config__.tag == name
        ]


def numbered(seed: int, count: int) -> list[ev.Event]:
    """Rows of one member, of several tables, numbered from 1."""
    chance = random.Random(seed)
    mine = [r for r in odyssey().rows if r.member == "a"] * 5
    chance.shuffle(mine)
    same = {"member": "ada", "incarnation": 1, "group": "g"}
    return [msgspec.structs.replace(r, lseq=i, **same) for i, r in enumerate(mine[:count], 1)]


def copy_of(folder: Path, data: bytes, name: str) -> Path:
    place = folder / name / file_name("g", "ada", 1, 1)
    place.parent.mkdir(parents=True)
    place.write_bytes(data)
    return place


@pytest.mark.parametrize("seed", range(40))
def test_copies_that_are_cut_damaged_or_overlap_give_the_same_rows_as_columns(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    events = numbered(seed, chance.randint(1, 60))
    blocks = []
    while events:
        size = chance.randint(1, 8)
        blocks.append(rows_block(events[:size]))
        events = events[size:]
    head = header_bytes(header())
    paths = []
    for number in range(chance.randint(1, 3)):
        some = [b for b in blocks if chance.random() < 0.9]  # cut out neatly
        data = bytearray(head + b"".join(some))
        if chance.random() < 0.3:
            crc = chance.choice([0, zlib.crc32(data)])
            told = Footer(rows=1, first=1, last=1, begin_ns=0, end_ns=0, crc=crc)
            data += footer_bytes(told)
        for _ in range(chance.randint(0, 2)):
            if len(data) > len(head):
                data[chance.randrange(len(head), len(data))] ^= 1 << chance.randrange(8)
        cut = chance.randint(len(head), len(data)) if chance.random() < 0.3 else len(data)
        paths.append(copy_of(tmp_path, bytes(data[:cut]), f"copy{number}"))
    expected = read(paths)
    found, facts = scanned(paths)
    for table in (expected, found):
        for corrupt in table.get("corrupt", ()):
            corrupt.pop("file")  # of two copies that are damaged alike, either may be named
    assert found == expected
    everything = sorted((r["lseq"], r["t_ns"]) for some in expected.values() for r in some)
    numbers = [lseq for lseq, _ in everything]
    assert facts.rows == len(everything)
    if everything:
        assert (facts.first, facts.last) == (numbers[0], numbers[-1])
        assert facts.end_t_ns == everything[-1][1]
        assert facts.whole == (numbers == list(range(numbers[0], numbers[-1] + 1)))
    assert facts.corrupt == len(expected.get("corrupt", ()))


def test_a_reader_that_is_told_a_size_sees_nothing_behind_it(tmp_path: Path) -> None:
    path = segment(tmp_path, rows(1, 3))
    planned = Copy(str(path), path.stat().st_size)
    path.write_bytes(path.read_bytes() + rows_block(rows(4, 5)))
    scan = ColumnarReader([planned])
    assert [some.columns["lseq"] for some in scan] == [[1, 2, 3]]
    assert (scan.found.rows, scan.found.last, scan.found.sealed) == (3, 3, 0)


def test_a_file_that_was_shortened_since_is_named(tmp_path: Path) -> None:
    path = segment(tmp_path, rows(1, 3))
    with pytest.raises(JournalError, match="bytes are there; do not shorten"):
        ColumnarReader([Copy(str(path), path.stat().st_size + 1)])


def test_blocks_outside_of_the_numbers_asked_for_are_passed_over(tmp_path: Path) -> None:
    path = segment(tmp_path, rows(1, 3), rows(4, 6), rows(7, 9))
    scan = ColumnarReader([Copy(str(path), path.stat().st_size)], lseqs=(5, 6))
    assert [some.columns["lseq"] for some in scan] == [[4, 5, 6]]


def test_a_segment_of_the_first_schema_is_read_with_what_it_lacks_as_defaults(
    tmp_path: Path,
) -> None:
    """Schema 1 knew no `gap`, and its first writers no `digest` of a delivery."""
    of_old = next(r for r in odyssey().rows if isinstance(r, ev.Deliver))
    of_old = msgspec.structs.replace(of_old, member="ada", incarnation=1, group="g", lseq=1)
    body = msgspec.msgpack.decode(pack([of_old])[0])
    body["deliver"].pop()  # the last column
    path = segment(tmp_path, [of_old], schema=1)
    whole = path.read_bytes()
    from phalanx.journal import blocks

    span = (1, 1, of_old.t_ns, of_old.t_ns)
    block = blocks._framed(blocks.ROWS, 1, 1, span, block_of(body))
    path.write_bytes(whole[: -len(rows_block([of_old]))] + block)
    found, facts = scanned([path])
    assert found == {"deliver": [msgspec.structs.asdict(of_old) | {"digest": None}]}
    assert facts.corrupt == 0


def test_a_member_that_stopped_is_told_from_one_that_did_not(tmp_path: Path) -> None:
    path = segment(tmp_path, [row(1), _life(2, "STOP")])
    assert scanned([path])[1].stopped == 1
    assert scanned([segment(tmp_path, [_life(1, "START")])])[1].stopped == 0


def _life(lseq: int, op: Any) -> ev.Event:
    like = row(lseq)
    return ev.Life(**{f: getattr(like, f) for f in ev.Row.__struct_fields__}, op=op)
