"""Faults on demand: cuts, losses and delays at one link, without rights on the machine.

A fault is made where packets come in, because a sender of multicast cannot leave anybody out: to
cut two members apart, cut at both. Where a link addresses its receivers (fan-out) it also sends
nothing to those that are cut.

The methods that make and mend faults may be called from any thread; they replace one immutable
plan. The rest belongs to the thread of the link, and each link has its own Faults. With
a seed, the same packets in the same order meet the same fate.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from random import Random
from threading import Lock

from phalanx.errors import ConfigurationError

WAITING_MAX = 65_536
"""Delayed packets beyond this many are lost: a fault must not eat the memory."""


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """What is wrong with the network at the moment."""

    cut: frozenset[str] = frozenset()
    """Nothing comes from these, nothing goes to them where the link can choose."""
    cut_from: frozenset[str] = frozenset()
    """Nothing comes from these."""
    share: float = 0.0
    """How many of the packets that come in are lost, as a probability."""
    delay_ns: int = 0
    jitter_ns: int = 0
    """Packets that come in wait `delay_ns` and up to `jitter_ns` more."""
    random: Random = field(default_factory=lambda: Random(0), compare=False)

    def harmless(self) -> bool:
        return not (self.cut or self.cut_from or self.share or self.delay_ns or self.jitter_ns)


class FaultInjector:
    """The faults of one link. Addresses are host:port, as in `Link.address`."""

    def __init__(self) -> None:
        self.active = False
        """Whether the link needs to ask at all: all that a sound network costs."""
        self.counts: Counter[str] = Counter()
        """Packets that faults took: `cut`, `lost`, `delayed`."""
        self._plan = FaultPlan()
        self._lock = Lock()
        self._waiting: list[tuple[int, int, bytes]] = []  # due, arrival, packet: a heap
        self._arrivals = 0
        self._last_due: dict[str, int] = {}

    @property
    def plan(self) -> FaultPlan:
        return self._plan

    # ------------------------------------------------- from any thread

    def cut(self, *addresses: str) -> None:
        """No packet from these comes in, and none goes out to them where the link can choose."""
        with self._lock:
            self._set(replace(self._plan, cut=self._plan.cut | set(addresses)))

    def cut_from(self, *addresses: str) -> None:
        """No packet from these comes in."""
        with self._lock:
            self._set(replace(self._plan, cut_from=self._plan.cut_from | set(addresses)))

    def lose(self, share: float, seed: int | None = None) -> None:
        """Each packet that comes in is lost with this probability."""
        if not 0 <= share <= 1:
            raise ConfigurationError("share", share, "must lie in 0..1")
        with self._lock:
            self._set(replace(self._plan, share=share, random=self._dice(seed)))

    def delay(self, ns: int, jitter_ns: int = 0, seed: int | None = None) -> None:
        """Packets that come in wait; those of one source keep their order."""
        if ns < 0 or jitter_ns < 0:
            raise ConfigurationError("delay", (ns, jitter_ns), "must not be negative")
        with self._lock:
            plan = replace(self._plan, delay_ns=ns, jitter_ns=jitter_ns, random=self._dice(seed))
            self._set(plan)

    def heal(self, *addresses: str) -> None:
        """No more cuts to and from these; without addresses no more faults of any kind."""
        with self._lock:
            if not addresses:
                self._set(FaultPlan())
                return
            healed = set(addresses)
            plan = self._plan
            plan = replace(plan, cut=plan.cut - healed, cut_from=plan.cut_from - healed)
            self._set(plan)

    def _dice(self, seed: int | None) -> Random:
        return self._plan.random if seed is None else Random(seed)

    def _set(self, plan: FaultPlan) -> None:
        """Under the lock. What waits stays until it is due, also when all is healed."""
        self._plan = plan
        self.active = not plan.harmless() or bool(self._waiting)

    # ------------------------------------------------- from the thread of the link

    def reaches(self, address: str) -> bool:
        """Whether packets may go to this address."""
        return address not in self._plan.cut

    def hears(self, address: str) -> bool:
        """Whether packets may come from this address, those that are lost left aside."""
        return address not in self._plan.cut and address not in self._plan.cut_from

    def admit(self, now: int, source: str, packets: list[bytes]) -> list[bytes]:
        """Of the packets that came from `source` those that are let in at once."""
        plan = self._plan
        if source in plan.cut or source in plan.cut_from:
            self.counts["cut"] += len(packets)
            return []
        if plan.share:
            draw = plan.random.random
            kept = [packet for packet in packets if draw() >= plan.share]
            self.counts["lost"] += len(packets) - len(kept)
            packets = kept
        if plan.delay_ns or plan.jitter_ns or self._last_due.get(source, 0) > now:
            self._put_off(now, source, packets, plan)
            return []
        return packets

    def _put_off(self, now: int, source: str, packets: list[bytes], plan: FaultPlan) -> None:
        for packet in packets:
            if len(self._waiting) >= WAITING_MAX:
                self.counts["lost"] += 1
                continue
            jitter = plan.random.randrange(plan.jitter_ns) if plan.jitter_ns else 0
            due = max(now + plan.delay_ns + jitter, self._last_due.get(source, 0))
            self._last_due[source] = due
            self._arrivals += 1
            heappush(self._waiting, (due, self._arrivals, packet))
            self.counts["delayed"] += 1
        # Somebody may have healed everything since `plan` was read.
        self.active = True

    def deadline(self) -> int | None:
        """When the next packet that waits is due."""
        return self._waiting[0][0] if self._waiting else None

    def due(self, now: int) -> list[bytes]:
        """The packets whose wait is over, in order."""
        out: list[bytes] = []
        if not self._waiting:
            return out
        while self._waiting and self._waiting[0][0] <= now:
            out.append(heappop(self._waiting)[2])
        if not self._waiting:
            with self._lock:
                self._last_due.clear()
                self.active = not self._plan.harmless()
        return out
