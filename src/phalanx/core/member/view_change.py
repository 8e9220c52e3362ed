"""View changes: how a member handles the frames of a change and goes from view to view.

The membership protocol decides (`membership.protocol`). It is given what was heard and what has
entered, and returns instructions, which are carried out here one after the other. `_install` is the
one place where a member's view is replaced.
"""

from __future__ import annotations

from collections import Counter, deque

from phalanx.core.delivery.receipts import lost_receivers
from phalanx.core.effects import (
    Effect,
    RolesInstalled,
    Transmit,
    ViewChangeStep,
    ViewInstalled,
)
from phalanx.core.ids import MemberId
from phalanx.core.member.active_view import ActiveView
from phalanx.core.member.control_plane import ControlPlane
from phalanx.core.member.sender import Sender
from phalanx.core.member.view_state import MemberResources, ViewState
from phalanx.core.membership.announcement import statement_of
from phalanx.core.membership.carryover import origin_of
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
    ReportStep,
    ReportSuspicion,
    Resumed,
    SendLeave,
)
from phalanx.core.membership.proposals import epoch
from phalanx.core.membership.protocol import MembershipProtocol
from phalanx.core.membership.reconciliation import DeliveryProgress, merge_report
from phalanx.core.membership.statements import Statement
from phalanx.core.wire.frame_codec import decode_tag
from phalanx.core.wire.frames import Frame, LeaveAnnounced, Propose


class ViewChange:
    """Carries out the membership protocol, from view to view."""

    def __init__(
        self,
        me: MemberId,
        protocol: MembershipProtocol,
        control_plane: ControlPlane,
        sender: Sender,
        resources: MemberResources,
        active: ActiveView,
    ) -> None:
        self._me = me
        self._protocol = protocol
        self._control_plane = control_plane
        self._sender = sender
        self._resources = resources
        self._active = active
        self._progress = DeliveryProgress()
        self.activity = 0
        """Grows whenever time-outs of the protocol may have changed."""
        self.situations: Counter[str] = Counter()
        """How often rare situations came up that no effect shows, for the counts of a sweep."""

    # -------------------------------------------------------------- frames of a change

    def advance(self, now: int, out: list[Effect]) -> None:
        """Take the frames that wait, one at a time: each may change what the next one means."""
        self.activity += 1
        while True:
            state = self._active.state
            broadcast = state.broadcast
            broadcast.steady = not self._protocol.phase
            frame = broadcast.next_admissible()
            if frame is not None:
                self._enter_frame(now, frame, out)
                continue
            unread = broadcast.unread()
            if unread is None:
                break
            self._hear(now, statement_of(unread, state.sender_of(unread)), out)
        broadcast.has_deferred = False
        if not self._protocol.changing and not broadcast.awaiting_first_frames:
            self._resources.forget(self._protocol.recorded_issues())

    def _enter_frame(self, now: int, frame: Frame, out: list[Effect]) -> None:
        """A deferred frame enters: one of this view, or one that is carried into it."""
        state = self._active.state
        sender = state.sender_of(frame)
        self._control_plane.heard(now, frame.sender)
        if frame.phase == 0 or frame.tag != state.tag:
            if frame.runs:
                state.ack_scheduler.received(now, frame)
            self._enter_regular(now, frame, out)
            if frame.control is not None and isinstance(frame.control.said, LeaveAnnounced):
                self.give(now, Entered(statement_of(frame, sender)), out)
            return
        state.broadcast.admit_without_vote(now, frame)
        state.carry.append(frame)
        said = frame.control.said if frame.control is not None else None
        if isinstance(said, Propose) and state.is_first_proposal(frame):
            if not self._must_hold(sender):
                self._active.deliver(now, state.released(frame.vector), out)
        state.ack_scheduler.stir()
        if frame.vector[state.rank] < state.dag.have[state.rank]:
            self._active.repeat_last(now, out)
        self.give(now, Entered(statement_of(frame, sender)), out)

    def _enter_regular(self, now: int, frame: Frame, out: list[Effect]) -> None:
        """Enter a frame that this view delivers, and deliver it if it surely lies under what closes
        the view (rule Early delivery)."""
        state = self._active.state
        held = self._must_hold(state.sender_of(frame))
        if frame.tag != state.tag:
            state.broadcast.admit_without_vote(now, frame)
        elif held:
            state.broadcast.admit_uncounted(now, frame)
        else:
            state.broadcast.admit(now, frame)
        if held:
            state.hold(frame)
        else:
            self._active.deliver(now, [*state.released(frame.vector), frame], out)

    def _must_hold(self, sender: MemberId) -> bool:
        """Whether frames of a member may lie beyond what closes the view (rule Early delivery)."""
        return bool(self._protocol.issued) and not self._protocol.counts(sender)

    # -------------------------------------------------------------- frames of other views

    def foreign_frame(self, now: int, frame: Frame, sender: MemberId, out: list[Effect]) -> None:
        """A frame of another view: one that is carried into this view, or news of its sender."""
        state = self._active.state
        rank = state.ranked.get(sender)
        if rank is not None and state.origin.carries(frame, sender):
            if frame.number > state.dag.have[rank]:
                state.adopt(frame)
                state.broadcast.offer(now, frame)
            return
        if rank is not None and epoch(decode_tag(frame.tag)) < epoch(state.view.id):
            self.situations["late_frames"] += 1
            return  # late: its sender is in this view
        foreign = self._resources.foreign
        foreign.found(sender, frame.number)
        foreign.keep(frame, sender)  # before it is heard: that may install the view it belongs to
        self._hear(now, statement_of(frame, sender), out)
        if not self._protocol.knows(sender):
            if (sender, frame.number) in self._protocol.recorded_issues():
                foreign.set_aside(sender, frame.number)
            else:
                foreign.drop(sender, frame.number)

    def _hear(self, now: int, statement: Statement, out: list[Effect]) -> None:
        """Give the protocol a statement. Nobody is joined before this member's name is its own."""
        self.activity += 1
        control_plane = self._control_plane
        contact = (
            control_plane.search.is_in_contact(now, statement.view) and control_plane.claim.is_ours
        )
        self.give(now, Heard(statement, contact), out)

    # -------------------------------------------------------------- instructions

    def give(self, now: int, given: Input, out: list[Effect]) -> None:
        """Give the membership protocol an input, and do what it asks for and what follows."""
        inputs = deque([given])
        while inputs:
            for instruction in self._protocol.step(now, inputs.popleft()):
                self._carry_out(now, instruction, inputs, out)
        self._active.state.broadcast.steady = not self._protocol.phase
        self.activity += 1

    def _carry_out(
        self, now: int, instruction: Instruction, inputs: deque[Input], out: list[Effect]
    ) -> None:
        active, state = self._active, self._active.state
        match instruction:
            case IssueProposal():
                delivered = self._progress.report(state.view.members, *state.reached())
                frame = active.send_control(now, Propose(delivered), out)
                inputs.append(Entered(statement_of(frame, self._me)))
            case InstallView():
                self._install(now, instruction, inputs, out)
            case Fetch(places):
                for member, view, number in places:
                    if view == state.view.id:
                        state.broadcast.ask(now, state.ranked[member], number)
                    else:
                        self._resources.foreign.fetch(now, member, number)
            case BroadcastAttempt():
                self._attempt(now, out)
            case AnnounceView():
                if self._control_plane.search.may_announce(now):
                    self._attempt(now, out)
            case SendLeave():
                active.send_control(now, LeaveAnnounced(), out)
                self._sender.silenced = True
            case ReportSuspicion(member, evidence):
                judged = self._control_plane.judge(member, evidence, state)
                if judged is not None:
                    out.append(judged)
            case ReportStep():
                out.append(self._stepped(instruction))

    def _attempt(self, now: int, out: list[Effect]) -> None:
        attempt = self._control_plane.attempt(now, self._active.state)
        out.append(Transmit(self._resources.fragmenter.packets(attempt)))

    def _stepped(self, step: ReportStep) -> ViewChangeStep:
        protocol, proposal = self._protocol, step.proposal
        components = tuple(proposal.components)
        stage = "IDLE" if step.action in ("CLOSED", "FORGET") else protocol.joining
        if stage == "COLLECT":
            components = (self._active.state.view.id, *protocol.collected)
        return ViewChangeStep(
            proposal.digest, stage, step.action, components, step.before, step.after
        )

    # -------------------------------------------------------------- from view to view

    def _install(
        self, now: int, install: InstallView, inputs: deque[Input], out: list[Effect]
    ) -> None:
        """Close the view, open the next, and let enter there what is carried into it."""
        before, together = self._active.state, install.together
        closings = {member: install.issues[member].number for member in together}
        before.close(before.cut(closings), together, out)
        out += before.links()
        self._progress.close(before.view.members, before.queue.delivered())
        self._progress.merged(install)
        self._sender.close_view(before, together, out)
        after = self._active.state = ViewState(self._me, origin_of(install), self._resources, now)
        if not after.awaiting_first_frames:
            self._sender.deliveries.all_spoke()
        after.broadcast.refused.update(before.broadcast.refused)
        lost = self._sender.readdress(before, after)
        joined = tuple(m for m in after.view.members if m not in before.ranked)
        left = tuple(m for m in before.view.members if m not in after.ranked)
        merged = merge_report(install)
        out.append(
            ViewInstalled(after.view, before.view.id, together, install.cause, joined, left, merged)
        )
        if install.proposal.roles:
            out.append(RolesInstalled(after.view.id, install.proposal.roles))
        out += lost
        failed = self._control_plane.any_faulty(left, before)
        self._control_plane.moved(now, after, bool(joined), failed)
        self._inherit(now, before, inputs, out)
        inputs.append(Resumed())

    def _inherit(
        self, now: int, before: ViewState, inputs: deque[Input], out: list[Effect]
    ) -> None:
        """Take over the frames that the view before has and this one carries, and those of this
        view that came too early. The others are kept for members that ask for them."""
        state, resources = self._active.state, self._resources
        members = before.view.members
        ended = {m: dict(frames) for m, frames in resources.foreign.kept().items()}
        for rank, frames in enumerate(before.dag.frames):
            if frames:
                ended.setdefault(members[rank], {}).update(frames)
        resources.past_frames.add(ended)
        for frame in before.carry:
            sender = members[frame.wire]
            if sender in state.ranked and state.origin.carries(frame, sender):
                state.adopt(frame)
                if frame.sender == state.rank:
                    lost_receivers(frame, state.ranked, out)
                    state.enter_own(frame)
                    self._active.deliver(now, [frame], out)
                else:
                    state.broadcast.offer(now, frame)
                    self._enter_ready(now, inputs, out)
        for frame in before.broadcast.waiting():
            if frame.phase and frame.tag == before.tag:
                if state.origin.carries(frame, members[frame.wire]):
                    state.adopt(frame)
                    state.broadcast.offer(now, frame)
        self._take_foreign(now)
        resources.foreign.forget_wants()
        self._enter_ready(now, inputs, out)

    def _take_foreign(self, now: int) -> None:
        """Let wait in this view the kept frames that belong to it."""
        state, foreign = self._active.state, self._resources.foreign
        for sender, rank in state.ranked.items():
            for number, frame in sorted(foreign.kept().get(sender, {}).items()):
                if state.origin.carries(frame, sender):
                    state.adopt(frame)
                    state.broadcast.offer(now, frame)
                elif frame.tag == state.tag:
                    frame.sender = rank
                    self.situations["future_frames"] += 1
                    state.broadcast.requeue(now, frame)
                else:
                    continue
                foreign.drop(sender, number)

    def _enter_ready(self, now: int, inputs: deque[Input], out: list[Effect]) -> None:
        """Enter carried frames whose past is here. A member whose last frame is among them leaves
        this view too."""
        state = self._active.state
        while (frame := state.broadcast.next_admissible()) is not None and frame.tag != state.tag:
            self._enter_regular(now, frame, out)
            if frame.control is not None and isinstance(frame.control.said, LeaveAnnounced):
                inputs.append(Entered(statement_of(frame, state.sender_of(frame))))
