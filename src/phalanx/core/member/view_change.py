"""View changes: what a member does with frames of a change, and how it goes from view to view.

The membership protocol decides (`membership.protocol`): it is given what was heard and what has
entered, and returns instructions, which are carried out here one after the other. `_install` is
the one place where a member's view is exchanged.
"""

from __future__ import annotations

from collections import deque

from phalanx.core.delivery.receipts import lost_receivers
from phalanx.core.effects import (
    Effect,
    NotSent,
    Stopped,
    ViewChangeStep,
    ViewInstalled,
)
from phalanx.core.ids import MemberId
from phalanx.core.member.sender import Sender
from phalanx.core.member.view_state import ViewState
from phalanx.core.membership.announcement import statement_of, vector_of
from phalanx.core.membership.carryover import adopt, origin_of
from phalanx.core.membership.instructions import (
    AnnounceView,
    BroadcastAttempt,
    Entered,
    Fetch,
    Heard,
    Input,
    InstallView,
    Instruction,
    IssueProposal,
    LeaveRequested,
    ReportStep,
    ReportSuspicion,
    Resumed,
    SendLeave,
)
from phalanx.core.membership.proposals import epoch
from phalanx.core.membership.reconciliation import merge_report
from phalanx.core.membership.statements import Statement
from phalanx.core.wire.frame_codec import decode_tag
from phalanx.core.wire.frames import Frame, LeaveAnnounced, Propose


class ViewChange(Sender):
    """The part of a member that goes from view to view."""

    # -------------------------------------------------------------- frames of a change

    def _advance(self, now: int, out: list[Effect]) -> None:
        """Take the frames that wait, one at a time: each may change what the next one means."""
        self._control_deadline_ns = -1
        while True:
            self._broadcast.steady = not self._protocol.phase
            frame = self._broadcast.pull()
            if frame is not None:
                self._enter_frame(now, frame, out)
                continue
            unread = self._broadcast.unread()
            if unread is None:
                break
            self._hear(now, statement_of(unread, self._sender(unread)), out)
        broadcast = self._broadcast
        broadcast.has_deferred = False
        if not self._protocol.changing and not broadcast.awaiting_first_frames:
            self._resources.forget()

    def _sender(self, frame: Frame) -> MemberId:
        return self.view.members[frame.sender]

    def _enter_frame(self, now: int, frame: Frame, out: list[Effect]) -> None:
        """A pulled frame enters: one of this view, or one that is carried into it."""
        view_state, domain, sender = self._view_state, self._broadcast, self._sender(frame)
        self._control_plane.heard(now, frame.sender)
        if frame.phase == 0 or frame.tag != view_state.tag:
            if frame.runs:
                self._ack_scheduler.received(now, frame)
            self._enter_regular(now, frame, out)
            if frame.control is not None and isinstance(frame.control.said, LeaveAnnounced):
                self._give(now, Entered(statement_of(frame, sender)), out)
            return
        domain.admit_without_vote(now, frame)
        view_state.carry.append(frame)
        said = frame.control.said if frame.control is not None else None
        if isinstance(said, Propose) and view_state.is_first_proposal(frame):
            if not self._must_hold(sender):
                self._deliver(now, view_state.released(frame.vector), out)
        self._ack_scheduler.stir()
        if frame.vector[self._rank] < self._dag.have[self._rank]:
            self._repeat_last(now, out)
        self._give(now, Entered(statement_of(frame, sender)), out)

    def _enter_regular(self, now: int, frame: Frame, out: list[Effect]) -> None:
        """Enter a frame that this view delivers, and deliver it if it surely lies under what closes
        the view (rule Early delivery)."""
        view_state, domain = self._view_state, self._broadcast
        held = self._must_hold(self._sender(frame))
        if frame.tag != view_state.tag:
            domain.admit_without_vote(now, frame)
        elif held:
            domain.admit_uncounted(now, frame)
        else:
            domain.take(now, frame)
        if held:
            view_state.hold(frame)
        else:
            self._deliver(now, [*view_state.released(frame.vector), frame], out)

    def _must_hold(self, sender: MemberId) -> bool:
        """Whether frames of a member may lie beyond what closes the view."""
        return bool(self._protocol.issued) and not self._protocol.counts(sender)

    # -------------------------------------------------------------- frames of other views

    def _foreign(self, now: int, frame: Frame, sender: MemberId, out: list[Effect]) -> None:
        """A frame of another view: one that is carried into this view, or news of its sender."""
        view_state = self._view_state
        rank = view_state.ranked.get(sender)
        if rank is not None and view_state.origin.carries(frame, sender):
            if frame.number > self._dag.have[rank]:
                self._adopt(frame)
                self._broadcast.offer(now, frame)
            return
        if rank is not None and epoch(decode_tag(frame.tag)) < epoch(self.view.id):
            return  # late: its sender is in this view
        foreign = self._resources.foreign
        foreign.found(sender, frame.number)
        foreign.keep(frame, sender)  # before it is heard: that may install the view it belongs to
        self._hear(now, statement_of(frame, sender), out)
        if not self._protocol.knows(sender):
            foreign.drop(sender, frame.number)

    def _adopt(self, frame: Frame) -> None:
        """Give a frame that is carried into this view its ranks here."""
        vector = vector_of(frame)
        adopt(frame, tuple(vector), vector, self._view_state.origin, self._view_state.ranked)

    def _hear(self, now: int, statement: Statement, out: list[Effect]) -> None:
        """Give the protocol a statement. Nobody is joined before this member's name is its own."""
        self._control_deadline_ns = -1
        control_plane = self._control_plane
        contact = (
            control_plane.search.is_in_contact(now, statement.view)
            and not control_plane.claim.pending
        )
        self._give(now, Heard(statement, contact), out)

    # -------------------------------------------------------------- instructions

    def _give(self, now: int, given: Input, out: list[Effect]) -> None:
        """Give the membership protocol an input, and do what it asks for and what follows."""
        inputs = deque([given])
        while inputs:
            for instruction in self._protocol.step(now, inputs.popleft()):
                self._obey(now, instruction, inputs, out)
        self._broadcast.steady = not self._protocol.phase
        self._control_deadline_ns = -1

    def _obey(
        self, now: int, instruction: Instruction, inputs: deque[Input], out: list[Effect]
    ) -> None:
        view_state = self._view_state
        match instruction:
            case IssueProposal():
                delivered = self._progress.report(
                    view_state.view.members, view_state.queue.delivered()
                )
                frame = self._send(now, self._outbox.following, [], out, Propose(delivered))
                inputs.append(Entered(statement_of(frame, self.me)))
            case InstallView():
                self._install(now, instruction, inputs, out)
            case Fetch(places):
                for member, view, number in places:
                    if view == view_state.view.id:
                        self._broadcast.ask(now, view_state.ranked[member], number)
                    else:
                        self._resources.foreign.fetch(now, member, number)
            case BroadcastAttempt():
                self._transmit([self._control_plane.attempt(now, view_state)], out)
            case AnnounceView():
                if self._control_plane.search.may_announce(now):
                    self._transmit([self._control_plane.attempt(now, view_state)], out)
            case SendLeave():
                self._send(now, self._outbox.following, [], out, LeaveAnnounced())
                self._may_not_send = True
            case ReportSuspicion(member, evidence):
                judged = self._control_plane.judge(member, evidence, view_state)
                if judged is not None:
                    out.append(judged)
            case ReportStep():
                out.append(self._stepped(instruction))

    def _stepped(self, step: ReportStep) -> ViewChangeStep:
        protocol, proposal = self._protocol, step.proposal
        components = tuple(proposal.components)
        stage = "IDLE" if step.action in ("CLOSED", "FORGET") else protocol.joining
        if stage == "COLLECT":
            components = (self.view.id, *protocol.collected)
        return ViewChangeStep(
            proposal.digest, stage, step.action, components, step.before, step.after
        )

    # -------------------------------------------------------------- from view to view

    def _install(
        self, now: int, install: InstallView, inputs: deque[Input], out: list[Effect]
    ) -> None:
        """Close the view, open the next, and let enter there what is carried into it."""
        before, together = self._view_state, install.together
        closings = {member: install.issues[member].number for member in together}
        before.close(before.cut(closings), together, out)
        out += before.links()
        self._progress.add(before.view.members, before.queue.delivered())
        stable = before.dag.stable[before.rank]
        self._receipts.close(before.view.id, before.tag, stable, together, out)
        self._deliveries.close(before.view.id, self._receipts.stable_upto, together)
        after = ViewState(self.me, origin_of(install), self._resources, now)
        self._enter(after)
        if not after.awaiting_first_frames:
            self._deliveries.all_spoke()
        after.broadcast.refused.update(before.broadcast.refused)
        former = {before.ranked[m]: rank for m, rank in after.ranked.items() if m in before.ranked}
        self._outbox.again()
        lost = self._outbox.readdress(former)
        joined = tuple(m for m in after.view.members if m not in before.ranked)
        left = tuple(m for m in before.view.members if m not in after.ranked)
        merged = merge_report(install)
        out.append(
            ViewInstalled(after.view, before.view.id, together, install.cause, joined, left, merged)
        )
        members = before.view.members
        for some in lost:
            gone = tuple(members[rank] for rank in some.gone)
            out.append(NotSent(some.first, some.last, gone, some.rest))
        self._control_plane.moved(now, after, bool(joined), bool(left))
        self._inherit(now, before, inputs, out)
        inputs.append(Resumed())

    def _inherit(
        self, now: int, before: ViewState, inputs: deque[Input], out: list[Effect]
    ) -> None:
        """Take over the frames that the view before has and this one carries, and those of this
        view that came too early. The rest is kept for those who ask."""
        view_state, resources = self._view_state, self._resources
        members = before.view.members
        ended = {m: dict(frames) for m, frames in resources.foreign.kept().items()}
        for rank, frames in enumerate(before.dag.frames):
            if frames:
                ended.setdefault(members[rank], {}).update(frames)
        resources.past_frames.add(ended)
        for frame in before.carry:
            sender = members[frame.wire]
            if sender in view_state.ranked and view_state.origin.carries(frame, sender):
                self._adopt(frame)
                if frame.sender == self._rank:
                    lost_receivers(frame, view_state.ranked, out)
                    self._enter_own(frame)
                    self._deliver(now, [frame], out)
                else:
                    self._broadcast.offer(now, frame)
                    self._enter_ready(now, inputs, out)
        for frame in before.broadcast.waiting():
            if frame.phase and frame.tag == before.tag:
                if view_state.origin.carries(frame, members[frame.wire]):
                    self._adopt(frame)
                    self._broadcast.offer(now, frame)
        self._take_foreign(now)
        resources.foreign.forget_wants()
        self._enter_ready(now, inputs, out)

    def _take_foreign(self, now: int) -> None:
        """Let wait in this view the kept frames that belong to it."""
        view_state, foreign = self._view_state, self._resources.foreign
        for sender, rank in view_state.ranked.items():
            for number, frame in sorted(foreign.kept().get(sender, {}).items()):
                if view_state.origin.carries(frame, sender):
                    self._adopt(frame)
                    self._broadcast.offer(now, frame)
                elif frame.tag == view_state.tag:
                    frame.sender = rank
                    self._broadcast.readmit(now, frame)
                else:
                    continue
                foreign.drop(sender, number)

    def _enter_ready(self, now: int, inputs: deque[Input], out: list[Effect]) -> None:
        """Enter carried frames whose past is here. A member whose last frame is among them leaves
        this view too."""
        while (frame := self._broadcast.pull()) is not None and frame.tag != self._view_state.tag:
            self._enter_regular(now, frame, out)
            if frame.control is not None and isinstance(frame.control.said, LeaveAnnounced):
                inputs.append(Entered(statement_of(frame, self._sender(frame))))

    def _enter_own(self, frame: Frame) -> None:
        """An own frame that is carried into the next view enters at once, for the next own frame
        has the number after it. What it follows is here, unless a peer has forged frames or too
        many are waiting; then what is missing is left out of its acknowledgements."""
        have = self._dag.have
        acks = zip(frame.ack_members, frame.ack_numbers, strict=True)
        here = [(rank, min(number, have[rank])) for rank, number in acks]
        frame.ack_members = tuple(rank for rank, _ in here)
        frame.ack_numbers = tuple(number for _, number in here)
        self._broadcast.insert_without_vote(frame)

    # -------------------------------------------------------------- leaving

    def _continue_leaving(self, now: int, out: list[Effect]) -> None:
        """Leave once everything accepted has been sent, or it takes too long."""
        protocol = self._protocol
        self._control_deadline_ns = -1
        late = now >= self._leave_ns
        if not protocol.leaving and (late or not self._outbox.messages):
            if not self._control_plane.claim.pending:
                self._give(now, LeaveRequested(), out)
                self._may_not_send = True
            self._leave_ns = now + self._config.leave_ns
            late = self._control_plane.claim.pending
        if protocol.has_left or late:
            self._stopped = True
            out.append(Stopped("left"))
