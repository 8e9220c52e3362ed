"""What a member says: submissions become frames, frames leave, receipts come back.

Messages leave when the window is open and, in mode `hold`, no change of membership is under
way; what is owed in acknowledgements leaves anyway. Every frame of one's own enters here as it
does everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.config import Config
from phalanx.core import blocked
from phalanx.core.announcement import announce
from phalanx.core.blocked import Wait
from phalanx.core.carryover import ViewOrigin
from phalanx.core.codec import Codec
from phalanx.core.delivery_reports import DeliveryReports
from phalanx.core.dice import Dice
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
from phalanx.core.frames import Announce, ControlMessage, Frame, Plain, Propose
from phalanx.core.ids import MemberId, View
from phalanx.core.membership.protocol import MembershipProtocol
from phalanx.core.membership.steps import AllSpoke
from phalanx.core.mismatch import Mismatches
from phalanx.core.packing import Outbox
from phalanx.core.parcels import Parcels
from phalanx.core.presence import Presence
from phalanx.core.receipts import Receipts
from phalanx.core.reconciliation import Progress
from phalanx.core.sealing import Content, seal
from phalanx.core.shared_settings import shared_digest
from phalanx.core.stay import Means, Stay
from phalanx.errors import (
    MemberClosed,
    MessageTooLarge,
    NoReceiver,
    NotBytes,
    OutboxFull,
    UnknownMember,
)

NEVER = 1 << 62


class Speaker:
    """The part of a member that sends."""

    def __init__(self, me: MemberId, view: View, group: str, config: Config, entropy: int) -> None:
        self.me = me
        self._config = config
        self._codec = Codec(config.cluster, group, shared_digest(config))
        self._mismatches = Mismatches(config)
        self._parcels = Parcels(self._codec, config)
        dice = Dice(entropy)
        self._protocol = MembershipProtocol(me, view, config)
        self._means = Means(me, self._codec, config, dice)
        self._presence = Presence(me, config, dice, len(view.members) == 1)
        self._enter(Stay(me, ViewOrigin(view), self._means, 0))
        self._progress = Progress()
        self._outbox = Outbox(config.frame_bytes_max)
        self._pace_ns = 0
        self._numbered = 0
        self._closed = False
        self._leave_ns = NEVER
        self._stopped = False
        self._slow_due_ns = -1
        """When something other than frames is due; -1 if that must be found anew."""
        self._mute = False
        """It may send no frames: its name is not yet its own, or it has said goodbye."""
        self._window_told_closed = False
        self._backlog = 0
        """How far the application is behind with reading."""
        self._receipts = Receipts()
        self._deliveries = DeliveryReports()

    def _enter(self, stay: Stay) -> None:
        """From here on the member is in this stay. What the hot path uses is at hand."""
        self._stay = stay
        self.view = stay.view
        self._rank = stay.rank
        self._lansis = stay.domain
        self._dag = stay.dag
        self._window = stay.window
        self._pulse = stay.pulse

    def _deliver(self, now: int, entered: list[Frame], out: list[Effect]) -> None:
        protocol = self._protocol
        self._stay.deliver(now, entered, out, protocol.phase == 1)
        if self._stay.young and self._dag.all_spoke:
            self._lansis.young = False
            self._deliveries.all_spoke()
            protocol.step(now, AllSpoke())
            if not protocol.changing:
                self._means.forget()

    def _repeat_last(self, now: int, out: list[Effect]) -> None:
        if self._pulse.quiet_for(now):
            packets = self._lansis.last_again(now)
            if packets:
                out.append(Transmit(packets))

    def _transmit(self, packets: list[Plain], out: list[Effect]) -> None:
        if packets:
            out.append(Transmit([data for p in packets for data in self._parcels.packets(p)]))

    @property
    def room(self) -> int:
        """Bytes that the outbox still takes; 0 or less: Submit raises OutboxFull."""
        return self._config.outbox_bytes_max - self._outbox.bytes

    @property
    def _is_settled(self) -> bool:
        return self._stay.settled and self._lansis.steady

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
        kinds = set(map(type, bodies)) - {bytes}
        if kinds:
            raise NotBytes(min(kind.__name__ for kind in kinds))
        lengths = list(map(len, bodies))
        longest = max(lengths)
        if longest > self._config.message_bytes_max:
            raise MessageTooLarge(longest, self._config.message_bytes_max)
        ranks = () if to == () and lost else self._ranks(to)
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

    def _ranks(self, to: tuple[MemberId, ...] | None) -> tuple[int, ...] | None:
        if to is None:
            return None
        if not to:
            raise NoReceiver
        ranks = []
        for member in to:
            rank = self._stay.ranked.get(member)
            if rank is None:
                raise UnknownMember(str(member), tuple(map(str, self.view.members)))
            ranks.append(rank)
        return tuple(sorted(set(ranks)))

    # -------------------------------------------------------------- frames out

    def _may_send(self) -> bool:
        """Messages may leave: the window is open, and no change holds them back."""
        if self._mute or self._is_held():
            return False
        if self._backlog or True in self._stay.full:
            # One that waits to send before it reads on must not wait for others like it.
            if self._backlog != 1:
                return False
        return self._window.is_open(self._lansis.bytes, self._lansis.own_bytes)

    def _is_held(self) -> bool:
        """A change holds messages back: all in mode `hold`, else those of several frames."""
        return bool(self._protocol.phase) and (self._config.mode == "hold" or self._outbox.is_large)

    @property
    def blocked_by(self) -> dict[MemberId, Wait]:
        """The members that messages which may not leave wait for; empty if none wait."""
        if not self._outbox.messages or self._mute or self._may_send():
            return {}
        if self._is_held():
            return blocked.unanswered(self._protocol)
        if self._backlog != 1 and (found := blocked.unread(self._stay, self._backlog)):
            return found
        return blocked.unacknowledged(self._stay)

    @property
    def following(self) -> int:
        """The number of the first message that has not been sent: grows while messages leave."""
        return self._outbox.following

    def _speak(self, now: int, out: list[Effect]) -> None:
        """Seal what may leave: messages if the window lets them, else acks that are owed."""
        if self._mute:
            return
        outbox = self._outbox
        due = self._pulse.due(now, self._is_settled)
        while outbox.messages and self._may_send():
            if now < self._pace_ns and not outbox.fills_a_frame and not due:
                break
            due = False  # what is owed goes with the messages
            first = outbox.following
            self._send(now, first, outbox.take(), out)
            self._pace_ns = now + self._window.delay(self._lansis.bytes)
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
        stay = self._stay
        number = self._dag.have[self._rank] + 1
        phase = 1 if said is not None else self._protocol.phase
        if phase and content and not stay.first_carried:
            stay.first_carried = number
        if isinstance(said, Propose):
            stay.issued = number
            stay.start = stay.first_carried - 1 if stay.first_carried else number
        announced = self._announcement(number, phase, said) if phase or stay.young else None
        for run, _ in content:
            if run.completes:
                last = run.first + run.count - 1
                to = self._members(run.to)
                out.append(Sent(run.first, last, number, run.service, to, self.view.id, phase))
        acks = self._acknowledgements()
        frame = seal(stay, self._config, phase, first, content, acks, announced, self._backlog > 0)
        packets = self._codec.fragments(frame, frame.wire, repeat=0)
        self._window.passed(len(packets))
        out.append(Transmit(packets))
        if frame.runs:
            self._receipts.sent(frame)
        self._pulse.spoke(now, bool(frame.runs) or said is not None)
        if phase:
            self._lansis.enter_apart(frame)
            stay.carry.append(frame)
        else:
            self._lansis.insert(frame)
            self._deliver(now, [frame], out)
        return frame

    def _announcement(self, number: int, phase: int, said: ControlMessage | None) -> Announce:
        """What makes the next frame readable to members of other views."""
        stay, protocol = self._stay, self._protocol
        vector = self._dag.have.copy()
        vector[self._rank] = number
        proposal = protocol.current if phase else protocol.unchanged
        closings = protocol.closings() if phase else ()
        openings = stay.openings if stay.young else ()
        numbers = (stay.issued, stay.start)
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
        self._receipts.advance(self.view.id, self._stay.tag, stable, out)
        self._deliveries.advance(self.view.id, self._dag, self._receipts.settled_upto, out)
        if self._lansis.refused:
            out += [Refused(reason, count) for reason, count in self._lansis.refused.items()]
            self._lansis.refused.clear()
        waiting = self._outbox.bytes
        if waiting >= self._config.outbox_bytes_max and not self._window_told_closed:
            self._window_told_closed = True
            out.append(WindowClosed(self._lansis.bytes, self._in_flight()))
        elif self._window_told_closed and 2 * waiting <= self._config.outbox_bytes_max:
            self._window_told_closed = False
            out.append(WindowOpened(self._lansis.bytes, self._in_flight()))

    def _in_flight(self) -> int:
        return sum(len(frames) for frames in self._dag.frames)
