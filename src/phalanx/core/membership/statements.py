"""What other members have said about their place in the protocol.

A *statement* is what an announced frame says of its sender: the view it speaks from and, in phase
1, its current proposal. Frames of a member are numbered over all its views, so the statement of the
highest number is the newest, in whatever order frames arrive. Three things are kept:

    newest   per member, its newest statement: rules R4 and R5 look at it
    issues   per member, view and proposal, the frame that issued it: rule R2 counts these
    spoken   per member, the views that it was heard from: rule R3 wants a witness

Frames are not authenticated. With a forged number, no later frame of that member would count, so a
statement that is older than BELIEVED_NS is replaced by any other of that member.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from phalanx.core.ids import MEMBERS_MAX, MemberId, ViewId
from phalanx.core.membership.proposals import CACHED_BYTES, Entry, Proposal, epoch
from phalanx.core.wire.frames import Component, DeliveredVector

MEMBERS_KNOWN_MAX = 2 * MEMBERS_MAX
ISSUES_MAX = 64
SPOKEN_MAX = 8
BYTES_MAX = 32 << 20
"""What strangers have said is kept up to about so many bytes; then some of them are forgotten."""
MEMBER_BYTES = 128
"""What a member of a component or of a list of deliveries takes, about."""
ROLE_MEMBERS = 8
"""A role takes as much as so many members, at most."""
BELIEVED_NS = 10_000_000_000


class Statement(msgspec.Struct, frozen=True):
    """Where a member stands, as its frame `number` says."""

    member: MemberId
    number: int
    component: Component
    """The view that it speaks from."""
    proposal: Proposal | None = None
    """Its current proposal, if it has issued one from there."""
    issued: int = 0
    """Its frame that issued the proposal."""
    start: int = 0
    delivered: DeliveredVector | None = None
    """How far it had delivered, if this is the frame that issued the proposal."""
    closings: dict[MemberId, int] = {}
    """The frames that issued its proposal, as far as it knows."""
    openings: dict[MemberId, int] = {}
    """The frames that issued the view that it speaks from, while not all have spoken there."""
    leaves: bool = False

    @property
    def view(self) -> ViewId:
        return self.component.view

    def counts(self, member: MemberId) -> ViewId | None:
        """The view in which the sender waits for a member: to issue its proposal, or to speak."""
        if self.proposal is not None:
            return self.proposal.entries.get(member)
        return self.view if member in self.component.members else None

    @property
    def is_hello(self) -> bool:
        """A HELLO names its sender's view, but neither the members of it nor a proposal."""
        return not self.component.members


class Issue(msgspec.Struct, frozen=True):
    """A frame that issued a proposal (rule R2)."""

    number: int
    start: int
    delivered: DeliveredVector


class Statements:
    __slots__ = ("_bytes", "_counts", "_heard_ns", "_issues", "_newest", "_protected", "_spoken")

    def __init__(self) -> None:
        self._bytes = 0
        """What is kept, about. What several statements share counts once."""
        self._counts: dict[_Part, tuple[int, int]] = {}
        """In how many statements each view and each proposal stands, and what it takes."""
        self._protected: frozenset[MemberId] = frozenset()
        """Members of the base: whatever strangers say, nothing of these is forgotten."""
        self._newest: dict[MemberId, Statement] = {}
        self._heard_ns: dict[MemberId, int] = {}
        self._issues: dict[MemberId, dict[tuple[ViewId, bytes], tuple[Issue, ViewId]]] = {}
        """Per member, by view and digest of a proposal: its issue, and the view in which the
        proposal counts this member."""
        self._spoken: dict[MemberId, dict[ViewId, None]] = {}

    def hear(self, now: int, statement: Statement) -> bool:
        """A member speaks. Whether that is news: it says something else than before, or speaks
        from a view that it was not heard from."""
        member = statement.member
        witness = self._note_spoken(member, statement)
        known = self._newest.get(member)
        if known is not None and _age(statement) <= _age(known):
            if now - self._heard_ns[member] <= BELIEVED_NS:
                return witness
        self._add(statement)
        if known is not None:
            self._remove(known)
        self._newest[member] = msgspec.structs.replace(
            statement, delivered=None, closings={}, openings={}
        )
        self._heard_ns[member] = now
        self._make_room(member)
        return (
            witness
            or known is None
            or known.view != statement.view
            or known.proposal != statement.proposal
            or known.leaves != statement.leaves
        )

    def _note_spoken(self, member: MemberId, statement: Statement) -> bool:
        views = self._spoken.setdefault(member, {})
        new = statement.view not in views
        views[statement.view] = None
        while len(views) > SPOKEN_MAX:
            del views[next(iter(views))]
        return new

    def record(
        self, member: MemberId, view: ViewId, proposal: Proposal, issue: Issue, counts: ViewId
    ) -> bool:
        """This frame of a member issued a proposal from a view, which counts this member in view
        `counts`. Whether that is new."""
        issues = self._issues.setdefault(member, {})
        if (view, proposal.digest) in issues:
            return False
        issues[view, proposal.digest] = (issue, counts)
        self._bytes += _size(issue)
        while len(issues) > ISSUES_MAX:
            self._bytes -= _size(issues.pop(next(iter(issues)))[0])
        self._make_room(member)
        return True

    def forget_issues(self, view: ViewId) -> None:
        """This view is the base from now on. Proposals that count this member elsewhere are of no
        use any more; what was issued from this view counts when it enters."""
        for member, issues in list(self._issues.items()):
            kept = {k: i for k, i in issues.items() if i[1] == view and k[0] != view}
            self._bytes -= sum(_size(issue) for k, (issue, _) in issues.items() if k not in kept)
            if kept:
                self._issues[member] = kept
            else:
                del self._issues[member]

    def places(self, base: ViewId) -> frozenset[tuple[MemberId, int]]:
        """The frames of other views that issued a recorded proposal: sender and number."""
        return frozenset(
            (member, issue.number)
            for member, issues in self._issues.items()
            for (view, _), (issue, _) in issues.items()
            if view != base
        )

    def newest(self, member: MemberId) -> Statement | None:
        return self._newest.get(member)

    def heard_since(self, then: int) -> list[Statement]:
        """The newest statements of the members that were heard since that time."""
        return [said for m, said in self._newest.items() if self._heard_ns[m] >= then]

    def issue(self, member: MemberId, view: ViewId, proposal: Proposal) -> Issue | None:
        found = self._issues.get(member, {}).get((view, proposal.digest))
        return None if found is None else found[0]

    def closings(self, proposal: Proposal) -> tuple[int, ...]:
        """Per member of the view that a proposal makes, the frame that issued it; 0 if it is not
        here."""
        found = (self.issue(m, proposal.entries[m], proposal) for m in proposal.view.members)
        return tuple(0 if issue is None else issue.number for issue in found)

    def missing_issues(
        self, said: Statement, me: MemberId, base: ViewId, issued: Sequence[Proposal]
    ) -> tuple[tuple[MemberId, ViewId, int], ...]:
        """The frames that issued a proposal of a member in this base and are not here, as far as a
        statement names their numbers: of its sender's proposal, or of its view (R3). Each with the
        view it was sent in."""
        wanted: dict[Entry, int] = {}
        proposal = said.proposal
        if proposal is not None and said.view != base and proposal.entries.get(me) == base:
            if said.issued and self.issue(said.member, said.view, proposal) is None:
                wanted[said.member, said.view] = said.issued
        for own in issued:
            numbers = said.openings if own.view.id == said.view else {}
            if own == proposal:
                numbers = said.closings
            wanted |= {
                (member, view): numbers.get(member, 0)
                for member, view in own.entries.items()
                if numbers and self.issue(member, view, own) is None
            }
        return tuple((*entry, number) for entry, number in sorted(wanted.items()) if number)

    def has_spoken_from(self, member: MemberId, view: ViewId) -> bool:
        """Whether a frame that a member sent in this view was heard (rule R3)."""
        return view in self._spoken.get(member, ())

    def protect(self, members: Iterable[MemberId]) -> None:
        self._protected = frozenset(members)

    def _make_room(self, new: MemberId) -> None:
        """While there is too much, forget the stranger that was heard first of all but `new`
        (rule M-3)."""
        while len(self._newest) > MEMBERS_KNOWN_MAX or self._bytes > BYTES_MAX:
            strangers = (m for m in self._newest if m not in self._protected and m != new)
            member = next(strangers, None)
            if member is None:
                return
            self._remove(self._newest.pop(member))
            del self._heard_ns[member]
            self._spoken.pop(member, None)
            issues = self._issues.pop(member, {})
            self._bytes -= sum(_size(issue) for issue, _ in issues.values())

    def _add(self, statement: Statement) -> None:
        for part, size in _parts(statement):
            count, counted = self._counts.get(part, (0, 0))
            size = max(size, counted)  # a HELLO names a view without its members
            self._bytes += size - counted
            self._counts[part] = (count + 1, size)

    def _remove(self, statement: Statement) -> None:
        for part, _ in _parts(statement):
            count, size = self._counts.pop(part)
            if count > 1:
                self._counts[part] = (count - 1, size)
            else:
                self._bytes -= size


_Part = ViewId | bytes | tuple[MemberId, bytes]


def _parts(statement: Statement) -> list[tuple[_Part, int]]:
    """What takes memory in a statement. Proposals of a usual size are read once and shared."""
    component, proposal = statement.component, statement.proposal
    counted = len(component.members) + ROLE_MEMBERS * len(component.roles)
    parts: list[tuple[_Part, int]] = [(component.view, MEMBER_BYTES * counted)]
    if proposal is not None:
        size, digest = len(proposal.encoded), proposal.digest
        own = (statement.member, digest)
        parts.append((digest if size <= CACHED_BYTES else own, size))
    return parts


def _age(statement: Statement) -> tuple[int, tuple[int, int], bool]:
    """What orders the statements of a member. It may say HELLO from a view before its first frame
    there, and a HELLO says less than the frame whose number it names."""
    return statement.number, epoch(statement.view), statement.proposal is not None


def _size(issue: Issue) -> int:
    return MEMBER_BYTES * len(issue.delivered.members)
