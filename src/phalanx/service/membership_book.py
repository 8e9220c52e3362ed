"""The members of one interface: what each has received (rules G4, I3).

A directive is taken if it follows the last view of its member; everything else is a repetition or
comes too early. What is taken is in a record before it is acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from phalanx.service.effects import (
    DurableRecord,
    HeldHistory,
    HeldMembership,
    Notify,
    RecordRemoved,
)
from phalanx.service.group_messages import Directive, Moved, Served
from phalanx.service.held_members import HeldMembers, client_of
from phalanx.service.values import GroupView, ServiceGroup, Vid, number_of

OVER_KEPT = 1024
"""Memberships that have ended and are remembered."""
VIEWS_KEPT = 64
"""Views of a group that are kept for a claim (rule G10)."""


class MembershipBook:
    """Returns the records that have changed; its owner makes them durable."""

    def __init__(
        self, interface: str, members: Iterable[HeldMembership], held: Iterable[ServiceGroup]
    ) -> None:
        self.interface = interface
        self.members = HeldMembers()
        for each in members:
            self.members[each.member] = each
        self.groups = {group.uid: group for group in held}

    def open(self, member: str, uid: str, call: str) -> DurableRecord:
        """A member that is about to join a group."""
        self.members[member] = HeldMembership(member, uid, call)
        return self.members[member]

    def bind(self, member: str, uid: str) -> list[DurableRecord]:
        """The group that a member is about to join."""
        held = self.members.get(member)
        if held is None or held.uid:
            return []
        self.members[member] = held = replace(held, uid=uid)
        return [held]

    def of_call(self, call: str) -> HeldMembership | None:
        """The member that a call has made."""
        found = (m for m in self.members.of_call(call) if "~" not in m.member)
        return next(found, None)

    def of_client(self, client: str, uid: str | None = None) -> tuple[str, ...]:
        """The members of one client, in all groups or in one."""
        if uid is None:
            return tuple(self.members.of_client(client))
        mine = (m.member for m in self.members.of_group(uid) if client_of(m) == client)
        return tuple(sorted(mine))

    def member_in(self, uid: str, members: Iterable[str]) -> str | None:
        """The first of these members that lives in a group."""
        for member in members:
            held = self.members.get(member)
            if held is not None and held.uid == uid and held.view is not None and not held.over:
                return member
        return None

    def lives_in(self, name: str) -> bool:
        """Whether a member here lives in the group with this name or uid."""
        return any(
            name in (held.uid, group.name)
            for held in self.members.values()
            if held.view is not None and not held.over and (group := self.groups.get(held.uid))
        )

    def link(self, member: str, parent: str) -> list[DurableRecord]:
        """A member of a subgroup, and the one of the same client in the parent group."""
        held = self.members.get(member)
        if held is None:
            return []
        self.members[member] = held = replace(held, parent=parent)
        return [held]

    def without_parent(self) -> list[tuple[str, HeldMembership]]:
        """Members of subgroups whose member in the parent group is gone."""
        return [
            (held.member, held)
            for held in self.members.with_parent
            if held.view is not None and self._is_over(held.parent)
        ]

    def _is_over(self, member: str) -> bool:
        held = self.members.get(member)
        return held is None or held.over

    def withdraw(self, member: str) -> list[DurableRecord]:
        """A member that has not been admitted, and will not be under this id."""
        held = self.members.get(member)
        if held is None or held.view is not None:
            return []
        del self.members[member]
        return [RecordRemoved("member", member)]

    def served(self, last_number: int) -> Served:
        """What the home is told. A member without a group yet counts as not named yet."""
        bound = {m: held for m, held in sorted(self.members.items()) if held.uid}
        live = {m: held for m, held in bound.items() if not held.over}
        unbound = [number_of(m) for m in self.members.unbound]
        last_number = min([last_number, *(number - 1 for number in unbound)])
        declined = tuple(m for m, held in sorted(self.members.items()) if held.over and "~" in m)
        return Served(
            self.interface,
            {m: held.view.vid if held.view is not None else None for m, held in live.items()},
            {m: held.uid for m, held in live.items()},
            last_number,
            declined,
        )

    def moved(self, members: Iterable[str]) -> Moved:
        """What the home is told of these members."""
        known = [(m, self.members[m]) for m in members if m in self.members]
        live = {m: held for m, held in known if held.uid and not held.over}
        return Moved(
            self.interface,
            {m: held.view.vid if held.view is not None else None for m, held in live.items()},
            {m: held.uid for m, held in live.items()},
            tuple(m for m, held in known if held.over),
        )

    def take(self, directive: Directive) -> tuple[list[DurableRecord], list[Notify]]:
        """The next views of members, or the end of their memberships."""
        records, notices = self._take(directive)
        last = directive.view
        for view in directive.more if last is not None else ():
            previous = last.vid if last is not None else None
            more, told = self._take(replace(directive, view=view, previous=previous))
            records, last = [*records, *more], view
            notices += told
        return records, notices

    def _take(self, directive: Directive) -> tuple[list[DurableRecord], list[Notify]]:
        records: list[DurableRecord] = []
        notices: list[Notify] = []
        for member in directive.members:
            held = self.members.get(member)
            if held is None:
                held = self._derived(directive, member)
                if held is not None and held.over:
                    self.members[member] = held
                    records.append(held)
            if held is None or held.over or held.uid != directive.uid:
                continue
            last = held.view.vid if held.view is not None else None
            if directive.view is None:
                held = replace(held, over=True)
                over = Notify(member, held.uid, None, last, bool(directive.ended), held.call)
                notices.append(over)
            elif last == directive.previous and member in directive.view.members:
                held = replace(held, view=directive.view)
                notices.append(Notify(member, held.uid, directive.view, last, call=held.call))
            else:
                continue
            self.members[member] = held
            records.append(held)
        if records:
            records += self._history(directive)
            records += self._forget_old()
        return records, notices

    def _derived(self, directive: Directive, member: str) -> HeldMembership | None:
        """A split or merge has given a member of this interface a new id in a new group."""
        base = member.rpartition("~")[0]
        mine = (m for m in self.members if m.partition("~")[0] == base)
        origin = next((self.members[m] for m in mine), None)
        if not base or directive.previous is not None or directive.view is None:
            return None
        if origin is None:
            return HeldMembership(member, directive.uid, over=True)
        return HeldMembership(member, directive.uid, origin.call, parent=origin.parent)

    def _history(self, directive: Directive) -> list[DurableRecord]:
        """Keep the views for a claim, while there are members; the last one on top."""
        uid, view = directive.uid, directive.view
        if view is None:
            if self.members.of_group(uid):
                return []
            if self.groups.pop(uid, None) is None:
                return []
            return [RecordRemoved("history", uid)]
        known = self.groups.get(uid)
        head = directive.group or known
        if head is None:
            return []
        past = (*known.history, known.view) if known is not None else ()
        views: dict[object, GroupView] = {each.vid: each for each in (*past, view)}
        last = max(views.values(), key=lambda each: each.vid)
        rest = sorted((v for v in views.values() if v.vid != last.vid), key=lambda v: v.vid)
        old = self._views_of_members(uid)
        kept = [v for v in rest[:-VIEWS_KEPT] if v.vid in old]
        group = replace(head, view=last, history=(*kept, *rest[-VIEWS_KEPT:]))
        self.groups[uid] = group
        return [HeldHistory(group)]

    def _views_of_members(self, uid: str) -> set[Vid]:
        """The last views of the members of a group; they may have gone different ways."""
        return {m.view.vid for m in self.members.of_group(uid) if m.view is not None}

    def _forget_old(self) -> list[DurableRecord]:
        out: list[DurableRecord] = []
        if self.members.over_count <= OVER_KEPT:
            return out
        for member in self.members.over[: self.members.over_count - OVER_KEPT]:
            del self.members[member]
            out.append(RecordRemoved("member", member))
        return out
