"""The network between simulated machines: every link delays, loses, copies and reorders.

A broadcast is one transmission per receiving machine: links belong to the machines that the
scenario's members live on, whatever processes live there. Each link has a random generator
of its own, seeded by its two ends, so a scenario without one member or one fault treats the other
links as before, which makes shrinking work. Without `reorder_ppm` a link keeps the order of its
packets, as a switch does, and packets of one transmission arrive in one input.

This is half of the simulator's hot path (`World` is the other): plain loops, no objects per
packet; chances are compared with 20 random bits.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from phalanx.sim.connectivity import severed
from phalanx.sim.scenario.model import Burst, Scenario

Post = Callable[[int, int, list[bytes]], None]
"""(when, receiving machine's index, packets) into the event heap."""

_BITS = 20
_ALL = 1 << _BITS
_FLYING_MAX = 64
FLAPS_MIN = 3
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
    """A probability as a number of 2**20 draws; 1,000,000 ppm is all, 1 ppm at least one."""
    return -(-(ppm << _BITS) // 1_000_000)


class _Link:
    __slots__ = (
        "base",
        "bits",
        "blame",
        "cut",
        "delay",
        "duplicate",
        "flaps",
        "flying",
        "free_at",
        "jitter",
        "late",
        "loss",
        "muted",
        "name",
        "one_way",
        "plain",
        "reorder",
        "spacing",
        "to",
    )

    def __init__(
        self, name: tuple[str, str], to: int, seed: int, wire: dict[str, int], breaks: bool
    ) -> None:
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
        self.plain = not (self.duplicate or self.reorder or self.spacing or breaks)
        self.blame = "loss"
        """The fault that a loss is counted as."""
        self.cut = False
        self.one_way = False
        """It is cut, and the other direction is open."""
        self.muted = False
        """It has lost packets to such a cut that has not ended."""
        self.flaps = 0
        """How many cuts of this kind have ended."""
        self.free_at = 0
        self.flying: list[tuple[int, list[bytes]]] | None = [] if breaks else None
        """Packets in flight with their arrival times, kept where a crash or a break of a channel
        may lose them."""

    def draw(self, upto: int) -> int:
        """An integer in 0..upto."""
        return (self.bits(32) * (upto + 1)) >> 32


class Links:
    """All links of a scenario."""

    def __init__(self, scenario: Scenario, post: Post, faults: dict[str, int]) -> None:
        self._post = post
        self._faults = faults
        self._scenario = scenario
        names = scenario.members
        self._channels = scenario.network.channels
        doomed = [crash.member for crash in scenario.crash if crash.lose]
        self._from: list[list[_Link]] = [
            [
                _Link(
                    (a, b), j, scenario.seed, _wire(scenario, a, b), self._channels or a in doomed
                )
                for j, b in enumerate(names)
                if a != b or scenario.network.loopback
            ]
            for a in names
        ]

    def broadcast(self, now: int, sender: int, packets: list[bytes]) -> None:
        """Send packets, in order, to all other machines."""
        for link in self._from[sender]:
            kept = packets
            if link.loss:
                bits, loss = link.bits, link.loss
                kept = [packet for packet in packets if bits(_BITS) >= loss]
                if len(kept) < len(packets):
                    self._faults[link.blame] += len(packets) - len(kept)
                    if link.one_way:
                        link.muted = True
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
                if link.flying and len(link.flying) > _FLYING_MAX:
                    link.flying = [entry for entry in link.flying if entry[0] > now]
                self._one_by_one(at, link, kept)

    def _one_by_one(self, at: int, link: _Link, packets: list[bytes]) -> None:
        together: list[bytes] = []
        for packet in packets:
            if link.duplicate and link.bits(_BITS) < link.duplicate:
                self._faults["duplicate"] += 1
                self._fly(at + link.draw(link.late), link, [packet])
            if link.reorder and link.bits(_BITS) < link.reorder:
                self._faults["reorder"] += 1
                self._fly(at + 1 + link.draw(link.late), link, [packet])
            elif link.spacing:
                self._fly(at, link, [packet])
                at += link.spacing
            else:
                together.append(packet)
        if together:
            self._fly(at, link, together)
        link.free_at = at

    def _fly(self, at: int, link: _Link, packets: list[bytes]) -> None:
        if link.flying is not None:
            link.flying.append((at, packets))
        self._post(at, link.to, packets)

    def lose_flying(self, now: int, sender: int) -> None:
        """The machine's last packets never left it: each link keeps some of what has not yet
        arrived, by dice, and loses what was sent after that. Lists that were posted become
        empty."""
        for link in self._from[sender]:
            self._lose_last(now, link, "crash_loss")

    def _lose_last(self, now: int, link: _Link, blame: str) -> None:
        assert link.flying is not None, "only a planned crash or a channel loses packets"
        under_way = [packets for at, packets in link.flying if at > now]
        for packets in under_way[link.draw(len(under_way)) :]:
            self._faults[blame] += len(packets)
            packets.clear()
        link.flying.clear()

    def change_weather(self, now: int) -> None:
        """Call when a burst, a cut or a partition begins or ends: raises and lowers the chances
        of loss."""
        scenario = self._scenario
        active = [b for b in scenario.burst if b.at_ns <= now < b.at_ns + b.for_ns]
        is_severed = severed(scenario, now)
        for links in self._from:
            for link in links:
                was_cut, link.cut = link.cut, is_severed(*link.name)
                if self._channels and link.cut and not was_cut:
                    self._lose_last(now, link, "break_loss")
                link.one_way = link.cut and not is_severed(*reversed(link.name))
                if self._channels and link.cut is not was_cut:
                    broke = "break_one_way" if link.one_way else "break_both"
                    self._faults[broke if link.cut else "reconnect"] += 1
                if link.muted and not link.cut:
                    link.flaps, link.muted = link.flaps + 1, False
                worst = max((chance(b.loss_ppm) for b in active if _hits(b, link)), default=0)
                if link.cut:
                    link.blame, link.loss = "cut_off", _ALL
                elif worst > link.base:
                    link.blame, link.loss = "burst", worst
                else:
                    link.blame, link.loss = "loss", link.base

    def flapped(self) -> int:
        """How many directions of links were cut while the other was open, and opened again, lost
        packets each time, and that `FLAPS_MIN` times or more."""
        return sum(link.flaps >= FLAPS_MIN for links in self._from for link in links)

    def linked(self, one: int, other: int) -> bool:
        """Whether two machines hear each other. Bursts pass, links that always lose do not."""
        return one == other or (self._open(one, other) and self._open(other, one))

    def _open(self, sender: int, receiver: int) -> bool:
        link = next(link for link in self._from[sender] if link.to == receiver)
        return not link.cut and link.base < _ALL


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
