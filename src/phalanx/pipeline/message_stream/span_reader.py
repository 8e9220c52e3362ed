"""Read the messages of spans from their journals, with bodies, as Arrow batches.

A row of a journal is a range of messages; here each message is a row. Breaks are rows too. The
columns are in `SCHEMA_FIELDS`; `seq` numbers all rows of a group's stream from 1 on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from phalanx.journal import schema as ev
from phalanx.journal.arrow_schema import arrow
from phalanx.journal.blocks import BODIES, ROWS, Block, Bodies, bodies_of
from phalanx.journal.columns import unpack
from phalanx.journal.reader import read_header
from phalanx.journal.tail_reader import Stretch, read_blocks
from phalanx.pipeline.message_stream.group_merge import Break, Span
from phalanx.pipeline.message_stream.member_log import ORDERED_SERVICES

BATCH_MESSAGES = 1 << 16
MESSAGE, BREAK = "message", "break"
SCHEMA_FIELDS = (
    ("cluster", "string", False),
    ("group", "string", False),
    ("seq", "int64", False),
    ("kind", "string", False),
    ("view", "string", False),
    ("pos", "int64", False),
    ("sender", "string", True),
    ("sender_incarnation", "int64", True),
    ("number", "int64", True),
    ("service", "string", True),
    ("body", "binary", True),
    ("journal", "string", False),
    ("lseq", "int64", True),
    ("reason", "string", True),
    ("from_journal", "string", True),
    ("from_view", "string", True),
    ("from_pos", "int64", True),
)
"""Columns, Arrow types, and whether they may be null."""


def message_schema() -> Any:
    pa = arrow()
    types = {"string": pa.string(), "int64": pa.int64(), "binary": pa.binary()}
    return pa.schema([pa.field(name, types[kind], null) for name, kind, null in SCHEMA_FIELDS])


class GroupItem(msgspec.Struct, frozen=True, array_like=True):
    """A decision of the merge of one group, and the blocks that hold its messages."""

    cluster: str
    group: str
    span: Span | None
    broke: Break | None
    stretches: list[Stretch] = []
    bodies: bool = False


class _Piece(NamedTuple):
    """Part of a row: so many messages from `number` and `pos` on."""

    row: ev.Deliver
    number: int
    pos: int
    size: int


def item_batches(items: Sequence[GroupItem]) -> Iterator[Any]:
    for item in items:
        if item.broke is not None:
            yield _break_batch(item, item.broke)
        if item.span is not None:
            yield from _span_batches(item, item.span)


def _break_batch(item: GroupItem, broke: Break) -> Any:
    known = {"cluster": item.cluster, "group": item.group, "seq": broke.seq, "kind": BREAK}
    known |= {"view": broke.view, "pos": broke.pos, "journal": broke.to_journal}
    known |= {"reason": broke.reason, "from_journal": broke.from_journal}
    known |= {"from_view": broke.from_view, "from_pos": broke.from_pos}
    return arrow().RecordBatch.from_pylist([known], schema=message_schema())


def _span_batches(item: GroupItem, span: Span) -> Iterator[Any]:
    pieces: list[_Piece] = []
    bodies = _BodyIndex()
    waiting = count = total = 0
    for stretch in item.stretches:
        header = read_header(Path(stretch.path))
        for part in read_blocks(stretch):
            if not isinstance(part, Block):
                continue
            if part.kind == BODIES and item.bodies:
                bodies.add(bodies_of(part))
            elif part.kind == ROWS and part.last >= span.lseq_first:
                if part.first <= span.lseq_last:
                    who = header.member, header.incarnation, header.group
                    rows = unpack(part.body, *who, header.schema, ("deliver",))
                    found = _pieces(rows, span)
                    pieces += found
                    waiting += sum(piece.size for piece in found)
        if not item.bodies and waiting >= BATCH_MESSAGES:
            yield _batch(item, span, pieces, bodies, total)
            total, waiting, pieces = total + waiting, 0, []
    count = total + waiting
    assert count == span.count, f"{count} of {span.count} messages were read"
    if pieces:
        yield _batch(item, span, pieces, bodies, total)


def _pieces(rows: Sequence[ev.Event], span: Span) -> list[_Piece]:
    found = []
    for row in rows:
        if not isinstance(row, ev.Deliver) or row.pos is None or row.to is not None:
            continue
        if row.view != span.view or row.service not in ORDERED_SERVICES:
            continue
        low = max(row.pos, span.begin)
        high = min(row.pos + row.last - row.first + 1, span.end)
        if low < high and span.lseq_first <= row.lseq <= span.lseq_last:
            found.append(_Piece(row, row.first + low - row.pos, low, high - low))
    return found


def _batch(
    item: GroupItem, span: Span, pieces: Sequence[_Piece], bodies: _BodyIndex, done: int
) -> Any:
    """Columns are made per range and repeated, not per message."""
    import numpy as np

    pa = arrow()
    counts = np.array([piece.size for piece in pieces])
    total = int(counts.sum())
    which = np.repeat(np.arange(len(pieces)), counts)
    inside = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    places = pa.array(which)

    def spread(values: list[Any], kind: Any) -> Any:
        return pa.array(values, kind).take(places)

    def growing(values: list[int]) -> Any:
        return pa.array(np.array(values)[which] + inside)

    body = pa.nulls(total, pa.binary())
    if item.bodies:
        body = pa.array([found for piece in pieces for found in bodies.of(piece)], pa.binary())
    same = {"cluster": item.cluster, "group": item.group, "kind": MESSAGE}
    same |= {"view": span.view, "journal": span.journal}
    columns = {
        name: pa.array([value]).take(pa.array(np.zeros(total, int))) for name, value in same.items()
    }
    columns |= {
        "seq": pa.array(span.seq + done + np.arange(total)),
        "pos": growing([piece.pos for piece in pieces]),
        "number": growing([piece.number for piece in pieces]),
        "sender": spread([piece.row.sender for piece in pieces], pa.string()),
        "sender_incarnation": spread([p.row.sender_incarnation for p in pieces], pa.int64()),
        "service": spread([piece.row.service for piece in pieces], pa.string()),
        "lseq": spread([piece.row.lseq for piece in pieces], pa.int64()),
        "body": body,
    }
    schema = message_schema()
    arrays = [columns.get(f.name, pa.nulls(total, f.type)) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class _BodyIndex:
    """Finds the body of a message; None where the journal has not kept it."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[list[int], list[Bodies]]] = {}

    def add(self, bodies: Sequence[Bodies]) -> None:
        for found in bodies:
            key = found.sender, found.sender_incarnation
            firsts, some = self._known.setdefault(key, ([], []))
            at = bisect_right(firsts, found.first)
            firsts.insert(at, found.first)
            some.insert(at, found)

    def of(self, piece: _Piece) -> Iterator[bytes | None]:
        key = piece.row.sender, piece.row.sender_incarnation
        firsts, some = self._known.get(key, ([], []))
        number, end = piece.number, piece.number + piece.size
        while number < end:
            at = bisect_right(firsts, number) - 1
            found = some[at] if at >= 0 else None
            if found is None or number >= found.first + len(found.lengths):
                yield None
                number += 1
                continue
            begin = number - found.first
            stop = min(end, found.first + len(found.lengths)) - found.first
            yield from list(found)[begin:stop]
            number = found.first + stop
