"""Datagrams that no member meant: noise, and real packets cut, bent, foreign or stale."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

import msgspec

from phalanx.config import Config
from phalanx.core.effects import DeadlinePassed, Submit, Transmit
from phalanx.core.ids import View
from phalanx.sim.scenario import Nonsense
from phalanx.sim.seat import Maker


class Rubbish:
    """Makes garbage from dice and from what was lately on the network."""

    def __init__(self, seed: int, foreign: Callable[[], list[bytes]]) -> None:
        self._dice = Random(f"{seed} garbage")
        self._foreign = foreign
        self._abroad: list[bytes] | None = None
        self.seen: deque[bytes] = deque(maxlen=256)
        """Packets that were transmitted, the latest last; whoever transmits appends."""

    def make(self, kind: Nonsense) -> bytes:
        """One datagram. Before anything was transmitted every kind is noise."""
        dice = self._dice
        if kind == "foreign":
            if self._abroad is None:
                self._abroad = self._foreign()
            return dice.choice(self._abroad)
        if kind == "random" or not self.seen:
            return dice.randbytes(dice.randrange(1500))
        packet = self.seen[dice.randrange(len(self.seen))]
        if kind == "stale":
            return packet
        if kind == "truncated":
            return packet[: dice.randrange(len(packet))]
        bent = bytearray(packet)
        for _ in range(dice.randrange(1, 9)):
            bit = dice.randrange(len(bent) * 8)
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
