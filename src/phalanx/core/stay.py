"""What lasts as long as a view: its frames, their order, the cursor, window and pulse.

A member makes one stay after the other; the frames that the next one needs are handed over
(`succeed`), the rest goes to the archive.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import gt

from phalanx.config import Config
from phalanx.core.announced import Tables, table_of
from phalanx.core.changeover import Border, Carried, in_order, readdress, settle_in
from phalanx.core.codec import Codec
from phalanx.core.delivery.agreed import AllAck, Order, ToTo
from phalanx.core.delivery.cursor import Cursor
from phalanx.core.dice import Dice
from phalanx.core.effects import Deliver, Effect, LinkCounted, Transitional
from phalanx.core.frames import Frame
from phalanx.core.framing import encode_tag
from phalanx.core.holdings import Archive
from phalanx.core.ids import MemberId, table_digest
from phalanx.core.pulse import Pulse
from phalanx.core.visitors import Admits, Domain
from phalanx.core.window import Window


class Means:
    """What outlasts a view and every stay needs."""

    __slots__ = ("admits", "archive", "codec", "config", "dice", "tables")

    def __init__(self, codec: Codec, config: Config, dice: Dice, admits: Admits) -> None:
        self.codec = codec
        self.config = config
        self.dice = dice
        self.admits = admits
        self.tables = Tables()
        self.archive = Archive()


class Stay:
    """One member's time in one view."""

    def __init__(self, me: MemberId, border: Border, transit: bool, means: Means, now: int) -> None:
        view, config = border.view, means.config
        n = len(view.members)
        self.me = me
        self.border = border
        self.view = view
        self.transit = transit
        """A further change was under way when it began: nothing is delivered before it ends."""
        self.rank = view.rank(me)
        self.ranked = {member: rank for rank, member in enumerate(view.members)}
        self.table = table_digest(view.members)
        self.tag = encode_tag(view.id)
        base = [border.closing.get(member, 0) for member in view.members]
        self.domain = Domain(
            me,
            view,
            base,
            means.tables,
            means.archive,
            means.codec,
            config,
            means.dice,
            means.admits,
        )
        self.dag = self.domain.dag
        self.order: Order = (
            ToTo(self.dag, config.early) if config.order == "toto" else AllAck(self.dag)
        )
        self.cursor = Cursor(self.rank, view, self.dag, config.post_confirm)
        self.window = Window(config, n)
        self.pulse = Pulse(config, n, now)
        self.young = n > 1
        """Not all members have spoken in it yet: frames say what they refer to."""
        self._held: list[Frame] = []
        """Frames that entered and are kept from delivery until the view ends."""
        self._aside: list[Frame] = []
        """Those of them that do not even count before."""
        self._last_message = [0] * n
        """Per sender, its last frame here that holds messages."""
        self.full = [False] * n
        """Per member, whether its application is behind with reading, as its last frame says."""
        self.settled = not self.young

    def links(self) -> list[LinkCounted]:
        """What happened on the link with each other member of the view."""
        missed, asked = self.domain.recovery.missed, self.domain.recovery.asked
        repeated, have, closing = self.domain.recovery.repeated, self.dag.have, self.border.closing
        return [
            LinkCounted(
                peer=member,
                view=self.view.id,
                frames=have[rank] - closing.get(member, 0),
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
        """Frames of the view have entered: what may go up goes up, what is stable is forgotten
        unless it has to be kept."""
        if self._held or self.transit:
            entered = [frame for frame in entered if not self._must_wait(frame)]
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

    def hold(self, frame: Frame, aside: bool = False) -> None:
        """A frame of an earlier view has entered while this one is ending, or one of a member that
        is barred: whether it is delivered here, in the next or nowhere is decided by what closes
        this one."""
        self._held.append(frame)
        if aside:
            self._aside.append(frame)

    def _must_wait(self, frame: Frame) -> bool:
        """Hold a frame back if nothing is delivered yet, or if it follows one that is held."""
        if self.transit or any(frame.vector[h.sender] >= h.number for h in self._held):
            self._held.append(frame)
            return True
        return False

    def begin(self, carried: list[Carried], out: list[Effect]) -> None:
        """What the view takes over from below its beginning leaves first."""
        frames = [settle_in(item, self.view, self.ranked) for item in in_order(carried)]
        deliveries: list[Deliver] = []
        ordered = [frame for frame in frames if frame.ordered]
        self.order.place(ordered)
        for frame in frames:
            self.cursor.insert(frame, deliveries)
        self.cursor.advance(ordered, deliveries)
        out += deliveries

    def close(
        self,
        carried: list[Carried],
        belongs: Callable[[Frame], bool],
        together: tuple[MemberId, ...],
        out: list[Effect],
    ) -> None:
        """The view has ended: everything in it leaves, with the marker where it belongs.

        In transit `carried` is what it took over and has not delivered yet; `belongs` says which
        of the frames that were held back are this view's.
        """
        before: list[Effect] = []
        if self.transit:
            self.transit = False
            self.begin(carried, before)
        held, self._held = self._held, []
        for frame in self._aside:
            if belongs(frame):
                self.dag.count(frame)
        self.deliver(0, [frame for frame in held if belongs(frame)], before, keep=True)
        out += before
        deliveries: list[Deliver] = []
        marker = self.cursor.close(self.order.close(), deliveries)
        if marker is None:
            out += deliveries
            return
        done, pos = marker
        out += deliveries[:done]
        out.append(Transitional(self.view.id, pos, together))
        out += deliveries[done:]

    def address(self, frame: Frame) -> None:
        """Receivers and vector by rank, where the frame came with a table of its own."""
        if frame.control is not None:
            readdress(frame, table_of(frame.control), self.ranked)
        n = self.dag.n
        if frame.ack_members and frame.ack_members[-1] >= n:
            inside = sum(slot < n for slot in frame.ack_members)
            frame.ack_members = frame.ack_members[:inside]
            frame.ack_numbers = frame.ack_numbers[:inside]

    # -------------------------------------------------------------- change

    def note_floor(self, slot: int, number: int) -> None:
        """The first phase-1 frame of a member: all before it is nobody's business outside."""
        member = self.domain.roster[slot]
        if slot < self.dag.n:
            self.domain.floors.setdefault(member, number - 1)

    def succeed(self, before: Stay, keeps: frozenset[MemberId], phase: int) -> None:
        """Take over what the stay before has of the members of this one and of a join that goes
        on: frames beyond the border wait here to be considered again."""
        old, new = before.domain, self.domain
        if phase:
            new.floors.update({m: f for m, f in old.floors.items() if m in self.ranked})
            new.foreign_floors.update({m: f for m, f in old.foreign_floors.items() if m in keeps})
        for member in sorted(keeps):
            slot = old.slot_of.get(member)
            if slot is not None:
                new.visit(member, old.dag.have[slot])
        stored: dict[MemberId, dict[int, Frame]] = {}
        again: list[Frame] = []
        for slot, member in enumerate(old.roster):
            frames = old.dag.frames[slot]
            if frames:
                stored[member] = frames
            rank = self.ranked.get(member)
            if rank is not None:
                have = new.dag.have[rank]
                again += [f for number, f in sorted(frames.items()) if number > have]
        new.archive.add(stored)
        for frame in [*again, *old.waiting()]:
            new.readmit(old.roster[frame.sender], frame)
