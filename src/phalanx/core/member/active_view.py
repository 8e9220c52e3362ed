"""The view that a member is in: own frames are built, sent and entered; what enters is delivered.

A member is in exactly one view at a time. `state` is its state; `ViewChange` replaces it when the
next view is installed, and nothing else does.
"""

from __future__ import annotations

from phalanx.config import Config
from phalanx.core.effects import Effect, Refused, Sent, Transmit
from phalanx.core.member.frame_builder import Content, build_frame
from phalanx.core.member.sender import Sender
from phalanx.core.member.view_state import MemberResources, ViewState
from phalanx.core.membership.announcement import announce
from phalanx.core.membership.instructions import AllSpoke
from phalanx.core.membership.protocol import MembershipProtocol
from phalanx.core.wire.frames import Announce, ControlMessage, Frame, Propose


class ActiveView:
    """Frames out and in, in the view that is installed."""

    def __init__(
        self,
        config: Config,
        protocol: MembershipProtocol,
        sender: Sender,
        resources: MemberResources,
        state: ViewState,
    ) -> None:
        self._config = config
        self._protocol = protocol
        self._sender = sender
        self._resources = resources
        self.state = state

    @property
    def settled(self) -> bool:
        """No view change is under way, and all messages known here are stable."""
        return self.state.settled and self.state.broadcast.steady

    # -------------------------------------------------------------- frames out

    def send_due(self, now: int, out: list[Effect]) -> None:
        """Send what may leave: messages if the window lets them, else acknowledgements that are
        due."""
        sender, outbox, protocol = self._sender, self._sender.outbox, self._protocol
        if sender.silenced:
            return
        state = self.state
        due = state.ack_scheduler.due(now, state.settled and state.broadcast.steady)
        while outbox.messages and sender.may_send(state, protocol):
            if now < sender.pace_ns and not outbox.fills_a_frame and not due:
                break
            due = False  # acknowledgements go with the messages
            first = outbox.following
            self._send(now, first, outbox.take(), None, out)
            sender.pace_ns = now + state.window.delay(state.broadcast.store.bytes)
        if due:
            self._send(now, outbox.following, [], None, out)

    def send_control(self, now: int, said: ControlMessage | None, out: list[Effect]) -> Frame:
        """Send a frame without messages at once: a proposal, LEAVE, or acknowledgements only."""
        return self._send(now, self._sender.outbox.following, [], said, out)

    def _send(
        self,
        now: int,
        first: int,
        content: Content,
        said: ControlMessage | None,
        out: list[Effect],
    ) -> Frame:
        """Build a frame, report and transmit it, and let it enter here as everywhere
        (rule F-13)."""
        state = self.state
        number = state.dag.have[state.rank] + 1
        phase = 1 if said is not None else self._protocol.phase
        if phase and content and not state.first_carried:
            state.first_carried = number
        if isinstance(said, Propose):
            state.issued = number
            state.start = state.first_carried - 1 if state.first_carried else number
        announced = None
        if phase or state.awaiting_first_frames:
            announced = self._announcement(number, phase, said)
        for run, _ in content:
            if run.completes:
                last = run.first + run.count - 1
                to = state.members_of(run.to)
                out.append(Sent(run.first, last, number, run.service, to, state.view.id, phase))
        acks = self._acknowledgements()
        lags = self._sender.reader_lag > 0
        frame = build_frame(state, self._config, phase, first, content, acks, announced, lags)
        packets = self._resources.codec.fragments(frame, frame.wire, repeat=0)
        state.window.passed(len(packets))
        out.append(Transmit(packets))
        if frame.runs:
            self._sender.receipts.sent(frame)
        state.ack_scheduler.spoke(now, bool(frame.runs) or said is not None)
        if phase:
            state.broadcast.insert_without_vote(frame)
            state.carry.append(frame)
        else:
            state.broadcast.insert(frame)
            self.deliver(now, [frame], out)
        return frame

    def _announcement(self, number: int, phase: int, said: ControlMessage | None) -> Announce:
        """What makes the next frame readable to members of other views (rule F-14)."""
        state, protocol = self.state, self._protocol
        vector = state.dag.have.copy()
        vector[state.rank] = number
        proposal = protocol.current if phase else protocol.unchanged
        closings = protocol.closings() if phase else ()
        openings = state.openings if state.awaiting_first_frames else ()
        numbers = (state.issued, state.start)
        return announce(proposal, tuple(vector), *numbers, closings, openings, said)

    def _acknowledgements(self) -> tuple[list[int], list[int]]:
        """What entered since the last own frame: each ACK is sent once (S4 3.3)."""
        return self.state.dag.changed_since(self.state.rank)

    def repeat_last(self, now: int, out: list[Effect]) -> None:
        """Repeat the own last frame: another member seems to have missed it."""
        if self.state.ack_scheduler.quiet_for(now):
            packets = self.state.broadcast.repeat_last(now)
            if packets:
                out.append(Transmit(packets))

    # -------------------------------------------------------------- frames in

    def entered(self, now: int, frames: list[Frame], out: list[Effect]) -> None:
        """Frames of other members have entered by the steady path."""
        if not frames:
            return
        state = self.state
        missed = False
        for frame in frames:
            if frame.runs:
                state.ack_scheduler.received(now, frame)
            elif frame.vector[state.rank] < state.dag.have[state.rank]:
                missed = True
        self.deliver(now, frames, out)
        if missed:
            self.repeat_last(now, out)

    def deliver(self, now: int, frames: list[Frame], out: list[Effect]) -> None:
        """Frames have entered and count: deliver what may be delivered. When all members have
        spoken in the view, frames of other views are not needed any more."""
        state, protocol = self.state, self._protocol
        state.deliver(now, frames, out, protocol.phase == 1)
        if state.awaiting_first_frames and state.dag.all_spoke:
            state.broadcast.awaiting_first_frames = False
            self._sender.deliveries.all_spoke()
            protocol.step(now, AllSpoke())
            if not protocol.changing:
                self._resources.forget(protocol.recorded_issues())

    # -------------------------------------------------------------- reports

    def report(self, out: list[Effect]) -> None:
        """Report receipts, the window and refused packets."""
        state, sender = self.state, self._sender
        view, dag, receipts = state.view.id, state.dag, sender.receipts
        receipts.advance(view, state.tag, dag.stable[state.rank], out)
        sender.deliveries.advance(view, dag, receipts.settled_upto, out)
        refused = state.broadcast.refused
        if refused:
            out += [Refused(reason, count) for reason, count in refused.items()]
            refused.clear()
        sender.report_window(state, out)
