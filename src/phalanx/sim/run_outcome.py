"""The raw outcome of a simulated scenario: rows, faults and coverage, not yet checked."""

from __future__ import annotations

import msgspec

from phalanx.journal.schema import Event
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
    "partition",
    "heal",
    "cut",
    "cut_off",
    "crash",
    "crash_proposing",
    "crash_loss",
    "break_loss",
    "break_one_way",
    "break_both",
    "reconnect",
    "restart",
    "leave",
    "imposter",
    "break",
    "reader",
    "clock",
    "busy",
    "role",
    "replayed",
    "forged",
    "no_receiver",
    "unsaid",
)
"""What is counted of what really happened in a run. Packets: loss, burst (lost in one), cut_off
(lost to a cut or a partition), crash_loss (taken along by their sender), break_loss (under way when
a channel broke), duplicate, reorder, overflow (lost at a member that did not read), garbage, and of
that replayed and forged.
Transmissions: jitter. Inputs: slow (waited for a busy member), batch (several packets at once).
Directions of channels: break_one_way, break_both (the other direction was down or broke too),
reconnect.
Events of the tables: pause, partition, heal, cut, crash (crash_proposing: of those, the ones that
waited for a proposal), restart, leave, imposter, break, reader (a
level over 0 that a member was given), clock, busy, role.
Submissions: subset, outbox_full (refused for now), no_receiver (nobody of `to` was in the view),
unsaid (their member was gone or going). Messages: large (over a frame). Times the window closed:
window_closed."""

Inserted = dict[tuple[str, int, str, int, int], int]
"""(holder's name and incarnation, sender's name and incarnation, frame number) to when the frame
entered the holder's DAG."""


class RunOutcome(msgspec.Struct):
    """Rows in the order of events, facts that only the simulator knows, and how the run ended."""

    rows: list[Event]
    inserted: Inserted
    library: Library
    faults: dict[str, int]
    cases: dict[str, int]
    """Situations that the protocol went through: see `coverage`."""
    steps: int
    sim_ns: int
    stuck: str | None
    """Why the run was given up before every member had settled."""
    exhausted: bool
    """It was given up for its number of steps; more of them might have settled it."""
    exception: str | None
    """The traceback of an exception that left the core."""
    stories: dict[str, list[str]]
    """The story of each live process at the end."""
