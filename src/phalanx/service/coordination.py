"""One change on its way: who has to answer, who has, which change goes first, what is decided.

Two coordinators may work on one base. The change with the lower key goes first: its Initiate is
answered with Ack even by members that have acknowledged the other one, whose coordinator gives
way. That order is total, so that two coordinators never wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from phalanx.service.entries import AddServer, SetChange, is_physical
from phalanx.service.messages import Ack, Commit
from phalanx.service.set_state import vid_after, view_after
from phalanx.service.values import Gid, SetState, Vid

BUSY_ROUNDS_MAX = 20
"""Rounds for which a member may answer `busy` before it counts as silent."""

Key = tuple[int, int, Gid, int]


class Coordination(msgspec.Struct, frozen=True):
    """What a coordinator knows about its change. `targets` are all who must answer; for a union
    those of both components, `other` is the state of the other one, and `united` what comes out."""

    change: SetChange
    targets: tuple[Gid, ...]
    acks: frozenset[Gid] = frozenset()
    busy: frozenset[Gid] = frozenset()
    tries: int = 0
    rounds: int = 0
    other: Vid | None = None
    united: SetState | None = None
    round: int = 0
    apart: tuple[Gid, ...] = ()
    """Those whom this round leaves out: every answer promises to read nothing of them."""

    def missing(self, isolated: Sequence[Gid]) -> tuple[Gid, ...]:
        """Who has not answered and is still expected to."""
        return tuple(t for t in self.targets if t not in self.acks and t not in isolated)

    def answered(self, sender: Gid, answer: Ack, base: Vid) -> Coordination | None:
        """With one more answer, or None if it is not one to this round."""
        if answer.round != self.round or answer.base not in (base, self.other):
            return None
        if sender not in self.targets:
            return None
        if answer.status == "busy":
            return replace(self, busy=self.busy | {sender})
        return replace(self, acks=self.acks | {sender})

    def silent(self, isolated: Sequence[Gid]) -> tuple[Gid, ...]:
        """Who has given no sign in this round."""
        missing = self.missing(isolated)
        if self.rounds > BUSY_ROUNDS_MAX:
            return missing
        return tuple(t for t in missing if t not in self.busy)

    def next_try(self, isolated: Sequence[Gid]) -> Coordination:
        """One time-out later. Rounds in which all missing members were busy are not tries."""
        tries = self.tries + 1 if self.silent(isolated) else 0
        return replace(self, tries=tries, rounds=self.rounds + 1, busy=frozenset())

    def in_round(self, number: int, isolated: tuple[Gid, ...]) -> Coordination:
        """Everybody is asked anew, because others are left out now."""
        none = frozenset[Gid]()
        return replace(self, round=number, apart=isolated, acks=none, busy=none, tries=0)


def key(change: SetChange, coordinator: Gid, view: Sequence[Gid]) -> Key:
    """Changes are carried out in this order (rule C2)."""
    rank = view.index(coordinator) if coordinator in view else len(view)
    return (change.priority, rank, change.id.origin, change.id.number)


def goes_before(one: Key, other: Key) -> bool:
    """Whether a member gives up its answer to the second change for the first (rule M2)."""
    return one < other


def joiners(change: SetChange, view: Sequence[Gid]) -> tuple[Gid, ...]:
    """Servers that a change adds to the view."""
    added = [entry.server for entry in change.entries if isinstance(entry, AddServer)]
    return tuple(dict.fromkeys(server for server in added if server not in view))


def holds_on_any_base(change: SetChange) -> bool:
    """Whether a change may be carried out on another base than it was made for (rule C1)."""
    return all(is_physical(entry) for entry in change.entries)


def decided(work: Coordination, state: SetState, isolated: Sequence[Gid]) -> Commit:
    """The commit, once everybody who is still expected has answered: without the members that have
    not (rule M6). Entries that are not physical were made for the view with those members, and are
    left out too."""
    change, view = work.change, state.view
    if work.united is not None and work.other is not None:
        bases = (state.vid, work.other)
        vid = vid_after(bases, change.id, (), work.united.view)
        whole = replace(work.united, vid=vid, lineage=vid.digest)
        return Commit(state.set, bases, change.id, (), whole.view, vid, (), whole, change.priority)
    absent = [j for j in joiners(change, view) if j not in work.acks]
    silent = [m for m in view if m in isolated]
    entries = tuple(
        e for e in change.entries if not (isinstance(e, AddServer) and e.server in absent)
    )
    if silent and not holds_on_any_base(change):
        entries = ()
    members = tuple(m for m in view_after(view, entries) if m not in silent)
    vid = vid_after((state.vid,), change.id, entries, members)
    base = (state.vid,)
    return Commit(state.set, base, change.id, entries, members, vid, priority=change.priority)
