"""Which interfaces a component of a set serves, as its speaker has heard (rule H4).

The speaker asks all of its view again and again; homes pass the question on to their interfaces,
and speakers of child sets to theirs. An entry says when the question was asked that the interface
has answered: *served* if that was not long ago, *confirmed* if it was just now. A new lineage
begins with nobody, until interfaces have answered a question that names it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from phalanx.service.group_messages import Served, Tell
from phalanx.service.group_views import fits
from phalanx.service.service_times import ServiceTimes
from phalanx.service.values import (
    Gid,
    ServiceGroup,
    SetState,
    Vid,
    interface_of,
    number_of,
)


class TableEntry(msgspec.Struct, frozen=True):
    """What one interface has answered, by way of `teller`: its home, or the parent of `child`."""

    asked: int
    teller: Gid
    child: str
    served: Served


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

    def take(self, sender: Gid, tell: Tell) -> bool:
        """An answer. Returns whether it changes who is served, or how far members are."""
        if tell.lineage != self.lineage or tell.asked > self.asked:
            return False
        changed = False
        if tell.child and tell.held is not None:
            held = frozenset(tell.held)
            changed = held != self._held.get((tell.child, sender), frozenset())
            self._held[(tell.child, sender)] = held
        for served in tell.served:
            known = self._entries.get(served.interface)
            if known is not None and known.asked > tell.asked:
                continue
            entry = TableEntry(tell.asked, sender, tell.child, served)
            changed |= known is None or known.served != served or known.teller != sender
            self._entries[served.interface] = entry
        return changed

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
        return tuple(m for m in group.view.members if not self.serves(now, state, group, m, sure))


def has_member(served: Served, uid: str, member: str) -> bool:
    """Whether an interface has a member. One that it has named after its answer, or that a split
    has made of one, is taken as there until it declines."""
    if member in served.declined:
        return False
    if member in served.positions:
        return served.groups.get(member, uid) == uid
    return "~" in member or number_of(member) > served.last_number
