"""Many messages in a frame, one message over many frames.

The outbox holds what was submitted and has not left, in order, as chunks that share service
and receivers. A frame takes as much from the front as fits: under load many messages,
on an idle network one. A message that does not fit a frame leaves in parts, each in a frame
of its own; its place is that of the last part, so only that frame is ordered (rule
F-12). `MessageReassembler` puts parts together again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from phalanx.config import MESSAGE_BYTES_LIMIT
from phalanx.core.effects import Service
from phalanx.core.wire.frames import MessageRun

MESSAGE_OVERHEAD = 4
RUN_OVERHEAD = 24
CHUNK_MESSAGES_MAX = 4096


class MessageBatch:
    """Consecutive messages of one service and one set of receivers."""

    __slots__ = ("bodies", "done", "ends", "lengths", "service", "to")

    def __init__(self, service: Service, to: tuple[int, ...] | None) -> None:
        self.service = service
        self.to = to
        self.bodies: list[bytes] = []
        self.lengths: list[int] = []
        self.ends: list[int] = []
        """Bytes up to and with each message, those that have left included."""
        self.done = 0
        """Bytes that have left."""

    def cost(self, count: int) -> int:
        """Of the next so many messages, overhead included."""
        return self.ends[count - 1] - self.done + count * MESSAGE_OVERHEAD

    def run_cost(self) -> int:
        return RUN_OVERHEAD + 2 * len(self.to or ())


class LostReceivers(NamedTuple):
    """Messages first..last were for these receivers too, by their former ranks; `rest` others are
    left."""

    first: int
    last: int
    gone: tuple[int, ...]
    rest: int


class Outbox:
    __slots__ = ("_chunks", "_frame_bytes_max", "_part", "bytes", "following", "messages")

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._chunks: deque[MessageBatch] = deque()
        self._part = 0
        """How many parts of the message in front have left."""
        self.bytes = 0
        """Waiting, overhead included."""
        self.messages = 0
        self.following = 1
        """The number of the message in front, or of the next one submitted."""

    def put(
        self,
        bodies: Sequence[bytes],
        lengths: list[int],
        service: Service,
        to: tuple[int, ...] | None,
    ) -> None:
        chunk = self._chunks[-1] if self._chunks else None
        if (
            chunk is None
            or chunk.service is not service
            or chunk.to != to
            or len(chunk.bodies) > CHUNK_MESSAGES_MAX
        ):
            chunk = MessageBatch(service, to)
            self._chunks.append(chunk)
        start = chunk.ends[-1] if chunk.ends else chunk.done
        chunk.bodies += bodies
        chunk.lengths += lengths
        ends = accumulate(lengths, initial=start)
        next(ends)
        chunk.ends += ends
        self.bytes += chunk.ends[-1] - start + len(lengths) * MESSAGE_OVERHEAD
        self.messages += len(lengths)

    def again(self) -> None:
        """A large message that has left in part is sent anew: parts never span two tags
        (rule F-12)."""
        if self._part:
            self.bytes += self._part * self._frame_bytes_max
            self._part = 0

    @property
    def is_large(self) -> bool:
        """The message in front does not fit a frame."""
        return bool(self._chunks) and self._chunks[0].cost(1) > self._frame_bytes_max

    def readdress(self, ranks: dict[int, int]) -> list[LostReceivers]:
        """The ranks of receivers have changed. Receivers that have none any more are dropped, and
        returned with the messages that were for them (rules D-16 and D-19)."""
        lost, first = [], self.following
        for chunk in self._chunks:
            last = first + len(chunk.lengths) - 1
            if chunk.to is not None:
                gone = tuple(rank for rank in chunk.to if rank not in ranks)
                chunk.to = tuple(sorted(ranks[rank] for rank in chunk.to if rank in ranks))
                if gone:
                    lost.append(LostReceivers(first, last, gone, len(chunk.to)))
            first = last + 1
        return lost

    @property
    def fills_a_frame(self) -> bool:
        return self.bytes >= self._frame_bytes_max

    def take(self) -> list[tuple[MessageRun, Sequence[bytes]]]:
        """What the next frame carries. There must be something waiting (rule F-10)."""
        out: list[tuple[MessageRun, Sequence[bytes]]] = []
        room = self._frame_bytes_max
        chunks = self._chunks
        while chunks:
            chunk = chunks[0]
            if out:
                room -= chunk.run_cost()  # receivers and all: a frame has a size, whatever is in it
            count = len(chunk.ends)
            if chunk.cost(count) > room:
                count = bisect_right(range(1, count + 1), room, key=chunk.cost)
            if not count:  # the message in front does not fit what is left
                if not out and chunk.cost(1) > self._frame_bytes_max:
                    out.append(self._take_part(chunk))
                break
            size = chunk.cost(count)
            bodies, lengths = chunk.bodies[:count], chunk.lengths[:count]
            out.append(
                (MessageRun(chunk.service, self.following, count, chunk.to, 0, lengths), bodies)
            )
            room -= size
            self._left(chunk, count, size)
        return out

    def _take_part(self, chunk: MessageBatch) -> tuple[MessageRun, Sequence[bytes]]:
        body, size, part = chunk.bodies[0], self._frame_bytes_max, self._part
        parts = -(-len(body) // size)
        piece = body[part * size : (part + 1) * size]
        lengths = (len(piece),)
        run = MessageRun(
            chunk.service, self.following, 1, chunk.to, 0, lengths, part, parts, len(body)
        )
        if run.completes:
            self._part = 0
            self._left(chunk, 1, len(piece) + MESSAGE_OVERHEAD)
        else:
            self._part += 1
            self.bytes -= len(piece)
        return run, [piece]

    def _left(self, chunk: MessageBatch, count: int, size: int) -> None:
        self.following += count
        self.messages -= count
        self.bytes -= size
        if count == len(chunk.ends):
            self._chunks.popleft()
            return
        chunk.done = chunk.ends[count - 1]
        del chunk.bodies[:count], chunk.lengths[:count], chunk.ends[:count]


class MessageReassembler:
    """The parts of one sender's large message, as they enter, in order."""

    __slots__ = ("_bytes", "_number", "_parts")

    def __init__(self) -> None:
        self._number = 0
        self._parts: list[bytes] = []
        self._bytes = 0

    def add(self, run: MessageRun, payload: bytes) -> bytes | None:
        """Take a part; the whole message with its last part, or None, also if a peer sent
        parts that do not make a message (rule D-8)."""
        if run.part == 0:
            self._number = run.first
            self._drop()
        self._bytes += run.lengths[0]
        if (
            run.first != self._number
            or run.part != len(self._parts)
            or self._bytes > run.total
            or run.total > MESSAGE_BYTES_LIMIT
        ):
            self._drop()
            return None
        self._parts.append(payload[run.offset : run.offset + run.lengths[0]])
        if not run.completes:
            return None
        whole = b"".join(self._parts)
        self._drop()
        return whole if len(whole) == run.total else None

    def _drop(self) -> None:
        self._parts.clear()
        self._bytes = 0
