"""Follow journals that are being written: which blocks are new since the places reached before.

A `Place` says how far one journal has been read: segment, byte, and the number of the last row. The
byte finds the next block at once; the number makes sure that no row is read twice, whatever copies
of a segment there are. `SegmentList` finds the segments below some paths, `JournalWalk` the blocks
of one journal behind a place, and `plan` the blocks of all journals up to a number of bytes.

- A block is read from the first copy of its segment that has it. Copies have the same layout: one
  may be shorter than the other, or damaged.
- Behind the last whole block of a segment something may still be being written. It is waited for,
  unless the journal has a later segment: a writer begins one only when it has left the one before.
- Unreadable bytes belong to the stretch with the next block of rows, so no place lies between.
- Rows that are in no segment are `missing`, unless a `gap` row of the writer explains them.

Only block heads are looked at here, checksums included; `read_blocks` reads the rows.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from phalanx.errors import JournalError
from phalanx.journal.blocks import (
    BODIES,
    FOOTER,
    HEAD_BYTES,
    MAGIC,
    ROWS,
    Block,
    BlockHead,
    Damage,
    announced_size,
    block_head,
    parse,
)
from phalanx.journal.columnar_reader import Copy
from phalanx.journal.columns import columns_of
from phalanx.journal.reader import below, unreadable
from phalanx.journal.segment import HEADER_BYTES_MAX, Footer, Header, header_of

WINDOW_BYTES = 4 << 20
STRETCH_BYTES_MAX = 1 << 20
"""Neighbouring blocks are one stretch up to this size, which one task reads at once."""


class Place(NamedTuple):
    """How far a journal has been read: all of it before this byte, and all rows up to `lseq`."""

    number: int
    byte: int
    lseq: int


class Missing(NamedTuple):
    """Rows that are in no segment any more."""

    first: int
    last: int
    reason: str


class Stretch(msgspec.Struct, frozen=True, array_like=True):
    """Whole blocks of one segment; unreadable bytes may be before them."""

    path: str
    begin: int
    end: int
    after: int
    """The last row before the stretch, and the last row when it is over."""
    last: int
    missing: Missing | None = None
    """Rows just before those of the stretch."""


class LiveSegment(msgspec.Struct, frozen=True):
    """A segment that may still grow, and how long its copies were when it was found."""

    header: Header
    begin: int
    """Where its blocks begin."""
    copies: list[Copy]


Segments = dict[str, dict[int, LiveSegment]]
"""Of each journal, by number."""


class SegmentList:
    """Finds segments, again and again: headers are read once a file."""

    def __init__(self, paths: Iterable[str | Path]) -> None:
        self._paths = [Path(path) for path in paths]
        self._headers: dict[tuple[str, int], tuple[Header, int]] = {}

    def find(self) -> Segments:
        """All segments there are now, the longest copy first. JournalError for what is no journal;
        a file that disappears meanwhile is left out."""
        files: dict[str, None] = {}
        for path in self._paths:
            found = below(path) if path.is_dir() else [path]
            files |= dict.fromkeys(str(file) for file in found)
        # Sizes are read after all names: a segment whose successor was found has its full size.
        known: Segments = {}
        headers = {}
        for name in sorted(files):
            path = Path(name)
            try:
                status = path.stat()
                key = (name, status.st_ino)
                header, begin = self._headers.get(key) or _read_header(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise unreadable(path, error) from error
            headers[key] = header, begin
            numbers = known.setdefault(header.journal, {})
            segment = numbers.setdefault(header.number, LiveSegment(header, begin, []))
            segment.copies.append(Copy(name, status.st_size))
        self._headers = headers
        for numbers in known.values():
            for segment in numbers.values():
                segment.copies.sort(key=lambda copy: (-copy.size, copy.path))
        return known


def _read_header(path: Path) -> tuple[Header, int]:
    with path.open("rb") as file:
        return header_of(path, file.read(HEADER_BYTES_MAX))


class JournalWalk:
    """The blocks of one journal behind a place, a stretch at a time.

    Iterating yields a stretch, or None for blocks without new rows, and the place behind it.
    """

    def __init__(self, segments: Mapping[int, LiveSegment], place: Place | None) -> None:
        assert segments
        self._segments = segments
        self._place = place
        self._lseq = place.lseq if place else 0

    def __iter__(self) -> Iterator[tuple[Stretch | None, Place]]:
        start = self._place
        numbers = sorted(self._segments)
        if start is not None:
            numbers = [number for number in numbers if number >= start.number]
        before = start.number if start else 0
        for number in numbers:
            segment = self._segments[number]
            at = segment.begin
            if start is not None and number == start.number:
                at = max(at, start.byte)
            yield from self._segment(segment, at, pruned=number > before + 1)
            before = number

    def _segment(
        self, segment: LiveSegment, at: int, pruned: bool
    ) -> Iterator[tuple[Stretch | None, Place]]:
        copies = [_CopyWindow(copy) for copy in segment.copies]
        damaged: int | None = None
        while True:
            found = next(((c, head) for c in copies if (head := c.head(at))), None)
            if found is None:
                found = min(
                    ((c, head) for c in copies if (head := c.next_head(at))),
                    key=lambda pair: pair[1].offset,
                    default=None,
                )
                if found is None:
                    return
                damaged = at if damaged is None else damaged
            copy, head = found
            at = head.offset + head.size
            if damaged is not None and head.kind == BODIES:
                continue
            begin = head.offset if damaged is None else damaged
            stretch = self._stretch(segment, copy, head, begin, damaged is not None, pruned)
            pruned = pruned and head.kind != ROWS
            damaged = None
            yield stretch, Place(segment.header.number, at, self._lseq)

    def _stretch(
        self,
        segment: LiveSegment,
        copy: _CopyWindow,
        head: BlockHead,
        begin: int,
        damaged: bool,
        pruned: bool,
    ) -> Stretch | None:
        after, first, last = self._lseq, head.first, head.last
        if head.kind == BODIES:
            return Stretch(copy.path, begin, head.offset + head.size, after, after)
        if head.kind == FOOTER:
            footer = copy.footer(head)
            if footer is None or footer.last <= after:
                return None
            first, last = footer.last + 1, footer.last
        if last <= after:
            return None
        missing = None
        if first > after + 1 and not damaged and not copy.explains(head, segment.header, after):
            missing = Missing(after + 1, first - 1, "pruned" if pruned else "missing")
        self._lseq = last
        return Stretch(copy.path, begin, head.offset + head.size, after, last, missing)


class _CopyWindow:
    """Reads block heads of one file, some megabytes at a time, up to the size it had when it was
    found."""

    def __init__(self, copy: Copy) -> None:
        self.path = copy.path
        self._size = copy.size
        self._data = b""
        self._base = 0

    def head(self, at: int) -> BlockHead | None:
        if at >= self._size:
            return None
        inside = at - self._base
        if not 0 <= inside <= len(self._data) - HEAD_BYTES:
            self._load(at, WINDOW_BYTES)
            inside = 0
        head = block_head(self._data, inside)
        if head is None:
            needed = announced_size(self._data, inside)
            if len(self._data) - inside >= needed:
                return None
            self._load(at, max(WINDOW_BYTES, needed))
            head = block_head(self._data, 0)
        return None if head is None else head._replace(offset=at)

    def next_head(self, at: int) -> BlockHead | None:
        """The first block behind `at`, wherever it is."""
        self._load(at, self._size - at)
        inside = 0
        while (inside := self._data.find(MAGIC, inside + 1)) >= 0:
            if head := block_head(self._data, inside):
                return head._replace(offset=at + inside)
        return None

    def footer(self, head: BlockHead) -> Footer | None:
        block = self._block(head)
        with suppress(ValueError):
            return msgspec.msgpack.decode(block.body, type=Footer) if block else None
        return None

    def explains(self, head: BlockHead, header: Header, after: int) -> bool:
        """The block begins with a `gap` row for what lies before it."""
        block = self._block(head) if head.kind == ROWS else None
        if block is None:
            return False
        with suppress(ValueError):
            gaps = columns_of(block.body, header.schema, ("gap",)).get("gap")
            return gaps is not None and min(gaps.columns["first"]) <= after + 1
        return False

    def _block(self, head: BlockHead) -> Block | None:
        inside = head.offset - self._base
        found = next(parse(self._data[inside : inside + head.size], 0), None)
        return found if isinstance(found, Block) else None

    def _load(self, at: int, size: int) -> None:
        self._base = at
        self._data = _read(self.path, at, min(at + max(size, 0), self._size))


def _read(path: str, begin: int, end: int) -> bytes:
    """Nothing of a file that is gone: its rows are missing then, unless another copy has them."""
    try:
        with Path(path).open("rb") as file:
            file.seek(begin)
            return file.read(max(0, end - begin))
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise unreadable(Path(path), error) from error


# ---------------------------------------------------------------------- all journals


def advance(
    segments: Segments, start: Mapping[str, Place], bytes_max: int | None
) -> Iterator[tuple[str, Stretch | None, Place]]:
    """What is new since `start`, a block at a time, up to about so many bytes, but at least one
    block: the journal, the stretch, and the place behind it. All journals advance alike."""
    walks = {name: iter(JournalWalk(segments[name], start.get(name))) for name in sorted(segments)}
    waiting = [(0, name) for name in walks]
    total = 0
    while waiting and (bytes_max is None or total < bytes_max):
        done, name = heapq.heappop(waiting)
        step = next(walks[name], None)
        if step is None:
            continue
        stretch, place = step
        size = stretch.end - stretch.begin if stretch else 0
        total += size
        yield name, stretch, place
        heapq.heappush(waiting, (done + size, name))


def plan(
    segments: Segments, start: Mapping[str, Place], bytes_max: int | None
) -> tuple[dict[str, Place], dict[str, list[Stretch]]]:
    """What `advance` finds: the places behind it, and the stretches of each journal, neighbours
    together."""
    end = dict(start)
    found: dict[str, list[Stretch]] = {}
    for name, stretch, place in advance(segments, start, bytes_max):
        end[name] = place
        if stretch is not None:
            _append(found.setdefault(name, []), stretch)
    return dict(sorted(end.items())), found


def replan(
    segments: Segments, start: Mapping[str, Place], end: Mapping[str, Place]
) -> dict[str, list[Stretch]]:
    """The stretches between two places of each journal, as `plan` found them. Where segments were
    deleted since, the rows of the deleted part are missing."""
    found: dict[str, list[Stretch]] = {}
    for name in sorted(end):
        if end[name] == start.get(name) or name not in segments:
            continue
        stretches = found.setdefault(name, [])
        limit = end[name]
        for stretch, place in JournalWalk(segments[name], start.get(name)):
            if place > limit:
                after = stretches[-1].last if stretches else start.get(name, Place(0, 0, 0)).lseq
                if stretch is not None and stretch.missing and after < limit.lseq:
                    missing = Missing(after + 1, limit.lseq, stretch.missing.reason)
                    stretches.append(Stretch(stretch.path, 0, 0, after, limit.lseq, missing))
                break
            if stretch is not None:
                _append(stretches, stretch)
            if place == limit:
                break
    return {name: stretches for name, stretches in found.items() if stretches}


def _append(stretches: list[Stretch], stretch: Stretch) -> None:
    last = stretches[-1] if stretches else None
    if (
        last is not None
        and last.path == stretch.path
        and last.end == stretch.begin
        and stretch.missing is None
        and stretch.end - last.begin <= STRETCH_BYTES_MAX
    ):
        stretches[-1] = msgspec.structs.replace(last, end=stretch.end, last=stretch.last)
    else:
        stretches.append(stretch)


# ---------------------------------------------------------------------- reading


def read_blocks(stretch: Stretch) -> Iterator[Block | Damage]:
    """The blocks of a stretch, and a `Damage` for each place where rows could not be read. Offsets
    are those in the file. JournalError if the file was deleted or shortened meanwhile."""
    data = _read(stretch.path, stretch.begin, stretch.end)
    if len(data) < stretch.end - stretch.begin:
        problem = f"bytes {stretch.begin} to {stretch.end} are gone"
        raise JournalError(
            stretch.path, None, problem, "do not delete segments before they are read"
        )
    reached = stretch.after if stretch.missing is None else stretch.missing.last
    damage: Damage | None = None
    for part in parse(data, 0):
        part = part._replace(offset=part.offset + stretch.begin)
        if isinstance(part, Damage):
            damage = damage or part
            continue
        if part.kind == ROWS:
            if damage is not None and part.first > reached + 1:
                yield damage
            damage = None
            reached = max(reached, part.last)
        yield part
    if damage is not None and stretch.last > reached:
        yield damage
