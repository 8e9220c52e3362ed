"""View transitions: the members that went from a view to the same next view, or ended in it.

Agreed delivery is not uniform: once a view change has decided without it, a member that crashed,
left or was cut off may have delivered messages that the others order differently or never deliver.
So among the members that ended in a view which others left, only living ones are compared. A torn
journal may lack the installation that shows where its member went.
"""

from __future__ import annotations

from typing import NamedTuple

from phalanx.verify.checkers.member_names import Member
from phalanx.verify.checkers.trace import DeliveredRange, Trace


class ViewTransition(NamedTuple):
    """Members that installed `after` directly after `view`, or ended in `view` (None), with their
    deliveries in it except basic messages."""

    view: str
    after: str | None
    parts: dict[Member, list[DeliveredRange]]

    def __str__(self) -> str:
        return self.view if self.after is None else f"{self.view} before {self.after}"


def routes(trace: Trace) -> list[ViewTransition]:
    through: dict[str, dict[str | None, list[Member]]] = {}
    for member, installed in trace.installed.items():
        for view in installed:
            after = trace.successor.get((member, view))
            to = after.view if after is not None else None
            through.setdefault(view, {}).setdefault(to, []).append(member)
    for (
        view,
        by_member,
    ) in trace.by_view.items():  # deliveries in views that the member never installed
        for member in by_member:
            if view not in trace.installed[member]:
                through.setdefault(view, {}).setdefault(None, []).append(member)
    found = []
    lives = trace.lives
    for view, ways in through.items():
        delivered = trace.by_view.get(view, {})
        for to, members in ways.items():
            if to is None:
                members = [m for m in members if m not in lives.torn]
                if len(ways) > 1:
                    members = [m for m in members if lives.alive(m) and lives.whole(m)]
            if members:
                found.append(ViewTransition(view, to, {m: delivered.get(m, []) for m in members}))
    return found
