"""What came of playing a scenario, before anybody judged it."""

from __future__ import annotations

import msgspec

from phalanx.journal.events import Event
from phalanx.sim.traffic import Library

FAULTS = (
    "loss",
    "burst",
    "duplicate",
    "reorder",
    "jitter",
    "pause",
    "slow",
    "overflow",
    "batch",
    "garbage",
    "subset",
    "large",
    "window_closed",
    "outbox_full",
)
"""What is counted of what really happened in a run. Packets: loss, burst (lost in one),
duplicate, reorder, overflow (lost at a member that did not read), garbage. Transmissions:
jitter. Inputs: slow (waited for a busy member), batch (several packets at once). Pauses.
Submissions: subset, outbox_full (refused for now). Messages: large (over a frame). Times the
window closed: window_closed."""


class Outcome(msgspec.Struct):
    """Rows in the order of events, what an all-knowing observer saw, and how it ended."""

    rows: list[Event]
    inserted: dict[tuple[str, str, int], int]
    """(holder, sender, frame number) to when the frame entered the holder's DAG."""
    library: Library
    faults: dict[str, int]
    steps: int
    sim_ns: int
    stuck: str | None
    """Why the run was given up before every member had settled."""
    exception: str | None
    """The traceback of what left the core, where nothing must."""
    stories: dict[str, list[str]]
    """What each member says about its state at the end."""
