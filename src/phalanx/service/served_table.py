"""Which interfaces a component of a set serves, as its speaker has heard (rule H4).

The speaker asks all of its view again and again; homes pass the question on to their interfaces,
and speakers of child sets to theirs. An entry says when the question was asked that the interface
has answered: *served* if that was not long ago, *confirmed* if it was just now. A new lineage
begins with nobody, until interfaces have answered a question that names it.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from phalanx.service.group_messages import Advance, Moved, Served, Tell
from phalanx.service.group_views import fits
from phalanx.service.look_scope import NOTHING, Scope, both
from phalanx.service.service_times import ServiceTimes
from phalanx.service.values import (
    Gid,
    ServiceGroup,
    SetState,
    Vid,
    interface_of,
    number_of,
)


class TableEntry:
    """What one interface has answered, by way of `teller`: its home, or the parent of `child`. The
    dicts of `served` belong to the entry: members that move on are entered in them."""

    __slots__ = ("asked", "by_group", "child", "served", "teller")

    def __init__(self, asked: int, teller: Gid, child: str, served: Served) -> None:
        self.asked = asked
        self.teller = teller
        self.child = child
        self.served = replace(served, positions=dict(served.positions), groups=dict(served.groups))
        self.by_group: dict[str, set[str]] = {}
        """The members of each group."""
        for member, uid in served.groups.items():
            self.by_group.setdefault(uid, set()).add(member)

    def advance(self, moved: Moved) -> Scope:
        """Members have moved on; returns their groups."""
        served, uids = self.served, set()
        for member, uid in moved.groups.items():
            served.positions[member] = moved.positions.get(member)
            served.groups[member] = uid
            self.by_group.setdefault(uid, set()).add(member)
            uids.add(uid)
        for member in moved.over:
            gone = served.groups.pop(member, None)
            served.positions.pop(member, None)
            if gone is not None:
                self.by_group[gone].discard(member)
                uids.add(gone)
        declined = tuple(m for m in moved.over if "~" in m and m not in served.declined)
        if declined:
            self.served = replace(served, declined=(*served.declined, *declined))
        return frozenset(uids)


class ServedTable:
    """One table for each set that a server speaks for."""

    def __init__(self, times: ServiceTimes) -> None:
        self._served_ns = (times.mi_retries + 1) * times.poll_ns
        self._sure_ns = 2 * times.poll_ns
        self.lineage = b""
        self.asked = 0
        self._entries: dict[str, TableEntry] = {}
        self._order: tuple[str, ...] = ()
        """The keys of the entries, sorted, unless there are more by now."""
        self._held: dict[tuple[str, Gid], frozenset[str]] = {}
        """By child set and its parent: two components of a child may have one each."""

    def begin(self, now: int, lineage: bytes) -> int:
        """A new question; returns its number, which is the time or the next free one."""
        if lineage != self.lineage:
            self.lineage = lineage
            self._entries = {}
            self._order = ()
            self._held = {}
        self.asked = max(now, self.asked + 1)
        return self.asked

    def take(self, sender: Gid, tell: Tell) -> Scope:
        """An answer. Returns the groups for which it changes who is served, or how far members
        are."""
        if tell.lineage != self.lineage or tell.asked > self.asked:
            return NOTHING
        changed = NOTHING
        if tell.child and tell.held is not None:
            held = frozenset(tell.held)
            changed = held ^ self._held.get((tell.child, sender), frozenset())
            self._held[(tell.child, sender)] = held
        for served in tell.served:
            known = self._entries.get(served.interface)
            if known is not None and known.asked > tell.asked:
                continue
            if known is not None and (known.teller, known.child) == (sender, tell.child):
                if known.served == served:
                    known.asked = tell.asked
                    continue
                changed = both(changed, _moved_groups(known.served, served))
            else:
                changed = None
            self._entries[served.interface] = TableEntry(tell.asked, sender, tell.child, served)
        return changed

    def advance(self, sender: Gid, message: Advance) -> Scope:
        """Members of an interface have moved on since its last answer. Returns their groups."""
        known = self._entries.get(message.moved.interface)
        if known is None or message.lineage != self.lineage or known.asked > message.asked:
            return NOTHING
        if (known.teller, known.child) != (sender, message.child):
            return NOTHING
        return known.advance(message.moved)

    def held_by(self, entry: TableEntry) -> frozenset[str]:
        """The groups of which a set on the way to an interface has reported a record."""
        return self._held.get((entry.child, entry.teller), frozenset())

    def held_below(self, state: SetState, child: str) -> frozenset[str]:
        """The groups of which any component of a child set, or one below it, has a record."""
        parents = state.kids.get(child, ())
        return frozenset().union(*(self._held.get((child, p), ()) for p in parents))

    def release(self, child: str, parent: Gid, uid: str) -> None:
        """A group that a child set has handed up is not held there any more."""
        self._held[(child, parent)] = self._held.get((child, parent), frozenset()) - {uid}

    def entry(
        self, now: int, state: SetState, interface: str, sure: bool = False
    ) -> TableEntry | None:
        """The entry of an interface that is served (`sure`: that is confirmed), by way of a server
        that is still responsible for it."""
        found = self._entries.get(interface)
        if found is None or state.lineage != self.lineage:
            return None
        if found.asked < now - (self._sure_ns if sure else self._served_ns):
            return None
        if found.child:
            return found if found.teller in state.kids.get(found.child, ()) else None
        home = state.homes.get(interface)
        if home is None or home.server != found.teller or found.teller not in state.view:
            return None
        return found

    def interfaces(self, now: int, state: SetState) -> Iterator[TableEntry]:
        """All that are served."""
        if len(self._order) != len(self._entries):
            self._order = tuple(sorted(self._entries))
        for interface in self._order:
            found = self.entry(now, state, interface)
            if found is not None:
                yield found

    def serves(
        self, now: int, state: SetState, group: ServiceGroup, member: str, sure: bool = False
    ) -> bool:
        """Whether this component serves a member of a group that it owns: the interface answers
        and has the member, nobody on the way down has a record of the group (rule G8), and the
        member's last view fits the history."""
        found = self.entry(now, state, interface_of(member), sure)
        if found is None:
            return False
        if group.uid in self.held_by(found):
            return False
        return has_member(found.served, group.uid, member) and fits(
            group, member, found.served.positions.get(member)
        )

    def position(self, member: str) -> Vid | None:
        """The last view of a member, as far as reported."""
        found = self._entries.get(interface_of(member))
        return None if found is None else found.served.positions.get(member)

    def unserved(
        self, now: int, state: SetState, group: ServiceGroup, sure: bool = False
    ) -> tuple[str, ...]:
        """Members of the current view that are not served (rule G2)."""
        uid, vid = group.uid, group.view.vid
        entries: dict[str, TableEntry | None] = {}
        out: list[str] = []
        for member in group.view.members:
            interface = interface_of(member)
            if interface not in entries:
                found = self.entry(now, state, interface, sure)
                is_held = found is not None and uid in self.held_by(found)
                entries[interface] = None if is_held else found
            entry = entries[interface]
            if entry is None:
                out.append(member)
                continue
            served = entry.served
            if served.positions.get(member) == vid and served.groups.get(member) == uid:
                if member not in served.declined:
                    continue  # as all are at rest: the rest of `serves` holds
            if not self.serves(now, state, group, member, sure):
                out.append(member)
        return tuple(out)


def _moved_groups(before: Served, after: Served) -> Scope:
    """The groups of the members that two answers of one interface differ in."""
    if before.declined != after.declined:
        return None
    uids = set()
    for member in before.groups.keys() | after.groups.keys():
        old, new = before.groups.get(member), after.groups.get(member)
        if old != new or before.positions.get(member) != after.positions.get(member):
            uids |= {uid for uid in (old, new) if uid is not None}
    return frozenset(uids)


def has_member(served: Served, uid: str, member: str) -> bool:
    """Whether an interface has a member. One that it has named after its answer, or that a split
    has made of one, is taken as there until it declines."""
    if member in served.declined:
        return False
    if member in served.positions:
        return served.groups.get(member, uid) == uid
    return "~" in member or number_of(member) > served.last_number
