"""The membership protocol: monotone proposals (rules R1 to R5, J and T).

A member is in a view, its *base*. To change it, it issues proposals, each larger than the one
before. It installs its *current* proposal when it holds the frames with which every entry of it
issued it (R2), or an older one of its own when a member that its current proposal still counts
speaks from it (R3). It answers every proposal of the members that it counts (R5), and leaves out
those that have moved to another view (R4) or do not answer in time (T). `stages` has the table of
its stages.

The rules are conditions, not reactions: after every input they are looked at again over the newest
statements of all entries, until nothing more follows (`_weigh`). A step returns at most one
`IssueProposal` or `InstallView`, as its last instruction; what follows from it comes with the
`Entered` or `Resumed` that the owner gives back.
"""

from __future__ import annotations

from phalanx.config import Config
from phalanx.core.deadline import NEVER
from phalanx.core.effects import Action, Stage
from phalanx.core.ids import MemberId, View, ViewId
from phalanx.core.membership.answer_timeout import AnswerTimeout
from phalanx.core.membership.draft import Draft
from phalanx.core.membership.goodbyes import Goodbyes
from phalanx.core.membership.instructions import (
    AllSpoke,
    AnnounceView,
    Attempted,
    BroadcastAttempt,
    Entered,
    Expired,
    Fetch,
    Heard,
    Input,
    InstallView,
    Instruction,
    IssueProposal,
    LeaveRequested,
    Met,
    ReportStep,
    ReportSuspicion,
    Resumed,
    RoleSet,
    SendLeave,
    Suspected,
)
from phalanx.core.membership.merge_history import MergeHistory
from phalanx.core.membership.own_role import OwnRole
from phalanx.core.membership.proposals import Proposal, component_of, proposal_of
from phalanx.core.membership.stages import TABLE, ProtocolStage
from phalanx.core.membership.statements import Issue, Statement, Statements
from phalanx.core.wire.frames import Component

JOINED_MAX = 128
"""Rule J adds no component to a proposal that names so many; R5 answers those of others."""
CHANGES_MAX = 4
"""After so many answer times from the first issue a further issue gives no full answer time more:
newcomers do not keep a dead member in a proposal."""
SPEAK_FACTOR = 2
"""Members have so many times longer to speak in a new view than to answer a proposal: those that
lag behind must fetch what closed the view before."""


class MembershipProtocol:
    """One member's part in the protocol. Inputs come through `step`, time also through `watch`."""

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
        self._history = MergeHistory(view.id)
        self._statements = Statements()
        self._statements.protect(view.members)
        self._suspects: set[MemberId] = set()
        """Members of the base that this one itself suspects, or that leave."""
        self._goodbyes = Goodbyes(me)
        self._own_role = OwnRole(me)
        self._collect_until = NEVER
        self._answer_until = NEVER
        self._speak_until = NEVER
        self._first_issue_ns = 0
        self._grace = False
        """The one extension of the answer time that an issue allows is used up."""
        self._time = AnswerTimeout(config.change_ns)

    # -------------------------------------------------------------- what can be asked

    @property
    def current(self) -> Proposal:
        """The proposal of the last issue; before the first, the base unchanged."""
        return self.issued[-1] if self.issued else self.unchanged

    @property
    def phase(self) -> int:
        """1 from the first issue to the install (rule Cut), and while leaving."""
        return 1 if self.issued or self.stage == "LEAVING" else 0

    @property
    def changing(self) -> bool:
        return self.stage != "STEADY"

    @property
    def leaving(self) -> bool:
        return self.stage == "LEAVING"

    @property
    def has_left(self) -> bool:
        """All members that this one still counts have left it out, or leave too (rule LEAVE)."""
        rest = {m for m in self.view.members if self.counts(m)} - {self.me}
        return self.leaving and self._goodbyes.cover(rest)

    @property
    def joining(self) -> Stage:
        """How far a join is, for the journal."""
        if self.stage == "COLLECTING":
            return "COLLECT"
        return "COMMIT" if len(self.current.components) > 1 else "IDLE"

    @property
    def role_is_set(self) -> bool:
        """The view has the operations that the application has set for this member."""
        return self._own_role.is_in_force(self.base, self.current)

    def counts(self, member: MemberId) -> bool:
        """Whether a member of the base is an entry of the current proposal."""
        return self.current.entries.get(member) == self.base.view

    def knows(self, member: MemberId) -> bool:
        """Whether a member is listed in the base or in a component of the current proposal."""
        return member in self.view.members or any(
            member in c.members for c in self.current.components.values()
        )

    def recorded_issues(self) -> frozenset[tuple[MemberId, int]]:
        """Sender and number of the frames of other views that count for rule R2."""
        return self._statements.places(self.base.view)

    def closings(self) -> tuple[int, ...]:
        """Per member of the view that the current proposal makes, the frame that issued it, as far
        as it is here; 0 if it is not."""
        return self._statements.closings(self.current)

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
        return getattr(self, handler)(now, given)  # type: ignore[no-any-return]

    def watch(self, now: int) -> None:
        """A view has begun: if it has several members, they must speak in it in time."""
        several = len(self.view.members) > 1
        self._speak_until = now + SPEAK_FACTOR * self._time.answer_ns(now) if several else NEVER

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
        if said.member == self.me or (said.is_hello and not self._has_moved(said)):
            return []
        news = self._statements.hear(now, said)
        if said.proposal is not None and said.view != self.base.view:
            news = self._record(said) or news
        out = self._fetches(said)
        if news and self._is_awaited_elsewhere(said):
            out.append(AnnounceView())
        draft = self._draft()
        if given.contact and self._wants_me(said) and self._may_join(draft, said):
            draft.take(said)
        elif not news:
            return out
        return out + self._weigh(now, draft, said.member, fresh=True)

    def _on_entered(self, now: int, given: Entered) -> list[Instruction]:
        said = given.statement
        if said.member != self.me:
            self._statements.hear(now, said)
        if said.leaves and said.member != self.me:
            return self._on_suspected(now, Suspected((said.member,)))
        asked = said.proposal is not None and said.view == self.base.view
        if asked:
            self._record(said)
        return self._weigh(now, self._draft(), said.member, asked=asked)

    def _on_met(self, now: int, given: Met) -> list[Instruction]:
        member, view = given.member, given.view
        known = self._history.has_been_in(view) or self._history.has_passed(member, view)
        return [] if known or member in self.view.members else self._collect(now, own=True)

    def _on_attempted(self, now: int, given: Attempted) -> list[Instruction]:
        """An attempt to join in a steady view starts a collection."""
        out: list[Instruction] = []
        if given.member in self.view.members:
            if given.component.view == self.base.view:
                out = self._collect(now, own=False)
            return out
        if self.me not in given.component.members and not self._history.is_past(given.component):
            out = self._collect(now, own=True)
            self._gather(now, given)
        return out

    def _gather(self, now: int, given: Attempted) -> list[Instruction]:
        """A component joins the collection, if it can be merged."""
        draft = self._draft()
        draft.unite(self.collected, frozenset())
        if self._may_join(draft, Statement(given.member, 0, given.component)):
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
        self._answer_until = now + self._time.answer_ns(now)
        current, issue = self.current, self._statements.issue
        late = [m for m, view in current.entries.items() if issue(m, view, current) is None]
        excused = [m for m in late if self._is_excused(m)]
        if len(excused) < len(late):
            late = [m for m in late if m not in excused]
        elif not self._grace:
            self._grace = True
            return []
        self._time.missed(now)
        return self._on_suspected(now, Suspected(tuple(late), "T_CHANGE"))

    def _on_unspoken(self, now: int, given: Expired) -> list[Instruction]:
        """Rule T: members that have not spoken in the view in time are left out."""
        if now < self._speak_until:
            return []
        self._speak_until = now + SPEAK_FACTOR * self._time.answer_ns(now)
        if not given.unspoken:
            return []
        self._time.missed(now)
        return self._on_suspected(now, Suspected(given.unspoken, "T_CHANGE"))

    def _on_all_spoke(self, now: int, given: AllSpoke) -> list[Instruction]:
        self._speak_until = NEVER
        return []

    def _on_resumed(self, now: int, given: Resumed) -> list[Instruction]:
        """In a new view: own suspicions hold on, and what was heard is looked at again. Strangers
        that lately waited for this member in a view it has left learn where it is (rule J)."""
        draft = self._draft()
        for member in sorted(self._suspects):
            draft.leave_out(member, self.base.view, None)
        out = self._weigh(now, draft)
        lately = self._statements.heard_since(now - self._time.answer_ns(now))
        if not out and any(map(self._is_awaited_elsewhere, lately)):
            return [AnnounceView()]
        return out

    def _on_role_set(self, now: int, given: RoleSet) -> list[Instruction]:
        self._own_role.operations = given.operations
        return self._weigh(now, self._draft())

    def _on_leave(self, now: int, given: LeaveRequested) -> list[Instruction]:
        report = self._report("LEAVE", self.current)
        self.stage = "LEAVING"
        self._collect_until = self._answer_until = self._speak_until = NEVER
        return [report, SendLeave()]

    def _on_goodbye(self, now: int, given: Heard | Entered) -> list[Instruction]:
        """While leaving: nothing is answered any more."""
        self._goodbyes.hear(given.statement, isinstance(given, Entered), self.view)
        return []

    # -------------------------------------------------------------- the rules

    def _weigh(
        self,
        now: int,
        draft: Draft,
        about: MemberId | None = None,
        fresh: bool = False,
        asked: bool = False,
    ) -> list[Instruction]:
        """Look at R2 to R5 over all that is known: install, or issue what follows, or wait.

        `about` is the only member that has said something new, `fresh` if it did so itself just
        now, `asked` if a frame that issues its proposal has entered. Every step ends in a fixpoint,
        so with an unchanged draft the others add nothing.
        """
        ready = self._installable()
        if ready is not None:
            return self._install(now, ready)
        just = about if fresh else None
        if about is not None and not draft.grown and not draft.hear(about, just):
            proposal = self.current
        else:
            proposal = draft.fixpoint(just)
        if not self._is_due(proposal, asked):
            return []
        if self.collected and draft.has_room(self.collected):
            draft.unite(self.collected, frozenset())
            proposal = draft.fixpoint(just)
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

    def _is_due(self, proposal: Proposal, asked: bool) -> bool:
        """Whether a proposal must be issued. The first must change members, live components or
        roles, unless it answers a member of the base (R5 always answers)."""
        if self.issued:
            return proposal != self.current
        if asked:
            return True
        if proposal.live != (self.base.view,) or len(proposal.entries) < len(self.view.members):
            return True
        if proposal.roles != self.base.roles:
            return True
        return any(
            (said := self._statements.newest(member)) is not None
            and said.view == self.base.view
            and said.proposal is not None
            for member in self.view.members
        )

    def _wants_me(self, said: Statement) -> bool:
        """Rule J: a member that is no entry proposes to unite with this one as it stands."""
        if said.member in self.current.entries or said.proposal is None:
            return False
        return said.proposal.entries.get(self.me) == self.base.view

    def _has_moved(self, said: Statement) -> bool:
        """R4: an entry of the current proposal speaks from another view than the one it is counted
        from."""
        counted = self.current.entries.get(said.member)
        return counted is not None and counted != said.view

    def _is_awaited_elsewhere(self, said: Statement) -> bool:
        """J: a member of another view waits for this one in a view that this one has left, and no
        announced frame tells it so."""
        if self.issued or self._speak_until != NEVER or said.member in self.view.members:
            return False
        return said.counts(self.me) not in (None, self.base.view)

    def _may_join(self, draft: Draft, said: Statement) -> bool:
        """Rule J: whether a component is added to a proposal that need not name it."""
        return len(draft.components) < JOINED_MAX and draft.can_take(said)

    def _draft(self) -> Draft:
        """What the next proposal grows from: the current one, and the own role if that is due."""
        draft = Draft(
            self.me, self.base.view, self.current, self.issued, self._history, self._statements
        )
        role = self._own_role.due(self.base, self.current)
        if role is not None:
            draft.assign(role)
        return draft

    # -------------------------------------------------------------- doing

    def _collect(self, now: int, own: bool) -> list[Instruction]:
        self.stage = "COLLECTING"
        self._collect_until = now + self._config.collect_ns
        out: list[Instruction] = [self._report("START", self.unchanged)]
        return [*out, BroadcastAttempt()] if own else out

    def _issue(self, now: int, proposal: Proposal, draft: Draft) -> list[Instruction]:
        """Rule R1: a larger proposal, in a frame of its own."""
        before = self.current
        assert before <= proposal, "proposals only grow"
        assert proposal.entries.get(self.me) == self.base.view, "a member counts itself"
        action: Action = "COMMIT" if len(proposal.components) > 1 else "FA"
        out: list[Instruction] = []
        for member in self.view.members:
            if self.counts(member) and proposal.entries.get(member) != self.base.view:
                reason = draft.reasons.get(member, "REPLACED")  # else only N.3 leaves it out
                if reason is not None:
                    out.append(ReportSuspicion(member, reason))
        self.issued.append(proposal)
        self._own_role.proposed(self.base, proposal)
        self.collected.clear()
        self.stage = "PROPOSED"
        self._collect_until = NEVER
        change_ns = self._time.answer_ns(now)
        if len(self.issued) == 1:
            self._first_issue_ns = now
        if now - self._first_issue_ns > CHANGES_MAX * change_ns:
            change_ns //= CHANGES_MAX
        self._answer_until = now + change_ns
        self._grace = False
        return [*out, self._report(draft.action or action, before), IssueProposal(proposal)]

    def _install(self, now: int, proposal: Proposal) -> list[Instruction]:
        issues: dict[MemberId, Issue] = {}
        for member, view in proposal.entries.items():
            issue = self._statements.issue(member, view, proposal)
            assert issue is not None
            issues[member] = issue
        before = self.view
        report = ReportStep("CLOSED", proposal, (), ())
        self._history.add(proposal.entries, proposal.view.id)
        self._statements.forget_issues(proposal.view.id)
        self.view = proposal.view
        self.base = component_of(self.view, proposal.roles)
        self.unchanged = proposal_of((self.base,))
        self.issued = []
        self.collected.clear()
        self.stage = "STEADY"
        self._suspects &= set(self.view.members)
        self._collect_until = self._answer_until = NEVER
        self.watch(now)
        self._statements.protect(self.view.members)
        return [report, InstallView(before, proposal, issues)]

    def _record(self, said: Statement) -> bool:
        """Keep the frame that issued a proposal; whether it is one, and new."""
        proposal = said.proposal
        assert proposal is not None
        counts = proposal.entries.get(self.me)
        if said.delivered is None or counts is None:
            return False
        issue = Issue(said.issued, said.start, said.delivered)
        return self._statements.record(said.member, said.view, proposal, issue, counts)

    def _fetches(self, said: Statement) -> list[Instruction]:
        """Ask for frames that issued a proposal of this member's and are not here."""
        places = self._statements.missing_issues(said, self.me, self.base.view, self.issued)
        return [Fetch(places)] if places else []

    # -------------------------------------------------------------- time

    def _is_excused(self, member: MemberId) -> bool:
        """It has issued the current proposal and the frame is on its way, or it speaks from a view
        that this member has proposed."""
        said = self._statements.newest(member)
        if said is None:
            return False
        return said.proposal == self.current or any(own.view.id == said.view for own in self.issued)

    def _report(self, action: Action, before: Proposal) -> ReportStep:
        return ReportStep(action, self.current, before.absent, self.current.absent)
