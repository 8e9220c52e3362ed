"""A simulated process: its protocol core, its clock, its journal and its queues.

A SimProcess is one incarnation of a member on one machine; machines have the numbers of the
scenario's members. A process is *free* unless it is paused or its last step still takes CPU time.
Input to a process that is not free waits here; packets wait up to the size of a socket buffer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from phalanx.config import Config
from phalanx.core.effects import Effect, Input, LinkStats
from phalanx.core.ids import MemberId, View
from phalanx.journal.recorder import Recorder
from phalanx.sim.scenario.model import Peculiarity
from phalanx.sim.traffic import PlannedSubmission


class Driven(Protocol):
    """The interface of `core.member.Member` that the simulator uses."""

    def start(self, now: int) -> list[Effect]: ...

    def step(self, now: int, given: Input) -> list[Effect]: ...

    def deadline(self) -> int | None: ...

    def validate(self, deep: bool) -> None: ...

    def story(self) -> list[str]: ...

    def links(self) -> list[LinkStats]: ...

    @property
    def situations(self) -> Mapping[str, int]: ...

    @property
    def settled(self) -> bool: ...

    @property
    def role_is_set(self) -> bool: ...

    @property
    def view(self) -> View: ...

    @property
    def have(self) -> Sequence[int]: ...


class Maker(Protocol):
    """Constructor of a member: the signature of `core.member.Member`."""

    def __call__(
        self, me: MemberId, view: View, group: str, config: Config, entropy: int
    ) -> Driven: ...


class SimProcess:
    """One process: a protocol core and all state of the process outside it."""

    __slots__ = (
        "accepted",
        "armed_at",
        "backlog",
        "base",
        "clock",
        "component",
        "contested",
        "cpu",
        "deadline",
        "frame_max",
        "free_at",
        "gone",
        "had",
        "have",
        "restart_pending",
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
        """Inputs of the scenario that it takes once it is free."""
        self.started_ns = 0
        self.free_at = 0
        self.paused_until = 0
        self.wake_at = -1
        """Time of the next wake event; -1 if none is scheduled."""
        self.armed_at = -1
        """Time of the next timer event; -1 if none is scheduled."""
        self.spins = 0
        """Deadlines in a row after which the deadline was still due."""
        self.saying = False
        self.leaving = False
        self.level = 0
        """How far its application is behind with reading, as last reported to the member."""
        self.gone = False
        self.restart_pending = False
        """A new process of the member starts as soon as this one has ended."""
        self.component: list[str] = []
        """Names of the processes it can exchange packets with, itself included."""
        self.contested = False
        """It has reported that another process has its name: it stays alone meanwhile."""
        self.view = member.view
        self.have = [0] * len(member.have)
        """What `member.view` and `member.have` were after its last step."""
        self.base: dict[MemberId, int] = {}
        """Per sender, where its frames begin in the present view."""
        self.had: dict[MemberId, int] = {}
        """Per sender, the last frame that this process has had in any view."""

    @property
    def label(self) -> str:
        """The name of the member, with the incarnation unless it is the first."""
        return self.me.name if self.me.incarnation == 1 else str(self.me)

    def take(self, packets: list[bytes]) -> int:
        """Queue packets; return how many were lost because the queue is full."""
        room = self.inbox_max - len(self.inbox)
        self.inbox += packets[:room]
        return max(0, len(packets) - room)

    def end(self) -> int:
        """End the process; return how many submissions it never took."""
        self.gone = True
        self.armed_at = -1
        self.inbox.clear()
        self.orders.clear()
        return self.refuse_all()

    def refuse_all(self) -> int:
        """Refuse all queued submissions; return how many they are."""
        dropped = len(self.backlog)
        self.refused += sum(len(submission.sizes) for submission in self.backlog)
        self.backlog.clear()
        return dropped

    def story_or_error(self) -> list[str]:
        """The member's story; for a member that cannot tell it, the error."""
        try:
            return self.member.story()
        except Exception as error:
            return [f"no story: {type(error).__name__}: {error}"]
