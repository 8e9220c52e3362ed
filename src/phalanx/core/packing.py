"""Many messages in a frame, one message over many frames.

The outbox holds what was submitted and has not left, in order, as chunks that share service
and receivers. A frame takes as much from the front as fits: under load many messages,
on an idle network one. A message that does not fit a frame leaves in parts, each in a frame
of its own; its place is that of the last part, so only that frame is ordered (PROTOCOLS B.6
item 8). `Assembly` puts parts together again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import accumulate

from phalanx.core.effects import Service
from phalanx.core.frames import Run

MESSAGE_OVERHEAD = 4
CHUNK_MESSAGES_MAX = 4096
PARTS_MAX = 1 << 20


class Chunk:
    """Consecutive messages of one service and one set of receivers."""

    __slots__ = ("bodies", "ends", "service", "taken", "to")

    def __init__(self, service: Service, to: tuple[int, ...] | None) -> None:
        self.service = service
        self.to = to
        self.bodies: list[bytes] = []
        self.ends: list[int] = []
        """Bytes, overhead included, up to and with each message."""
        self.taken = 0


class Outbox:
    __slots__ = ("_chunks", "_frame_bytes_max", "_part", "bytes", "following", "messages")

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._chunks: deque[Chunk] = deque()
        self._part = 0
        """How many parts of the message in front have left."""
        self.bytes = 0
        """Waiting, overhead included."""
        self.messages = 0
        self.following = 1
        """The number of the message in front, or of the next one submitted."""

    def put(self, bodies: Sequence[bytes], service: Service, to: tuple[int, ...] | None) -> None:
        chunk = self._chunks[-1] if self._chunks else None
        if (
            chunk is None
            or chunk.service is not service
            or chunk.to != to
            or len(chunk.bodies) > CHUNK_MESSAGES_MAX
        ):
            chunk = Chunk(service, to)
            self._chunks.append(chunk)
        start = chunk.ends[-1] if chunk.ends else 0
        chunk.bodies += bodies
        chunk.ends += accumulate([len(b) + MESSAGE_OVERHEAD for b in bodies], initial=start)
        del chunk.ends[-len(bodies) - 1]
        self.bytes += chunk.ends[-1] - start
        self.messages += len(bodies)

    @property
    def fills_a_frame(self) -> bool:
        return self.bytes >= self._frame_bytes_max

    def take(self) -> list[tuple[Run, Sequence[bytes]]]:
        """What the next frame carries. There must be something waiting."""
        out: list[tuple[Run, Sequence[bytes]]] = []
        room = self._frame_bytes_max
        chunks = self._chunks
        while chunks:
            chunk = chunks[0]
            start, ends = chunk.taken, chunk.ends
            done = ends[start - 1] if start else 0
            stop = len(ends) if ends[-1] - done <= room else bisect_right(ends, done + room)
            if stop == start:  # the message in front does not fit what is left
                if not out and ends[start] - done > self._frame_bytes_max:
                    out.append(self._take_part(chunk))
                break
            bodies = chunk.bodies[start:stop] if start or stop < len(ends) else chunk.bodies
            count = stop - start
            out.append((Run(chunk.service, self.following, count, chunk.to, 0, ()), bodies))
            size = ends[stop - 1] - done
            room -= size
            self._left(chunk, count, size)
        return out

    def _take_part(self, chunk: Chunk) -> tuple[Run, Sequence[bytes]]:
        body, size, part = chunk.bodies[chunk.taken], self._frame_bytes_max, self._part
        parts = -(-len(body) // size)
        run = Run(chunk.service, self.following, 1, chunk.to, 0, (), part, parts, len(body))
        piece = body[part * size : (part + 1) * size]
        if run.completes:
            self._part = 0
            self._left(chunk, 1, len(piece) + MESSAGE_OVERHEAD)
        else:
            self._part += 1
            self.bytes -= len(piece)
        return run, [piece]

    def _left(self, chunk: Chunk, count: int, size: int) -> None:
        self.following += count
        self.messages -= count
        self.bytes -= size
        chunk.taken += count
        if chunk.taken == len(chunk.ends):
            self._chunks.popleft()


class Assembly:
    """The parts of one sender's large message, as they enter, in order."""

    __slots__ = ("_number", "_parts")

    def __init__(self) -> None:
        self._number = 0
        self._parts: list[bytes] = []

    def add(self, run: Run, payload: bytes) -> bytes | None:
        """Take a part; the whole message with its last part, or None, also if a peer sent
        parts that do not make a message."""
        if run.part == 0:
            self._number = run.first
            self._parts.clear()
        if run.first != self._number or run.part != len(self._parts):
            return None
        self._parts.append(payload[run.offset : run.offset + run.lengths[0]])
        if not run.completes:
            return None
        whole = b"".join(self._parts)
        self._parts.clear()
        return whole if len(whole) == run.total else None
