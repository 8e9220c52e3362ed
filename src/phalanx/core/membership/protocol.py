"""The membership protocol: monotone proposals (docs/protocol/membership.md, rules R1 to T).

A member is in a view, its *base*. To change it, it issues proposals, each larger than the one
before. It installs its *current* proposal when it holds the frames with which every entry of it
issued it (R2), or an older one of its own when a member that its current proposal still counts
speaks from it (R3). It answers every proposal of the members that it counts (R5), and leaves out
those that have moved to another view (R4) or do not answer in time (T).

    stage        Suspected  Heard   Entered  Met      Attempted  Expired  AllSpoke  Resumed  Leave..
    -----------  ---------  ------  -------  -------  ---------  -------  --------  -------  -------
    STEADY       propose    weigh   weigh    collect  collect    speak    calm      again    leave
    COLLECTING   propose    weigh   weigh    -        gather     propose  calm      again    leave
    PROPOSED     propose    weigh   weigh    -        -          answer   calm      again    leave
    LEAVING      -          count   count    -        -          -        -         -        -

The rules are conditions, not reactions: after every input they are looked at again over the newest
statements of all entries, until nothing more follows (`_weigh`). A step returns at most one
`IssueProposal` or `Install`, as its last instruction; what follows from it comes with the `Entered`
or `Resumed` that the owner gives back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from phalanx.config import Config
from phalanx.core.effects import Action, Evidence, Stage
from phalanx.core.frames import Component
from phalanx.core.ids import MEMBERS_MAX, MemberId, View, ViewId
from phalanx.core.membership.normal_form import normal_form
from phalanx.core.membership.proposals import (
    Entry,
    Proposal,
    component_of,
    epoch,
    proposal_of,
)
from phalanx.core.membership.statements import Issue, Statement, Statements
from phalanx.core.membership.steps import (
    AllSpoke,
    Attempted,
    BroadcastAttempt,
    Entered,
    Expired,
    Fetch,
    Heard,
    Input,
    Install,
    Instruction,
    IssueProposal,
    LeaveRequested,
    Met,
    ReportStep,
    ReportSuspicion,
    Resumed,
    SendLeave,
    Suspected,
)
from phalanx.core.membership.view_history import ViewHistory

NEVER = 1 << 62
COMPONENTS_MAX = MEMBERS_MAX
"""A proposal names at most so many components."""
JOINED_MAX = 128
"""No join is started with more components than this; those of others are answered (R5)."""
CHANGES_MAX = 4
"""After so many answer times from the first issue a further issue gives no full answer time more:
newcomers do not keep a dead member in a proposal."""
STRAIN_MAX = 3
"""Members get up to this power of two more time to answer."""
CALM_CHANGES = 256
"""After so many times `change_ns` without a late member all get the shortest time again."""
SPEAK_FACTOR = 2
"""Members have so many times longer to speak in a new view than to answer a proposal: those that
lag behind must fetch what closed the view before."""

ProtocolStage = Literal["STEADY", "COLLECTING", "PROPOSED", "LEAVING"]
STAGES: tuple[ProtocolStage, ...] = ("STEADY", "COLLECTING", "PROPOSED", "LEAVING")


class _Draft:
    """The next proposal while it grows."""

    __slots__ = ("action", "components", "grown", "left_out", "reasons")

    def __init__(self, current: Proposal) -> None:
        self.grown = False
        self.components = dict(current.components)
        self.left_out = set(current.left_out)
        self.reasons: dict[MemberId, Evidence | None] = {}
        """Why members of the base are left out; None: it is known already."""
        self.action: Action | None = None

    def leave_out(self, member: MemberId, view: ViewId, reason: Evidence | None) -> bool:
        if (member, view) in self.left_out:
            return False
        self.grown = True
        self.left_out.add((member, view))
        self.reasons.setdefault(member, reason)
        return True

    def unite(self, components: dict[ViewId, Component], left_out: frozenset[Entry]) -> None:
        self.grown = True
        self.components |= components
        for member, _ in left_out - self.left_out:
            self.reasons.setdefault(member, "TOLD")
        self.left_out |= left_out


class MembershipProtocol:
    """One member's part in the protocol. `step` is its only entrance."""

    def __init__(self, me: MemberId, view: View, config: Config) -> None:
        self.me = me
        self.view = view
        self.stage: ProtocolStage = "STEADY"
        self.base = component_of(view)
        self.issued: list[Proposal] = []
        """From this base, each larger than the one before."""
        self.collected: dict[ViewId, Component] = {}
        """Components that want to join, before anything is proposed."""
        self._config = config
        self.unchanged = proposal_of((self.base,))
        """The base alone: where proposals start from."""
        self._history = ViewHistory(view.id)
        self._statements = Statements()
        self._statements.protect(view.members)
        self._suspects: set[MemberId] = set()
        """Members of the base that this one itself suspects, or that leave."""
        self._goodbyes: set[MemberId] = set()
        """While leaving: members that have left this one out."""
        self._collect_until = NEVER
        self._answer_until = NEVER
        self._speak_until = NEVER
        self._first_issue_ns = 0
        self._grace = False
        """Members that have answered in vain got more time already."""
        self._strain = 0
        self._strained_ns = 0

    # -------------------------------------------------------------- what can be asked

    @property
    def current(self) -> Proposal:
        """The proposal of the last issue; before the first, the base unchanged."""
        return self.issued[-1] if self.issued else self.unchanged

    @property
    def phase(self) -> int:
        """1 from the first issue to the install (rule Cut)."""
        return 1 if self.issued or self.stage == "LEAVING" else 0

    @property
    def changing(self) -> bool:
        return self.stage != "STEADY"

    @property
    def leaving(self) -> bool:
        return self.stage == "LEAVING"

    @property
    def has_left(self) -> bool:
        """All members that this one still counts have left it out."""
        rest = {m for m in self.view.members if self.counts(m)} - {self.me}
        return self.leaving and rest <= self._goodbyes

    @property
    def joining(self) -> Stage:
        """How far a join is, for the journal."""
        if self.stage == "COLLECTING":
            return "COLLECT"
        return "COMMIT" if len(self.current.components) > 1 else "IDLE"

    def counts(self, member: MemberId) -> bool:
        """Whether a member of the base is an entry of the current proposal."""
        return self.current.entries.get(member) == self.base.view

    def knows(self, member: MemberId) -> bool:
        """Whether a member is listed in the base or in a component of the current proposal."""
        return member in self.view.members or any(
            member in c.members for c in self.current.components.values()
        )

    def closings(self) -> tuple[int, ...]:
        """Per member of the view that the current proposal makes, the frame that issued it, as far
        as it is here; 0 if it is not."""
        current = self.current
        found = (
            self._statements.issue(m, current.entries[m], current) for m in current.view.members
        )
        return tuple(0 if issue is None else issue.number for issue in found)

    def deadline(self) -> int:
        if self.stage == "PROPOSED":
            return self._answer_until
        return min(self._collect_until, self._speak_until)

    # -------------------------------------------------------------- the machine

    def step(self, now: int, given: Input) -> list[Instruction]:
        """Take one input; what must be done about it, in order."""
        handler = TABLE[self.stage][type(given)]
        if handler is None:
            return []
        out: list[Instruction] = getattr(self, handler)(now, given)
        return out

    def watch(self, now: int) -> None:
        """A view has begun: if it has several members, they must speak in it in time."""
        several = len(self.view.members) > 1
        self._speak_until = now + SPEAK_FACTOR * self._change_ns(now) if several else NEVER

    # -------------------------------------------------------------- handlers

    def _on_suspected(self, now: int, given: Suspected) -> list[Instruction]:
        draft, entries = self._draft(), self.current.entries
        for member in given.members:
            view = entries.get(member)
            if member == self.me or view is None:
                continue
            draft.leave_out(member, view, given.evidence)
            if view == self.base.view and given.evidence != "T_CHANGE":
                self._suspects.add(member)
        return self._weigh(now, draft)

    def _on_heard(self, now: int, given: Heard) -> list[Instruction]:
        said = given.statement
        if said.member == self.me:
            return []
        news = self._statements.hear(now, said)
        if said.proposal is not None and said.view != self.base.view:
            news = self._record(said) or news
        out = self._fetches(said)
        draft = self._draft()
        few = len(draft.components) < JOINED_MAX
        if given.contact and few and self._wants_me(said) and self._can_take(draft, said):
            self._take(draft, said)
        elif not news:
            return out
        return out + self._weigh(now, draft, said.member, fresh=True)

    def _on_entered(self, now: int, given: Entered) -> list[Instruction]:
        said = given.statement
        if said.member != self.me:
            self._statements.hear(now, said)
        if said.leaves and said.member != self.me:
            return self._on_suspected(now, Suspected((said.member,)))
        if said.proposal is not None and said.view == self.base.view:
            self._record(said)
        return self._weigh(now, self._draft(), said.member)

    def _on_met(self, now: int, given: Met) -> list[Instruction]:
        if given.member in self.view.members or given.view in self._history:
            return []
        return self._collect(now, own=True)

    def _on_attempted(self, now: int, given: Attempted) -> list[Instruction]:
        """An attempt to join in a steady view starts a collection."""
        out: list[Instruction] = []
        if given.member in self.view.members:
            if given.component.view == self.base.view:
                out = self._collect(now, own=False)
            return out
        if given.component.view not in self._history:
            out = self._collect(now, own=True)
            self._gather(now, given)
        return out

    def _gather(self, now: int, given: Attempted) -> list[Instruction]:
        """A component joins the collection, if it can be merged."""
        draft = self._draft()
        draft.components |= self.collected
        said = Statement(given.member, 0, given.component)
        if len(self.collected) < JOINED_MAX and self._can_take(draft, said):
            self.collected[given.component.view] = given.component
        return []

    def _on_collected(self, now: int, given: Expired) -> list[Instruction]:
        """The collection is over: propose what there is, or give up."""
        if now >= self._collect_until:
            self._collect_until = NEVER
            self.stage = "STEADY"
            if self.collected:
                draft = self._draft()
                draft.unite(self.collected, frozenset())
                out = self._weigh(now, draft)
                self.collected.clear()
                if self.issued:
                    return out
            return [self._report("FORGET", self.unchanged)]
        return self._on_unspoken(now, given)

    def _on_unanswered(self, now: int, given: Expired) -> list[Instruction]:
        """Rule T: members that did not issue the current proposal in time are left out. Those that
        did, or that have installed an older one, get as much time again: what they sent is
        still being fetched."""
        if now < self._answer_until:
            return []
        self._answer_until = now + self._change_ns(now)
        late = [m for m, view in self.current.entries.items() if not self._has_issued(m, view)]
        excused = [m for m in late if self._is_excused(m)]
        if len(excused) < len(late):
            late = [m for m in late if m not in excused]
        elif not self._grace:
            self._grace = True
            return []
        self._note_strain(now, late)
        return self._on_suspected(now, Suspected(tuple(late), "T_CHANGE"))

    def _on_unspoken(self, now: int, given: Expired) -> list[Instruction]:
        """Rule T: members that have not spoken in the view in time are left out."""
        if now < self._speak_until:
            return []
        self._speak_until = now + SPEAK_FACTOR * self._change_ns(now)
        if not given.unspoken:
            return []
        self._note_strain(now, given.unspoken)
        return self._on_suspected(now, Suspected(given.unspoken, "T_CHANGE"))

    def _on_all_spoke(self, now: int, given: AllSpoke) -> list[Instruction]:
        self._speak_until = NEVER
        return []

    def _on_resumed(self, now: int, given: Resumed) -> list[Instruction]:
        """In a new view: own suspicions hold on, and what was heard is looked at again."""
        draft = self._draft()
        for member in sorted(self._suspects):
            draft.leave_out(member, self.base.view, None)
        return self._weigh(now, draft)

    def _on_leave(self, now: int, given: LeaveRequested) -> list[Instruction]:
        report = self._report("LEAVE", self.current)
        self.stage = "LEAVING"
        self._collect_until = self._answer_until = self._speak_until = NEVER
        return [report, SendLeave()]

    def _on_goodbye(self, now: int, given: Heard | Entered) -> list[Instruction]:
        """While leaving: a member leaves this one out, or is in a view without it."""
        said = given.statement
        out = said.proposal is not None and self.me not in said.proposal.entries
        if said.member in self.view.members and (
            out or (said.component.members and self.me not in said.component.members)
        ):
            self._goodbyes.add(said.member)
        return []

    # -------------------------------------------------------------- the rules

    def _weigh(
        self, now: int, draft: _Draft, about: MemberId | None = None, fresh: bool = False
    ) -> list[Instruction]:
        """Look at R2 to R5 over all that is known: install, or issue what follows, or wait.

        `about` is the only member that has said something new, `fresh` if it did so itself just
        now. Every step ends in a fixpoint, so with an unchanged draft the others add nothing.
        """
        ready = self._installable()
        if ready is not None:
            return self._install(now, ready)
        if about is not None and not draft.grown and not self._adds(draft, about, fresh):
            proposal = self.current
        else:
            proposal = self._fixpoint(draft, about if fresh else None)
        if not self._is_due(proposal):
            return []
        if self.collected:
            draft.components |= self.collected
            joined = self._fixpoint(draft, about if fresh else None)
            if len(joined.entries) <= MEMBERS_MAX:
                proposal = joined
        return self._issue(now, proposal, draft)

    def _installable(self) -> Proposal | None:
        """R2: the current proposal, issued by all its entries. R3: an older one, on the word of a
        member that the current one counts with the same entry."""
        for proposal in self.issued:
            if proposal is self.current or self._has_witness(proposal):
                if all(
                    self._statements.issue(member, view, proposal) is not None
                    for member, view in proposal.entries.items()
                ):
                    return proposal
        return None

    def _has_witness(self, proposal: Proposal) -> bool:
        """R3: some t speaks, or spoke, from the view, and its entry counts now as it did then."""
        counted, view = self.current.entries, proposal.view.id
        return any(
            member != self.me
            and counted.get(member) == came_from
            and self._statements.has_spoken_from(member, view)
            for member, came_from in proposal.entries.items()
        )

    def _adds(self, draft: _Draft, member: MemberId, fresh: bool) -> bool:
        """Whether what this member has said adds to an unchanged draft."""
        view, said = self.current.entries.get(member), self._statements.newest(member)
        if view is None or said is None or member == self.me:
            return False
        return self._consider(draft, self.current, view, said, fresh)

    def _fixpoint(self, draft: _Draft, fresh: MemberId | None) -> Proposal:
        """R4 and R5 over the newest statements of all entries, until nothing is new."""
        while True:
            proposal = self._normal(draft)
            grew = False
            for member, view in proposal.entries.items():
                if member != self.me and (said := self._statements.newest(member)) is not None:
                    grew = self._consider(draft, proposal, view, said, member == fresh) or grew
            if not grew:
                return proposal

    def _consider(
        self, draft: _Draft, proposal: Proposal, view: ViewId, said: Statement, fresh: bool
    ) -> bool:
        """What the newest statement of an entry adds to the draft; whether it adds anything."""
        if said.view == view:
            return self._hear(draft, proposal, said)
        if epoch(said.view) < epoch(view):
            return False  # it has not come to its entry's view yet
        if any(
            own.view.id == said.view and own.entries.get(said.member) == view for own in self.issued
        ):
            return False  # R3: what closed that view is being fetched
        draft.leave_out(said.member, view, "MOVED")  # R4
        if fresh and self._can_take(draft, said):
            draft.action = "FOLLOW"
            self._take(draft, said)
        return True

    def _hear(self, draft: _Draft, proposal: Proposal, said: Statement) -> bool:
        """R5: unite with the proposal of an entry, unless that leaves this member out."""
        theirs = said.proposal
        if said.leaves and said.view != self.base.view:
            return draft.leave_out(said.member, said.view, None)
        if theirs is None or theirs == proposal or theirs <= proposal:
            return False
        if (self.me, self.base.view) in theirs.left_out or self._is_too_large(draft, theirs):
            return draft.leave_out(said.member, said.view, "MOVED")
        draft.unite(theirs.components, theirs.left_out)
        return True

    def _is_due(self, proposal: Proposal) -> bool:
        """Whether a proposal must be issued. The first must change members or live components,
        unless it answers a member of the base (R5 always answers)."""
        if self.issued:
            return proposal != self.current
        if proposal.live != (self.base.view,) or len(proposal.entries) < len(self.view.members):
            return True
        return any(
            (said := self._statements.newest(member)) is not None
            and said.view == self.base.view
            and said.proposal is not None
            for member in self.view.members
        )

    def _wants_me(self, said: Statement) -> bool:
        """J: a member that is no entry proposes to unite with this one as it stands."""
        if said.member in self.current.entries or said.proposal is None:
            return False
        return said.proposal.entries.get(self.me) == self.base.view

    def _can_take(self, draft: _Draft, said: Statement) -> bool:
        """Whether the view of a member can become a live component of the draft (rule N)."""
        component = said.component
        if said.member not in component.members or said.view in draft.components:
            return False
        if said.view in self._history or self.me in component.members:
            return False
        if said.proposal is not None and (
            (self.me, self.base.view) in said.proposal.left_out
            or self._is_too_large(draft, said.proposal)
        ):
            return False
        trial = _Draft(self.unchanged)
        trial.components, trial.left_out = dict(draft.components), set(draft.left_out)
        self._take(trial, said)
        taken = self._normal(trial)
        return said.view in taken.live and len(taken.entries) <= MEMBERS_MAX

    def _take(self, draft: _Draft, said: Statement) -> None:
        proposal = said.proposal
        draft.unite({said.view: said.component}, frozenset())
        if proposal is not None:
            draft.unite(proposal.components, proposal.left_out)

    def _is_too_large(self, draft: _Draft, theirs: Proposal) -> bool:
        """Honest members never come near; a forger shall not make proposals that do not fit."""
        components, left_out = (
            draft.components | theirs.components,
            draft.left_out | theirs.left_out,
        )
        if len(components) > COMPONENTS_MAX or len(left_out) > 4 * MEMBERS_MAX:
            return True
        listed = sum(len(component.members) for component in components.values())
        return listed > MEMBERS_MAX and listed - len(left_out) > MEMBERS_MAX

    def _draft(self) -> _Draft:
        return _Draft(self.current)

    def _normal(self, draft: _Draft) -> Proposal:
        return normal_form(
            self.me,
            self.base.view,
            draft.components.values(),
            draft.left_out,
            self._history.__contains__,
        )

    # -------------------------------------------------------------- doing

    def _collect(self, now: int, own: bool) -> list[Instruction]:
        self.stage = "COLLECTING"
        self._collect_until = now + self._config.collect_ns
        report = self._report("START", self.unchanged)
        return [report, BroadcastAttempt()] if own else [report]

    def _issue(self, now: int, proposal: Proposal, draft: _Draft) -> list[Instruction]:
        """R1: a larger proposal, in a frame of its own."""
        before = self.current
        assert before <= proposal, "proposals only grow"
        assert proposal.entries.get(self.me) == self.base.view, "a member counts itself"
        action: Action = "COMMIT" if len(proposal.components) > 1 else "FA"
        out: list[Instruction] = []
        for member in self.view.members:
            if self.counts(member) and proposal.entries.get(member) != self.base.view:
                reason = draft.reasons.get(member, "TOLD")
                if reason is not None:
                    out.append(ReportSuspicion(member, reason))
        self.issued.append(proposal)
        self.collected.clear()
        self.stage = "PROPOSED"
        self._collect_until = NEVER
        change_ns = self._change_ns(now)
        if len(self.issued) == 1:
            self._first_issue_ns = now
        if now - self._first_issue_ns > CHANGES_MAX * change_ns:
            change_ns //= CHANGES_MAX
        self._answer_until = now + change_ns
        self._grace = False
        out.append(self._report(draft.action or action, before))
        out.append(IssueProposal(proposal))
        return out

    def _install(self, now: int, proposal: Proposal) -> list[Instruction]:
        issues: dict[MemberId, Issue] = {}
        for member, view in proposal.entries.items():
            issue = self._statements.issue(member, view, proposal)
            assert issue is not None
            issues[member] = issue
        before = self.view
        report = ReportStep("CLOSED", proposal, (), ())
        self._history.add((before.id, *proposal.live, proposal.view.id))
        self._statements.forget_issues(proposal.view.id)
        self.view = proposal.view
        self.base = component_of(self.view)
        self.unchanged = proposal_of((self.base,))
        self.issued = []
        self.collected.clear()
        self.stage = "STEADY"
        self._suspects &= set(self.view.members)
        self._collect_until = self._answer_until = NEVER
        self.watch(now)
        self._statements.protect(self.view.members)
        return [report, Install(before, proposal, issues)]

    def _record(self, said: Statement) -> bool:
        """Keep the frame that issued a proposal; whether it is one, and new."""
        proposal = said.proposal
        assert proposal is not None
        if said.delivered is None or self.me not in proposal.entries:
            return False
        if self._statements.issue(said.member, said.view, proposal) is not None:
            return False
        issue = Issue(said.issued, said.start, said.delivered)
        self._statements.record(said.member, said.view, proposal, issue)
        return True

    def _fetches(self, said: Statement) -> list[Instruction]:
        """The frames that issued a proposal of this member's and are not here, as far as a
        statement tells their numbers: of the proposal of its sender, or of its view (R3)."""
        wanted: dict[MemberId, int] = {}
        proposal = said.proposal
        counted = proposal is not None and proposal.entries.get(self.me) == self.base.view
        if proposal is not None and counted and said.view != self.base.view:
            if said.issued and self._statements.issue(said.member, said.view, proposal) is None:
                wanted[said.member] = said.issued
        for own in self.issued:
            issued = said.openings if own.view.id == said.view else {}
            if own == proposal:
                issued = said.closings
            wanted |= {
                member: issued.get(member, 0)
                for member, view in own.entries.items()
                if issued and self._statements.issue(member, view, own) is None
            }
        places = tuple((m, number) for m, number in sorted(wanted.items()) if number)
        return [Fetch(places)] if places else []

    # -------------------------------------------------------------- time

    def _has_issued(self, member: MemberId, view: ViewId) -> bool:
        return self._statements.issue(member, view, self.current) is not None

    def _is_excused(self, member: MemberId) -> bool:
        """It has issued the current proposal and the frame is on its way, or it speaks from a view
        that this member has proposed."""
        said = self._statements.newest(member)
        if said is None:
            return False
        return said.proposal == self.current or any(own.view.id == said.view for own in self.issued)

    def _change_ns(self, now: int) -> int:
        """How long members have to answer. The time doubles after each miss: on a network that is
        slower than the settings say, changes would break each other off without end."""
        change = self._config.change_ns
        if self._strain and now - self._strained_ns > CALM_CHANGES * change:
            self._strain = 0
        return change << self._strain

    def _note_strain(self, now: int, late: Sequence[MemberId]) -> None:
        if late:
            self._strain = min(self._strain + 1, STRAIN_MAX)
            self._strained_ns = now

    # -------------------------------------------------------------- reporting

    def _report(self, action: Action, before: Proposal) -> ReportStep:
        return ReportStep(action, self.current, _left_out(before), _left_out(self.current))


def _left_out(proposal: Proposal) -> tuple[MemberId, ...]:
    """Members that have no entry left."""
    return tuple(sorted({member for member, _ in proposal.left_out} - proposal.entries.keys()))


_AT_ANY: dict[type[Input], str | None] = {
    Suspected: "_on_suspected",
    Heard: "_on_heard",
    Entered: "_on_entered",
    AllSpoke: "_on_all_spoke",
    Resumed: "_on_resumed",
    LeaveRequested: "_on_leave",
}
TABLE: dict[ProtocolStage, dict[type[Input], str | None]] = {
    "STEADY": {**_AT_ANY, Met: "_on_met", Attempted: "_on_attempted", Expired: "_on_unspoken"},
    "COLLECTING": {**_AT_ANY, Met: None, Attempted: "_gather", Expired: "_on_collected"},
    "PROPOSED": {**_AT_ANY, Met: None, Attempted: None, Expired: "_on_unanswered"},
    "LEAVING": {
        Suspected: None,
        Heard: "_on_goodbye",
        Entered: "_on_goodbye",
        Met: None,
        Attempted: None,
        Expired: None,
        AllSpoke: None,
        Resumed: None,
        LeaveRequested: None,
    },
}
"""Stage and input to the handler; None where nothing follows."""
