"""Fault injection: cuts, losses and delays at one transport, without privileges.

Faults apply to incoming packets, because a sender of multicast cannot leave out a receiver: to cut
two members apart, cut at both. A fan-out transport addresses its receivers, so it also sends
nothing to addresses that are cut.

A fault names addresses, as in `Transport.address` and `group.address`, not members: a transport
sees where a packet comes from, and a member can appear at an address later. An argument that is not
an IP address with a port is refused, as it would never match a packet.

The methods that set and heal faults may be called from any thread; they replace one immutable plan.
The other methods belong to the thread of the transport, and each transport has its own injector.
With a seed, the same packets in the same order get the same faults.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from ipaddress import ip_address
from random import Random
from threading import Lock

from phalanx.errors import ConfigurationError
from phalanx.transport.addresses import host_and_port

WAITING_MAX = 65_536
"""Delayed packets beyond this number are lost: a fault must not use up the memory."""


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """The faults in force."""

    cut: frozenset[str] = frozenset()
    """No packets from these addresses, and with fan-out none to them."""
    cut_from: frozenset[str] = frozenset()
    """No packets from these addresses."""
    share: float = 0.0
    """The probability that an incoming packet is lost."""
    delay_ns: int = 0
    jitter_ns: int = 0
    """Incoming packets wait `delay_ns` and up to `jitter_ns` more."""
    random: Random = field(default_factory=lambda: Random(0), compare=False)

    def harmless(self) -> bool:
        return not (self.cut or self.cut_from or self.share or self.delay_ns or self.jitter_ns)


class FaultInjector:
    """The faults of one transport. Addresses are host:port, as in `Transport.address`."""

    def __init__(self) -> None:
        self.active = False
        """Whether the transport must ask `admit`: the only cost while there are no faults."""
        self.counts: Counter[str] = Counter()
        """The number of packets that were `cut`, `lost` and `delayed`."""
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
        """Drop packets from these addresses, and with fan-out send none to them. Raises
        ConfigurationError for an argument that is not an IP address with a port."""
        cut = _checked(addresses)
        with self._lock:
            self._set(replace(self._plan, cut=self._plan.cut | cut))

    def cut_from(self, *addresses: str) -> None:
        """Drop packets from these addresses. Raises as `cut` does."""
        cut = _checked(addresses)
        with self._lock:
            self._set(replace(self._plan, cut_from=self._plan.cut_from | cut))

    def lose(self, share: float, seed: int | None = None) -> None:
        """Drop each incoming packet with this probability."""
        if not 0 <= share <= 1:
            raise ConfigurationError("share", share, "must lie in 0..1")
        with self._lock:
            self._set(replace(self._plan, share=share, random=self._random(seed)))

    def delay(self, ns: int, jitter_ns: int = 0, seed: int | None = None) -> None:
        """Delay incoming packets; those of one source keep their order."""
        if ns < 0 or jitter_ns < 0:
            raise ConfigurationError("delay", (ns, jitter_ns), "must not be negative")
        with self._lock:
            plan = replace(self._plan, delay_ns=ns, jitter_ns=jitter_ns, random=self._random(seed))
            self._set(plan)

    def heal(self, *addresses: str) -> None:
        """End the cuts of these addresses; without arguments end all faults. Raises as `cut`
        does."""
        healed = _checked(addresses)
        with self._lock:
            if not addresses:
                self._set(FaultPlan())
                return
            plan = self._plan
            plan = replace(plan, cut=plan.cut - healed, cut_from=plan.cut_from - healed)
            self._set(plan)

    def _random(self, seed: int | None) -> Random:
        return self._plan.random if seed is None else Random(seed)

    def _set(self, plan: FaultPlan) -> None:
        """Call it under the lock. Delayed packets wait until they are due even if all is healed."""
        self._plan = plan
        self.active = not plan.harmless() or bool(self._waiting)

    # ------------------------------------------------- from the thread of the transport

    def reaches(self, address: str) -> bool:
        """Whether packets may go to this address."""
        return address not in self._plan.cut

    def hears(self, address: str) -> bool:
        """Whether packets from this address are not cut."""
        return address not in self._plan.cut and address not in self._plan.cut_from

    def admit(self, now: int, source: str, packets: list[bytes]) -> list[bytes]:
        """The packets from `source` that are received at once."""
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
            self._delay(now, source, packets, plan)
            return []
        return packets

    def _delay(self, now: int, source: str, packets: list[bytes], plan: FaultPlan) -> None:
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
        # Another thread may have healed everything since `plan` was read.
        self.active = True

    def deadline(self) -> int | None:
        """When the next delayed packet is due."""
        return self._waiting[0][0] if self._waiting else None

    def due(self, now: int) -> list[bytes]:
        """The delayed packets that are due, in order."""
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


def _checked(addresses: tuple[str, ...]) -> frozenset[str]:
    """The addresses as transports write them; ConfigurationError for anything else."""
    return frozenset(map(_checked_address, addresses))


def _checked_address(address: str) -> str:
    remedy = "give the address of a member as IP:port, as in its group.address"
    if not isinstance(address, str):
        raise ConfigurationError("addresses", address, remedy)
    try:
        host, port = host_and_port("addresses", address)
        # A link-local address has the name of its interface behind a %.
        ip, percent, interface = host.partition("%")
        host = f"{ip_address(ip)}{percent}{interface}"
    except ValueError:
        raise ConfigurationError("addresses", address, remedy) from None
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
