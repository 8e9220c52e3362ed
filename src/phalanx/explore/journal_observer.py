"""Who watches a crowd and writes down what each member did, as rows of a journal.

So the checkers and the audit can be asked of a walk what `histories` says of it by itself. Time
stands still for the members; in the rows a millisecond passes with every step.
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
    """The journals of a crowd, in the order of what happened."""

    def __init__(self) -> None:
        self.rows: list[Event] = []
        self.settling_ns = 0
        """When everything healed; 0: it has not."""
        self._now = 0
        self._recorders: list[Recorder] = []
        self._components: list[list[str]] = []

    def began(self, me: MemberId, effects: Sequence[Effect]) -> None:
        """A member is there."""
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
        """Who of those that live reaches whom now."""
        self._now += STEP_NS
        for p in live:
            there = sorted(self._recorders[q].member.name for q in live if side[q] == side[p])
            if there != self._components[p]:
                self._components[p] = there
                self.rows.append(self._recorders[p].topology(self._now, there, self._now))

    def healed(self) -> None:
        """Nothing more is done to anybody."""
        self.settling_ns = self._now
