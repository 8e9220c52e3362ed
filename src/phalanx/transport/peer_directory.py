"""The addresses of a mesh: where peers may be, and when to call which of them.

Addresses come from the configuration and the name service (seeds), and from connected peers. A call
that fails is repeated after 50 ms, doubling up to 2 s, with jitter, without end for seeds and for a
day for other addresses that were connected once. Two signs that a fault of the network has ended
shorten the wait: when a member that did not answer before is connected again, all others are called
soon; when a connected member reports that it is connected to an address, that address is. An
address that turns out to be this member, or another address of a connected peer, is not called.

Of two members that learn of each other by a third one, the lower name calls at once and the other a
little later, so that most pairs open one channel and not two.

Pure: time comes in as `now`, randomness as a seeded Random.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from random import Random

from phalanx.transport.addresses import SocketAddress

MS = 1_000_000
SECOND = 1_000 * MS
RETRY_NS_MIN = 50 * MS
RETRY_NS_MAX = 2 * SECOND
YIELD_NS = 400 * MS
"""How much later the higher name calls, unless handshakes take long (`handshake_pace.py`)."""
FAULT_FAILURES = 3
"""After so many failed calls, a channel to an address is a sign that a fault has ended."""
UNPROVEN_NS = 60 * SECOND
"""An address that others report and that never answered is forgotten after this time."""
FORGOTTEN_NS = 86_400 * SECOND
SELF_NS = 60 * SECOND
"""An address of this member itself is tried again after this time."""
TABLE_MAX = 1024

PeerKey = tuple[str, int, bytes]
"""Names a process: `ChannelHello.key`."""


@dataclass(slots=True)
class DialEntry:
    """One address and the state of the calls to it."""

    due_ns: int
    named_ns: int
    """When somebody last reported it, or it was last connected."""
    seed: bool = False
    calling: bool = False
    called_ns: int = 0
    """When the call that is under way began."""
    failures: int = 0
    key: PeerKey | None = None
    """The process that answered there last."""


class PeerDirectory:
    """Which addresses to call, and when."""

    def __init__(self, own: PeerKey, random: Random) -> None:
        self.counts: Counter[str] = Counter()
        """Addresses that were not taken: `table-full`."""
        self.yield_ns = YIELD_NS
        self._own = own
        self._random = random
        self._entries: dict[SocketAddress, DialEntry] = {}

    @property
    def addresses(self) -> list[SocketAddress]:
        return list(self._entries)

    # ------------------------------------------------- sources of addresses

    def seeds(self, now: int, addresses: Iterable[SocketAddress]) -> None:
        """Replace the addresses from the configuration and the name service."""
        current = set(addresses)
        for address, entry in self._entries.items():
            entry.seed = address in current
        for address in sorted(current - self._entries.keys()):
            self._add(address, DialEntry(now, now, seed=True))

    def told(self, now: int, name: str, address: SocketAddress) -> bool:
        """A connected peer reports that it is connected to this address. Returns whether a call may
        be due sooner for it."""
        entry = self._entries.get(address)
        if entry is None:
            # A namesake is called at once: a name is claimed only for the first tenth of a second.
            calls_first = self._own[0] <= name
            self._add(address, DialEntry(now if calls_first else now + self.yield_ns, now))
            return True
        entry.named_ns = now
        if entry.failures:
            self._call_soon(now, entry)
        return entry.failures > 0

    def _add(self, address: SocketAddress, entry: DialEntry) -> None:
        if len(self._entries) >= TABLE_MAX:
            self.counts["table-full"] += 1
            return
        self._entries[address] = entry

    # ------------------------------------------------- calls

    def called(self, now: int, address: SocketAddress) -> None:
        """A call to the address begins."""
        entry = self._entries[address]
        entry.calling, entry.called_ns = True, now

    def failed(self, now: int, address: SocketAddress) -> None:
        """The call failed, or was refused. The pause begins with the call: one that nobody answered
        has taken time already."""
        entry = self._entries.get(address)
        if entry is None:
            return
        began = entry.called_ns if entry.calling else now
        entry.calling = False
        pause = min(RETRY_NS_MIN << min(entry.failures, 10), RETRY_NS_MAX)
        entry.failures += 1
        entry.due_ns = max(now, began + pause * 3 // 4 + self._random.randrange(pause // 2))

    def _call_soon(self, now: int, entry: DialEntry) -> None:
        entry.due_ns = min(entry.due_ns, now + self._random.randrange(RETRY_NS_MIN))

    def is_self(self, now: int, address: SocketAddress) -> None:
        """This member answered its own call. Another one may have the address some day."""
        entry = self._entries.get(address)
        if entry is not None:
            entry.calling = False
            entry.key = None
            entry.due_ns = now + SELF_NS

    def connected(self, now: int, address: SocketAddress, key: PeerKey) -> bool:
        """A channel to the process at this address is up; the process may have called us. Returns
        whether this is a sign that a fault has ended."""
        entry = self._entries.get(address)
        if entry is None:
            entry = DialEntry(now, now)
            self._add(address, entry)
        is_end_of_fault = entry.failures >= FAULT_FAILURES
        if is_end_of_fault:
            for other in self._entries.values():
                other.failures = 0
                self._call_soon(now, other)
        entry.calling = False
        entry.failures = 0
        entry.key = key
        entry.named_ns = now
        entry.due_ns = now
        return is_end_of_fault

    def lost(self, now: int, address: SocketAddress) -> None:
        """The channel to this address is gone."""
        self.failed(now, address)
        entry = self._entries.get(address)
        if entry is not None and entry.key is not None and entry.key < self._own:
            entry.due_ns += self.yield_ns  # the lower name calls first

    def hurry(self, now: int) -> None:
        """Call all that are not connected soon: a fault has ended."""
        for entry in self._entries.values():
            entry.failures = 0
            entry.due_ns = min(entry.due_ns, now)

    def due(self, now: int, connected: Collection[PeerKey], most: int) -> list[SocketAddress]:
        """Up to `most` addresses to call now, the longest overdue first."""
        self._forget(now, connected)
        due = [
            (entry.due_ns, address)
            for address, entry in self._entries.items()
            if entry.due_ns <= now and self._is_open(entry, connected)
        ]
        return [address for _, address in sorted(due)[:most]]

    def deadline(self, connected: Collection[PeerKey]) -> int | None:
        """When the next call is due; None if there is nobody to call."""
        return min(
            (e.due_ns for e in self._entries.values() if self._is_open(e, connected)), default=None
        )

    def _is_open(self, entry: DialEntry, connected: Collection[PeerKey]) -> bool:
        """Whether nobody known is at this address, or somebody who is not connected."""
        return not entry.calling and entry.key not in connected

    def _forget(self, now: int, connected: Collection[PeerKey]) -> None:
        for address, entry in list(self._entries.items()):
            limit = UNPROVEN_NS if entry.key is None else FORGOTTEN_NS
            if entry.seed or entry.calling or entry.key in connected:
                continue
            if now - entry.named_ns > limit:
                del self._entries[address]
