"""Own messages: accepted, numbered, kept until they may leave, and reported on afterwards.

Messages leave when the flow-control window is open, no application in the view is behind with
reading and, in mode `hold`, no view change is under way. Receipts and delivery reports follow them.
All of this outlives a view; the view and the membership protocol are passed in.
"""

from __future__ import annotations

from phalanx.config import Config
from phalanx.core.broadcast.outbox import Outbox
from phalanx.core.delivery.delivery_reports import DeliveryReports
from phalanx.core.delivery.receipts import ReceiptLedger
from phalanx.core.effects import (
    Accepted,
    Effect,
    NotSent,
    Submit,
    WindowClosed,
    WindowOpened,
)
from phalanx.core.ids import MemberId
from phalanx.core.member import blocked
from phalanx.core.member.blocked import Wait
from phalanx.core.member.view_state import ViewState
from phalanx.core.membership.protocol import MembershipProtocol
from phalanx.core.submission import check_submission
from phalanx.errors import MemberClosed, OutboxFull


class Sender:
    """The outbox of a member and the receipts for what has left it."""

    def __init__(self, me: MemberId, config: Config) -> None:
        self._me = me
        self._config = config
        self.outbox = Outbox(config.frame_bytes_max)
        self.receipts = ReceiptLedger()
        self.deliveries = DeliveryReports()
        self.accepted = 0
        """Messages accepted so far: the number of the last one."""
        self.closed = False
        """No more messages are accepted."""
        self.silenced = False
        """No frame may leave: the member's name is not its own yet, or it has sent LEAVE."""
        self.reader_lag = 0
        """How far the member's own application is behind with reading (`ReaderLag`)."""
        self.pace_ns = 0
        """A frame that is not full leaves at this time at the earliest."""
        self._reported_closed = False

    @property
    def room(self) -> int:
        """Bytes that the outbox still takes; 0 or less: `submit` raises OutboxFull (rule W-11)."""
        return self._config.outbox_bytes_max - self.outbox.bytes

    # -------------------------------------------------------------- submissions

    def submit(self, given: Submit, state: ViewState, out: list[Effect]) -> None:
        """Accept messages, all or none (rule D-9)."""
        if self.closed:
            raise MemberClosed(str(self._me))
        bodies, lost = given.bodies, given.lost
        if not bodies:
            return
        # All receivers may have left since the submission was accepted: then `to` is empty.
        to, ranked = given.to, state.ranked
        checked = None if lost and not to else to
        lengths = check_submission(bodies, checked, ranked, self._config.message_bytes_max)
        ranks = None if to is None else tuple(sorted({ranked[member] for member in to}))
        if self.room <= 0:
            raise OutboxFull(self.outbox.bytes, self._config.outbox_bytes_max)
        self.outbox.put(bodies, lengths, given.service, ranks)
        first = self.accepted + 1
        self.accepted += len(bodies)
        receivers = state.members_of(ranks)
        if lost and receivers is not None:
            receivers = tuple(sorted({*receivers, *lost}))
        size = sum(lengths)
        out.append(Accepted(first, self.accepted, given.service, receivers, size, bodies))
        if lost:
            out.append(NotSent(first, self.accepted, lost, len(ranks or ())))

    # -------------------------------------------------------------- when messages may leave

    def may_send(self, state: ViewState, protocol: MembershipProtocol) -> bool:
        """Whether messages may leave (rule W-10)."""
        if self.silenced or (protocol.phase and self._is_held(protocol)):
            return False
        if self.reader_lag or True in state.full:
            # One that waits to send before it reads on must not wait for others like it.
            if self.reader_lag != 1:
                return False
        store = state.broadcast.store
        return state.window.is_open(store.bytes, store.own_bytes)

    def _is_held(self, protocol: MembershipProtocol) -> bool:
        """A view change holds messages back: all in mode `hold`, else those of several frames
        (rule W-13)."""
        return bool(protocol.phase) and (self._config.mode == "hold" or self.outbox.is_large)

    def blocked_by(self, state: ViewState, protocol: MembershipProtocol) -> dict[MemberId, Wait]:
        """The members that messages which may not leave wait for; empty if none wait
        (rule W-12)."""
        if not self.outbox.messages or self.silenced or self.may_send(state, protocol):
            return {}
        if self._is_held(protocol):
            return blocked.unanswered(protocol)
        if self.reader_lag != 1 and (found := blocked.unread(state, self.reader_lag)):
            return found
        return blocked.unacknowledged(state)

    # -------------------------------------------------------------- reports

    def report_window(self, state: ViewState, out: list[Effect]) -> None:
        """Report that the outbox is full, or has room again."""
        waiting, limit = self.outbox.bytes, self._config.outbox_bytes_max
        if waiting >= limit and not self._reported_closed:
            self._reported_closed = True
            out.append(WindowClosed(state.broadcast.store.bytes, _in_flight(state)))
        elif self._reported_closed and 2 * waiting <= limit:
            self._reported_closed = False
            out.append(WindowOpened(state.broadcast.store.bytes, _in_flight(state)))

    def close_view(
        self, state: ViewState, together: tuple[MemberId, ...], out: list[Effect]
    ) -> None:
        """The view has ended, and these members move on together: receipts for its messages."""
        stable = state.dag.stable[state.rank]
        self.receipts.close(state.view.id, state.tag, stable, together, out)
        self.deliveries.close(state.view.id, self.receipts.stable_upto, together)

    def readdress(self, before: ViewState, after: ViewState) -> list[Effect]:
        """Messages that wait go to receivers that are in the new view; lost ones are reported."""
        ranks = {before.ranked[m]: rank for m, rank in after.ranked.items() if m in before.ranked}
        self.outbox.again()
        members = before.view.members
        return [
            NotSent(some.first, some.last, tuple(members[rank] for rank in some.gone), some.rest)
            for some in self.outbox.readdress(ranks)
        ]


def _in_flight(state: ViewState) -> int:
    return sum(len(frames) for frames in state.dag.frames)
