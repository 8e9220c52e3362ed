"""The next proposal while it grows: rules R4, R5 and N of docs/protocol/membership.md.

A draft starts as the current proposal. Suspicions, components and roles are added; `fixpoint` then
adds what follows from the newest statements of its entries, until nothing more does, and returns
its normal form, which may be issued.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from phalanx.core.effects import Action, Evidence
from phalanx.core.ids import MemberId, ViewId
from phalanx.core.membership.merge_history import MergeHistory
from phalanx.core.membership.normal_form import normal_form
from phalanx.core.membership.proposals import Entry, Proposal, epoch, fits
from phalanx.core.membership.statements import Statement, Statements
from phalanx.core.roles import Role, Roles, united
from phalanx.core.wire.frames import Component


class Draft:
    __slots__ = (
        "_base",
        "_current",
        "_history",
        "_issued",
        "_me",
        "_statements",
        "action",
        "components",
        "grown",
        "left_out",
        "reasons",
        "roles",
    )

    def __init__(
        self,
        me: MemberId,
        base: ViewId,
        current: Proposal,
        issued: Sequence[Proposal],
        history: MergeHistory,
        statements: Statements,
    ) -> None:
        self._me = me
        self._base = base
        self._current = current
        self._issued = issued
        self._history = history
        self._statements = statements
        self.components = dict(current.components)
        self.left_out = set(current.left_out)
        self.roles = current.assigned
        self.grown = False
        """Something was added."""
        self.reasons: dict[MemberId, Evidence | None] = {}
        """Why members are left out; None: that was reported already."""
        self.action: Action | None = None

    # -------------------------------------------------------------- adding

    def leave_out(self, member: MemberId, view: ViewId, reason: Evidence | None) -> bool:
        """Leave an entry out; whether that is new."""
        if (member, view) in self.left_out:
            return False
        self.grown = True
        self.left_out.add((member, view))
        self.reasons.setdefault(member, reason)
        return True

    def assign(self, role: Role) -> None:
        """Give a member a role, unless it has a greater one or there is no room."""
        if self.has_room({}, roles=(role,)):
            self.grown = True
            self.roles = united(self.roles, (role,))

    def unite(
        self,
        components: Mapping[ViewId, Component],
        left_out: frozenset[Entry],
        roles: Roles = (),
    ) -> None:
        self.grown = True
        if roles:
            self.roles = united(self.roles, roles)
        for view, component in components.items():
            self.components.setdefault(view, component)
        for member, _ in left_out - self.left_out:
            self.reasons.setdefault(member, "TOLD")
        self.left_out |= left_out

    def take(self, said: Statement) -> None:
        """Add the view of a member, with its proposal."""
        self.unite({said.view: said.component}, frozenset())
        if said.proposal is not None:
            self.join(said.proposal)

    def join(self, theirs: Proposal) -> None:
        """Add all of a proposal."""
        self.unite(theirs.components, theirs.left_out, theirs.assigned)

    def can_take(self, said: Statement) -> bool:
        """Whether the view of a member can become a live component (rule N)."""
        component, theirs = said.component, said.proposal
        if said.member not in component.members or said.view in self.components:
            return False
        if self._me in component.members or self._history.is_past(component):
            return False
        if theirs is not None and self._names_me(theirs):
            return False
        components, left_out = {said.view: component}, frozenset[Entry]()
        roles: Roles = ()
        if theirs is not None:
            components, left_out = components | theirs.components, theirs.left_out
            roles = theirs.assigned
        if not self.has_room(components, left_out, roles):
            return False
        trial = Draft(
            self._me, self._base, self._current, self._issued, self._history, self._statements
        )
        trial.components, trial.left_out = dict(self.components), set(self.left_out)
        trial.roles = self.roles
        trial.take(said)
        return said.view in trial.normal().live

    def has_room(
        self,
        components: Mapping[ViewId, Component],
        left_out: frozenset[Entry] = frozenset(),
        roles: Roles = (),
    ) -> bool:
        """Whether the union with these is a proposal of a size that there can be. Its normal form
        leaves out more entries, but names the same components."""
        every = self.components | dict(components)
        return fits(every.values(), len(self.left_out | left_out), united(self.roles, roles))

    # -------------------------------------------------------------- what follows

    def fixpoint(self, just: MemberId | None = None) -> Proposal:
        """R4 and R5 over the newest statements of all entries, until nothing is new. A frame of the
        member `just` has been heard in this step."""
        while True:
            proposal = self.normal()
            grew = False
            for member, view in proposal.entries.items():
                if member != self._me and (said := self._statements.newest(member)) is not None:
                    grew = self._consider(proposal, view, said, member == just) or grew
            if not grew:
                return proposal

    def hear(self, member: MemberId, just: MemberId | None) -> bool:
        """Add what follows from the newest statement of one member (R4, R5) to a draft that is the
        current proposal; whether anything was added."""
        view, said = self._current.entries.get(member), self._statements.newest(member)
        if view is None or said is None or member == self._me:
            return False
        return self._consider(self._current, view, said, member == just)

    def _consider(self, proposal: Proposal, view: ViewId, said: Statement, just: bool) -> bool:
        """What the newest statement of an entry adds; whether it adds anything (rule R4)."""
        if said.view == view:
            return self._unite_with(proposal, said)
        if epoch(said.view) < epoch(view):
            return False  # it has not come to its entry's view yet
        if any(
            own.view.id == said.view and own.entries.get(said.member) == view
            for own in self._issued
        ):
            return False  # R3: what closed that view is being fetched
        self.leave_out(said.member, view, "MOVED")  # R4
        if just and not self._has_passed(said.member) and self.can_take(said):
            self.action = "FOLLOW"
            self.take(said)
        return True

    def _has_passed(self, member: MemberId) -> bool:
        """Whether a member has been in a view that this one issued and has not installed: it
        refuses this base from then on (N.1)."""
        return any(self._statements.has_spoken_from(member, own.view.id) for own in self._issued)

    def _unite_with(self, proposal: Proposal, said: Statement) -> bool:
        """Rule R5: unite with the proposal of an entry, unless that leaves this member out."""
        theirs = said.proposal
        if said.leaves and said.view != self._base:
            return self.leave_out(said.member, said.view, None)
        if theirs is None or theirs == proposal or theirs <= proposal:
            return False
        fits_in = self.has_room(theirs.components, theirs.left_out, theirs.assigned)
        if self._names_me(theirs) or not fits_in:
            return self.leave_out(said.member, said.view, "MOVED")
        self.join(theirs)
        return True

    def normal(self) -> Proposal:
        return normal_form(
            self._me,
            self._base,
            self.components.values(),
            self.left_out,
            self._history.is_past,
            self.roles,
        )

    def _names_me(self, theirs: Proposal) -> bool:
        return (self._me, self._base) in theirs.left_out
