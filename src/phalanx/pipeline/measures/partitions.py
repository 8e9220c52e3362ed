"""Components of the group over time.

A component is a view in use: from the last installation by a member that ever installed it, to
when the first of these members installs another, or to the last end of their journals. Between two
views a member is in no component, so an orderly change shows no second one. Two views in use at
the same time are a partition, or members that have started and not yet discovered each other.

This needs one clock: simulated time; the clock of the machine, if all journals of the run are of
one boot of one machine; otherwise wall clocks, which may differ, and the result is approximate.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from phalanx.pipeline.group_tables import GroupTables
from phalanx.pipeline.history.clocks import NO_BOOT
from phalanx.pipeline.history.intervals import ViewInterval, intervals, labels

CommonClock = Literal["SIM", "BOOT", "WALL"]
Component = tuple[list[str], str]
"""Members, as `ada.2`, and their view."""


class PartitionInterval(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of time with the same components, in which some member was in a view."""

    cluster: str
    run: str
    group: str
    clock: CommonClock
    approximate: int
    """1 for WALL."""
    from_ns: int
    to_ns: int
    components: int
    """How many views were in use."""
    views: list[dict[str, str | list[str]]]
    """`view` and `members` (as `ada.2`) of each, in the order of members."""


def partitions(group: GroupTables) -> list[PartitionInterval]:
    """All stretches, in the order of time."""
    clock = common_clock(group)
    held = _held(group, clock)
    edges = sorted({at for begin, end, _ in held for at in (begin, end)})
    places = {at: place for place, at in enumerate(edges)}
    spans: list[list[Component]] = [[] for _ in edges]
    for begin, end, component in held:
        for place in range(places[begin], places[end]):
            spans[place].append(component)
    return [
        PartitionInterval(
            cluster=group.key.cluster,
            run=group.key.run,
            group=group.key.group,
            clock=clock,
            approximate=int(clock == "WALL"),
            from_ns=edges[place],
            to_ns=edges[place + 1],
            components=len(found),
            views=[{"view": view, "members": members} for members, view in sorted(found)],
        )
        for place, found in enumerate(spans)
        if found
    ]


def common_clock(group: GroupTables) -> CommonClock:
    """The clock by which all members of the group can be compared."""
    if all(facts.end_sim_ns is not None for facts in group.journals):
        return "SIM"
    boots = {facts.boot_id for facts in group.journals}
    return "BOOT" if len(boots) == 1 and not boots & {*NO_BOOT} else "WALL"


def _held(group: GroupTables, clock: CommonClock) -> list[tuple[int, int, Component]]:
    """Each view from when all that installed it had it to when the first went on."""
    by_view: dict[tuple[str, ...], list[ViewInterval]] = {}
    for one in intervals(group):
        members = labels(one.members, one.member_incarnations)
        by_view.setdefault((one.view, *members), []).append(one)
    kind = {"SIM": "sim_ns", "BOOT": "t_ns", "WALL": "wall_ns"}[clock]
    found = []
    for (view, *members), some in by_view.items():
        begins = [at for one in some if (at := getattr(one, f"from_{kind}")) is not None]
        ends = [(one.end, at) for one in some if (at := getattr(one, f"to_{kind}")) is not None]
        went_on = [at for end, at in ends if end == "VIEW"]
        if begins and ends:
            until = min(went_on) if went_on else max(at for _, at in ends)
            if max(begins) < until:
                found.append((max(begins), until, (members, view)))
    return found
