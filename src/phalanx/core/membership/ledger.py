"""What was said in each context, and what of it counts: closed sets.

A set X is closed in context c when every member of M(c) - X has proposed c (a boot needs no
proposal) and, unless X is empty, has named exactly X in it. What a member sent counts only if
it lies in the past of control frames of c that came from members which were not barred
(PROTOCOLS B.2 items 1, 11 and 14).
"""

from __future__ import annotations

import msgspec

from phalanx.core.frames import Announce, Context, Fault, Join, Said
from phalanx.core.ids import MemberId, ViewId
from phalanx.core.membership.contexts import (
    Members,
    Reach,
    context_digest,
    covers,
    extend,
    members_of,
    ranked,
)

CONTEXTS_MAX = 256
"""Contexts that are remembered while a change is under way: a forger cannot make them more."""


class Entry(msgspec.Struct, frozen=True):
    """A frame that entered, as far as membership is concerned."""

    sender: MemberId
    number: int
    view: ViewId
    phase: int
    announce: Announce
    reach: Reach

    @property
    def said(self) -> Said | None:
        return self.announce.said


def context_of(entry: Entry) -> bytes:
    """The context that a JOIN or FA is about."""
    said = entry.said
    if isinstance(said, Fault):
        return said.context
    assert isinstance(said, Join)
    components = entry.announce.components
    return context_digest(Context(components=components, failed_before=said.failed_before))


class Ledger:
    __slots__ = ("_evidence", "_faults", "_joins")

    def __init__(self) -> None:
        self._joins: dict[bytes, dict[MemberId, tuple[int, Reach, Join]]] = {}
        self._faults: dict[bytes, dict[MemberId, dict[Members, tuple[int, Reach]]]] = {}
        self._evidence: dict[bytes, Reach] = {}

    def write(self, entry: Entry) -> None:
        """A JOIN or FA is here; whether it counts is another matter."""
        said = entry.said
        if isinstance(said, Join):
            joins = self._joins.setdefault(context_of(entry), {})
            joins.setdefault(entry.sender, (entry.number, entry.reach, said))
        elif isinstance(said, Fault):
            faults = self._faults.setdefault(said.context, {}).setdefault(entry.sender, {})
            faults.setdefault(frozenset(said.faulty), (entry.number, entry.reach))
        for store in (self._joins, self._faults, self._evidence):
            while len(store) > CONTEXTS_MAX:
                del store[next(iter(store))]

    def count(self, entry: Entry) -> None:
        """A JOIN or FA came from a member that is not barred: it and its past are evidence."""
        extend(self._evidence.setdefault(context_of(entry), {}), entry.reach)

    def adopt(self, context: bytes, rest: Members, out: Members) -> None:
        """Somebody speaks from the view that X = out closes: what closed it is evidence."""
        evidence = self._evidence.setdefault(context, {})
        for member in ranked(rest):
            found = self._closing_frame(context, member, out)
            if found is not None:
                extend(evidence, found[1])

    def has_joined(self, context: bytes, member: MemberId) -> bool:
        return member in self._joins.get(context, {})

    def has_named(self, context: bytes, member: MemberId, out: Members) -> bool:
        return out in self._faults.get(context, {}).get(member, {})

    def joins(self, context: bytes) -> dict[MemberId, Join]:
        return {m: join for m, (_, _, join) in self._joins.get(context, {}).items()}

    def named(self, context: bytes) -> list[Members]:
        """The fault sets that were named in a context, small ones first."""
        sets = {out for named in self._faults.get(context, {}).values() for out in named}
        return sorted(sets, key=lambda out: (len(out), ranked(out)))

    def is_closed(self, context: Context, digest: bytes, out: Members) -> bool:
        evidence = self._evidence.get(digest, {})
        for member in members_of(context) - out:
            if not context.boot:
                join = self._joins.get(digest, {}).get(member)
                if join is None or not covers(evidence, member, join[0]):
                    return False
            if out:
                fault = self._faults.get(digest, {}).get(member, {}).get(out)
                if fault is None or not covers(evidence, member, fault[0]):
                    return False
        return True

    def closing(self, digest: bytes, rest: Members, out: Members) -> Reach:
        """The past of the frames that closed a set."""
        closing: Reach = {}
        for member in ranked(rest):
            found = self._closing_frame(digest, member, out)
            assert found is not None
            extend(closing, found[1])
        return closing

    def _closing_frame(
        self, context: bytes, member: MemberId, out: Members
    ) -> tuple[int, Reach] | None:
        if out:
            return self._faults.get(context, {}).get(member, {}).get(out)
        join = self._joins.get(context, {}).get(member)
        return None if join is None else join[:2]

    def forget(self, kept: tuple[bytes, ...]) -> None:
        """A change is over: only these contexts matter (PROTOCOLS B.6 item 18)."""
        for store in (self._joins, self._faults, self._evidence):
            for context in [c for c in store if c not in kept]:
                del store[context]
