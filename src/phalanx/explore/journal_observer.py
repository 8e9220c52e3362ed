"""Records what the members of a live group do, as rows of a journal.

With the rows, the checkers and the audit can judge a walk independently of `member_history`. The
members' clock stands still; in the rows a millisecond passes with every step.
"""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.core.effects import Effect, Stopped
from phalanx.core.ids import MemberId
from phalanx.explore.frozen_member import GROUP
from phalanx.journal.recorder import Recorder
from phalanx.journal.schema import Event

STEP_NS = 1_000_000


class JournalObserver:
    """The journal rows of a group, in the order of its steps."""

    def __init__(self) -> None:
        self.rows: list[Event] = []
        self.settling_ns = 0
        """Time at which the network healed for good; 0 if it has not."""
        self._now = 0
        self._recorders: list[Recorder] = []
        self._components: list[list[str]] = []

    def began(self, me: MemberId, effects: Sequence[Effect]) -> None:
        """A member has started."""
        recorder = Recorder("walk", GROUP, me)
        self._recorders.append(recorder)
        self._components.append([])
        self.rows.append(recorder.start(self._now, self._now))
        self.rows += recorder.record(self._now, effects, self._now)

    def did(self, p: int, effects: Sequence[Effect]) -> None:
        self._now += STEP_NS
        recorder = self._recorders[p]
        self.rows += recorder.record(self._now, effects, self._now)
        for effect in effects:
            if isinstance(effect, Stopped):
                self.rows.append(recorder.stop(self._now, self._now, effect.reason))

    def crashed(self, p: int) -> None:
        self._now += STEP_NS
        self.rows.append(self._recorders[p].crash(self._now, self._now))

    def parted(self, live: Sequence[int], side: Sequence[int]) -> None:
        """The sides of the network have changed."""
        self._now += STEP_NS
        for p in live:
            there = sorted(self._recorders[q].member.name for q in live if side[q] == side[p])
            if there != self._components[p]:
                self._components[p] = there
                self.rows.append(self._recorders[p].topology(self._now, there, self._now))

    def healed(self) -> None:
        """The network has healed, and no further faults follow."""
        self.settling_ns = self._now
