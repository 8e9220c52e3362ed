"""Messages in datagrams: a message that is longer than a packet travels in several fragments.

    magic 2s | version u8 | number u64 | index u16 | count u16 | part of the message

The number grows with each message of a sender. A lost fragment loses its message, as a lost
datagram does; the protocol above repeats what matters. `Reassembly` is bounded in messages, bytes
and time, whatever arrives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from struct import Struct

FRAGMENT_VERSION = 1
FRAGMENT_BYTES_MAX = 1150
"""The part of a message in one packet: below the smallest MTU of IPv6 (1280), with all headers and
a seal (48 bytes of IP and UDP, 48 of the seal, 15 here)."""
MESSAGE_BYTES_MAX = (4 << 20) + (32 << 10)
"""The largest message of the service, and the names it is for."""
PARTIAL_MESSAGES_MAX = 16
"""Messages of one sender that may be incomplete at a time."""
PARTIAL_BYTES_MAX = 32 << 20
"""Bytes of all incomplete messages."""
PARTIAL_NS = 2_000_000_000
"""How long an incomplete message is kept."""

_HEADER = Struct("<2sBQHH")
_MAGIC = b"PM"
_COUNT_MAX = -(-MESSAGE_BYTES_MAX // FRAGMENT_BYTES_MAX)


def fragments_of(message: bytes, number: int) -> list[bytes]:
    """The packets of a message. A message beyond the limit is a defect of the caller."""
    assert len(message) <= MESSAGE_BYTES_MAX, "a message beyond its bound"
    count = max(1, -(-len(message) // FRAGMENT_BYTES_MAX))
    return [
        _HEADER.pack(_MAGIC, FRAGMENT_VERSION, number, index, count)
        + message[index * FRAGMENT_BYTES_MAX : (index + 1) * FRAGMENT_BYTES_MAX]
        for index in range(count)
    ]


class _Partial:
    """One message of which fragments are missing."""

    __slots__ = ("count", "parts", "since_ns", "size")

    def __init__(self, count: int, since_ns: int) -> None:
        self.count = count
        self.since_ns = since_ns
        self.parts: dict[int, bytes] = {}
        self.size = 0


class Reassembly:
    """Puts the fragments of all senders together. `refused` counts packets that were dropped, by
    reason: `foreign`, `malformed`, `contradictory`; and incomplete messages that were given up
    as `incomplete` or `crowded`."""

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()
        self._partial: dict[tuple[Hashable, int], _Partial] = {}
        self._of_sender: Counter[Hashable] = Counter()
        self._bytes = 0

    @property
    def incomplete(self) -> int:
        """Messages of which fragments are missing."""
        return len(self._partial)

    def take(self, now: int, sender: Hashable, packet: bytes) -> bytes | None:
        """The message that this packet completes, or None."""
        if len(packet) < _HEADER.size or not packet.startswith(_MAGIC):
            return self._refuse("foreign")
        _, version, number, index, count = _HEADER.unpack_from(packet)
        part = packet[_HEADER.size :]
        full = len(part) == FRAGMENT_BYTES_MAX
        if version != FRAGMENT_VERSION or not index < count <= _COUNT_MAX:
            return self._refuse("malformed")
        if len(part) > FRAGMENT_BYTES_MAX or (index < count - 1 and not full):
            return self._refuse("malformed")
        if count == 1:
            return part
        self._expire(now)
        key = (sender, number)
        partial = self._partial.get(key)
        if partial is None:
            if not self._has_room(sender):
                return self._refuse("crowded")
            partial = self._partial[key] = _Partial(count, now)
            self._of_sender[sender] += 1
        if partial.count != count:
            return self._refuse("contradictory")
        if index not in partial.parts:
            if self._bytes + len(part) > PARTIAL_BYTES_MAX:
                return self._refuse("crowded")
            partial.parts[index] = part
            partial.size += len(part)
            self._bytes += len(part)
        if len(partial.parts) < count:
            return None
        self._forget(key)
        return b"".join(partial.parts[at] for at in range(count))

    def _has_room(self, sender: Hashable) -> bool:
        return (
            self._of_sender[sender] < PARTIAL_MESSAGES_MAX
            and len(self._partial) < PARTIAL_MESSAGES_MAX * 1024
        )

    def _expire(self, now: int) -> None:
        """Give up what has been incomplete for too long; the oldest stand first."""
        while self._partial:
            key, oldest = next(iter(self._partial.items()))
            if now - oldest.since_ns < PARTIAL_NS:
                return
            self._forget(key)
            self.refused["incomplete"] += 1

    def _forget(self, key: tuple[Hashable, int]) -> None:
        self._bytes -= self._partial.pop(key).size
        self._of_sender[key[0]] -= 1
        if not self._of_sender[key[0]]:
            del self._of_sender[key[0]]

    def _refuse(self, reason: str) -> bytes | None:
        self.refused[reason] += 1
        return None
