"""What a member holds of its view's frames, and how it answers those who miss some.

Every frame that entered is kept until it is stable, so any member can repeat it. Frames of
views that have ended lie in the archive until every member of the present view has spoken in
it: nobody can miss them after that (PROTOCOLS B.6 item 11).
"""

from __future__ import annotations

from collections import Counter

from phalanx.config import Config
from phalanx.core.broadcast.dag import Dag
from phalanx.core.broadcast.retransmission import ALL, Place, Retransmission, decode_mask, indices
from phalanx.core.ids import MemberId, View, encode_member
from phalanx.core.prng import Prng
from phalanx.core.wire.frames import ANOTHER, Frame, Nack, Want
from phalanx.core.wire.packet_codec import PacketCodec

VISITS_MAX = 2048
"""So many frames one request may make a member look at."""

GENERATIONS_MAX = 8
"""So many views that have ended lie in the archive at most, however often they change."""


class PastFrames:
    """Frames of views that have ended, and of other views, by name."""

    __slots__ = ("_generations", "foreign")

    def __init__(self) -> None:
        self._generations: list[dict[MemberId, dict[int, Frame]]] = []
        self.foreign: dict[MemberId, dict[int, Frame]] = {}
        """Kept by `ForeignFrames`."""

    def add(self, frames: dict[MemberId, dict[int, Frame]]) -> None:
        """A view has ended."""
        self._generations.append(frames)
        del self._generations[:-GENERATIONS_MAX]

    def get(self, member: MemberId, number: int) -> Frame | None:
        for frames in reversed(self._generations):
            frame = frames.get(member, {}).get(number)
            if frame is not None:
                return frame
        return self.foreign.get(member, {}).get(number)

    def clear(self) -> None:
        self._generations.clear()


class FrameStore:
    __slots__ = (
        "_codec",
        "_config",
        "_counted",
        "_me",
        "_table",
        "_waiting",
        "past_frames",
        "bytes",
        "dag",
        "dropped",
        "heard",
        "own_bytes",
        "retransmission",
        "refused",
        "roster",
        "slot_of",
        "steady",
        "awaiting_first_frames",
    )

    def __init__(
        self,
        me: int,
        view: View,
        base: list[int] | None,
        past_frames: PastFrames,
        codec: PacketCodec,
        config: Config,
        prng: Prng,
    ) -> None:
        n = len(view.members)
        self._me = me
        self._codec = codec
        self._config = config
        self._table = view.id.digest
        self.roster = list(view.members)
        """The members by rank."""
        self.slot_of = {member: slot for slot, member in enumerate(view.members)}
        self.past_frames = past_frames
        self.dag = Dag(n, base)
        self.retransmission = Retransmission(config, prng)
        self.heard = self.dag.have.copy()
        """Per sender, the highest frame number known to exist, as far as it is asked for."""
        self.dropped = self.dag.have.copy()
        """Per sender, the last frame that was stable and forgotten."""
        self.bytes = 0
        """Of all frames with messages that are here and not stable: the sliding window."""
        self.own_bytes = 0
        self.refused: Counter[str] = Counter()
        self._waiting: list[dict[int, Frame]] = [{} for _ in range(n)]
        self._counted: dict[tuple[int, int], int] = {}
        """Per asker and sender, the last frame counted as lost: nobody loses a frame twice."""
        self.steady = True
        """No proposal has been issued in the view."""
        self.awaiting_first_frames = False
        """Not all members have spoken in the view: some may still be in another one."""

    def drop_stable(self) -> None:
        """Forget what every member has. Call it after delivery: what is stable can be
        delivered, and delivery must not find its frames gone."""
        dag = self.dag
        for sender in dag.moved:
            frames, upto = dag.frames[sender], dag.stable[sender]
            size = 0
            for number in range(self.dropped[sender] + 1, upto + 1):
                frame = frames.pop(number)
                if frame.runs:
                    size += len(frame.payload)
            if upto > self.dropped[sender]:
                self.dropped[sender] = upto
            self.bytes -= size
            if sender == self._me:
                self.own_bytes -= size
        dag.moved.clear()

    # -------------------------------------------------------------- answering

    def nack(self, now: int, nack: Nack) -> tuple[int, list[bytes]]:
        """Another member misses frames: about how many packets it has lost, and the packets to
        send at once; the rest is put off."""
        if nack.names:
            return 0, self._nack_by_name(now, nack)
        if nack.table != self._table:
            self.refused["table"] += 1
            return 0, []
        if nack.asker == self._me or nack.asker >= self.dag.n:
            self.refused["sender"] += 1
            return 0, []
        out: list[bytes] = []
        budget, visits, lost = self._config.window_bytes_min, VISITS_MAX, 0
        for want in nack.wants:
            if want.sender >= self.dag.n or want.last < want.first:
                self.refused["malformed"] += 1
                continue
            dropped = self.dropped[want.sender]
            mask = decode_mask(want.fragments)
            last = min(want.last, self.heard[want.sender])
            pair = (nack.asker, want.sender)
            counted = self._counted.get(pair, 0)
            for number in range(max(want.first, dropped + 1), last + 1)[:visits]:
                visits -= 1
                place = (want.sender, number)
                frame = self._held(place)
                if want.attempt == 1 and number > counted:
                    counted = number
                    lost += fragments_in(frame, mask)
                if frame is None:
                    self.retransmission.asked_elsewhere(now, place, mask)
                elif want.sender != self._me:
                    self.retransmission.answer_later(now, place, mask, want.attempt, self.dag.n)
                elif budget > 0:
                    packets = self._repeat(now, frame, mask)
                    self.retransmission.repeated[nack.asker] += len(packets)
                    budget -= sum(map(len, packets))
                    out += packets
            self._counted[pair] = counted
        return lost, out

    def _nack_by_name(self, now: int, nack: Nack) -> list[bytes]:
        """A request during a change. The sender answers at once, also from the archive."""
        names = nack.names
        if nack.asker >= len(names) or any(w.sender >= len(names) for w in nack.wants):
            self.refused["malformed"] += 1
            return []
        out: list[bytes] = []
        budget, visits, n = self._config.window_bytes_min, VISITS_MAX, len(self.roster)
        for want in nack.wants:
            member, mask = names[want.sender], decode_mask(want.fragments)
            slot = self.slot_of.get(member, -1)
            for number in range(want.first, want.last + 1)[:visits]:
                visits -= 1
                frame = self._held((slot, number)) if slot >= 0 else None
                if frame is not None and slot != self._me:
                    self.retransmission.answer_later(now, (slot, number), mask, want.attempt, n)
                    continue
                if frame is None:
                    if slot >= 0:
                        self.retransmission.asked_elsewhere(now, (slot, number), mask)
                    frame = self.past_frames.get(member, number)
                    if frame is not None and slot != self._me:
                        self.retransmission.answer_later(
                            now, (member, number), mask, want.attempt, n
                        )
                        continue
                if frame is not None and budget > 0:
                    packets = self._repeat(now, frame, mask)
                    budget -= sum(map(len, packets))
                    out += packets
        return out

    def due(self, now: int) -> tuple[int, list[bytes]]:
        """How many packets are asked for now for the first time, and the packets of these
        requests and of answers now due."""
        wants = self.retransmission.wants(now)
        lost = 0
        for want in wants:
            if want.attempt == 1:
                lost += (want.last - want.first + 1) if not want.fragments else _bits(want)
        out = self._nacks(wants) if wants else []
        budget = self._config.window_bytes_min
        for place, mask in self.retransmission.answers(now):
            sender, number = place
            if isinstance(sender, int):
                frame = self._held((sender, number))
            else:
                frame = self.past_frames.get(sender, number)
            if frame is not None and budget > 0:
                packets = self._repeat(now, frame, mask)
                budget -= sum(map(len, packets))
                out += packets
        return lost, out

    def _nacks(self, wants: list[Want]) -> list[bytes]:
        """As many packets as the requests need: one holds what fits a datagram."""
        room = self._config.datagram_bytes_max - 64
        strange = self.by_name
        out = []
        batch: list[Want] = []
        used = 0
        for want in wants:
            if len(want.fragments) > room - 32:  # a mask that no datagram holds
                want = Want(want.sender, want.first, want.last, want.attempt)
            cost = 32 + len(want.fragments)
            if strange:
                cost += len(encode_member(self.roster[want.sender])) + 8
            if batch and used + cost > room:
                out.append(self._request(batch, strange))
                batch, used = [], 0
            batch.append(want)
            used += cost
        out.append(self._request(batch, strange))
        return out

    @property
    def by_name(self) -> bool:
        """Whether requests name members: others may be in another view by now."""
        return self.awaiting_first_frames or not self.steady

    def _request(self, wants: list[Want], strange: bool) -> bytes:
        if not strange:
            return self._codec.encode(Nack(self._table, self._me, tuple(wants)))
        slots = sorted({want.sender for want in wants} | {self._me})
        place = {slot: index for index, slot in enumerate(slots)}
        named = tuple(Want(place[w.sender], w.first, w.last, w.attempt, w.fragments) for w in wants)
        names = tuple(self.roster[slot] for slot in slots)
        return self._codec.encode(Nack(self._table, place[self._me], named, names))

    def last_again(self, now: int) -> list[bytes]:
        """This member's last frame, for one that seems to have missed it."""
        frame = self.dag.frames[self._me].get(self.dag.have[self._me])
        return self._repeat(now, frame, ALL) if frame is not None else []

    def _held(self, place: Place) -> Frame | None:
        """The frame, if this member can repeat it: in the DAG and not stable, or waiting."""
        sender, number = place
        return self.dag.frames[sender].get(number) or self._waiting[sender].get(number)

    def _repeat(self, now: int, frame: Frame, mask: int) -> list[bytes]:
        """The fragments asked for, less those repeated a moment ago."""
        if frame.repeated_ns < 0 or now - frame.repeated_ns >= self._config.nack_ns_min:
            frame.repeated_ns, frame.repeated = now, 0
        count = fragments_in(frame, ALL)
        wanted = ((1 << count) - 1 if mask == ALL else mask) & ~frame.repeated
        frame.repeated |= wanted
        via = self._me if frame.table == self._table else ANOTHER
        return self._codec.fragments(frame, via, repeat=1, wanted=indices(wanted))


def fragments_in(frame: Frame | None, mask: int) -> int:
    """How many fragments the mask names of a frame; of one that is not here, one."""
    if mask != ALL:
        return mask.bit_count()
    if frame is None or not frame.piece:
        return 1
    return -(-len(frame.payload) // frame.piece)


def _bits(want: Want) -> int:
    return decode_mask(want.fragments).bit_count()
