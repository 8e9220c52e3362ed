"""One process in one group: passes inputs to the parts that handle them, and collects effects.

    packets ──> reliable broadcast ──> total order ──> delivery queue ──> Deliver
                  └──────> membership protocol ──> the next view
    Submit ───> outbox ──(window, ack scheduler)──> a frame ──> broadcast as above, and Transmit

Parts and what they own:

    sender         own messages: outbox, receipts, delivery reports
    active view    the state of the view that is installed; frames out and in
    view change    carries out the membership protocol; replaces the state of the view
    control plane  packets without numbers: discovery, probes, relays, names

The member decides only the order of things within a step: packets first, then deliveries, then
stable frames are dropped, then frames are built, so that a frame acknowledges everything that came
before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from phalanx.config import Config
from phalanx.core.deadline import NEVER
from phalanx.core.effects import (
    AwaitDelivery,
    Close,
    Datagrams,
    DeadlinePassed,
    Effect,
    Input,
    LeaveRequest,
    LinkStats,
    NameContested,
    ReaderLag,
    SetRole,
    Stopped,
    Submit,
    SuspectMember,
    Transmit,
    ViewInstalled,
)
from phalanx.core.ids import MemberId, View
from phalanx.core.member.active_view import ActiveView
from phalanx.core.member.blocked import Wait
from phalanx.core.member.control_plane import ControlPlane
from phalanx.core.member.invariants import check_frames, check_invariants
from phalanx.core.member.sender import Sender
from phalanx.core.member.view_change import ViewChange
from phalanx.core.member.view_state import MemberResources, ViewState
from phalanx.core.membership.carryover import ViewOrigin
from phalanx.core.membership.instructions import Expired, LeaveRequested, RoleSet, Suspected
from phalanx.core.membership.protocol import MembershipProtocol
from phalanx.core.prng import Prng
from phalanx.core.wire.frames import Frame
from phalanx.core.wire.packet_codec import PacketCodec
from phalanx.core.wire.packets import (
    CompleteFrame,
    ControlFragment,
    ControlPacket,
    Fragment,
    Nack,
    Refusal,
)
from phalanx.core.wire.settings_mismatch import SettingsMismatches
from phalanx.core.wire.shared_settings import shared_digest
from phalanx.errors import MemberClosed


class Member:
    """A member of a group. Drive it with `step`, at the latest when `deadline` says so.

    `view` is the view that it boots in: itself alone, or a view that all its members boot in.
    """

    def __init__(self, me: MemberId, view: View, group: str, config: Config, entropy: int) -> None:
        self.me = me
        self._config = config
        self._codec = PacketCodec(config.cluster, group, shared_digest(config))
        self._settings_mismatches = SettingsMismatches(config)
        prng = Prng(entropy)
        self._protocol = MembershipProtocol(me, view, config)
        self._resources = MemberResources(me, self._codec, config, prng)
        self._control_plane = ControlPlane(me, config, prng, len(view.members) == 1)
        self._sender = Sender(me, config)
        state = ViewState(me, ViewOrigin(view), self._resources, 0)
        self._active = ActiveView(config, self._protocol, self._sender, self._resources, state)
        self._view_change = ViewChange(
            me, self._protocol, self._control_plane, self._sender, self._resources, self._active
        )
        self._leave_ns = NEVER
        self._stopped = False
        self._rival: MemberId | None = None
        """The process that has the name of this member, as last reported."""
        self._unset_role: RoleSet | None = None
        """Waits until the member has its name."""
        self._control_deadline_ns = -1
        """When something other than frames is due; -1 if that must be computed again."""

    # -------------------------------------------------------------- the border

    def start(self, now: int) -> list[Effect]:
        """The first step: the member is in its view."""
        origin = self._active.state.origin
        state = self._active.state = ViewState(self.me, origin, self._resources, now)
        self._control_plane.start(now, state)
        self._sender.silenced = self._control_plane.claim.pending
        if len(state.view.members) > 1:
            self._protocol.watch(now)
        return [ViewInstalled(state.view, None, (), "boot")]

    def step(self, now: int, given: Input) -> list[Effect]:
        """Take one input; return what must be done about it, in order (rule D-20).

        A SubmissionError leaves the member as it was.
        """
        out: list[Effect] = []
        if self._stopped:
            if isinstance(given, Submit):
                raise MemberClosed(str(self.me))
            return out
        activity = self._view_change.activity
        match given:
            case Datagrams():
                self._receive(now, given.packets, out)
            case Submit():
                self._sender.submit(given, self._active.state, out)
            case DeadlinePassed():
                self._control_deadline_ns = -1
                self._recover(now, out)
                self._expire(now, out)
            case Close():
                self._sender.closed = True
            case LeaveRequest():
                self._sender.closed = True
                self._leave_ns = min(self._leave_ns, now + self._config.leave_ns)
            case SuspectMember(member):
                self._view_change.give(now, Suspected((member,), "OPERATOR"), out)
            case ReaderLag(level):
                lagged, self._sender.reader_lag = self._sender.reader_lag > 0, level
                if (level > 0) != lagged and not self._sender.silenced:
                    self._active.send_control(now, None, out)
            case AwaitDelivery(number):
                self._sender.deliveries.ask(number)
            case SetRole(operations):
                self._unset_role = RoleSet(operations)
            case _:
                assert_never(given)
        if self._unset_role is not None and self.named:
            role, self._unset_role = self._unset_role, None
            self._view_change.give(now, role, out)
        broadcast = self._active.state.broadcast
        if (broadcast.has_deferred or not broadcast.steady) and not self._loses_its_name:
            self._view_change.advance(now, out)
        self._active.send_due(now, out)
        if self._leave_ns != NEVER:
            self._continue_leaving(now, out)
        if self._view_change.activity != activity:
            self._control_deadline_ns = -1
        self._active.report(out)
        if self._rival != self._control_plane.claim.rival:
            self._rival = self._control_plane.claim.rival
            out.append(NameContested(self._rival))
        if self._control_plane.lost_name and not self._stopped:
            self._stopped = True
            out.append(Stopped("name-in-use"))
        elif self._control_plane.repeats and not self._stopped:
            self._stopped = True
            out.append(Stopped("incarnation-used"))
        return out

    def deadline(self) -> int | None:
        """When to give DeadlinePassed, unless something else is given before."""
        if self._stopped:
            return None
        state, sender = self._active.state, self._sender
        broadcast, foreign = state.broadcast, self._resources.foreign
        due = NEVER
        if not sender.silenced:
            due = state.ack_scheduler.deadline(state.settled and broadcast.steady)
        for retransmission in (broadcast.retransmission, foreign.retransmission):
            asks = retransmission.deadline()
            if asks is not None and asks < due:
                due = asks
        if self._control_deadline_ns < 0:
            control = self._control_plane.deadline(searches=not self._protocol.leaving)
            self._control_deadline_ns = min(self._protocol.deadline(), control, self._leave_ns)
        if self._control_deadline_ns < due:
            due = self._control_deadline_ns
        if sender.outbox.messages and sender.pace_ns < due:
            if sender.may_send(state, self._protocol):
                due = sender.pace_ns
        return due

    # -------------------------------------------------------------- what can be asked

    @property
    def view(self) -> View:
        """The view that is installed."""
        return self._active.state.view

    @property
    def have(self) -> list[int]:
        """Per rank, how many frames of that member are here."""
        return self._active.state.dag.have.copy()

    @property
    def settled(self) -> bool:
        """Nothing waits to be sent, no change is under way, and all messages known here are
        delivered and stable."""
        waiting = self._sender.outbox.messages
        quiet = self._active.settled and not self._protocol.changing
        return quiet and not waiting and self._active.state.queue.empty

    @property
    def room(self) -> int:
        """Bytes that the outbox still takes; 0 or less: Submit raises OutboxFull."""
        return self._sender.room

    @property
    def following(self) -> int:
        """The number of the first message that has not been sent: grows while messages leave."""
        return self._sender.outbox.following

    @property
    def blocked_by(self) -> dict[MemberId, Wait]:
        """The members that messages which may not leave wait for; empty if none wait."""
        return self._sender.blocked_by(self._active.state, self._protocol)

    def links(self) -> list[LinkStats]:
        """What happened on the links with the other members since the view began."""
        return self._active.state.links()

    @property
    def situations(self) -> Mapping[str, int]:
        """How often rare situations came up that no effect shows: statistics for sweeps."""
        return self._view_change.situations

    @property
    def named(self) -> bool:
        """It has claimed its name and nobody objected: it takes part."""
        control_plane = self._control_plane
        return not (control_plane.claim.pending or self._loses_its_name)

    @property
    def _loses_its_name(self) -> bool:
        """This step ends with Stopped. Until then no view may change."""
        return self._control_plane.lost_name or self._control_plane.repeats

    @property
    def role_is_set(self) -> bool:
        """The view has the operations that the application has set, and no change of them is under
        way."""
        return self._unset_role is None and self._protocol.role_is_set

    @property
    def complete(self) -> bool:
        """No view change is under way, and every member of the view has sent a frame in it: all of
        them have installed it."""
        return not self._protocol.changing and not self._active.state.awaiting_first_frames

    @property
    def changing(self) -> bool:
        """A view change is under way."""
        return self._protocol.changing

    def validate(self, deep: bool = True) -> None:
        """Check the invariants between the parts, after any step: for simulations and tests.
        `deep` checks frame by frame."""
        if not self._stopped:
            state, sender = self._active.state, self._sender
            check_invariants(self.me, state, self._protocol, sender, self._control_plane)
            if deep:
                check_frames(state)

    def story(self) -> list[str]:
        """A few lines about its state, for a person."""
        state, protocol = self._active.state, self._protocol
        dag, broadcast = state.dag, state.broadcast
        members = state.view.members
        names = [str(member) for member in members]
        lines = [
            f"{self.me}: {self._sender.outbox.messages} messages wait",
            f"  view {state.view.id} of {' '.join(names)}",
            f"  {protocol.stage}, phase {protocol.phase}",
            *(f"  issued {proposal!r}" for proposal in protocol.issued),
            *(f"  collected {c.view}: {_listed(c.members)}" for c in protocol.collected.values()),
            f"  {broadcast.store.bytes} of {state.window.limit} bytes in the window",
            f"  {state.queue.positions} positions delivered",
            f"  {broadcast.duplicates} duplicates dropped",
        ]
        for name, have, heard, stable in zip(
            names, dag.have, broadcast.heard, dag.stable, strict=True
        ):
            lines.append(f"  {name}: frames here {have}, known {heard}, stable {stable}")
        missing = sorted(broadcast.retransmission.missing)
        if missing:
            places = ", ".join(f"{members[s]}/{number}" for s, number in missing[:8])
            lines.append(f"  missing {len(missing)}: {places}")
        waiting = broadcast.waiting()
        if waiting:
            places = ", ".join(f"{members[f.sender]}/{f.number}" for f in waiting[:8])
            lines.append(f"  waiting {len(waiting)}: {places}")
        return lines + self._control_plane.detector.story()

    # -------------------------------------------------------------- packets

    def _receive(self, now: int, packets: Sequence[bytes], out: list[Effect]) -> None:
        state, control_plane = self._active.state, self._control_plane
        broadcast, foreign = state.broadcast, self._resources.foreign
        heard, direct = control_plane.detector.heard_ns, control_plane.detector.direct_ns
        entered: list[Frame] = []
        for packet in self._codec.decode_all(packets):
            if type(packet) is CompleteFrame or type(packet) is Fragment:
                if packet.table != state.table:
                    if packet.repeat:
                        self._note_repeat(packet)
                    came = (
                        foreign.whole(packet, broadcast.refused)
                        if type(packet) is CompleteFrame
                        else foreign.fragment(packet, broadcast.refused)  # type: ignore[arg-type]
                    )
                    if came is not None:
                        self._active.entered(now, entered, out)
                        entered = []
                        self._view_change.foreign_frame(now, *came, out)
                        state = self._active.state  # the view may have changed
                        broadcast = state.broadcast
                    continue
                frame = (
                    broadcast.whole(now, packet)
                    if type(packet) is CompleteFrame
                    else broadcast.fragment(now, packet)  # type: ignore[arg-type]
                )
                if frame is not None:
                    heard[frame.sender] = now
                    if packet.via == packet.sender:
                        direct[frame.sender] = now
                    else:
                        control_plane.brought(frame.sender, packet.via)
                    entered += broadcast.enter(now, frame)
                    if control_plane.relaying and not packet.repeat:
                        self._forward(now, frame, out)
            elif type(packet) is Nack:
                lost, answer = broadcast.answer(now, packet)
                if lost:
                    state.window.lost(now, packet.asker, lost)
                if answer:
                    out.append(Transmit(answer))
            elif type(packet) is Refusal:
                broadcast.refused[packet.reason] += 1
                differs = self._settings_mismatches.heard(now, packet)
                if differs is not None:
                    out.append(differs)
            else:
                self._active.entered(now, entered, out)
                entered = []
                self._receive_control(now, packet, out)  # type: ignore[arg-type]
                if self._loses_its_name:
                    return  # a view that is installed now would accept it (rule L-17)
                state = self._active.state  # the view may have changed
                broadcast = state.broadcast
        broadcast.overdue(now)
        state.window.passed(len(packets))
        self._active.entered(now, entered, out)

    def _receive_control(
        self, now: int, packet: ControlPacket | ControlFragment, out: list[Effect]
    ) -> None:
        """A packet without a number, or a fragment of one."""
        state = self._active.state
        whole = (
            self._resources.fragmenter.add(packet) if type(packet) is ControlFragment else packet
        )
        if type(whole) is Refusal:
            state.broadcast.refused[whole.reason] += 1
        elif whole is not None:
            answers, inputs = self._control_plane.packet(now, whole, state)  # type: ignore[arg-type]
            self._transmit(answers, out)
            for given in inputs:
                self._view_change.give(now, given, out)
            self._control_deadline_ns = -1

    def _transmit(self, packets: list[ControlPacket], out: list[Effect]) -> None:
        if packets:
            datagrams = self._resources.fragmenter.packets
            out.append(Transmit([data for packet in packets for data in datagrams(packet)]))

    def _note_repeat(self, packet: CompleteFrame | Fragment) -> None:
        """Somebody repeats a frame of another view: others need not."""
        sender = self._resources.foreign.sender(packet.table, packet.sender)
        if sender is not None:
            by_sender = packet.via == packet.sender
            rank = self._active.state.ranked.get(sender)
            if isinstance(packet, CompleteFrame):
                count = -(-len(packet.payload) // packet.size) if packet.size else 1
                indices = range(count)
            else:
                count, indices = packet.count, range(packet.index, packet.index + 1)
            retransmission = self._active.state.broadcast.retransmission
            for index in indices:
                retransmission.answered((sender, packet.number), by_sender, index, count)
                if rank is not None:
                    retransmission.answered((rank, packet.number), by_sender, index, count)

    def _forward(self, now: int, frame: Frame, out: list[Effect]) -> None:
        """A member asked this one to pass another's frames on (rule L-9)."""
        state = self._active.state
        if self._control_plane.forwards(now, state.sender_of(frame)):
            out.append(Transmit(self._codec.fragments(frame, state.rank, repeat=1)))

    # -------------------------------------------------------------- time

    def _recover(self, now: int, out: list[Effect]) -> None:
        """Ask for missing frames, and answer requests, where that is due."""
        state = self._active.state
        lost, packets = state.broadcast.due(now)
        if lost:
            state.window.lost(now, state.rank, lost)
        packets += self._resources.foreign.due(now, state.table)
        if packets:
            out.append(Transmit(packets))

    def _expire(self, now: int, out: list[Effect]) -> None:
        """Timers of the membership: proposals, silence, discovery."""
        protocol = self._protocol
        steady = not protocol.changing
        said, judged = self._control_plane.expire(
            now, self._active.state, steady, searches=not protocol.leaving
        )
        self._transmit(said, out)
        self._sender.silenced = protocol.leaving or self._control_plane.claim.pending
        out += judged
        gone = tuple(j.target for j in judged if j.state == "FAULTY")
        if gone:
            self._view_change.give(now, Suspected(gone), out)
        if now >= protocol.deadline():
            self._view_change.give(now, Expired(self._unspoken()), out)

    def _unspoken(self) -> tuple[MemberId, ...]:
        """Members of the view that have not sent a frame in it."""
        state = self._active.state
        spoke = state.broadcast.spoke
        others = enumerate(state.view.members)
        return tuple(m for rank, m in others if rank != state.rank and not spoke(rank))

    def _continue_leaving(self, now: int, out: list[Effect]) -> None:
        """Leave once everything accepted has been sent, or it takes too long (rule L-22)."""
        protocol, claim = self._protocol, self._control_plane.claim
        self._control_deadline_ns = -1
        late = now >= self._leave_ns
        if not protocol.leaving and (late or not self._sender.outbox.messages):
            if not claim.pending:
                self._view_change.give(now, LeaveRequested(), out)
                self._sender.silenced = True
            self._leave_ns = now + self._config.leave_ns
            late = claim.pending
        if protocol.has_left or late:
            self._stopped = True
            out.append(Stopped("left"))


def _listed(members: Sequence[MemberId] | frozenset[MemberId]) -> str:
    return " ".join(map(str, sorted(members))) or "nobody"
