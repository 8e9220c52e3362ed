"""Frames of other views: read at once, kept for the view in which they may be needed.

A frame that was sent in another view than this member's is of use only if it announces that view
(`announcement`). Its announcement goes to the membership protocol; whether its past is here does
not matter for that. The frame itself is kept for a while: the next view may carry it, and others
may ask for it. The frames that issued a proposal of this member's are fetched by name if they
got lost (rules R2 and R3).

What strangers can make this member keep is bounded, in bytes and in frames.
"""

from __future__ import annotations

from collections import Counter

from phalanx.config import Config
from phalanx.core.broadcast.frame_store import PastFrames
from phalanx.core.broadcast.retransmission import Retransmission
from phalanx.core.ids import MEMBERS_MAX, MemberId, encode_member
from phalanx.core.membership.announcement import sender_of
from phalanx.core.prng import Prng
from phalanx.core.wire.frame_codec import decode_frame
from phalanx.core.wire.frames import Frame
from phalanx.core.wire.packet_codec import PacketCodec
from phalanx.core.wire.packets import CompleteFrame, Fragment, Nack, Refusal, Want
from phalanx.core.wire.reassembly import FrameReassembler

BEGUN_MAX = 512
SENDERS_MAX = 256
TABLES_MAX = 64
KEPT_MAX = 4096
WANTED_MAX = 2 * MEMBERS_MAX


class ForeignFrames:
    """All that is here of other views' frames. Outlives a view."""

    def __init__(
        self, me: MemberId, past_frames: PastFrames, codec: PacketCodec, config: Config, prng: Prng
    ) -> None:
        self.me = me
        self._kept = past_frames.foreign
        """Per sender, frames by number; others may ask for them."""
        self._aside: set[tuple[MemberId, int]] = set()
        """Those of which a repeat is read again: their sender was unknown when they were read."""
        self.retransmission = Retransmission(config, prng)
        self._codec = codec
        self._config = config
        self._bytes = 0
        self._count = 0
        self._reassembler = FrameReassembler()
        self._senders: dict[tuple[bytes, int], int] = {}
        """Senders of fragments, by table and index, and what they are called here."""
        self._tables: dict[tuple[bytes, int], MemberId] = {}
        """Senders of frames that were read, by table and index."""
        self._wanted: list[MemberId] = []
        """Members of which frames are fetched: their slots in `retransmission`."""

    # -------------------------------------------------------------- packets

    def whole(self, whole: CompleteFrame, refused: Counter[str]) -> tuple[Frame, MemberId] | None:
        """A frame of another view and its sender; None if it is a duplicate or of no use."""
        return self._read(
            whole.table, whole.sender, whole.number, whole.payload, whole.size, refused
        )

    def fragment(self, piece: Fragment, refused: Counter[str]) -> tuple[Frame, MemberId] | None:
        """... or a fragment of one: the frame if that makes it whole."""
        key, known = (piece.table, piece.sender), self._senders
        full = self._reassembler.bytes > 4 * self._config.window_bytes_min
        if full or len(self._reassembler) > BEGUN_MAX or len(known) > SENDERS_MAX:
            known.clear()
            self._reassembler = FrameReassembler()
        renamed = known.setdefault(key, len(known))
        got = self._reassembler.add(
            Fragment(
                piece.piece, piece.table, renamed, 0, piece.number, piece.index, piece.count, 0
            )
        )
        self._reassembler.begun()
        if got is True or got is False:
            return None
        return self._read(piece.table, piece.sender, piece.number, *got, refused)

    def _read(
        self,
        table: bytes,
        index: int,
        number: int,
        payload: bytes,
        size: int,
        refused: Counter[str],
    ) -> tuple[Frame, MemberId] | None:
        known = self._tables.get((table, index))
        if known is not None and (known == self.me or self._is_repeat(known, number)):
            return None
        frame = decode_frame(index, number, payload, size, table, MEMBERS_MAX)
        if isinstance(frame, Refusal):
            refused[frame.reason] += 1
            return None
        if frame.control is None:
            return None  # the business of another component
        sender = sender_of(frame)
        if sender is None:
            refused["impossible"] += 1
            return None
        if len(self._tables) > TABLES_MAX * MEMBERS_MAX:
            self._tables.clear()
        self._tables[table, index] = sender
        return None if sender == self.me else (frame, sender)

    def _is_repeat(self, member: MemberId, number: int) -> bool:
        return number in self._kept.get(member, ()) and (member, number) not in self._aside

    def sender(self, table: bytes, index: int) -> MemberId | None:
        """Whose frames these are, if one was read before."""
        return self._tables.get((table, index))

    # -------------------------------------------------------------- keeping

    def keep(self, frame: Frame, sender: MemberId) -> None:
        """The frame may be needed in the next view (rule B-15)."""
        size = len(frame.payload)
        limit = 4 * self._config.window_bytes_min
        if self._bytes + size > limit or self._count >= KEPT_MAX:
            self.clear()
        self._aside.discard((sender, frame.number))
        frames = self._kept.setdefault(sender, {})
        if frame.number not in frames:
            frames[frame.number] = frame
            self._bytes += size
            self._count += 1

    def set_aside(self, member: MemberId, number: int) -> None:
        """Others may ask for the frame, but for this member a repeat of it is news again."""
        if number in self._kept.get(member, ()):
            self._aside.add((member, number))

    def retain(self, places: frozenset[tuple[MemberId, int]]) -> None:
        """Drop all kept frames but these, and set these aside."""
        for member, frames in list(self._kept.items()):
            for number in list(frames):
                if (member, number) in places:
                    self.set_aside(member, number)
                else:
                    self.drop(member, number)

    def drop(self, member: MemberId, number: int) -> None:
        """The frame is not needed, or was taken into the view: a repeat of it is news again."""
        frames = self._kept.get(member, {})
        frame = frames.pop(number, None)
        if frame is not None:
            self._aside.discard((member, number))
            self._bytes -= len(frame.payload)
            self._count -= 1
            if not frames:
                del self._kept[member]

    def kept(self) -> dict[MemberId, dict[int, Frame]]:
        """All kept frames, by sender and number."""
        return self._kept

    def get(self, member: MemberId, number: int) -> Frame | None:
        return self._kept.get(member, {}).get(number)

    def clear(self) -> None:
        if self._kept:
            self._kept.clear()
            self._aside.clear()
            self._bytes = self._count = 0

    # -------------------------------------------------------------- fetching

    def fetch(self, now: int, member: MemberId, number: int) -> None:
        """Ask for a frame of a member of another view, until it comes or the change ends
        (rule B-16)."""
        if self.get(member, number) is None and len(self.retransmission.missing) < WANTED_MAX:
            if member not in self._wanted:
                self._wanted.append(member)
            slot = self._wanted.index(member)
            if (slot, number) not in self.retransmission.missing:
                self.retransmission.lost(now, slot, number, number)

    def found(self, member: MemberId, number: int) -> None:
        if self.retransmission.missing and member in self._wanted:
            self.retransmission.found((self._wanted.index(member), number))

    def wants(self) -> list[tuple[MemberId, int]]:
        return [(self._wanted[slot], number) for slot, number in self.retransmission.missing]

    def forget_wants(self) -> None:
        """The change is over."""
        if self._wanted:
            self.retransmission.clear()
            self._wanted.clear()

    def due(self, now: int, table: bytes) -> list[bytes]:
        """The requests that are due."""
        wants = self.retransmission.wants(now) if self.retransmission.missing else []
        room = self._config.datagram_bytes_max - 64 - len(encode_member(self.me))
        out, batch, used = [], list[Want](), 0
        for want in wants:
            cost = 40 + len(encode_member(self._wanted[want.sender]))
            if batch and used + cost > room:
                out.append(self._request(table, batch))
                batch, used = [], 0
            batch.append(want)
            used += cost
        return [*out, self._request(table, batch)] if batch else out

    def _request(self, table: bytes, wants: list[Want]) -> bytes:
        names = sorted({self._wanted[want.sender] for want in wants} | {self.me})
        named = tuple(
            Want(names.index(self._wanted[w.sender]), w.first, w.last, w.attempt) for w in wants
        )
        return self._codec.encode(Nack(table, names.index(self.me), named, tuple(names)))
