"""What is asked of the members of a trial, whichever system they belong to."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Literal, Protocol

import msgspec

from phalanx.benchmark.process_group import ProcessGroup

Mode = Literal["views", "flood", "latency"]


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """The same for all members of a trial."""

    mode: Mode
    """`flood`: send as fast as one may; `latency`: send now and then; `views`: send nothing."""
    size: int = 100
    service: str = "agreed"
    rate: float = 0.0
    """With `latency`: messages a second of each sender."""
    senders: int = 1 << 30
    """With `latency`: how many of the members send, the first ones."""

    def rate_of(self, i: int) -> float:
        return self.rate if i < self.senders else 0.0


class BenchmarkedSystem(Protocol):
    """A system that can be measured."""

    name: str
    """As it is told in results."""
    n: int
    """Members."""

    def crew(self, task: Trial) -> AbstractContextManager[ProcessGroup]:
        """Members for one trial, all in one view when the block begins."""
        ...
