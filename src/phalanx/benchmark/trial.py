"""The description of a trial, and the interface of a benchmarked system."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Literal, Protocol

import msgspec

from phalanx.benchmark.process_group import ProcessGroup

Mode = Literal["views", "flood", "latency"]


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """The same for all members of a trial."""

    mode: Mode
    """`flood`: send as fast as possible; `latency`: send at a low rate; `views`: send nothing."""
    size: int = 100
    service: str = "agreed"
    rate: float = 0.0
    """With `latency`: messages per second of each sender."""
    senders: int = 1 << 30
    """With `latency`: how many members send."""

    def rate_of(self, i: int) -> float:
        return self.rate if i < self.senders else 0.0


class BenchmarkedSystem(Protocol):
    """A system that can be measured."""

    name: str
    """Its name in the results."""
    n: int
    """Members."""

    def start_group(self, task: Trial) -> AbstractContextManager[ProcessGroup]:
        """Start the members of one trial; all are in one view when the block begins."""
        ...
