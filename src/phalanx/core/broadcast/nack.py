"""Requests for frames that are missing (NACK), and answers to the requests of others (S4 3.3).

Any member that holds a frame can repeat it. Its sender answers at once; each other holder answers
after a random time (`retransmission`) unless it hears another answer first. Requests made during a
view change name members, since the members asked may be in another view.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from phalanx.config import Config
from phalanx.core.broadcast.frame_store import FrameStore, PastFrames
from phalanx.core.broadcast.retransmission import ALL, Retransmission, decode_mask, indices
from phalanx.core.ids import View, encode_member
from phalanx.core.wire.frames import Frame
from phalanx.core.wire.packet_codec import PacketCodec
from phalanx.core.wire.packets import ANOTHER, Nack, Want

VISITS_MAX = 2048
"""One request makes a member look at so many frames at most."""


class NackRequester:
    """Encodes requests for frames of the view."""

    __slots__ = ("_codec", "_me", "_members", "_room", "_table")

    def __init__(self, me: int, view: View, codec: PacketCodec, config: Config) -> None:
        self._me = me
        self._members = view.members
        self._table = view.id.digest
        self._codec = codec
        self._room = config.datagram_bytes_max - 64

    def packets(self, wants: list[Want], by_name: bool) -> list[bytes]:
        """As many packets as the requests need: one holds what fits a datagram."""
        room = self._room
        out = []
        batch: list[Want] = []
        used = 0
        for want in wants:
            if len(want.fragments) > room - 32:  # a mask that no datagram holds
                want = Want(want.sender, want.first, want.last, want.attempt)
            cost = 32 + len(want.fragments)
            if by_name:
                cost += len(encode_member(self._members[want.sender])) + 8
            if batch and used + cost > room:
                out.append(self._request(batch, by_name))
                batch, used = [], 0
            batch.append(want)
            used += cost
        out.append(self._request(batch, by_name))
        return out

    def _request(self, wants: list[Want], by_name: bool) -> bytes:
        if not by_name:
            return self._codec.encode(Nack(self._table, self._me, tuple(wants)))
        slots = sorted({want.sender for want in wants} | {self._me})
        place = {slot: index for index, slot in enumerate(slots)}
        named = tuple(Want(place[w.sender], w.first, w.last, w.attempt, w.fragments) for w in wants)
        names = tuple(self._members[slot] for slot in slots)
        return self._codec.encode(Nack(self._table, place[self._me], named, names))


class NackResponder:
    """Answers requests from the frames of the view and of past views."""

    __slots__ = (
        "_codec",
        "_config",
        "_counted",
        "_me",
        "_n",
        "_past",
        "_retransmission",
        "_slot_of",
        "_store",
        "_table",
    )

    def __init__(
        self,
        me: int,
        view: View,
        store: FrameStore,
        past: PastFrames,
        retransmission: Retransmission,
        codec: PacketCodec,
        config: Config,
    ) -> None:
        self._me = me
        self._n = len(view.members)
        self._slot_of = {member: slot for slot, member in enumerate(view.members)}
        self._table = view.id.digest
        self._store = store
        self._past = past
        self._retransmission = retransmission
        self._codec = codec
        self._config = config
        self._counted: dict[tuple[int, int], int] = {}
        """Per asker and sender, the last frame counted as lost: nobody loses a frame twice."""

    def answer(
        self, now: int, nack: Nack, heard: Sequence[int], refused: Counter[str]
    ) -> tuple[int, list[bytes]]:
        """Another member misses frames: about how many packets it has lost, and the packets to
        send at once; other answers are scheduled. `heard` has each sender's last known frame."""
        if nack.names:
            return 0, self._answer_by_name(now, nack, refused)
        if nack.table != self._table:
            refused["table"] += 1
            return 0, []
        if nack.asker == self._me or nack.asker >= self._n:
            refused["sender"] += 1
            return 0, []
        out: list[bytes] = []
        store, retransmission = self._store, self._retransmission
        budget, visits, lost = self._config.window_bytes_min, VISITS_MAX, 0
        for want in nack.wants:
            if want.sender >= self._n or want.last < want.first:
                refused["malformed"] += 1
                continue
            dropped = store.dropped[want.sender]
            mask = decode_mask(want.fragments)
            last = min(want.last, heard[want.sender])
            pair = (nack.asker, want.sender)
            counted = self._counted.get(pair, 0)
            for number in range(max(want.first, dropped + 1), last + 1)[:visits]:
                visits -= 1
                place = (want.sender, number)
                frame = store.get(place)
                if want.attempt == 1 and number > counted:
                    counted = number
                    lost += fragments_in(frame, mask)
                if frame is None:
                    retransmission.asked_elsewhere(now, place, mask)
                elif want.sender != self._me:
                    retransmission.answer_later(now, place, mask, want.attempt, self._n)
                elif budget > 0:
                    packets = self._repeat(now, frame, mask)
                    retransmission.repeated[nack.asker] += len(packets)
                    budget -= sum(map(len, packets))
                    out += packets
            self._counted[pair] = counted
        return lost, out

    def _answer_by_name(self, now: int, nack: Nack, refused: Counter[str]) -> list[bytes]:
        """A request made during a view change. The sender of a frame answers at once, also with
        frames of past views."""
        names = nack.names
        if nack.asker >= len(names) or any(w.sender >= len(names) for w in nack.wants):
            refused["malformed"] += 1
            return []
        out: list[bytes] = []
        retransmission = self._retransmission
        budget, visits, n = self._config.window_bytes_min, VISITS_MAX, self._n
        for want in nack.wants:
            member, mask = names[want.sender], decode_mask(want.fragments)
            slot = self._slot_of.get(member, -1)
            for number in range(want.first, want.last + 1)[:visits]:
                visits -= 1
                frame = self._store.get((slot, number)) if slot >= 0 else None
                if frame is not None and slot != self._me:
                    retransmission.answer_later(now, (slot, number), mask, want.attempt, n)
                    continue
                if frame is None:
                    if slot >= 0:
                        retransmission.asked_elsewhere(now, (slot, number), mask)
                    frame = self._past.get(member, number)
                    if frame is not None and slot != self._me:
                        retransmission.answer_later(now, (member, number), mask, want.attempt, n)
                        continue
                if frame is not None and budget > 0:
                    packets = self._repeat(now, frame, mask)
                    budget -= sum(map(len, packets))
                    out += packets
        return out

    def due(self, now: int) -> list[bytes]:
        """The packets of answers that are due."""
        out: list[bytes] = []
        budget = self._config.window_bytes_min
        for place, mask in self._retransmission.answers(now):
            sender, number = place
            if isinstance(sender, int):
                frame = self._store.get((sender, number))
            else:
                frame = self._past.get(sender, number)
            if frame is not None and budget > 0:
                packets = self._repeat(now, frame, mask)
                budget -= sum(map(len, packets))
                out += packets
        return out

    def repeat_last(self, now: int) -> list[bytes]:
        """This member's last frame, for a member that seems to have missed it."""
        dag = self._store.dag
        frame = dag.frames[self._me].get(dag.have[self._me])
        return self._repeat(now, frame, ALL) if frame is not None else []

    def _repeat(self, now: int, frame: Frame, mask: int) -> list[bytes]:
        """The fragments asked for, less those repeated a moment ago (rule B-10)."""
        if frame.repeated_ns < 0 or now - frame.repeated_ns >= self._config.nack_ns_min:
            frame.repeated_ns, frame.repeated = now, 0
        count = fragments_in(frame, ALL)
        wanted = ((1 << count) - 1 if mask == ALL else mask) & ~frame.repeated
        frame.repeated |= wanted
        via = self._me if frame.table == self._table else ANOTHER
        return self._codec.fragments(frame, via, repeat=1, wanted=indices(wanted))


def packets_lost(wants: list[Want]) -> int:
    """How many packets are asked for here for the first time."""
    lost = 0
    for want in wants:
        if want.attempt == 1:
            whole = not want.fragments
            lost += want.last - want.first + 1 if whole else decode_mask(want.fragments).bit_count()
    return lost


def fragments_in(frame: Frame | None, mask: int) -> int:
    """How many fragments the mask names of a frame; of one that is not here, one."""
    if mask != ALL:
        return mask.bit_count()
    if frame is None or not frame.piece:
        return 1
    return -(-len(frame.payload) // frame.piece)
