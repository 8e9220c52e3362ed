"""Mutants of which components unite: rules N and J of docs/protocol/membership.md."""

from __future__ import annotations

from phalanx.core.ids import MemberId, ViewId
from phalanx.core.membership import normal_form
from phalanx.core.membership.draft import Draft
from phalanx.core.membership.instructions import Expired, Instruction
from phalanx.core.membership.merge_history import MergeHistory
from phalanx.core.membership.proposals import Entry, epoch
from phalanx.core.membership.protocol import MembershipProtocol
from phalanx.core.membership.statements import Statement, Statements
from phalanx.core.wire.frames import Component
from phalanx.sim.mutants.mutant import Mutant

# ------------------------------------------------------------------ N: normal form


def nothing_is_past(self: MergeHistory, member: MemberId, view: ViewId) -> bool:
    return False


def only_the_first(self: MergeHistory, entries: dict[MemberId, ViewId], view: ViewId) -> None:
    """Of the members of a view only the first is remembered."""
    first = min(entries)
    _ADD(self, {first: entries[first]}, view)


def newest_entry_alone(base: ViewId, known: dict[ViewId, Component], out: set[Entry]) -> None:
    """Of two entries of a member the older goes, not its whole component."""
    order = sorted(known, key=lambda view: (view == base, epoch(view), view))
    newest = {m: view for view in order for m in known[view].members if (m, view) not in out}
    for view in order:
        for member in known[view].members:
            if (member, view) not in out and newest[member] != view:
                out.add((member, view))


_ADD = MergeHistory.add

# ------------------------------------------------------------------ J: joins


def no_contact(self: MembershipProtocol, said: Statement) -> bool:
    """Proposals of members that are no entries are ignored, though they count this one."""
    return False


def not_awaited(self: MembershipProtocol, said: Statement) -> bool:
    """Members that count this one from a view it has left do not hear where it is."""
    return False


def nobody_was_heard(self: Statements, then: int) -> list[Statement]:
    """What strangers said before a view was installed is not looked at afterwards."""
    return []


def no_issue_is_kept(self: MembershipProtocol) -> frozenset[tuple[MemberId, int]]:
    """The frames with which strangers issued a proposal are dropped while they are strangers."""
    return frozenset()


def nobody_has_passed(self: Draft, member: MemberId) -> bool:
    """A member is followed though it has been in a view that counts this base."""
    return False


def propose_alone(self: MembershipProtocol, now: int, given: Expired) -> list[Instruction]:
    """A collection that nobody answered ends in a proposal all the same."""
    if now < self._collect_until or self.collected:
        return _ON_COLLECTED(self, now, given)
    draft = self._draft()
    return self._issue(now, draft.normal(), draft)


_ON_COLLECTED = MembershipProtocol._on_collected

MUTANTS: dict[str, Mutant] = {
    "component-merged-twice": Mutant(
        "N.1: merge a component again that was left or merged before",
        ((MergeHistory, "has_passed", nothing_is_past),),
        "walk",
    ),
    "half-the-past": Mutant(
        "N.1: remember of a merge only where its first member came from",
        ((MergeHistory, "add", only_the_first),),
        "walk",
    ),
    "components-share-members": Mutant(
        "N.2: keep the rest of a component when a member of it has a newer entry",
        ((normal_form, "_separate", newest_entry_alone),),
        "walk",
    ),
    "contact-by-proposal-ignored": Mutant(
        "J: ignore the proposal of a stranger that counts this member",
        ((MembershipProtocol, "_wants_me", no_contact),),
        "walk",
    ),
    "left-view-not-answered": Mutant(
        "J: say nothing to members that count this one from a view it has left",
        ((MembershipProtocol, "_is_awaited_elsewhere", not_awaited),),
        "walk",
    ),
    "earlier-waiting-forgotten": Mutant(
        "J: answer members that count this one from a view it has left only if they speak later",
        ((Statements, "heard_since", nobody_was_heard),),
        "walk",
    ),
    "strangers-closing-frames-dropped": Mutant(
        "B-15: drop the frame with which a stranger issued a proposal that counts this member",
        ((MembershipProtocol, "recorded_issues", no_issue_is_kept),),
        "walk",
    ),
    "followed-though-passed": Mutant(
        "R4: follow a member to its view that will refuse this base",
        ((Draft, "_has_passed", nobody_has_passed),),
        "walk",
    ),
    "join-of-nobody-proposed": Mutant(
        "J: propose a join that nobody answered",
        ((MembershipProtocol, "_on_collected", propose_alone),),
        "walk",
    ),
}
