"""Frames of a change: of members of other components, and of one's own members meanwhile.

Members of other components get slots above those of the view. Of their frames only those of
the change matter here, phase 1; all before are treated as present up to the floor that the
frames themselves announce (PROTOCOLS B.7; docs/decisions.md says why the floor is the last
frame of phase 0). A floor never hides frames of one's own view, nor of a view that one is in.

While a change is under way nothing enters by itself: `pull` offers the frames whose past is
here, one at a time, and the owner decides. Frames of barred senders are offered only if a
frame that may enter follows them (PROTOCOLS B.6 item 10).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from phalanx.config import Config
from phalanx.core.announced import Tables, is_possible, table_of
from phalanx.core.codec import Codec
from phalanx.core.dice import Dice
from phalanx.core.frames import Component, Fragment, Frame, FrameKind, Refusal, Whole
from phalanx.core.framing import decode_frame, decode_tag
from phalanx.core.holdings import Archive
from phalanx.core.ids import MEMBERS_MAX, MemberId, View, ViewId
from phalanx.core.lansis import AHEAD_ASKED_MAX, Lansis
from phalanx.core.membership.contexts import epoch, origin
from phalanx.core.pieces import Pieces

STRANGE_PIECES_MAX = 256
STRANGE_BEGUN_MAX = 512
Admits = Callable[[MemberId, bool], bool]
"""(sender, is it a proposal?) to whether its frames may enter for their own sake."""


class Domain(Lansis):
    """Lansis for a view that will end: with visitors, tables and an archive."""

    __slots__ = (
        "_strange_ids",
        "_strange_pieces",
        "_tables",
        "admits",
        "floors",
        "foreign_floors",
        "me",
        "strangers",
        "view",
    )

    def __init__(
        self,
        me: MemberId,
        view: View,
        base: list[int] | None,
        tables: Tables,
        archive: Archive,
        codec: Codec,
        config: Config,
        dice: Dice,
        admits: Admits,
    ) -> None:
        super().__init__(view.rank(me), view, base, archive, codec, config, dice)
        self.me = me
        self.view = view
        self.admits = admits
        self._tables = tables
        tables.add(view.members)
        self.foreign_floors: dict[MemberId, tuple[ViewId, int]] = {}
        """... and of members of other components, with the view that it is a floor of: it says
        nothing about frames of a later view, which somebody else may be in."""
        self.floors: dict[MemberId, int] = {}
        """Of members in a change, the last frame before it."""
        self.strangers = 0
        """Frames of members that are none of this one's business."""
        self._strange_pieces = Pieces()
        self._strange_ids: dict[tuple[bytes, int], int] = {}

    # -------------------------------------------------------------- packets with other tables

    def _strange(self, now: int, whole: Whole) -> None:
        if whole.repeat:
            count = -(-len(whole.payload) // whole.size) if whole.size else 1
            for index in range(count):
                self._repeated(whole, index, count)
        self._foreign(now, whole.table, whole.sender, whole.number, whole.payload, whole.size)

    def _repeated(self, packet: Whole | Fragment, index: int, count: int) -> None:
        """Somebody repeats a frame with another table: others need not."""
        members = self._tables.get(packet.table)
        if members is not None and packet.sender < len(members):
            sender = members[packet.sender]
            slot = self.slot_of.get(sender)
            by_sender = packet.via == packet.sender
            self.recovery.answered((sender, packet.number), by_sender, index, count)
            if slot is not None:
                self.recovery.answered((slot, packet.number), by_sender, index, count)

    def _strange_piece(self, now: int, piece: Fragment) -> None:
        """Put it together with its like, under a name of its own: its sender may be unknown."""
        if piece.repeat:
            self._repeated(piece, piece.index, piece.count)
        key = (piece.table, piece.sender)
        known = self._strange_ids
        if self._pool_is_full() or (key not in known and len(known) >= STRANGE_PIECES_MAX):
            known.clear()
            self._strange_pieces = Pieces()
        number = known.setdefault(key, len(known))
        renamed = Fragment(
            piece.piece, piece.table, number, 0, piece.number, piece.index, piece.count, 0
        )
        got = self._strange_pieces.add(renamed)
        self._strange_pieces.begun()
        if got is not True and got is not False:
            self._foreign(now, piece.table, piece.sender, piece.number, *got)

    def _pool_is_full(self) -> bool:
        pieces = self._strange_pieces
        return pieces.bytes > 4 * self._config.window_bytes_min or len(pieces) > STRANGE_BEGUN_MAX

    def _foreign(
        self, now: int, table: bytes, index: int, number: int, payload: bytes, size: int
    ) -> None:
        members = self._tables.get(table)
        if members is not None and index < len(members) and self._is_known(members[index], number):
            return
        size_of_table = MEMBERS_MAX if members is None else len(members)
        decoded = decode_frame(index, number, payload, size, table, size_of_table)
        if isinstance(decoded, Refusal):
            self.refused[decoded.reason] += 1
            return
        if members is None:
            members = self._tables.learn(decoded)
            if members is None:
                if decoded.control is None:
                    self.strangers += 1  # another component's business
                else:
                    self.refused["impossible"] += 1
                return
        if index >= len(members):
            self.refused["sender"] += 1
            return
        sender = members[index]
        slot = self.slot_of.get(sender)
        if sender == self.me or (
            slot is not None and slot < self.dag.n and decoded.control is None
        ):
            return  # an echo, or a frame of a view that has ended
        if slot is None:
            # Of a member of the join any frame will do: its proposal may have been lost.
            full = len(self.roster) >= 2 * MEMBERS_MAX or decoded.control is None
            if full or not self.admits(sender, decoded.kind == FrameKind.JOIN):
                self.strangers += 1
                return
            slot = self.visit(sender)
        if decoded.control is None:
            self.refused["table"] += 1
            return
        if self._is_known(sender, number):
            return  # its table was not
        decoded.sender = slot
        self._pool(now, decoded)

    def _is_known(self, sender: MemberId, number: int) -> bool:
        """An echo or a repeat: most of what comes while many join, and not worth reading."""
        if sender == self.me:
            return True
        slot = self.slot_of.get(sender)
        if slot is None or (number > self.dag.have[slot] and number not in self._waiting[slot]):
            return False
        self.duplicates += 1
        return True

    def visit(self, member: MemberId, have: int = 0) -> int:
        """A slot for a member of another component."""
        slot = self.slot_of.get(member)
        if slot is None:
            slot = self.slot_of[member] = len(self.roster)
            self.roster.append(member)
            self.dag.add_place(have)
            self.heard.append(have)
            self.dropped.append(have)
            self._claimed.append(0)
            self._waiting.append({})
        return slot

    def dismiss(self, now: int) -> None:
        """The attempt to join is over: forget the others, and what refers to them."""
        n = self.dag.n
        for waiting in self._waiting[:n]:
            for frame in [f for f in waiting.values() if f.ack_members and f.ack_members[-1] >= n]:
                self._unpool(frame)
                self.recovery.lost(now, frame.sender, frame.number, frame.number)
        for member in self.roster[n:]:
            del self.slot_of[member]
            self.foreign_floors.pop(member, None)
        for waiting in self._waiting[n:]:
            self._waiting_bytes -= sum(len(f.payload) for f in waiting.values())
        for slots in (self.roster, self.heard, self.dropped, self._claimed, self._waiting):
            del slots[n:]
        del self.dag.have[n:], self.dag.frames[n:]
        for place in [place for place in self.recovery.missing if place[0] >= n]:
            self.recovery.found(place)
        self.recovery.forget(n)

    @property
    def by_name(self) -> bool:
        return not self.steady

    # -------------------------------------------------------------- announced frames

    def _translate(self, now: int, frame: Frame) -> bool:
        announce = frame.control
        assert announce is not None
        table = table_of(announce)
        sender = self.roster[frame.sender]
        if frame.wire >= len(table) or table[frame.wire] != sender:
            self.refused["impossible"] += 1
            return False
        if not is_possible(frame, table, sender):
            self.refused["impossible"] += 1
            return False
        if len(self.roster) + len(table) > 2 * MEMBERS_MAX:
            self.refused["ahead"] += 1
            return False
        n, acks = self.dag.n, []
        # Of a frame from a view before this one only what it follows in this view matters.
        old = frame.sender < n and epoch(decode_tag(frame.tag)) < epoch(self.view.id)
        for member, number in zip(table, announce.vector, strict=True):
            slot = self.slot_of.get(member)
            if slot is None or slot >= n:
                if old or not number:
                    continue
                slot = self.visit(member)
            if member != sender and number:
                acks.append((slot, number))
        acks.sort()
        frame.ack_members = tuple(slot for slot, _ in acks)
        frame.ack_numbers = tuple(number for _, number in acks)
        return True

    def unread(self) -> list[Frame]:
        """Announced frames that wait and whose floors have not been taken in."""
        return [
            frame
            for waiting in self._waiting
            for frame in waiting.values()
            if frame.control is not None and not frame.floored
        ]

    def take_floors(self, frame: Frame, known: tuple[Component, ...]) -> None:
        """A frame that may enter tells up to where others' frames are no business of ours.

        Not of a member that is in a later component than the one it is `known` in: what it said
        in that one may be what closes the join under way.
        """
        announce = frame.control
        assert announce is not None
        frame.floored = True
        for member, floor in zip(table_of(announce), announce.floors, strict=True):
            slot = self.slot_of.get(member)
            where = origin(announce.components, member)
            if slot is None or where is None or not floor or not self._hides(slot, where):
                continue
            if self._is_later(where, origin(known, member)):
                frame.floored = False
            else:
                self._treat_as_present(slot, floor, where.view)

    def _is_later(self, where: Component, known: Component | None) -> bool:
        return known is not None and epoch(where.view) > epoch(known.view)

    def floor_of(self, member: MemberId, components: tuple[Component, ...]) -> int:
        """What to tell others about a member of another component, as that component knows it."""
        known, where = self.foreign_floors.get(member), origin(components, member)
        if known is None or where is None or known[0] != where.view:
            return 0
        return known[1]

    def _hides(self, slot: int, where: Component | None) -> bool:
        """Whether floors count for this slot, whose member is in that component."""
        return slot >= self.dag.n and where is not None and self.me not in where.members

    def _treat_as_present(self, slot: int, floor: int, view: ViewId) -> None:
        member = self.roster[slot]
        known = self.foreign_floors.get(member)
        if known is None or (epoch(known[0]), known[1]) < (epoch(view), floor):
            self.foreign_floors[member] = (view, floor)
        have = self.dag.have
        if floor <= have[slot]:
            return
        have[slot] = floor
        self.heard[slot] = max(self.heard[slot], floor)
        self.dropped[slot] = max(self.dropped[slot], floor)
        waiting = self._waiting[slot]
        for number in [n for n in waiting if n <= floor]:
            self._unpool(waiting[number])
        for place in [p for p in self.recovery.missing if p[0] == slot and p[1] <= floor]:
            self.recovery.found(place)

    # -------------------------------------------------------------- one at a time

    def pull(self) -> Frame | None:
        """A waiting frame all of whose past is here and that may enter; it goes on waiting until
        it is taken or refused."""
        for slot, waiting in enumerate(self._waiting):
            frame = waiting.get(self.dag.have[slot] + 1) if waiting else None
            if frame is None or not self.dag.ready(frame):
                continue
            if self._is_admitted(frame) or self._is_wanted(frame):
                return frame
        return None

    def _is_wanted(self, frame: Frame) -> bool:
        """Whether a frame that may not enter for its own sake is the past of one that may."""
        sender, number = frame.sender, frame.number
        return any(
            _follows(other, sender, number) and self._is_admitted(other)
            for waiting in self._waiting
            for other in waiting.values()
        )

    def pull_again(self) -> Frame | None:
        """A frame that had entered in the view before and can enter here."""
        for slot, waiting in enumerate(self._waiting):
            frame = waiting.get(self.dag.have[slot] + 1) if waiting else None
            if frame is not None and frame.handled and self.dag.ready(frame):
                return frame
        return None

    def ask(self, now: int) -> None:
        """Ask for what the announced frames that wait follow and that is not here: not before
        their floors were read, for most of it may be no business of ours."""
        for waiting in self._waiting:
            for frame in list(waiting.values()):
                if frame.control is None:
                    continue
                self._ask_upto(now, frame.sender, frame.number - 1)
                for slot, number in zip(frame.ack_members, frame.ack_numbers, strict=True):
                    self._ask_upto(now, slot, number)

    def _ask_upto(self, now: int, slot: int, number: int) -> None:
        have = self.dag.have[slot]
        if number <= have or slot == self._me:
            return
        last, waiting = min(number, have + AHEAD_ASKED_MAX), self._waiting[slot]
        wanted = [*range(have + 1, last + 1)]
        if last < number and not have:
            # Nothing is known of it, not even a floor: any frame of its change tells one, and
            # those are its last.
            half = AHEAD_ASKED_MAX // 2
            wanted[half:] = range(number - half + 1, number + 1)
        for missing in wanted:
            if missing not in waiting and (slot, missing) not in self.recovery.missing:
                self.recovery.lost(now, slot, missing, missing)
        self.heard[slot] = max(self.heard[slot], wanted[-1])

    def force_own(self) -> Frame | None:
        """An own frame that follows what is not here, which only a liar can have brought about:
        it enters all the same, for the next one must have its number."""
        waiting = self._waiting[self._me]
        frame = waiting.get(self.dag.have[self._me] + 1)
        if frame is not None:
            acks = zip(frame.ack_members, frame.ack_numbers, strict=True)
            here = [(slot, min(number, self.dag.have[slot])) for slot, number in acks]
            frame.ack_members = tuple(slot for slot, _ in here)
            frame.ack_numbers = tuple(number for _, number in here)
        return frame

    def _is_admitted(self, frame: Frame) -> bool:
        return self.admits(self.roster[frame.sender], frame.kind == FrameKind.JOIN)

    def take(self, now: int, frame: Frame, counts: bool) -> None:
        """Let a pulled frame enter: as a frame of the view, or apart."""
        self._unpool(frame)
        if counts:
            self.insert(frame)
        else:
            self.enter_apart(frame)
        self._claim(now, [frame])

    def set_aside(self, now: int, frame: Frame) -> None:
        """Let a pulled frame of the view enter of which it is not known whether it counts."""
        self._unpool(frame)
        self.dag.set_aside(frame)
        self.bytes += len(frame.payload) if frame.runs else 0
        self._claim(now, [frame])

    def enter_apart(self, frame: Frame) -> None:
        self.dag.insert_apart(frame)
        size = len(frame.payload) if frame.runs else 0
        self.bytes += size
        if frame.sender == self._me:
            self.heard[self._me] = frame.number
            self.own_bytes += size

    def refuse(self, frame: Frame, reason: str = "view") -> None:
        """A pulled frame is of no use."""
        self._unpool(frame)
        self.refused[reason] += 1

    def readmit(self, member: MemberId, frame: Frame) -> None:
        """A frame from the view before: it waits here, if it concerns this view at all."""
        slot = self.slot_of.get(member)
        if slot is None or frame.control is None:
            return
        if frame.number <= self.dag.have[slot] or frame.number in self._waiting[slot]:
            return
        frame.sender = slot
        frame.floored = False
        if not self._translate(0, frame):
            return
        self._waiting[slot][frame.number] = frame
        self._waiting_bytes += len(frame.payload)
        self.heard[slot] = max(self.heard[slot], frame.number)
        self.special = True

    def waiting(self) -> list[Frame]:
        """All frames that wait, by slot and number."""
        return [w[number] for w in self._waiting for number in sorted(w)]


def _follows(frame: Frame, slot: int, number: int) -> bool:
    """Whether a frame that waits follows that frame of that slot."""
    at = bisect_left(frame.ack_members, slot)
    return (
        at < len(frame.ack_members)
        and frame.ack_members[at] == slot
        and frame.ack_numbers[at] >= number
    )
