"""The bounded queue of bytes that wait to be written to one channel.

A slow or stalled peer must not slow the others: beyond the bound, copies for it are dropped whole,
and the core repairs the loss as it repairs lost packets. Bytes that were given to the socket are
never dropped in part, as the stream could not be followed any more; TLS also demands that a write
that did not finish is repeated with the same bytes. Pure.
"""

from __future__ import annotations

from collections import deque

JOIN_BYTES = 256 << 10
"""Waiting pieces are joined to writes of up to about this size."""


class SendQueue:
    """Pieces of a stream, each one or more whole records."""

    def __init__(self, bytes_max: int) -> None:
        self.size = 0
        """The bytes that wait."""
        self._bytes_max = bytes_max
        self._pieces: deque[bytes] = deque()
        self._written = 0
        """How much of the first piece has been written."""

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def put(self, piece: bytes, always: bool = False) -> bool:
        """Append a piece. Returns False if there is no room for it; `always` ignores the bound. An
        empty queue takes a piece of any size."""
        if self._pieces and not always and self.size + len(piece) > self._bytes_max:
            return False
        self._pieces.append(piece)
        self.size += len(piece)
        return True

    def head(self) -> memoryview:
        """The next bytes to write. Repeated calls return the same bytes, possibly with more behind
        them, until `wrote`."""
        pieces = self._pieces
        if len(pieces) > 1 and len(pieces[0]) < JOIN_BYTES:
            joined = [pieces.popleft()]
            size = len(joined[0])
            while pieces and size < JOIN_BYTES:
                joined.append(pieces.popleft())
                size += len(joined[-1])
            pieces.appendleft(b"".join(joined))
        return memoryview(pieces[0])[self._written :]

    def wrote(self, count: int) -> None:
        """The socket has taken this many bytes of `head`."""
        self._written += count
        self.size -= count
        if self._written == len(self._pieces[0]):
            self._pieces.popleft()
            self._written = 0

    def clear(self) -> None:
        """Forget all that waits: the connection is broken."""
        self._pieces.clear()
        self._written = self.size = 0
