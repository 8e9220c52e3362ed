"""What a member says: submissions become frames, frames leave, receipts come back.

Messages leave when the window is open and, in mode `hold`, no change of membership is under
way; what is owed in acknowledgements leaves anyway. Every frame of one's own enters here as it
does everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.config import Config
from phalanx.core.broadcast.outbox import Outbox
from phalanx.core.delivery.delivery_reports import DeliveryReports
from phalanx.core.delivery.receipts import ReceiptLedger
from phalanx.core.effects import (
    Accepted,
    Effect,
    NotSent,
    Refused,
    Sent,
    Service,
    Transmit,
    WindowClosed,
    WindowOpened,
)
from phalanx.core.ids import MemberId, View
from phalanx.core.member import blocked
from phalanx.core.member.blocked import Wait
from phalanx.core.member.control_plane import ControlPlane
from phalanx.core.member.frame_builder import Content, build_frame
from phalanx.core.member.view_state import MemberResources, ViewState
from phalanx.core.membership.announcement import announce
from phalanx.core.membership.carryover import ViewOrigin
from phalanx.core.membership.instructions import AllSpoke
from phalanx.core.membership.protocol import MembershipProtocol
from phalanx.core.membership.reconciliation import DeliveryProgress
from phalanx.core.prng import Prng
from phalanx.core.submission import check_submission
from phalanx.core.wire.control_fragments import ControlFragmenter
from phalanx.core.wire.frames import Announce, ControlMessage, ControlPacket, Frame, Propose
from phalanx.core.wire.packet_codec import PacketCodec
from phalanx.core.wire.settings_mismatch import SettingsMismatches
from phalanx.core.wire.shared_settings import shared_digest
from phalanx.errors import MemberClosed, OutboxFull

NEVER = 1 << 62


class Sender:
    """The part of a member that sends."""

    def __init__(self, me: MemberId, view: View, group: str, config: Config, entropy: int) -> None:
        self.me = me
        self._config = config
        self._codec = PacketCodec(config.cluster, group, shared_digest(config))
        self._settings_mismatches = SettingsMismatches(config)
        self._control_fragmenter = ControlFragmenter(self._codec, config)
        prng = Prng(entropy)
        self._protocol = MembershipProtocol(me, view, config)
        self._resources = MemberResources(me, self._codec, config, prng)
        self._control_plane = ControlPlane(me, config, prng, len(view.members) == 1)
        self._enter(ViewState(me, ViewOrigin(view), self._resources, 0))
        self._progress = DeliveryProgress()
        self._outbox = Outbox(config.frame_bytes_max)
        self._pace_ns = 0
        self._numbered = 0
        self._closed = False
        self._leave_ns = NEVER
        self._stopped = False
        self._control_deadline_ns = -1
        """When something other than frames is due; -1 if that must be found anew."""
        self._may_not_send = False
        """It may send no frames: its name is not yet its own, or it has said goodbye."""
        self._window_reported_closed = False
        self._backlog = 0
        """How far the application is behind with reading."""
        self._receipts = ReceiptLedger()
        self._deliveries = DeliveryReports()

    def _enter(self, view_state: ViewState) -> None:
        """From here on the member is in this stay. What the hot path uses is at hand."""
        self._view_state = view_state
        self.view = view_state.view
        self._rank = view_state.rank
        self._broadcast = view_state.broadcast
        self._dag = view_state.dag
        self._window = view_state.window
        self._ack_scheduler = view_state.ack_scheduler

    def _deliver(self, now: int, entered: list[Frame], out: list[Effect]) -> None:
        protocol = self._protocol
        self._view_state.deliver(now, entered, out, protocol.phase == 1)
        if self._view_state.awaiting_first_frames and self._dag.all_spoke:
            self._broadcast.awaiting_first_frames = False
            self._deliveries.all_spoke()
            protocol.step(now, AllSpoke())
            if not protocol.changing:
                self._resources.forget()

    def _repeat_last(self, now: int, out: list[Effect]) -> None:
        if self._ack_scheduler.quiet_for(now):
            packets = self._broadcast.last_again(now)
            if packets:
                out.append(Transmit(packets))

    def _transmit(self, packets: list[ControlPacket], out: list[Effect]) -> None:
        if packets:
            out.append(
                Transmit([data for p in packets for data in self._control_fragmenter.packets(p)])
            )

    @property
    def room(self) -> int:
        """Bytes that the outbox still takes; 0 or less: Submit raises OutboxFull."""
        return self._config.outbox_bytes_max - self._outbox.bytes

    @property
    def _is_settled(self) -> bool:
        return self._view_state.settled and self._broadcast.steady

    # -------------------------------------------------------------- submissions

    def _submit(
        self,
        bodies: Sequence[bytes],
        service: Service,
        to: tuple[MemberId, ...] | None,
        lost: tuple[MemberId, ...],
        out: list[Effect],
    ) -> None:
        if self._closed:
            raise MemberClosed(str(self.me))
        if not bodies:
            return
        # All receivers may have left since the submission was accepted: then `to` is empty.
        checked = None if lost and not to else to
        ranked = self._view_state.ranked
        lengths = check_submission(bodies, checked, ranked, self._config.message_bytes_max)
        ranks = None if to is None else tuple(sorted({ranked[member] for member in to}))
        if self.room <= 0:
            raise OutboxFull(self._outbox.bytes, self._config.outbox_bytes_max)
        self._outbox.put(bodies, lengths, service, ranks)
        first = self._numbered + 1
        self._numbered += len(bodies)
        receivers = self._members(ranks)
        if lost and receivers is not None:
            receivers = tuple(sorted({*receivers, *lost}))
        out.append(Accepted(first, self._numbered, service, receivers, sum(lengths), bodies))
        if lost:
            out.append(NotSent(first, self._numbered, lost, len(ranks or ())))

    # -------------------------------------------------------------- frames out

    def _may_send(self) -> bool:
        """Messages may leave: the window is open, and no change holds them back."""
        if self._may_not_send or self._is_held():
            return False
        if self._backlog or True in self._view_state.full:
            # One that waits to send before it reads on must not wait for others like it.
            if self._backlog != 1:
                return False
        return self._window.is_open(self._broadcast.bytes, self._broadcast.own_bytes)

    def _is_held(self) -> bool:
        """A change holds messages back: all in mode `hold`, else those of several frames."""
        return bool(self._protocol.phase) and (self._config.mode == "hold" or self._outbox.is_large)

    @property
    def blocked_by(self) -> dict[MemberId, Wait]:
        """The members that messages which may not leave wait for; empty if none wait."""
        if not self._outbox.messages or self._may_not_send or self._may_send():
            return {}
        if self._is_held():
            return blocked.unanswered(self._protocol)
        if self._backlog != 1 and (found := blocked.unread(self._view_state, self._backlog)):
            return found
        return blocked.unacknowledged(self._view_state)

    @property
    def following(self) -> int:
        """The number of the first message that has not been sent: grows while messages leave."""
        return self._outbox.following

    def _speak(self, now: int, out: list[Effect]) -> None:
        """Seal what may leave: messages if the window lets them, else acks that are owed."""
        if self._may_not_send:
            return
        outbox = self._outbox
        due = self._ack_scheduler.due(now, self._is_settled)
        while outbox.messages and self._may_send():
            if now < self._pace_ns and not outbox.fills_a_frame and not due:
                break
            due = False  # what is owed goes with the messages
            first = outbox.following
            self._send(now, first, outbox.take(), out)
            self._pace_ns = now + self._window.delay(self._broadcast.bytes)
        if due:
            self._send(now, outbox.following, [], out)

    def _send(
        self,
        now: int,
        first: int,
        content: Content,
        out: list[Effect],
        said: ControlMessage | None = None,
    ) -> Frame:
        """Seal a frame, report and transmit it, and let it enter here as everywhere."""
        view_state = self._view_state
        number = self._dag.have[self._rank] + 1
        phase = 1 if said is not None else self._protocol.phase
        if phase and content and not view_state.first_carried:
            view_state.first_carried = number
        if isinstance(said, Propose):
            view_state.issued = number
            view_state.start = view_state.first_carried - 1 if view_state.first_carried else number
        announced = (
            self._announcement(number, phase, said)
            if phase or view_state.awaiting_first_frames
            else None
        )
        for run, _ in content:
            if run.completes:
                last = run.first + run.count - 1
                to = self._members(run.to)
                out.append(Sent(run.first, last, number, run.service, to, self.view.id, phase))
        acks = self._acknowledgements()
        frame = build_frame(
            view_state, self._config, phase, first, content, acks, announced, self._backlog > 0
        )
        packets = self._codec.fragments(frame, frame.wire, repeat=0)
        self._window.passed(len(packets))
        out.append(Transmit(packets))
        if frame.runs:
            self._receipts.sent(frame)
        self._ack_scheduler.spoke(now, bool(frame.runs) or said is not None)
        if phase:
            self._broadcast.insert_without_vote(frame)
            view_state.carry.append(frame)
        else:
            self._broadcast.insert(frame)
            self._deliver(now, [frame], out)
        return frame

    def _announcement(self, number: int, phase: int, said: ControlMessage | None) -> Announce:
        """What makes the next frame readable to members of other views."""
        view_state, protocol = self._view_state, self._protocol
        vector = self._dag.have.copy()
        vector[self._rank] = number
        proposal = protocol.current if phase else protocol.unchanged
        closings = protocol.closings() if phase else ()
        openings = view_state.openings if view_state.awaiting_first_frames else ()
        numbers = (view_state.issued, view_state.start)
        return announce(proposal, tuple(vector), *numbers, closings, openings, said)

    def _acknowledgements(self) -> tuple[list[int], list[int]]:
        """What entered since the last own frame: each ACK is sent once (S4 3.3)."""
        return self._dag.changed_since(self._rank)

    def _members(self, to: tuple[int, ...] | None) -> tuple[MemberId, ...] | None:
        return None if to is None else tuple(self.view.members[rank] for rank in to)

    # -------------------------------------------------------------- what to tell

    def _report(self, out: list[Effect]) -> None:
        """Receipts, the window's state and what was refused."""
        stable = self._dag.stable[self._rank]
        self._receipts.advance(self.view.id, self._view_state.tag, stable, out)
        self._deliveries.advance(self.view.id, self._dag, self._receipts.settled_upto, out)
        if self._broadcast.refused:
            out += [Refused(reason, count) for reason, count in self._broadcast.refused.items()]
            self._broadcast.refused.clear()
        waiting = self._outbox.bytes
        if waiting >= self._config.outbox_bytes_max and not self._window_reported_closed:
            self._window_reported_closed = True
            out.append(WindowClosed(self._broadcast.bytes, self._in_flight()))
        elif self._window_reported_closed and 2 * waiting <= self._config.outbox_bytes_max:
            self._window_reported_closed = False
            out.append(WindowOpened(self._broadcast.bytes, self._in_flight()))

    def _in_flight(self) -> int:
        return sum(len(frames) for frames in self._dag.frames)
