"""The network between simulated members: every link delays, loses, copies and reorders.

A broadcast is one transmission per receiver. Each link has dice of its own, seeded by its
two ends, so a scenario without one member or one fault treats the other links as before:
that is what makes shrinking work. Without `reorder_ppm` a link keeps the order of its packets,
as a switch does, and packets of one transmission arrive in one input.

This is half of the simulator's hot path (`World` is the other): plain loops, no objects per
packet; chances are compared with 20 random bits.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from phalanx.sim.scenario import Burst, Scenario

Post = Callable[[int, int, list[bytes]], None]
"""(when, receiver's index, packets) into the event heap."""

_BITS = 20
_WIRE = (
    "delay_ns",
    "jitter_ns",
    "loss_ppm",
    "duplicate_ppm",
    "reorder_ppm",
    "late_ns",
    "spacing_ns",
)


def chance(ppm: int) -> int:
    """So many of 2**20 draws; 1,000,000 ppm is all of them, 1 ppm is at least one."""
    return -(-(ppm << _BITS) // 1_000_000)


class _Link:
    __slots__ = (
        "base",
        "bits",
        "burst",
        "delay",
        "duplicate",
        "free_at",
        "jitter",
        "late",
        "loss",
        "name",
        "plain",
        "reorder",
        "spacing",
        "to",
    )

    def __init__(self, name: tuple[str, str], to: int, seed: int, wire: dict[str, int]) -> None:
        self.name = name
        self.to = to
        self.bits = Random(f"{seed} link {name[0]} {name[1]}").getrandbits
        self.delay = wire["delay_ns"]
        self.jitter = wire["jitter_ns"]
        self.base = self.loss = chance(wire["loss_ppm"])
        self.duplicate = chance(wire["duplicate_ppm"])
        self.reorder = chance(wire["reorder_ppm"])
        self.late = wire["late_ns"]
        self.spacing = wire["spacing_ns"]
        self.plain = not (self.duplicate or self.reorder or self.spacing)
        self.burst = False
        self.free_at = 0

    def draw(self, upto: int) -> int:
        """An integer in 0..upto."""
        return (self.bits(32) * (upto + 1)) >> 32


class Links:
    """All links of a scenario."""

    def __init__(self, scenario: Scenario, post: Post, faults: dict[str, int]) -> None:
        self._post = post
        self._faults = faults
        self._bursts = scenario.burst
        names = scenario.members
        self._from: list[list[_Link]] = [
            [
                _Link((a, b), j, scenario.seed, _wire(scenario, a, b))
                for j, b in enumerate(names)
                if a != b or scenario.network.loopback
            ]
            for a in names
        ]

    def broadcast(self, now: int, sender: int, packets: list[bytes]) -> None:
        """Send packets, in order, to everybody else."""
        for link in self._from[sender]:
            kept = packets
            if link.loss:
                bits, loss = link.bits, link.loss
                kept = [packet for packet in packets if bits(_BITS) >= loss]
                if len(kept) < len(packets):
                    kind = "burst" if link.burst else "loss"
                    self._faults[kind] += len(packets) - len(kept)
                    if not kept:
                        continue
            at = now + link.delay
            if link.jitter:
                at += (link.bits(32) * (link.jitter + 1)) >> 32
                self._faults["jitter"] += 1
            if at < link.free_at:
                at = link.free_at
            link.free_at = at
            if link.plain:
                self._post(at, link.to, kept)
            else:
                self._one_by_one(at, link, kept)

    def _one_by_one(self, at: int, link: _Link, packets: list[bytes]) -> None:
        together: list[bytes] = []
        for packet in packets:
            if link.duplicate and link.bits(_BITS) < link.duplicate:
                self._faults["duplicate"] += 1
                self._post(at + link.draw(link.late), link.to, [packet])
            if link.reorder and link.bits(_BITS) < link.reorder:
                self._faults["reorder"] += 1
                self._post(at + 1 + link.draw(link.late), link.to, [packet])
            elif link.spacing:
                self._post(at, link.to, [packet])
                at += link.spacing
            else:
                together.append(packet)
        if together:
            self._post(at, link.to, together)
        link.free_at = at

    def change_weather(self, now: int) -> None:
        """Call when a burst begins or ends: raises and lowers the chances of loss."""
        active = [b for b in self._bursts if b.at_ns <= now < b.at_ns + b.for_ns]
        for links in self._from:
            for link in links:
                worst = max((chance(b.loss_ppm) for b in active if _hits(b, link)), default=0)
                link.burst = worst > link.base
                link.loss = max(worst, link.base)


def _hits(burst: Burst, link: _Link) -> bool:
    sender, receiver = link.name
    return (burst.from_ is None or sender in burst.from_) and (
        burst.to is None or receiver in burst.to
    )


def _wire(scenario: Scenario, sender: str, receiver: str) -> dict[str, int]:
    """What a link does: the network's settings under those of each [[link]] that fits."""
    wire: dict[str, int] = {key: getattr(scenario.network, key) for key in _WIRE}
    for link in scenario.link:
        fits = (link.from_ is None or sender in link.from_) and (
            link.to is None or receiver in link.to
        )
        if fits:
            for key in _WIRE:
                value = getattr(link, key)
                if value is not None:
                    wire[key] = value
    return wire
