"""Read one segment and all its copies as columns; `reader.each` reads the same as rows.

Each row is taken once, from the first copy that has it. An unreadable stretch becomes a row of
`corrupt`, unless another copy has it. If only part of a file is to be read (`Copy.size`), later
rows are ignored, so that a second read gives the same result.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, compress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from phalanx.errors import JournalError
from phalanx.journal.blocks import FOOTER, ROWS, Block, Damage, parse
from phalanx.journal.column_buffer import contradictory
from phalanx.journal.columns import ColumnBlock, columns_of
from phalanx.journal.reader import unreadable
from phalanx.journal.segment import Footer, Header, header_of, rows_before


class Copy(NamedTuple):
    """A file, and how much of it is to be read."""

    path: str
    size: int


class Rows(NamedTuple):
    """Rows of one table, as columns of one value or of as many as there are rows."""

    table: str
    rows: int
    columns: Mapping[str, Sequence[Any]]


class ScanSummary(msgspec.Struct, kw_only=True):
    """What a segment turned out to hold, rows of `corrupt` included."""

    rows: int = 0
    first: int = 0
    """Numbers of the first and of the last row; 0 without rows."""
    last: int = 0
    whole: int = 1
    """1 if every number between them is there."""
    lost: int = 0
    """Rows that tell of a loss: `gap` and `corrupt`."""
    stopped: int = 0
    """1 if there is a STOP."""
    run: str = ""
    end_t_ns: int = 0
    end_sim_ns: int | None = None
    sealed: int = 0
    corrupt: int = 0


class _Span(NamedTuple):
    """The numbers of the rows of a block."""

    low: int
    high: int
    numbers: frozenset[int] | None
    """If some between them are missing."""

    def __contains__(self, number: object) -> bool:
        if self.numbers is not None:
            return number in self.numbers
        return isinstance(number, int) and self.low <= number <= self.high


class ColumnarReader:
    """JournalError if a copy has no header of ours. Copies must be of one segment."""

    def __init__(
        self,
        copies: Sequence[Copy],
        lseqs: tuple[int, int] | None = None,
        after: int | None = None,
    ) -> None:
        """With `lseqs` blocks that hold nothing between these numbers are passed over; `found`
        counts what was not. `after` is the last row of the segment before, if known."""
        assert copies
        self.found = ScanSummary()
        self._lseqs = lseqs
        self._after = after
        self._data = _distinct([(copy, _bytes_of(copy)) for copy in copies])
        self.header, _ = header_of(Path(copies[0].path), self._data[0][1])
        self._spans: list[_Span] = []
        self._corrupt: dict[int, dict[str, Any]] = {}
        self._every: set[int] | None = None

    def __iter__(self) -> Iterator[Rows]:
        """All rows, once; `found` is complete afterwards."""
        for copy, data in self._data:
            yield from self._copy(copy, data)
        self._data = []
        yield from self._corrupt_rows()
        self._finish()

    # ------------------------------------------------------------------ blocks

    def _copy(self, copy: Copy, data: bytes) -> Iterator[Rows]:
        header, at = header_of(Path(copy.path), data)
        before = partial(rows_before, header, data, at, self._after)
        reading = _Reading(header, copy.path, before)
        for part in parse(data, at):
            if isinstance(part, Damage):
                if not part.tail:
                    self._damaged(reading, part)
                continue
            try:
                if part.kind == FOOTER:
                    self._footer(part, data, reading)
                elif part.kind == ROWS:
                    yield from self._block(part, reading)
            except (ValueError, RecursionError, OverflowError):
                self._damaged(reading, Damage(part.offset, part.size, tail=False))

    def _footer(self, block: Block, data: bytes, reading: _Reading) -> None:
        footer = msgspec.msgpack.decode(block.body, type=Footer)
        self.found.sealed = 1
        if zlib.crc32(memoryview(data)[: block.offset]) != footer.crc and not reading.corrupt:
            raise ValueError("a block is missing")

    def _block(self, block: Block, reading: _Reading) -> list[Rows]:
        if self._lseqs is not None and not _meets(block, self._lseqs):
            reading.pass_over(block)
            return []
        packed = columns_of(block.body, reading.schema)
        if any(map(contradictory, packed.values())):
            raise ValueError("columns that contradict each other")
        reading.see(packed)
        self._set_aside(packed.pop("corrupt", None))
        kept = packed if self._are_fresh(packed) else self._not_yet_seen(packed)
        for name, table in kept.items():
            self._count(name, table)
        return [Rows(name, t.rows, t.columns | reading.same) for name, t in kept.items()]

    def _are_fresh(self, packed: Mapping[str, ColumnBlock]) -> bool:
        """All numbers of the block are above those before: so it is where nothing is wrong."""
        numbers = [number for table in packed.values() for number in table.columns["lseq"]]
        span = _span(numbers)
        if self._every is not None or span is None:
            return False
        if self._spans and span.low <= self._spans[-1].high:
            return False
        self._spans.append(span)
        return True

    def _set_aside(self, corrupt: ColumnBlock | None) -> None:
        """Somebody wrote down a loss that was found before: it counts as one found here."""
        if corrupt is not None:
            for i, number in enumerate(corrupt.columns["lseq"]):
                row = {name: _at(values, i) for name, values in corrupt.columns.items()}
                self._corrupt.setdefault(number, row)

    def _not_yet_seen(self, packed: Mapping[str, ColumnBlock]) -> dict[str, ColumnBlock]:
        """The slow way: copies that overlap, or a block that holds a number twice."""
        if self._every is None:
            self._every = set()
            for span in self._spans:
                self._every.update(span.numbers or range(span.low, span.high + 1))
        kept = {}
        for name, table in packed.items():
            keep = []
            for number in table.columns["lseq"]:
                keep.append(number not in self._every)
                self._every.add(number)
            if rows := sum(keep):
                columns = {
                    column: values if len(values) == 1 else list(compress(values, keep))
                    for column, values in table.columns.items()
                }
                kept[name] = ColumnBlock(table.kind, rows, columns)
        return kept

    # ------------------------------------------------------------------ what was found

    def _count(self, name: str, table: ColumnBlock) -> None:
        found, columns = self.found, table.columns
        lseqs = columns["lseq"]
        first = min(lseqs)
        if not found.rows or first < found.first:
            found.first, found.run = first, _at(columns["run"], lseqs.index(first))
        place = _place_of_last(lseqs)
        if lseqs[place] > found.last:
            found.last = lseqs[place]
            found.end_t_ns = columns["t_ns"][place]
            found.end_sim_ns = _at(columns["sim_ns"], place)
        found.rows += table.rows
        if name == "gap":
            found.lost += table.rows
        if name == "life" and "STOP" in columns["op"]:
            found.stopped = 1

    def _damaged(self, reading: _Reading, damage: Damage) -> None:
        reading.corrupt += 1
        number = (reading.last or reading.before()) + 1
        row: dict[str, Any] = {"profile": "T", "run": "", "lseq": number, "sim_ns": None}
        row |= {"step": reading.step, "t_ns": reading.t_ns, "file": reading.path}
        row |= {"offset": damage.offset, "length": damage.size}
        self._corrupt.setdefault(number, row)

    def _corrupt_rows(self) -> Iterator[Rows]:
        missing = [row for n, row in sorted(self._corrupt.items()) if not self._has(n)]
        if not missing:
            return
        found, last = self.found, missing[-1]
        columns: dict[str, Sequence[Any]] = {
            name: [row[name] for row in missing] for name in missing[0]
        }
        columns["run"] = [found.run]  # that of the rows around it
        if not found.rows or missing[0]["lseq"] < found.first:
            found.first = missing[0]["lseq"]
        if last["lseq"] > found.last:
            found.last, found.end_t_ns = last["lseq"], last["t_ns"]
        found.rows += len(missing)
        found.lost += len(missing)
        found.corrupt += len(missing)
        yield Rows("corrupt", len(missing), columns | _constants(self.header))

    def _has(self, number: int) -> bool:
        if self._every is not None:
            return number in self._every
        return any(number in span for span in self._spans)

    def _finish(self) -> None:
        found = self.found
        found.whole = int(not found.rows or found.rows == found.last - found.first + 1)


class _Reading:
    """Where the reading of one copy stands: what its last row was, and before it the last of the
    segment before."""

    def __init__(self, header: Header, path: str, before: Callable[[], int]) -> None:
        self.before = before
        self.same = _constants(header)
        self.schema = header.schema
        self.path = path
        self.corrupt = 0
        self.last = 0
        self.step = 0
        self.t_ns = header.mono_ns

    def see(self, packed: Mapping[str, ColumnBlock]) -> None:
        """These were the next rows."""
        last = 0
        for table in packed.values():
            place = _place_of_last(table.columns["lseq"])
            if table.columns["lseq"][place] >= last:
                last = table.columns["lseq"][place]
                self.step = table.columns["step"][place]
                self.t_ns = table.columns["t_ns"][place]
        self.last = last

    def pass_over(self, block: Block) -> None:
        self.last, self.t_ns = block.last, block.end


def _constants(header: Header) -> dict[str, list[Any]]:
    return {
        "cluster": [header.cluster],
        "journal": [header.journal],
        "group": [header.group],
        "member": [header.member],
        "incarnation": [header.incarnation],
    }


def _span(numbers: Sequence[int]) -> _Span | None:
    """None if a number is there twice, or there are none."""
    if not numbers:
        return None
    low, high = min(numbers), max(numbers)
    distinct = frozenset(numbers)
    if len(distinct) != len(numbers):
        return None
    return _Span(low, high, None if high - low + 1 == len(distinct) else distinct)


def _place_of_last(lseqs: Sequence[int]) -> int:
    """Of the highest number; of equal ones the last."""
    last = len(lseqs) - 1
    highest = max(lseqs)
    return last if lseqs[last] == highest else last - list(reversed(lseqs)).index(highest)


def _at(values: Sequence[Any], place: int) -> Any:
    return values[0] if len(values) == 1 else values[place]


def _meets(block: Block, lseqs: tuple[int, int]) -> bool:
    return block.first <= lseqs[1] and block.last >= lseqs[0]


def _bytes_of(copy: Copy) -> bytes:
    try:
        with Path(copy.path).open("rb") as file:
            data = file.read(copy.size)
    except OSError as error:
        raise unreadable(Path(copy.path), error) from error
    if len(data) < copy.size:
        problem = f"only {len(data)} of {copy.size} bytes are there"
        raise JournalError(copy.path, None, problem, "do not shorten journals that are read")
    return data


def _distinct(copies: list[tuple[Copy, bytes]]) -> list[tuple[Copy, bytes]]:
    """Without those that are the beginning of another: what a copy of a live segment is."""
    kept: list[tuple[Copy, bytes]] = []
    for i, (copy, data) in enumerate(copies):
        others = chain(((d, True) for _, d in kept), ((d, False) for _, d in copies[i + 1 :]))
        if not any(_covers(data, other, before) for other, before in others):
            kept.append((copy, data))
    return kept


def _covers(data: bytes, other: bytes, or_equal: bool) -> bool:
    longer = len(other) > len(data) or (or_equal and len(other) == len(data))
    return longer and memoryview(other)[: len(data)] == data
