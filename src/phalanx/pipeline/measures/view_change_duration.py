"""Duration of view changes per member, from the first sign of the change to the view.

    suspicion    from the first suspicion of a member that the view lost, unless it was withdrawn,
                 to the first step; 0 if a change was already under way
    agreement    from the first step of the change (START or FA) to the view; where one change made
                 several views, from the first step that named a member that this view lost. An
                 abandoned change (FORGET) is not counted, nor are the steps before it.

Without a suspicion, as in a join or a leave, only `agreement` is set.
"""

from __future__ import annotations

from typing import Any

import msgspec

from phalanx.pipeline.group_tables import GroupTables
from phalanx.pipeline.history.clocks import own_time
from phalanx.pipeline.history.intervals import intervals
from phalanx.pipeline.history.removals import Departures, Steps, doubts

Install = tuple[str, int]
"""A journal, and the row that installs a view."""


class ViewChangeDuration(msgspec.Struct, frozen=True, kw_only=True):
    """A view but the first at a member, and how long the change to it took."""

    cluster: str
    run: str
    group: str
    member: str
    incarnation: int
    view: str
    previous: str
    cause: str
    gained: list[str] | None
    """Members, as `ada.2`."""
    lost: list[str] | None
    at_ns: int
    """When it was installed, by the member's clock, or simulated."""
    steps: int
    suspicion_ns: int | None
    agreement_ns: int | None
    took_ns: int | None
    """Both, from the first sign to the view."""


def changes(group: GroupTables) -> list[ViewChangeDuration]:
    """All changes, in the order of members and rows."""
    departures, steps = Departures(group), Steps(group)
    stepped: dict[Install, list[int]] = {}
    for row in steps.all:
        closed = steps.closed(row)
        if closed is not None and not steps.is_given_up(row):
            stepped.setdefault((row["journal"], closed), []).append(_at(row))
    named: dict[Install, list[int]] = {}
    for gone, row in steps.naming(departures):
        if not steps.is_given_up(row):
            named.setdefault((gone.journal, gone.to_lseq), []).append(_at(row))
    suspected: dict[Install, list[int]] = {}
    for gone, doubt in doubts(group, departures):
        if doubt.stands:
            suspected.setdefault((gone.journal, gone.to_lseq), []).append(_at(doubt.row))
    found = []
    for one in intervals(group):
        if one.previous is None:
            continue
        install = one.journal, one.from_lseq
        own = stepped.get(install, [])
        step = min([*own, *named.get(install, [])], default=None)
        sign = min(suspected.get(install, []), default=None)
        begin = min((at for at in (step, sign) if at is not None), default=None)
        suspicion = None
        if sign is not None:
            suspicion = 0 if step is None else max(0, step - sign)
        change = ViewChangeDuration(
            cluster=one.cluster,
            run=one.run,
            group=one.group,
            member=one.member,
            incarnation=one.incarnation,
            view=one.view,
            previous=one.previous,
            cause=one.cause,
            gained=one.gained,
            lost=one.lost,
            at_ns=one.from_ns,
            steps=len(own),
            suspicion_ns=suspicion,
            agreement_ns=None if step is None else one.from_ns - step,
            took_ns=None if begin is None else one.from_ns - begin,
        )
        found.append(change)
    return found


def _at(row: dict[str, Any]) -> int:
    return own_time(row["t_ns"], row["sim_ns"])
