"""Corrupt datagrams: noise; truncated, flipped, foreign, stale and replayed packets; forgeries."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

import msgspec

from phalanx.config import Config
from phalanx.core.effects import DeadlinePassed, Submit, Transmit
from phalanx.core.ids import View
from phalanx.sim.faults.forged_packets import PacketForger
from phalanx.sim.process import Maker
from phalanx.sim.scenario.model import Nonsense

ARCHIVE_MAX = 1024


class PacketLog:
    """Packets from all over a run: every one, then every second, every fourth and so on, so that
    no time of it weighs more than another and memory stays bounded."""

    def __init__(self) -> None:
        self.kept: list[bytes] = []
        self._seen = 0
        self._stride = 1

    def append(self, packet: bytes) -> None:
        if self._seen % self._stride == 0:
            self.kept.append(packet)
            if len(self.kept) >= ARCHIVE_MAX:
                self.kept = self.kept[::2]
                self._stride *= 2
        self._seen += 1


class CorruptPackets:
    """Makes random garbage, also from packets that were on the network."""

    def __init__(self, seed: int, foreign: Callable[[], list[bytes]], forger: PacketForger) -> None:
        self._rng = Random(f"{seed} garbage")
        self._foreign = foreign
        self._forger = forger
        self._abroad: list[bytes] | None = None
        self.seen: deque[bytes] = deque(maxlen=256)
        """Packets that were transmitted, the latest last; each transmission appends."""
        self.archive = PacketLog()
        """The same, from any time."""

    def make(self, kind: Nonsense) -> bytes:
        """One datagram. Before anything was transmitted every kind is noise."""
        rng = self._rng
        if kind == "foreign":
            if self._abroad is None:
                self._abroad = self._foreign()
            return rng.choice(self._abroad)
        if kind == "forged":
            return self._forger.packet()
        if kind == "random" or not self.seen:
            return rng.randbytes(rng.randrange(1500))
        if kind == "replayed":
            return rng.choice(self.archive.kept)
        packet = self.seen[rng.randrange(len(self.seen))]
        if kind == "stale":
            return packet
        if kind == "truncated":
            return packet[: rng.randrange(len(packet))]
        bent = bytearray(packet)
        for _ in range(rng.randrange(1, 9)):
            bit = rng.randrange(len(bent) * 8)
            bent[bit >> 3] ^= 1 << (bit & 7)
        return bytes(bent)


def foreign_packets(make: Maker, view: View, group: str, config: Config) -> list[bytes]:
    """What a member of another cluster says that has the names of this one."""
    elsewhere = msgspec.structs.replace(config, cluster="elsewhere")
    stranger = make(view.members[0], view, group, elsewhere, 1)
    effects = stranger.start(0) + stranger.step(1, Submit([b"foreign"] * 3))
    for _ in range(8):
        due = stranger.deadline()
        if due is not None:
            effects += stranger.step(due, DeadlinePassed())
    return [p for e in effects if isinstance(e, Transmit) for p in e.packets] or [b""]
