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
from phalanx.core.carryover import ViewOrigin
from phalanx.core.codec import Codec
from phalanx.core.delivery.agreed import AllAck, Awaited, Order, ToTo
from phalanx.core.delivery.cursor import Cursor
from phalanx.core.dice import Dice
from phalanx.core.effects import Deliver, Effect, LinkCounted, Transitional
from phalanx.core.foreign_frames import ForeignFrames
from phalanx.core.frames import Frame
from phalanx.core.framing import encode_tag
from phalanx.core.holdings import Archive
from phalanx.core.ids import MemberId
from phalanx.core.lansis import Lansis
from phalanx.core.pulse import Pulse
from phalanx.core.window import Window


class Means:
    """What outlives a view and is shared by successive views."""

    __slots__ = ("archive", "codec", "config", "dice", "foreign")

    def __init__(self, me: MemberId, codec: Codec, config: Config, dice: Dice) -> None:
        self.codec = codec
        self.config = config
        self.dice = dice
        self.archive = Archive()
        self.foreign = ForeignFrames(me, self.archive, codec, config, dice)

    def forget(self) -> None:
        """No change is under way and all members have spoken in the view: frames of other views
        are not needed any more."""
        self.archive.clear()
        self.foreign.clear()
        self.foreign.forget_wants()


class Stay:
    """One member's time in one view."""

    def __init__(self, me: MemberId, origin: ViewOrigin, means: Means, now: int) -> None:
        view, config = origin.view, means.config
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
        self.domain = Lansis(self.rank, view, base, means.archive, means.codec, config, means.dice)
        self.dag = self.domain.dag
        self.order: Order = (
            ToTo(self.dag, config.early) if config.order == "toto" else AllAck(self.dag)
        )
        self.cursor = Cursor(self.rank, view, self.dag, config.post_confirm)
        self.window = Window(config, n)
        self.pulse = Pulse(config, n, self.rank, now)
        self.domain.young = n > 1
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
        self.settled = not self.young
        self._awaited = Awaited.CHOSEN
        self._confirmed = [0] * n if config.post_confirm else None
        """With post_confirm, per sender the last frame that another member has acknowledged."""

    @property
    def young(self) -> bool:
        """Not all members have spoken in it yet: frames say what they refer to."""
        return self.domain.young

    def links(self) -> list[LinkCounted]:
        """What happened on the link with each other member of the view."""
        missed, asked = self.domain.recovery.missed, self.domain.recovery.asked
        repeated, have, starts = self.domain.recovery.repeated, self.dag.have, self.origin.starts
        return [
            LinkCounted(
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
        forgotten unless it has to be kept."""
        order, cursor = self.order, self.cursor
        deliveries: list[Deliver] = []
        ordered: list[Frame] = []
        full = self.full
        for frame in entered:
            full[frame.sender] = frame.full
            ordered += order.insert(frame)
            if frame.runs:
                self._last_message[frame.sender] = frame.number
                cursor.insert(frame, deliveries)
        cursor.advance(ordered, deliveries)
        out += deliveries
        if self.dag.moved and not keep:
            self.domain.drop_stable()
            self.window.progressed(now)
        self.settled = not self.young and not any(map(gt, self._last_message, self.dag.stable))
        if self._confirmed is not None:
            self._confirm(entered, self._confirmed)
        awaited = order.awaited or self._awaited_apart()
        if ordered or awaited is not self._awaited:
            self._awaited = awaited
            self.pulse.awaits(now, awaited, bool(ordered))

    def _confirm(self, entered: list[Frame], confirmed: list[int]) -> None:
        """With post_confirm: note what these frames acknowledge."""
        for frame in entered:
            for rank, number in zip(frame.ack_members, frame.ack_numbers, strict=True):
                if rank != frame.sender and number > confirmed[rank]:
                    confirmed[rank] = number

    def _awaited_apart(self) -> Awaited:
        """Whose acknowledgements let messages leave, here or at their sender, that do not wait for
        the order."""
        if self.young or self.cursor.waits:
            return Awaited.CHOSEN
        if self._confirmed is not None and any(map(gt, self._last_message, self._confirmed)):
            return Awaited.CHOSEN
        return Awaited.NOBODY

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
        """The union of the pasts of these closing frames."""
        cut = [0] * self.dag.n
        for member, number in closings.items():
            rank = self.ranked[member]
            cut = list(map(max, cut, self.dag.frames[rank][number].vector))
        return cut

    def close(self, cut: list[int], together: tuple[MemberId, ...], out: list[Effect]) -> None:
        """The view has ended: everything under the cut is delivered, with the marker where it
        belongs; what is held beyond it is not delivered here."""
        below = [frame for frame in self._held if frame.number <= cut[frame.sender]]
        self._held = []
        self._count(below)
        self.deliver(0, below, out, keep=True)
        deliveries: list[Deliver] = []
        marker = self.cursor.close(self.order.close(), deliveries)
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
                self.dag.count(frame)
