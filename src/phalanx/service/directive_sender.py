"""Directives of one owner to the members of its groups (rules G2, G4).

Each look compares the last view of every member, as its interface has reported it, with the stable
views of the groups, and sends what is missing: all views that follow in one directive. The next one
goes when that is acknowledged, or after a while in its place, so that views that come fast are sent
once each.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from phalanx.service.group_messages import VIEWS_AT_ONCE, Directive, PathStep, Served
from phalanx.service.group_views import is_excluded, views_after
from phalanx.service.look_scope import Scope, in_scope
from phalanx.service.served_table import has_member
from phalanx.service.set_facts import SetFacts
from phalanx.service.values import GroupView, ServiceGroup, Vid, interface_of

MEMBERS_AT_ONCE = 8192
"""Members in the views of one directive, together; a single view may have more."""


class DirectiveSender:
    """Of one set, at its speaker."""

    def __init__(self) -> None:
        self._sent: dict[str, tuple[Vid | None, int]] = {}
        """For each member the view it had when a directive was sent to it, and when that was."""

    def look(self, facts: SetFacts, step: PathStep, scope: Scope = None) -> list[Directive]:
        """What is to be sent now about the groups in scope."""
        stable = facts.stable
        if stable is None or stable.lineage != facts.state.lineage:
            return []
        entries = list(facts.table.interfaces(facts.now, facts.state))
        held = [facts.table.held_by(entry) for entry in entries]
        out: list[Directive] = []
        for uid in in_scope(scope, stable.groups):
            own = stable.groups[uid].own
            if own is None:
                continue
            frozen = facts.is_frozen(own)
            in_view = _by_interface(own)
            for entry, held_there in zip(entries, held, strict=True):
                if uid in held_there:
                    continue
                served = entry.served
                mine = in_view.get(served.interface, ())
                members = entry.by_group.get(uid, set()).union(
                    m for m in mine if m not in served.positions and has_member(served, uid, m)
                )
                if members:
                    out += self._to(facts, step, served, own, sorted(members), frozen)
        return out

    def _to(
        self,
        facts: SetFacts,
        step: PathStep,
        served: Served,
        own: ServiceGroup,
        members: list[str],
        frozen: bool,
    ) -> list[Directive]:
        """For the members of one group at one interface. Members with the same last view share
        their directives."""
        over: list[str] = []
        behind: dict[Vid | None, list[str]] = {}
        for member in members:
            last = served.positions.get(member)
            if last == own.view.vid:
                continue
            if last is not None and is_excluded(own, member, last):
                if self._is_due(facts, member, last):
                    over.append(member)
            elif member in own.view.members and not frozen:
                if self._is_due(facts, member, last):
                    behind.setdefault(last, []).append(member)
        out = []
        if over:
            out.append(_directive(facts, step, served, own, tuple(over), (), None))
        for last, members in behind.items():
            out += _chain(facts, step, served, own, tuple(members), last)
        return out

    def _is_due(self, facts: SetFacts, member: str, last: Vid | None) -> bool:
        known = self._sent.get(member)
        if known is not None and known[0] == last:
            if facts.now - known[1] < facts.times.call_retry_ns:
                return False
        self._sent[member] = (last, facts.now)
        return True

    def expire(self, now: int, after_ns: int) -> None:
        """Forget members to which nothing was sent for long."""
        for member in [m for m, (_, at) in self._sent.items() if at < now - after_ns]:
            del self._sent[member]


def _by_interface(own: ServiceGroup) -> dict[str, list[str]]:
    """The members of the current view at each interface; none of a group that has ended."""
    out: dict[str, list[str]] = {}
    if own.ended is None:
        for member in own.view.members:
            out.setdefault(interface_of(member), []).append(member)
    return out


def _chain(
    facts: SetFacts,
    step: PathStep,
    served: Served,
    own: ServiceGroup,
    members: tuple[str, ...],
    last: Vid | None,
) -> list[Directive]:
    """The next views of members that all have the same last one, in one directive while they go the
    same way."""
    ways: dict[tuple[Vid, ...], tuple[tuple[GroupView, ...], list[str]]] = {}
    for member in members:
        views = views_after(own, member, last)[: VIEWS_AT_ONCE + 1]
        while len(views) > 1 and sum(len(view.members) for view in views) > MEMBERS_AT_ONCE:
            views = views[:-1]
        if views:
            vids = tuple(view.vid for view in views)
            ways.setdefault(vids, (views, []))[1].append(member)
    return [
        _directive(facts, step, served, own, tuple(together), views, last)
        for views, together in ways.values()
    ]


def _directive(
    facts: SetFacts,
    step: PathStep,
    served: Served,
    own: ServiceGroup,
    members: tuple[str, ...],
    views: Sequence[GroupView],
    previous: Vid | None,
) -> Directive:
    """Without views: the memberships are over."""
    has_last = bool(views) and views[-1].vid == own.view.vid
    return Directive(
        facts.name,
        served.interface,
        own.uid,
        members,
        views[0] if views else None,
        previous,
        step,
        replace(own, history=()) if has_last else None,
        "" if views else own.ended or "",
        tuple(views[1:]),
    )
