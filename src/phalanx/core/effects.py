"""What a member is given and what it asks for: the whole border of the core.

`Member.step(now, given)` takes one input and returns the effects, in the order in which
they must happen; `Member.deadline()` says when to give it `DeadlinePassed`. Effects name
frames and ranges of messages, never single messages: whoever shows them to a user cuts the
bodies out (`Deliver.bodies()`), and only when they are wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from itertools import accumulate, pairwise
from struct import Struct
from typing import Literal

import msgspec

from phalanx.core.ids import MemberId, View, ViewId


class Service(IntEnum):
    """How strongly a message is ordered. Chosen per message."""

    BASIC = 0
    CAUSAL = 1
    AGREED = 2
    SAFE = 3


class Region(IntEnum):
    """Before or after the transitional marker of a view's end."""

    REGULAR = 0
    TRANSITIONAL = 1


# ---------------------------------------------------------------------------- inputs


class Datagrams(msgspec.Struct, frozen=True, gc=False):
    """Packets that arrived, oldest first. Bytes of any kind are allowed."""

    packets: Sequence[bytes]


class DeadlinePassed(msgspec.Struct, frozen=True, gc=False):
    """The time that `deadline()` named has come."""


class Submit(msgspec.Struct, frozen=True, gc=False):
    """Messages of the application, all with one service and one set of receivers.

    `to` None means the whole view. Accepted whole, or refused whole with a SubmissionError.
    """

    bodies: Sequence[bytes]
    service: Service = Service.AGREED
    to: tuple[MemberId, ...] | None = None


class Close(msgspec.Struct, frozen=True, gc=False):
    """Accept no more submissions. What was accepted is still sent, acknowledged and served."""


Given = Datagrams | DeadlinePassed | Submit | Close


# ---------------------------------------------------------------------------- effects


class Transmit(msgspec.Struct, frozen=True, gc=False):
    """Broadcast these packets in the domain, in order. Those of one frame have one size, but
    for its last."""

    packets: list[bytes]


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """The submission was taken; its messages have these numbers (what `send` resolves to)."""

    first: int
    last: int
    service: Service
    to: tuple[MemberId, ...] | None
    size: int


class Sent(msgspec.Struct, frozen=True, gc=False):
    """Own messages first..last left in frame `frame`; for a large one, its last part did."""

    first: int
    last: int
    frame: int
    service: Service
    to: tuple[MemberId, ...] | None
    view: ViewId
    phase: int


class Deliver(msgspec.Struct, frozen=True, gc=False):
    """Messages first..last of `sender`, consecutive in the delivery order.

    `pos` is the agreed position of the first, counted from 0 in the view (None for basic and
    causal); `batch` the number of the batch the order put them in; `frame` the sender's frame
    that completed them. `view` is where they are delivered, `origin` where they were sent.
    """

    sender: MemberId
    first: int
    last: int
    service: Service
    to: tuple[MemberId, ...] | None
    view: ViewId
    origin: ViewId
    phase: int
    region: Region
    pos: int | None
    batch: int | None
    frame: int
    payload: bytes
    offset: int
    lengths: Sequence[int]

    def bodies(self) -> list[bytes]:
        """The message bodies, cut out of the frame."""
        lengths = self.lengths
        if len(lengths) > 8 and min(lengths) == max(lengths) > 0:
            return _cut_evenly(self.payload, self.offset, lengths[0], len(lengths))
        payload = self.payload
        ends = list(accumulate(lengths, initial=self.offset))
        return [payload[a:b] for a, b in pairwise(ends)]


_BLOCK = 32


def _cut_evenly(payload: bytes, at: int, length: int, count: int) -> list[bytes]:
    """Bodies of one length, 32 in one call: a third of the time that slicing takes."""
    out: list[bytes] = []
    end = at + count // _BLOCK * _BLOCK * length
    if end > at:
        for block in _cutter(length).iter_unpack(memoryview(payload)[at:end]):
            out += block
    out += [payload[i : i + length] for i in range(end, at + count * length, length)]
    return out


@lru_cache(64)
def _cutter(length: int) -> Struct:
    return Struct(f"{length}s" * _BLOCK)


class Ordered(msgspec.Struct, frozen=True, gc=False):
    """Receipt: the place of all own messages up to this number can no longer change here."""

    upto: int


class Stable(msgspec.Struct, frozen=True, gc=False):
    """Receipt: every member of the view has all own messages up to this number."""

    upto: int


class WindowClosed(msgspec.Struct, frozen=True, gc=False):
    """Stop submitting: the outbox holds its limit because the domain is full or slow."""

    bytes: int
    frames: int


class WindowOpened(msgspec.Struct, frozen=True, gc=False):
    """Submit again."""

    bytes: int
    frames: int


class ViewInstalled(msgspec.Struct, frozen=True, gc=False):
    """From here on the member is in `view`."""

    view: View
    previous: ViewId | None
    transitional: tuple[MemberId, ...]
    cause: Literal["boot", "removal", "join"]


class Refused(msgspec.Struct, frozen=True, gc=False):
    """A peer's nonsense, counted and dropped. `reason` is one of `frames.REASONS`."""

    reason: str
    count: int = 1


Effect = (
    Transmit
    | Accepted
    | Sent
    | Deliver
    | Ordered
    | Stable
    | WindowClosed
    | WindowOpened
    | ViewInstalled
    | Refused
)
