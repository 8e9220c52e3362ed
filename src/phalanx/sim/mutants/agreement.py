"""Mutants of how members agree on a view: rules R1 to R5 and T of docs/protocol/membership.md."""

from __future__ import annotations

from phalanx.core.ids import MemberId, View, ViewId, digest_of
from phalanx.core.membership import proposals
from phalanx.core.membership.draft import Draft
from phalanx.core.membership.instructions import (
    Expired,
    Heard,
    Instruction,
    IssueProposal,
    ReportStep,
    Suspected,
)
from phalanx.core.membership.proposals import Proposal, epoch, proposal_of
from phalanx.core.membership.protocol import MembershipProtocol
from phalanx.core.membership.statements import Statement, Statements
from phalanx.sim.mutants.mutant import Mutant

# ------------------------------------------------------------------ R1: proposals only grow


def abandon(self: MembershipProtocol, now: int, given: Suspected) -> list[Instruction]:
    """Give up the other components when one of their members is suspected."""
    base, entries = self.base.view, self.current.entries
    own = {entry for entry in self.current.left_out if entry[1] == base}
    smaller = proposal_of((self.base,), own)
    foreign = any(entries.get(member, base) != base for member in given.members)
    if not foreign or smaller in self.issued or not self.issued:
        return _ON_SUSPECTED(self, now, given)
    self.issued.append(smaller)
    self._answer_until = now + self._time.answer_ns(now)
    return [ReportStep("FA", smaller, (), ()), IssueProposal(smaller)]


# ------------------------------------------------------------------ R2 and R3: what is installed


def any_issued(self: MembershipProtocol) -> Proposal | None:
    """Install any own proposal that all its entries have issued, also an outgrown one."""
    return next((p for p in self.issued if _holds(self, p)), None)


def any_of_the_same_components(self: MembershipProtocol) -> Proposal | None:
    """... if only suspicions have outgrown it."""
    same = [p for p in self.issued if p.components.keys() == self.current.components.keys()]
    return next((p for p in same if _holds(self, p)), None) or _INSTALLABLE(self)


def _holds(self: MembershipProtocol, proposal: Proposal) -> bool:
    issue = self._statements.issue
    return all(issue(m, view, proposal) is not None for m, view in proposal.entries.items())


def larger_will_do(self: MembershipProtocol) -> Proposal | None:
    """Count an entry's larger proposal as an answer."""
    current = self.current
    if not self.issued:
        return None
    for member, view in current.entries.items():
        said = self._statements.newest(member)
        if self._statements.issue(member, view, current) is None:
            if said is None or said.view != view or said.proposal is None:
                return _INSTALLABLE(self)
            found = self._statements.issue(member, view, said.proposal)
            if not current <= said.proposal or found is None:
                return _INSTALLABLE(self)
            self._statements.record(member, view, current, found, self.base.view)
    return current


def no_witness(self: MembershipProtocol, proposal: Proposal) -> bool:
    return False


def any_witness(self: MembershipProtocol, proposal: Proposal) -> bool:
    """Believe also a member that the current proposal leaves out."""
    view = proposal.view.id
    return any(
        member != self.me and self._statements.has_spoken_from(member, view)
        for member in proposal.entries
    )


def witness_of_another_entry(self: MembershipProtocol, proposal: Proposal) -> bool:
    """Believe also a member that the current proposal counts, but in another component."""
    view = proposal.view.id
    return any(
        member != self.me and self._statements.has_spoken_from(member, view)
        for member in self.current.entries.keys() & proposal.entries.keys()
    )


def recorded_on_arrival(self: MembershipProtocol, now: int, given: Heard) -> list[Instruction]:
    """Count a closing frame of the own view before its past is here."""
    said = given.statement
    if said.proposal is not None and said.member != self.me:
        self._record(said)
    return _ON_HEARD(self, now, given)


def issues_are_kept(self: Statements, view: ViewId) -> None:
    """What was issued from a view before it was installed here counts without having entered."""


_ON_SUSPECTED = MembershipProtocol._on_suspected
_INSTALLABLE = MembershipProtocol._installable
_ON_HEARD = MembershipProtocol._on_heard

# ------------------------------------------------------------------ R4: members that have moved


def never_moved(self: Draft, proposal: Proposal, view: ViewId, said: Statement, just: bool) -> bool:
    return said.view == view and self._unite_with(proposal, said)


def moved_upwards_only(
    self: Draft, proposal: Proposal, view: ViewId, said: Statement, just: bool
) -> bool:
    """A member in another view of the same epoch counts as still here."""
    if said.view != view and epoch(said.view) == epoch(view):
        return False
    return _CONSIDER(self, proposal, view, said, just)


def never_followed(
    self: Draft, proposal: Proposal, view: ViewId, said: Statement, just: bool
) -> bool:
    return _CONSIDER(self, proposal, view, said, False)


_CONSIDER = Draft._consider

# ------------------------------------------------------------------ R5: what is answered


def nothing_to_answer(self: MembershipProtocol, proposal: Proposal, asked: bool) -> bool:
    """A first proposal that changes nothing is not issued, though a member waits for it."""
    if self.issued:
        return proposal != self.current
    return proposal.live != (self.base.view,) or len(proposal.entries) < len(self.view.members)


def unite_all_but_me(self: Draft, proposal: Proposal, said: Statement) -> bool:
    """A proposal that leaves this member out is united with, all but that."""
    theirs, mine = said.proposal, (self._me, self._base)
    if theirs is None or mine not in theirs.left_out:
        return _UNITE_WITH(self, proposal, said)
    rest = theirs.left_out - {mine}
    if rest <= self.left_out and theirs.components.keys() <= self.components.keys():
        return False
    self.unite(theirs.components, rest)
    return True


def oldest_last(self: Statements, now: int, statement: Statement) -> bool:
    """The statement that arrived last counts, whatever its number."""
    self._newest.pop(statement.member, None)
    return _HEAR_STATEMENT(self, now, statement)


_UNITE_WITH = Draft._unite_with
_HEAR_STATEMENT = Statements.hear

# ------------------------------------------------------------------ T: time-outs


def no_time_out(self: MembershipProtocol, now: int, given: Expired) -> list[Instruction]:
    if now >= self._answer_until:
        self._answer_until = now + self._time.answer_ns(now)
    return []


def never_excused(self: MembershipProtocol, member: MemberId) -> bool:
    return False


# ------------------------------------------------------------------ epochs and names of views


def epoch_of_the_newest(self: Proposal) -> View:
    view = _MADE(self)
    joins = max(v.joins for v in self.live)
    return View(ViewId(joins, 1, view.id.digest), view.members, view.context)


def named_by_epoch(self: Proposal) -> View:
    view = _MADE(self)
    number = ViewId(view.id.joins, view.id.removals, digest_of(b"view"))
    return View(number, view.members, view.context)


def any_view(component: object) -> bool:
    return True


_MADE = Proposal._made

MUTANTS: dict[str, Mutant] = {
    "proposals-shrink": Mutant(
        "R1: give up the other components when one of their members is suspected",
        ((MembershipProtocol, "_on_suspected", abandon),),
        "walk",
    ),
    "older-proposal-installed": Mutant(
        "R2: install an older proposal when all its entries have issued it",
        ((MembershipProtocol, "_installable", any_issued),),
        "walk",
    ),
    "older-with-same-components": Mutant(
        "R2: ... if the current one names the same components",
        ((MembershipProtocol, "_installable", any_of_the_same_components),),
        "walk",
    ),
    "larger-proposal-will-do": Mutant(
        "R2: count an entry that has issued a larger proposal",
        ((MembershipProtocol, "_installable", larger_will_do),),
        "walk",
    ),
    "closing-frame-on-arrival": Mutant(
        "R2: count a closing frame of the own view before its past is here",
        ((MembershipProtocol, "_on_heard", recorded_on_arrival),),
        "walk",
    ),
    "issues-before-their-view": Mutant(
        "R2: count what was issued from a view before this member installed it",
        ((Statements, "forget_issues", issues_are_kept),),
        "walk",
    ),
    "no-install-by-tag": Mutant(
        "R3: learn nothing from a member that speaks from a view this one has proposed",
        ((MembershipProtocol, "_has_witness", no_witness),),
        "walk",
    ),
    "any-witness": Mutant(
        "R3: believe also a member that the current proposal leaves out",
        ((MembershipProtocol, "_has_witness", any_witness),),
        "walk",
    ),
    "witness-of-another-entry": Mutant(
        "R3: believe also a member that the current proposal counts in another component",
        ((MembershipProtocol, "_has_witness", witness_of_another_entry),),
        "walk",
    ),
    "moved-members-kept": Mutant(
        "R4: go on counting a member that speaks from another view",
        ((Draft, "_consider", never_moved),),
        "walk",
    ),
    "moved-upwards-only": Mutant(
        "R4: go on counting a member that speaks from another view of the same epoch",
        ((Draft, "_consider", moved_upwards_only),),
        "walk",
    ),
    "moved-is-never-followed": Mutant(
        "R4: leave a member out that has moved, without its new component",
        ((Draft, "_consider", never_followed),),
        "walk",
    ),
    "no-answer-without-news": Mutant(
        "R5: do not answer a member whose proposal changes nothing for this one",
        ((MembershipProtocol, "_is_due", nothing_to_answer),),
        "walk",
    ),
    "unites-what-names-me": Mutant(
        "R5: unite with a proposal that leaves this member out",
        ((Draft, "_unite_with", unite_all_but_me),),
        "walk",
    ),
    "late-statements-believed": Mutant(
        "R5: take what arrived last for what was sent last",
        ((Statements, "hear", oldest_last),),
        "walk",
    ),
    "no-change-time-out": Mutant(
        "T: wait without end for a member that does not answer a proposal",
        ((MembershipProtocol, "_on_unanswered", no_time_out),),
        "walk",
    ),
    "no-grace": Mutant(
        "T: leave out members whose answer is still being fetched",
        ((MembershipProtocol, "_is_excused", never_excused),),
        "walk",
    ),
    "epoch-not-raised": Mutant(
        "M-4: let a view have the epoch of its newest component",
        ((Proposal, "_made", epoch_of_the_newest),),
        "walk",
    ),
    "view-id-reused": Mutant(
        "M-4: name a view by its epoch alone, whoever is in it and whatever made it",
        ((Proposal, "_made", named_by_epoch), (proposals, "is_view", any_view)),
        "walk",
    ),
}
