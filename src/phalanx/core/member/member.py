"""One process in one group: routes inputs to the modules that decide, and collects effects.

    packets ──> lansis ──> order ──> cursor ──> Deliver
                  └──────> membership protocol ──> the next view
    Submit ───> outbox ──(window, pulse)──> a frame ──> lansis, order, cursor, Transmit

It decides nothing itself but the order of things within a step: packets first, then
deliveries, then what is stable is forgotten, then frames are sealed, so that a frame
acknowledges everything that came before it. `view_state` holds the state of one view,
`control_plane` handles packets without numbers: discovery, probes, names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from phalanx.core.effects import (
    AwaitDelivery,
    Close,
    Datagrams,
    DeadlinePassed,
    Effect,
    Input,
    LeaveRequest,
    LinkStats,
    ReaderLag,
    Stopped,
    Submit,
    SuspectMember,
    Transmit,
    ViewInstalled,
)
from phalanx.core.ids import MemberId
from phalanx.core.member.view_change import ViewChange
from phalanx.core.member.view_state import ViewState
from phalanx.core.membership.instructions import Expired, Suspected
from phalanx.core.wire.frames import (
    CompleteFrame,
    ControlFragment,
    Fragment,
    Frame,
    Nack,
    Refusal,
)
from phalanx.errors import MemberClosed

NEVER = 1 << 62


class Member(ViewChange):
    """A member of a group. Drive it with `step`, at the latest when `deadline` says so.

    `view` is what it boots in: itself alone, or a view that all its members boot in.
    """

    # -------------------------------------------------------------- the border

    def start(self, now: int) -> list[Effect]:
        """The first step: the member is in its view."""
        self._enter(ViewState(self.me, self._view_state.origin, self._resources, now))
        self._control_plane.start(now, self._view_state)
        self._may_not_send = self._control_plane.claim.pending
        if len(self.view.members) > 1:
            self._protocol.watch(now)
        return [ViewInstalled(self.view, None, (), "boot")]

    def step(self, now: int, given: Input) -> list[Effect]:
        """Take one input; what must be done about it, in order.

        A SubmissionError leaves the member as it was.
        """
        out: list[Effect] = []
        if self._stopped:
            if isinstance(given, Submit):
                raise MemberClosed(str(self.me))
            return out
        match given:
            case Datagrams():
                self._receive(now, given.packets, out)
            case Submit(bodies, service, to, lost):
                self._submit(bodies, service, to, lost, out)
            case DeadlinePassed():
                self._control_deadline_ns = -1
                self._recover(now, out)
                self._expire(now, out)
            case Close():
                self._closed = True
            case LeaveRequest():
                self._closed = True
                self._control_deadline_ns = -1
                self._leave_ns = min(self._leave_ns, now + self._config.leave_ns)
            case SuspectMember(member):
                self._give(now, Suspected((member,), "OPERATOR"), out)
            case ReaderLag(level):
                told, self._backlog = self._backlog > 0, level
                if (level > 0) != told and not self._may_not_send:
                    self._send(now, self._outbox.following, [], out)
            case AwaitDelivery(number):
                self._deliveries.ask(number)
            case _:
                assert_never(given)
        if self._broadcast.has_deferred or not self._broadcast.steady:
            self._advance(now, out)
        self._speak(now, out)
        if self._leave_ns != NEVER:
            self._continue_leaving(now, out)
        self._report(out)
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
        due = NEVER if self._may_not_send else self._ack_scheduler.deadline(self._is_settled)
        for retransmission in (
            self._broadcast.retransmission,
            self._resources.foreign.retransmission,
        ):
            asks = retransmission.deadline()
            if asks is not None and asks < due:
                due = asks
        if self._control_deadline_ns < 0:
            searches = not self._protocol.leaving
            waits = (
                self._protocol.deadline(),
                self._control_plane.deadline(searches),
                self._leave_ns,
            )
            self._control_deadline_ns = min(waits)
        if self._control_deadline_ns < due:
            due = self._control_deadline_ns
        if self._outbox.messages and self._pace_ns < due and self._may_send():
            due = self._pace_ns
        return due

    @property
    def have(self) -> list[int]:
        """Per rank, how many frames of that member are here."""
        return self._dag.have.copy()

    @property
    def settled(self) -> bool:
        """Nothing waits to be sent, no change is under way, and all messages known here are
        delivered and stable."""
        return self._is_settled and not self._outbox.messages and self._view_state.queue.empty

    def links(self) -> list[LinkStats]:
        """What happened on the links with the other members since the view began."""
        return self._view_state.links()

    @property
    def named(self) -> bool:
        """It has claimed its name and nobody objected: it takes part."""
        control_plane = self._control_plane
        return not (control_plane.claim.pending or control_plane.lost_name or control_plane.repeats)

    @property
    def changing(self) -> bool:
        """A view change is under way."""
        return self._protocol.changing

    def story(self) -> list[str]:
        """A few lines about its state, for a person."""
        dag, names = self._dag, [str(m) for m in self.view.members]
        broadcast, protocol = self._broadcast, self._protocol
        lines = [
            f"{self.me}: {self._outbox.messages} messages wait",
            f"  view {self.view.id} of {' '.join(names)}",
            f"  {protocol.stage}, phase {protocol.phase}",
            *(f"  issued {proposal!r}" for proposal in protocol.issued),
            *(f"  collected {c.view}: {_listed(c.members)}" for c in protocol.collected.values()),
            f"  {broadcast.bytes} of {self._window.limit} bytes in the window",
            f"  {self._view_state.queue.positions} positions delivered",
            f"  {broadcast.duplicates} duplicates dropped",
        ]
        for name, have, heard, stable in zip(
            names, dag.have, broadcast.heard, dag.stable, strict=True
        ):
            lines.append(f"  {name}: frames here {have}, known {heard}, stable {stable}")
        missing = sorted(broadcast.retransmission.missing)
        if missing:
            places = ", ".join(f"{broadcast.roster[s]}/{number}" for s, number in missing[:8])
            lines.append(f"  missing {len(missing)}: {places}")
        waiting = broadcast.waiting()
        if waiting:
            places = ", ".join(f"{broadcast.roster[f.sender]}/{f.number}" for f in waiting[:8])
            lines.append(f"  waiting {len(waiting)}: {places}")
        return lines + self._control_plane.detector.story()

    # -------------------------------------------------------------- packets

    def _receive(self, now: int, packets: Sequence[bytes], out: list[Effect]) -> None:
        broadcast, control_plane, foreign = (
            self._broadcast,
            self._control_plane,
            self._resources.foreign,
        )
        heard, direct = control_plane.detector.heard_ns, control_plane.detector.direct_ns
        entered: list[Frame] = []
        for packet in self._codec.decode_all(packets):
            if type(packet) is CompleteFrame or type(packet) is Fragment:
                if packet.table != self._view_state.table:
                    if packet.repeat:
                        self._repeated(packet)
                    came = (
                        foreign.whole(packet, broadcast.refused)
                        if type(packet) is CompleteFrame
                        else foreign.fragment(packet, broadcast.refused)  # type: ignore[arg-type]
                    )
                    if came is not None:
                        self._entered(now, entered, out)
                        entered = []
                        self._foreign(now, *came, out)
                        broadcast = self._broadcast  # the view may have changed
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
                lost, answer = broadcast.nack(now, packet)
                if lost:
                    self._window.lost(now, packet.asker, lost)
                if answer:
                    out.append(Transmit(answer))
            elif type(packet) is Refusal:
                broadcast.refused[packet.reason] += 1
                differs = self._settings_mismatches.heard(now, packet)
                if differs is not None:
                    out.append(differs)
            else:
                self._entered(now, entered, out)
                entered = []
                plain = (
                    self._control_fragmenter.add(packet)
                    if type(packet) is ControlFragment
                    else packet
                )
                if type(plain) is Refusal:
                    broadcast.refused[plain.reason] += 1
                    continue
                if plain is None:
                    continue
                answers, inputs = control_plane.packet(now, plain, self._view_state)  # type: ignore[arg-type]
                self._transmit(answers, out)
                for given in inputs:
                    self._give(now, given, out)
                self._control_deadline_ns = -1
                broadcast = self._broadcast  # the view may have changed
        broadcast.overdue(now)
        self._window.passed(len(packets))
        self._entered(now, entered, out)

    def _entered(self, now: int, entered: list[Frame], out: list[Effect]) -> None:
        """Frames of a steady view are in."""
        if not entered:
            return
        missed = False
        for frame in entered:
            if frame.runs:
                self._ack_scheduler.received(now, frame)
            elif frame.vector[self._rank] < self._dag.have[self._rank]:
                missed = True
        self._deliver(now, entered, out)
        if missed:
            self._repeat_last(now, out)

    def _repeated(self, packet: CompleteFrame | Fragment) -> None:
        """Somebody repeats a frame of another view: others need not."""
        sender = self._resources.foreign.sender(packet.table, packet.sender)
        if sender is not None:
            by_sender = packet.via == packet.sender
            rank = self._view_state.ranked.get(sender)
            if isinstance(packet, CompleteFrame):
                count = -(-len(packet.payload) // packet.size) if packet.size else 1
                indices = range(count)
            else:
                count, indices = packet.count, range(packet.index, packet.index + 1)
            retransmission = self._broadcast.retransmission
            for index in indices:
                retransmission.answered((sender, packet.number), by_sender, index, count)
                if rank is not None:
                    retransmission.answered((rank, packet.number), by_sender, index, count)

    def _forward(self, now: int, frame: Frame, out: list[Effect]) -> None:
        """A member asked this one to pass another's frames on (PROTOCOLS B.6 item 14)."""
        if self._control_plane.forwards(now, self._broadcast.roster[frame.sender]):
            out.append(Transmit(self._codec.fragments(frame, self._rank, repeat=1)))

    def _recover(self, now: int, out: list[Effect]) -> None:
        lost, packets = self._broadcast.due(now)
        if lost:
            self._window.lost(now, self._rank, lost)
        packets += self._resources.foreign.due(now, self._view_state.table)
        if packets:
            out.append(Transmit(packets))

    def _expire(self, now: int, out: list[Effect]) -> None:
        """Timers of the membership: proposals, silence, searching."""
        protocol = self._protocol
        steady = not protocol.changing
        said, judged = self._control_plane.expire(
            now, self._view_state, steady, not protocol.leaving
        )
        self._transmit(said, out)
        self._may_not_send = protocol.leaving or self._control_plane.claim.pending
        out += judged
        gone = tuple(j.target for j in judged if j.state == "FAULTY")
        if gone:
            self._give(now, Suspected(gone), out)
        if now >= protocol.deadline():
            self._give(now, Expired(self._unspoken()), out)

    def _unspoken(self) -> tuple[MemberId, ...]:
        """Members of the view that have not sent a frame in it."""
        spoke = self._broadcast.spoke
        others = enumerate(self.view.members)
        return tuple(m for rank, m in others if rank != self._rank and not spoke(rank))


def _listed(members: Sequence[MemberId] | frozenset[MemberId]) -> str:
    return " ".join(map(str, sorted(members))) or "nobody"
