"""Where a simulated process sits: its core, its clock, its journal, and what waits for it.

A seat is one life of one process on one machine; machines are counted as the scenario's
members. A member is *free* unless it is paused or its last step still costs time. What comes to a
member that is not free waits here, packets up to the size of a socket buffer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from phalanx.config import Config
from phalanx.core.effects import Effect, Input, LinkStats
from phalanx.core.ids import MemberId, View
from phalanx.journal.recorder import Recorder
from phalanx.sim.scenario.model import Peculiarity
from phalanx.sim.traffic import PlannedSubmission


class Driven(Protocol):
    """What the simulator needs of a member: the contract of `core.member.Member`."""

    def start(self, now: int) -> list[Effect]: ...

    def step(self, now: int, given: Input) -> list[Effect]: ...

    def deadline(self) -> int | None: ...

    def validate(self, deep: bool) -> None: ...

    def story(self) -> list[str]: ...

    def links(self) -> list[LinkStats]: ...

    @property
    def settled(self) -> bool: ...

    @property
    def view(self) -> View: ...

    @property
    def have(self) -> Sequence[int]: ...


class Maker(Protocol):
    """How a member is made: the signature of `core.member.Member`."""

    def __call__(
        self, me: MemberId, view: View, group: str, config: Config, entropy: int
    ) -> Driven: ...


class SimProcess:
    """One process and everything about it that is not protocol."""

    __slots__ = (
        "accepted",
        "armed_at",
        "backlog",
        "base",
        "clock",
        "component",
        "cpu",
        "deadline",
        "frame_max",
        "free_at",
        "gone",
        "had",
        "have",
        "heir_waits",
        "inbox",
        "inbox_max",
        "leaving",
        "level",
        "machine",
        "me",
        "member",
        "orders",
        "own",
        "paused_until",
        "recorder",
        "refused",
        "saying",
        "spins",
        "started_ns",
        "step",
        "submitted",
        "view",
        "wake_at",
    )

    def __init__(
        self,
        member: Driven,
        recorder: Recorder,
        machine: int,
        own: Peculiarity,
        frame_max: int,
    ) -> None:
        self.me = recorder.member
        self.machine = machine
        self.own = own
        self.frame_max = frame_max
        self.member = member
        self.step = member.step
        self.deadline = member.deadline
        self.recorder = recorder
        self.clock = own.clock_ns
        self.cpu = own.cpu_ns
        self.inbox: list[bytes] = []
        self.inbox_max = own.inbox_packets
        self.backlog: deque[PlannedSubmission] = deque()
        self.accepted = self.submitted = self.refused = 0
        """Messages that the application handed over, that the member took, that were refused."""
        self.orders: list[Input] = []
        """What it is told to do once it is free."""
        self.started_ns = 0
        self.free_at = 0
        self.paused_until = 0
        self.wake_at = -1
        """When a wake event comes; -1 if none is under way."""
        self.armed_at = -1
        """When the next timer event comes; -1 if none is under way."""
        self.spins = 0
        """Deadlines in a row after which the deadline was still due."""
        self.saying = False
        self.leaving = False
        self.level = 0
        """How far its application is behind with reading, as it was last told."""
        self.gone = False
        self.heir_waits = False
        """A new process takes its place as soon as it is gone."""
        self.component: list[str] = []
        """Names of the processes it can exchange packets with, itself included."""
        self.view = member.view
        self.have = [0] * len(member.have)
        """What `member.view` and `member.have` were after its last step."""
        self.base: dict[MemberId, int] = {}
        """Per sender, where its frames begin in the present view."""
        self.had: dict[MemberId, int] = {}
        """Per sender, how many frames have ever been here."""

    @property
    def label(self) -> str:
        """Its name, with the incarnation if it is not the first."""
        return self.me.name if self.me.incarnation == 1 else str(self.me)

    def take(self, packets: list[bytes]) -> int:
        """Let packets wait; returns how many found no room and are lost."""
        room = self.inbox_max - len(self.inbox)
        self.inbox += packets[:room]
        return max(0, len(packets) - room)

    def end(self) -> int:
        """The process is no more; returns how many submissions it never took."""
        self.gone = True
        self.armed_at = -1
        self.inbox.clear()
        self.orders.clear()
        return self.refuse_all()

    def refuse_all(self) -> int:
        """What waits is not taken any more; returns how many submissions that are."""
        unsaid = len(self.backlog)
        self.refused += sum(len(submission.sizes) for submission in self.backlog)
        self.backlog.clear()
        return unsaid

    def last_words(self) -> list[str]:
        """The member's story; of a broken member at least that it has none."""
        try:
            return self.member.story()
        except Exception as error:
            return [f"no story: {type(error).__name__}: {error}"]
