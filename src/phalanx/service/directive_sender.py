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
from phalanx.service.set_facts import SetFacts
from phalanx.service.values import GroupView, ServiceGroup, SetState, Vid

MEMBERS_AT_ONCE = 8192
"""Members in the views of one directive, together; a single view may have more."""


class DirectiveSender:
    """Of one set, at its speaker."""

    def __init__(self) -> None:
        self._sent: dict[str, tuple[Vid | None, int]] = {}
        """For each member the view it had when a directive was sent to it, and when that was."""

    def look(self, facts: SetFacts, step: PathStep) -> list[Directive]:
        """What is to be sent now."""
        if facts.stable is None or facts.stable.lineage != facts.state.lineage:
            return []
        frozen: dict[str, bool] = {}
        split = _with_new_members(facts.stable)
        out: list[Directive] = []
        for entry in facts.table.interfaces(facts.now, facts.state):
            served = entry.served
            if not served.groups and not split:
                continue
            for uid in sorted(set(served.groups.values())):
                record = facts.stable.groups.get(uid)
                if record is None or record.own is None:
                    continue
                if uid in facts.table.held_by(entry):
                    continue
                own = record.own
                if uid not in frozen:
                    frozen[uid] = facts.is_frozen(own)
                out += self._to(facts, step, served, own, frozen[uid])
            out += self._to_new_members(facts, step, served, split, frozen)
        return out

    def _to(
        self,
        facts: SetFacts,
        step: PathStep,
        served: Served,
        own: ServiceGroup,
        frozen: bool,
    ) -> list[Directive]:
        """For the members of one group at one interface. Members with the same last view share
        their directives."""
        over: list[str] = []
        behind: dict[Vid | None, list[str]] = {}
        for member, uid in sorted(served.groups.items()):
            last = served.positions.get(member)
            if uid != own.uid or last == own.view.vid:
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

    def _to_new_members(
        self,
        facts: SetFacts,
        step: PathStep,
        served: Served,
        split: Sequence[ServiceGroup],
        frozen: dict[str, bool],
    ) -> list[Directive]:
        """Members that a split has made of an interface's members, which it does not know yet."""
        out: list[Directive] = []
        for own in split:
            uid = own.uid
            prefix = f"{served.interface}/"
            new = tuple(
                m
                for m in own.view.members
                if "~" in m
                and m.startswith(prefix)
                and m not in served.positions
                and m not in served.declined
            )
            if not new:
                continue
            if uid not in frozen:
                frozen[uid] = facts.is_frozen(own)
            due = tuple(m for m in new if self._is_due(facts, m, None))
            if due and not frozen[uid]:
                out += _chain(facts, step, served, own, due, None)
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


def _with_new_members(stable: SetState) -> list[ServiceGroup]:
    """Live groups of the set with members that a split or merge has named."""
    found = (stable.groups[uid].own for uid in sorted(stable.groups))
    return [
        own
        for own in found
        if own is not None and own.ended is None and any("~" in m for m in own.view.members)
    ]


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
