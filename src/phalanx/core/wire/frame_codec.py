"""Frames: the bytes inside fragments to frames, and back.

    kind u8 | flags u8 | phase u8 | 0 | acks u16 | runs u16 | control u32 | first u64 | tag 16s
    acks:    index u16 each, then number u32 each (u64 with WIDE)
    runs:    service u8 | flags u8 | to u16 | count u32 | bytes u32 [| part u32 | parts u32 |
             total u32] [| index u16 each]
    control: one msgpack array
    bodies:  per run, lengths u16 each (u32 with LONG), then the bodies put together

Little-endian. The acknowledgements are only those that changed since the sender's previous
frame, as absolute numbers: a frame out of order still shows which frames it follows.
Decoding never raises: bytes that hold no frame are a `Refusal`.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from operator import lt
from struct import Struct, error

import msgspec

from phalanx.core.effects import Service
from phalanx.core.ids import NUMBER_MAX, ViewId
from phalanx.core.wire.frames import KIND_OF, Control, Frame, FrameKind, MessageRun
from phalanx.core.wire.packets import Refusal

_FRAME = Struct("<BBBxHHIQ16s")
_RUN = Struct("<BBHII")
_PART = Struct("<III")
_TAG = Struct("<II8s")

_WIDE = 1  # frame flag: 64-bit acknowledgements
_FULL = 2  # frame flag: the sender's application is behind with reading
_LONG = 1  # run flag: 32-bit lengths
_IS_PART = 2  # run flag: a part of a large message
_HAS_TO = 4  # run flag: not for the whole view

FIRST_MAX = NUMBER_MAX // 2
"""The greatest number of a frame's first message: that of its last is below NUMBER_MAX."""
_SERVICES = tuple(Service)
_SWAP = sys.byteorder == "big"
_pack = msgspec.msgpack.Encoder().encode
_unpack_control = msgspec.msgpack.Decoder(Control).decode


def encode_tag(view: ViewId) -> bytes:
    """A view id as the 16 bytes that tag a frame."""
    return _TAG.pack(view.joins, view.removals, view.digest)


def decode_tag(tag: bytes) -> ViewId:
    return ViewId(*_TAG.unpack(tag))


def encode_frame(
    kind: int,
    phase: int,
    tag: bytes,
    ack_members: Sequence[int],
    ack_numbers: Sequence[int],
    first: int,
    runs: Sequence[tuple[MessageRun, Sequence[bytes]]],
    control: Control | None = None,
    full: bool = False,
) -> bytes:
    """A frame's bytes, before they are cut into fragments (rule F-6).

    Each run brings its `lengths`; its `offset` is set to where its bodies came to lie, so that
    the sender can deliver from these bytes as everybody else does.
    """
    flags = _WIDE if ack_numbers and max(ack_numbers) >> 32 else 0
    acks = _READERS.get((len(ack_members), flags)) or _new_reader(len(ack_members), flags)
    body = _pack(control) if control is not None else b""
    flags |= _FULL if full else 0
    out = [
        _FRAME.pack(kind, flags, phase, len(ack_members), len(runs), len(body), first, tag),
        acks.pack(*ack_members, *ack_numbers),
    ]
    tails: list[bytes] = []
    spans: list[tuple[MessageRun, int]] = []
    tail_bytes = 0
    for run, bodies in runs:
        lengths = _lengths(run.lengths)
        joined = b"".join(bodies)
        assert len(lengths) == run.count
        flags = _LONG if lengths.typecode == "I" else 0
        if run.to is not None:
            flags |= _HAS_TO
        if run.parts > 1:
            flags |= _IS_PART
        to = run.to or ()
        out.append(_RUN.pack(run.service, flags, len(to), run.count, len(joined)))
        if run.parts > 1:
            out.append(_PART.pack(run.part, run.parts, run.total))
        if to:
            out.append(_numbers("H", to))
        raw = _bytes_of(lengths)
        spans.append((run, tail_bytes + len(raw)))
        tails += (raw, joined)
        tail_bytes += len(raw) + len(joined)
    out.append(body)
    head = b"".join(out)
    for run, offset in spans:
        run.offset = len(head) + offset
    return b"".join((head, *tails))


def decode_frame(
    sender: int, number: int, payload: bytes, piece: int, table: bytes, members: int
) -> Frame | Refusal:
    """The frame that these bytes hold, or why they hold none. Its indices are below `members`,
    the size of the table, and each stands once (rule F-6)."""
    try:
        kind, flags, phase, acks, n_runs, control_bytes, first, tag = _FRAME.unpack_from(payload)
        at = _FRAME.size
        full = flags >= _FULL
        if full:
            flags -= _FULL
        reader = _READERS.get((acks, flags)) or _new_reader(acks, flags)
        both = reader.unpack_from(payload, at)
        at += reader.size
        ack_members = both[:acks]
        if acks:
            _check_indices(ack_members, members)
            if sender in ack_members:
                raise ValueError("index")
        heads = []
        for _ in range(n_runs):
            head, at = _read_run_head(payload, at, members)
            heads.append(head)
        control = None
        if control_bytes:
            control = _read_control(kind, payload[at : at + control_bytes])
            at += control_bytes
        runs, at, ordered = _read_runs(payload, at, first, heads)
        if at != len(payload) or (kind == FrameKind.DATA) != (n_runs > 0):
            raise ValueError("length")
        if first > FIRST_MAX:
            raise ValueError("number")
        if control is None and kind not in _PLAIN_KINDS:
            raise ValueError("control")
    except (error, ValueError, IndexError, msgspec.MsgspecError, RecursionError, OverflowError):
        return Refusal("malformed")
    return Frame(
        sender,
        number,
        kind,
        phase,
        table,
        tag,
        ack_members,
        both[acks:],
        first,
        runs,
        control,
        payload,
        piece,
        ordered,
        wire=sender,
        full=full,
    )


_RunHead = tuple[Service, int, int, int, int, int, int, tuple[int, ...] | None]
_PLAIN_KINDS = (FrameKind.DATA, FrameKind.ACK)


def _check_indices(indices: tuple[int, ...], members: int) -> None:
    """At least one, increasing, and inside the table."""
    if indices[-1] >= members or not all(map(lt, indices, indices[1:])):
        raise ValueError("index")


def _read_run_head(payload: bytes, at: int, members: int) -> tuple[_RunHead, int]:
    service, flags, n_to, count, size = _RUN.unpack_from(payload, at)
    at += _RUN.size
    part, parts, total, to = 0, 1, 0, None
    if flags & _IS_PART:
        part, parts, total = _PART.unpack_from(payload, at)
        at += _PART.size
        if not part < parts <= total or count != 1 or parts == 1:
            raise ValueError("parts")
    if flags & _HAS_TO:
        to = tuple(_read("H", payload, at, n_to))
        at += 2 * n_to
        if to:
            _check_indices(to, members)
    if count == 0:
        raise ValueError("empty run")
    return (_SERVICES[service], flags, count, size, part, parts, total, to), at


def _read_runs(
    payload: bytes, at: int, following: int, heads: list[_RunHead]
) -> tuple[list[MessageRun], int, bool]:
    runs, ordered = [], False
    for service, flags, count, size, part, parts, total, to in heads:
        lengths = _read("I" if flags & _LONG else "H", payload, at, count)
        at += count * lengths.itemsize
        if sum(lengths) != size:
            raise ValueError("lengths")
        runs.append(MessageRun(service, following, count, to, at, lengths, part, parts, total))
        at += size
        if part == parts - 1:
            following += count
            if service >= Service.AGREED:
                ordered = True
    return runs, at, ordered


def _read_control(kind: int, body: bytes) -> Control:
    control = _unpack_control(body)
    said = control.said
    if KIND_OF[type(said)] != kind if said is not None else kind not in _PLAIN_KINDS:
        raise ValueError("control kind")
    return control


_READERS: dict[tuple[int, int], Struct] = {}


def _new_reader(acks: int, flags: int) -> Struct:
    """Reads so many acknowledgements: all the members, then all the numbers."""
    if flags > _WIDE:
        raise ValueError("flags")
    if len(_READERS) > 4096:
        _READERS.clear()
    reader = Struct(f"<{acks}H{acks}{'Q' if flags & _WIDE else 'I'}")
    _READERS[acks, flags] = reader
    return reader


def _read(code: str, payload: bytes, at: int, count: int) -> array[int]:
    out = array(code)
    raw = payload[at : at + count * out.itemsize]
    out.frombytes(raw)
    if len(out) != count:
        raise ValueError("truncated")
    if _SWAP:
        out.byteswap()
    return out


def _lengths(lengths: Sequence[int]) -> array[int]:
    try:
        return array("H", lengths)
    except OverflowError:
        return array("I", lengths)


def _numbers(code: str, values: Sequence[int]) -> bytes:
    return _bytes_of(array(code, values))


def _bytes_of(values: array[int]) -> bytes:
    if _SWAP:
        values = values[:]
        values.byteswap()
    return values.tobytes()
