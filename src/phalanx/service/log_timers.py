"""What the log of a set waits for, and until when."""

from __future__ import annotations

from typing import Literal

import msgspec

from phalanx.core.deadline import NEVER

TimerName = Literal["ack", "commit", "election", "monitor"]


class LogTimers(msgspec.Struct, frozen=True):
    """`ends` are in the order in which the waits have begun."""

    ends: tuple[tuple[TimerName, int], ...] = ()

    @property
    def names(self) -> tuple[TimerName, ...]:
        return tuple(name for name, _ in self.ends)

    def armed(self, name: TimerName, at: int) -> LogTimers:
        return LogTimers((*self.without(name).ends, (name, at)))

    def without(self, *names: TimerName) -> LogTimers:
        return LogTimers(tuple(end for end in self.ends if end[0] not in names))

    def due(self, now: int) -> tuple[TimerName, ...]:
        return tuple(name for name, at in self.ends if at <= now)

    def deadline(self) -> int:
        return min((at for _, at in self.ends), default=NEVER)
