"""Per-view state: the frames, their order, the delivery cursor, window and pulse.

Created when a view is installed and discarded at the next. Frames of phase 1 that entered are
handed to the next view (`carry`), the rest goes to the archive.

After its first proposal a member no longer delivers all that enters (rule Early delivery): a frame
of a member that it leaves out is *held* until a frame follows it that lies, whatever view is
installed next, under a closing frame of that view.
"""

from __future__ import annotations

from operator import gt

from phalanx.config import Config
from phalanx.core.broadcast.ack_scheduler import AckScheduler, Awaited
from phalanx.core.broadcast.flow_control import FlowControlWindow
from phalanx.core.broadcast.foreign_frames import ForeignFrames
from phalanx.core.broadcast.frame_store import PastFrames
from phalanx.core.broadcast.reliable import ReliableBroadcast
from phalanx.core.delivery.delivery_queue import DeliveryQueue
from phalanx.core.delivery.total_order import AllAck, TotalOrder, ToTo
from phalanx.core.effects import Deliver, Effect, LinkStats, Transitional
from phalanx.core.ids import MemberId
from phalanx.core.membership.announcement import vector_of
from phalanx.core.membership.carryover import ViewOrigin, adopt
from phalanx.core.prng import Prng
from phalanx.core.wire.control_fragments import ControlFragmenter
from phalanx.core.wire.frame_codec import encode_tag
from phalanx.core.wire.frames import Frame
from phalanx.core.wire.packet_codec import PacketCodec


class MemberResources:
    """What outlives a view and is shared by successive views."""

    __slots__ = ("codec", "config", "foreign", "fragmenter", "past_frames", "prng")

    def __init__(self, me: MemberId, codec: PacketCodec, config: Config, prng: Prng) -> None:
        self.codec = codec
        self.fragmenter = ControlFragmenter(codec, config)
        self.config = config
        self.prng = prng
        self.past_frames = PastFrames()
        self.foreign = ForeignFrames(me, self.past_frames, codec, config, prng)

    def forget(self, issues: frozenset[tuple[MemberId, int]]) -> None:
        """No change is under way and all members have spoken in the view: frames of other views
        are not needed any more (rule B-14), but for those that issued a proposal which this member
        may still install (rule B-15)."""
        self.past_frames.clear()
        self.foreign.retain(issues)
        self.foreign.forget_wants()


class ViewState:
    """One member's time in one view."""

    def __init__(
        self, me: MemberId, origin: ViewOrigin, resources: MemberResources, now: int
    ) -> None:
        view, config = origin.view, resources.config
        n = len(view.members)
        self.me = me
        self.origin = origin
        self.view = view
        self.rank = view.rank(me)
        self.ranked = {member: rank for rank, member in enumerate(view.members)}
        self.table = view.id.digest
        self.tag = encode_tag(view.id)
        self.openings = tuple(origin.closings.get(member, 0) for member in view.members)
        """Per member, the frame with which it issued the view."""
        base = [origin.starts.get(member, 0) for member in view.members]
        self.broadcast = ReliableBroadcast(
            self.rank, view, base, resources.past_frames, resources.codec, config, resources.prng
        )
        self.dag = self.broadcast.dag
        self.order: TotalOrder = (
            ToTo(self.dag, config.early) if config.order == "toto" else AllAck(self.dag)
        )
        self.queue = DeliveryQueue(self.rank, view, self.dag, config.post_confirm)
        self.window = FlowControlWindow(config, n)
        self.ack_scheduler = AckScheduler(config, n, self.rank, now)
        self.broadcast.awaiting_first_frames = n > 1
        self.issued = 0
        """This member's last frame that issued a proposal in the view."""
        self.start = 0
        """The start that it named (`carryover`)."""
        self.first_carried = 0
        """This member's first frame of phase 1 with messages."""
        self.carry: list[Frame] = []
        """Frames of phase 1 of the view that entered, in order."""
        self._held: list[Frame] = []
        """Frames that entered and do not count yet, in order."""
        self._proposed: set[int] = set()
        """Members whose first proposal has entered."""
        self._last_message = [0] * n
        """Per sender, its last frame here that holds messages."""
        self.full = [False] * n
        """Per member, whether its application is behind with reading, as its last frame says."""
        self.settled = not self.awaiting_first_frames
        self._awaited = Awaited.CHOSEN
        self._confirmed = [0] * n if config.post_confirm else None
        """With post_confirm, per sender the last frame that another member has acknowledged."""

    def members_of(self, ranks: tuple[int, ...] | None) -> tuple[MemberId, ...] | None:
        """The members with these ranks; None, for all, stays None."""
        return None if ranks is None else tuple(self.view.members[rank] for rank in ranks)

    def sender_of(self, frame: Frame) -> MemberId:
        return self.view.members[frame.sender]

    @property
    def awaiting_first_frames(self) -> bool:
        """Not all members have spoken in it yet: frames say what they refer to."""
        return self.broadcast.awaiting_first_frames

    def links(self) -> list[LinkStats]:
        """What happened on the link with each other member of the view."""
        missed, asked = self.broadcast.retransmission.missed, self.broadcast.retransmission.asked
        repeated, have, starts = (
            self.broadcast.retransmission.repeated,
            self.dag.have,
            self.origin.starts,
        )
        return [
            LinkStats(
                peer=member,
                view=self.view.id,
                frames=have[rank] - starts.get(member, 0),
                upto=have[rank],
                missed=missed[rank],
                asked=asked[rank],
                repeated=repeated[rank],
            )
            for rank, member in enumerate(self.view.members)
            if rank != self.rank
        ]

    # -------------------------------------------------------------- delivery

    def deliver(self, now: int, entered: list[Frame], out: list[Effect], keep: bool) -> None:
        """Frames of the view have entered and count: what may be delivered is, what is stable is
        forgotten unless it has to be kept (rule O-2)."""
        order, queue = self.order, self.queue
        deliveries: list[Deliver] = []
        ordered: list[Frame] = []
        full = self.full
        for frame in entered:
            full[frame.sender] = frame.full
            ordered += order.insert(frame)
            if frame.runs:
                self._last_message[frame.sender] = frame.number
                queue.insert(frame, deliveries)
        queue.advance(ordered, deliveries)
        out += deliveries
        if self.dag.newly_stable and not keep:
            self.broadcast.store.drop_stable()
            self.window.progressed(now)
        self.settled = not self.awaiting_first_frames and not any(
            map(gt, self._last_message, self.dag.stable)
        )
        if self._confirmed is not None:
            self._confirm(entered, self._confirmed)
        awaited = order.awaited or self._awaited_apart()
        if ordered or awaited is not self._awaited:
            self._awaited = awaited
            self.ack_scheduler.awaits(now, awaited, bool(ordered))

    def reached(self) -> tuple[dict[MemberId, int], dict[MemberId, int]]:
        """How far messages will be delivered and known here when the view ends: all that has
        entered lies under the next own closing frame, so under the cut."""
        return self.queue.reached(self._held)

    def _confirm(self, entered: list[Frame], confirmed: list[int]) -> None:
        """With post_confirm: note what these frames acknowledge."""
        for frame in entered:
            for rank, number in zip(frame.ack_members, frame.ack_numbers, strict=True):
                if rank != frame.sender and number > confirmed[rank]:
                    confirmed[rank] = number

    def _awaited_apart(self) -> Awaited:
        """Whose acknowledgements let messages leave, here or at their sender, that do not wait for
        the order."""
        if self.awaiting_first_frames or self.queue.waits:
            return Awaited.CHOSEN
        if self._confirmed is not None and any(map(gt, self._last_message, self._confirmed)):
            return Awaited.CHOSEN
        return Awaited.NOBODY

    # -------------------------------------------------------------- carried frames

    def adopt(self, frame: Frame) -> None:
        """Give a frame that is carried into this view its ranks here."""
        vector = vector_of(frame)
        adopt(frame, tuple(vector), vector, self.origin, self.ranked)

    def enter_own(self, frame: Frame) -> None:
        """An own frame that is carried into this view enters at once: the next own frame has the
        number after it. What it follows is here, unless a peer has forged frames or too many are
        waiting; then what is missing is left out of its acknowledgements."""
        have = self.dag.have
        acks = zip(frame.ack_members, frame.ack_numbers, strict=True)
        here = [(rank, min(number, have[rank])) for rank, number in acks]
        frame.ack_members = tuple(rank for rank, _ in here)
        frame.ack_numbers = tuple(number for _, number in here)
        self.broadcast.insert_without_vote(frame)

    # -------------------------------------------------------------- early delivery, end of the view

    def hold(self, frame: Frame) -> None:
        """A frame has entered of which only the install decides whether it is delivered here."""
        self._held.append(frame)

    def released(self, vector: list[int]) -> list[Frame]:
        """The held frames under a vector: they count from now on."""
        if not self._held:
            return []
        below = [frame for frame in self._held if frame.number <= vector[frame.sender]]
        self._held = [frame for frame in self._held if frame.number > vector[frame.sender]]
        self._count(below)
        return below

    def is_first_proposal(self, frame: Frame) -> bool:
        """Whether this is the first proposal of its sender in the view to enter."""
        first = frame.sender not in self._proposed
        self._proposed.add(frame.sender)
        return first

    def cut(self, closings: dict[MemberId, int]) -> list[int]:
        """The union of the pasts of these closing frames (rule Cut)."""
        cut = [0] * self.dag.n
        for member, number in closings.items():
            rank = self.ranked[member]
            cut = list(map(max, cut, self.dag.frames[rank][number].vector))
        return cut

    def close(self, cut: list[int], together: tuple[MemberId, ...], out: list[Effect]) -> None:
        """The view has ended: everything under the cut is delivered, with the marker where it
        belongs; what is held beyond it is not delivered here (rule D-11)."""
        below = [frame for frame in self._held if frame.number <= cut[frame.sender]]
        self._held = []
        self._count(below)
        self.deliver(0, below, out, keep=True)
        deliveries: list[Deliver] = []
        marker = self.queue.close(self.order.close(), deliveries)
        if marker is None:
            out += deliveries
            return
        done, pos = marker
        out += deliveries[:done]
        out.append(Transitional(self.view.id, pos, together))
        out += deliveries[done:]

    def _count(self, frames: list[Frame]) -> None:
        """Frames that were set aside prove stable what they follow; carried ones never do."""
        for frame in frames:
            if frame.phase == 0:
                self.dag.count_deferred(frame)
