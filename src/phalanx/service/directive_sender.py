"""Directives of one owner to the members of its groups (rules G2, G4).

Each look compares the last view of every member, as its interface has reported it, with the stable
views of the groups, and sends what is missing. What is not acknowledged is sent again.
"""

from __future__ import annotations

from msgspec.structs import replace

from phalanx.service.group_messages import Directive, PathStep, Served
from phalanx.service.group_views import directive_after, is_excluded
from phalanx.service.set_facts import SetFacts
from phalanx.service.values import GroupView, ServiceGroup, Vid

VIEWS_AT_ONCE = 16
"""Views of one member that are sent before it has acknowledged the first."""


class DirectiveSender:
    """Of one set, at its speaker."""

    def __init__(self) -> None:
        self._sent: dict[str, tuple[object, int]] = {}
        """For each member the last view it had, with the view to come, and when it was sent."""

    def look(self, facts: SetFacts, step: PathStep) -> list[Directive]:
        """What is to be sent now."""
        if facts.stable is None or facts.stable.lineage != facts.state.lineage:
            return []
        frozen: dict[str, bool] = {}
        out: list[Directive] = []
        for entry in facts.table.interfaces(facts.now, facts.state):
            served = entry.served
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
            out += self._to_new_members(facts, step, served, frozen)
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
                if self._is_due(facts, member, (last, None)):
                    over.append(member)
            elif member in own.view.members and not frozen:
                if self._is_due(facts, member, (last, own.view.vid)):
                    behind.setdefault(last, []).append(member)
        out = []
        if over:
            out.append(_directive(facts, step, served, own, tuple(over), None, None))
        for last, members in behind.items():
            out += _chain(facts, step, served, own, tuple(members), last)
        return out

    def _to_new_members(
        self, facts: SetFacts, step: PathStep, served: Served, frozen: dict[str, bool]
    ) -> list[Directive]:
        """Members that a split has made of an interface's members, which it does not know yet."""
        out: list[Directive] = []
        assert facts.stable is not None
        for uid in sorted(facts.stable.groups):
            own = facts.stable.groups[uid].own
            if own is None or own.ended is not None:
                continue
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
            due = tuple(m for m in new if self._is_due(facts, m, (None, own.view.vid)))
            if due and not frozen[uid]:
                out += _chain(facts, step, served, own, due, None)
        return out

    def _is_due(self, facts: SetFacts, member: str, what: object) -> bool:
        known, at = self._sent.get(member, (None, 0))
        if known == what and facts.now - at < facts.times.call_retry_ns:
            return False
        self._sent[member] = (what, facts.now)
        return True

    def expire(self, now: int, after_ns: int) -> None:
        """Forget members to which nothing was sent for long."""
        for member in [m for m, (_, at) in self._sent.items() if at < now - after_ns]:
            del self._sent[member]


def _chain(
    facts: SetFacts,
    step: PathStep,
    served: Served,
    own: ServiceGroup,
    members: tuple[str, ...],
    last: Vid | None,
) -> list[Directive]:
    """The next views of members that all have the same last one, while they go the same way."""
    out: list[Directive] = []
    while len(out) < VIEWS_AT_ONCE and last != own.view.vid:
        nexts = {m: directive_after(own, m, last) for m in members}
        first = nexts[members[0]]
        together = tuple(m for m in members if nexts[m] == first)
        for other in members:
            if other not in together:
                out += _chain(facts, step, served, own, (other,), last)
        if first is None:
            break
        out.append(_directive(facts, step, served, own, together, first, last))
        members, last = together, first.vid
    return out


def _directive(
    facts: SetFacts,
    step: PathStep,
    served: Served,
    own: ServiceGroup,
    members: tuple[str, ...],
    view: GroupView | None,
    previous: Vid | None,
) -> Directive:
    group = None
    if view is not None and view.vid == own.view.vid:
        group = replace(own, history=())
    ended = own.ended or ""
    return Directive(
        facts.name,
        served.interface,
        own.uid,
        members,
        view,
        previous,
        step,
        group,
        ended if view is None else "",
    )
