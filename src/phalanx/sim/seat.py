"""Where a simulated member sits: its core, its clock, its journal, and what waits for it.

A member is *free* unless it is paused or its last step still costs time. What comes to a
member that is not free waits here, packets up to the size of a socket buffer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from phalanx.config import Config
from phalanx.core.effects import Effect, Given
from phalanx.core.ids import MemberId, View
from phalanx.journal.recorder import Recorder
from phalanx.sim.scenario import Peculiarity
from phalanx.sim.traffic import Submission


class Driven(Protocol):
    """What the simulator needs of a member: the contract of `core.member.Member`."""

    def start(self, now: int) -> list[Effect]: ...

    def step(self, now: int, given: Given) -> list[Effect]: ...

    def deadline(self) -> int | None: ...

    def story(self) -> list[str]: ...

    @property
    def settled(self) -> bool: ...

    @property
    def have(self) -> Sequence[int]: ...


class Maker(Protocol):
    """How a member is made: the signature of `core.member.Member`."""

    def __call__(
        self, me: MemberId, view: View, group: str, config: Config, entropy: int
    ) -> Driven: ...


class Seat:
    """One member and everything about it that is not protocol."""

    __slots__ = (
        "armed_at",
        "backlog",
        "clock",
        "cpu",
        "deadline",
        "frame_max",
        "free_at",
        "have",
        "inbox",
        "inbox_max",
        "member",
        "name",
        "paused_until",
        "recorder",
        "saying",
        "spins",
        "step",
        "wake_at",
    )

    def __init__(
        self, member: Driven, recorder: Recorder, own: Peculiarity, frame_max: int
    ) -> None:
        self.name = own.name
        self.frame_max = frame_max
        self.member = member
        self.step = member.step
        self.deadline = member.deadline
        self.recorder = recorder
        self.clock = own.clock_ns
        self.cpu = own.cpu_ns
        self.inbox: list[bytes] = []
        self.inbox_max = own.inbox_packets
        self.backlog: deque[Submission] = deque()
        self.free_at = 0
        self.paused_until = 0
        self.wake_at = -1
        """When a wake event comes; -1 if none is under way."""
        self.armed_at = -1
        """When the next timer event comes; -1 if none is under way."""
        self.spins = 0
        """Deadlines in a row after which the deadline was still due."""
        self.saying = False
        self.have = [0] * len(member.have)
        """What `member.have` was after its last step."""

    def take(self, packets: list[bytes]) -> int:
        """Let packets wait; returns how many found no room and are lost."""
        room = self.inbox_max - len(self.inbox)
        self.inbox += packets[:room]
        return max(0, len(packets) - room)

    def last_words(self) -> list[str]:
        """The member's story; of a broken member at least that it has none."""
        try:
            return self.member.story()
        except Exception as error:
            return [f"no story: {type(error).__name__}: {error}"]
