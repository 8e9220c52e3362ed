"""Lansis: reliable broadcast in one domain (S4 3.3).

Packets come in, in any order, damaged, twice or not at all; frames come out once each, in an
order that respects what they follow. Gaps show in three ways: a number was skipped, a frame
came in part, or somebody acknowledges a frame that is not here (S4: "analyzing the received
message chains"). What is missing goes to `recovery`; what has come but cannot enter yet
waits. Every frame that entered is kept until it is stable, so any member can repeat it.

Departure from S4: the unit is the frame, which may be larger than a datagram; its fragments
are recovered one by one, so 1 % loss of datagrams does not become 10 % loss of frames.
"""

from __future__ import annotations

from collections import Counter

from phalanx.config import Config
from phalanx.core.causality import Dag
from phalanx.core.codec import Codec
from phalanx.core.dice import Dice
from phalanx.core.frames import Fragment, Frame, Gone, Nack, Refusal, Want, Whole
from phalanx.core.framing import decode_frame
from phalanx.core.pieces import Pieces
from phalanx.core.recovery import ALL, Place, Recovery, decode_mask, indices

AHEAD_ASKED_MAX = 64
"""Frames asked for at a time when a sender is further ahead than the buffers reach."""


POOL_WINDOWS, POOL_BYTES = 4, 8 << 20
"""Frames that wait, whole or in part, hold at most so many windows' bytes, or so many."""
VISITS_MAX = 2048
"""So many frames one request may make a member look at."""


class Lansis:
    __slots__ = (
        "_claimed",
        "_codec",
        "_config",
        "_counted",
        "_me",
        "_pieces",
        "_table",
        "_tags",
        "_waiting",
        "_waiting_bytes",
        "bytes",
        "dag",
        "dropped",
        "duplicates",
        "heard",
        "own_bytes",
        "recovery",
        "refused",
    )

    def __init__(
        self, me: int, n: int, table: bytes, tag: bytes, codec: Codec, config: Config, dice: Dice
    ) -> None:
        self._me = me
        self._table = table
        self._tags = frozenset((tag,))
        self._codec = codec
        self._config = config
        self.dag = Dag(n)
        self.recovery = Recovery(config, dice)
        self.heard = [0] * n
        """Per sender, the highest frame number known to exist, as far as it is asked for."""
        self._claimed = [0] * n
        """Per sender, the highest number that was heard of beyond the buffers."""
        self.dropped = [0] * n
        """Per sender, the last frame that was stable and forgotten."""
        self.bytes = 0
        """Of all frames with messages that are here and not stable: the sliding window."""
        self.own_bytes = 0
        self.duplicates = 0
        self.refused: Counter[str] = Counter()
        self._pieces = Pieces()
        self._waiting: list[dict[int, Frame]] = [{} for _ in range(n)]
        self._waiting_bytes = 0
        self._counted: dict[tuple[int, int], int] = {}
        """Per asker and sender, the last frame counted as lost: nobody loses a frame twice."""

    # -------------------------------------------------------------- packets in

    def whole(self, now: int, whole: Whole) -> Frame | None:
        """Take a frame that came in one piece or batch; None if it is no news or no use."""
        if whole.table != self._table:
            self.refused["table"] += 1
            return None
        place = (whole.sender, whole.number)
        if whole.repeat:
            count = -(-len(whole.payload) // whole.size) if whole.size else 1
            for index in range(count):
                self.recovery.answered(place, whole.via == whole.sender, index, count)
        if not self._is_news(now, whole):
            return None
        if place in self._pieces:
            self._pieces.drop(place)
        return self._decode(now, place, whole.payload, whole.size)

    def fragment(self, now: int, piece: Fragment) -> Frame | None:
        """Take a fragment; the frame that it makes whole, if any, for `enter`."""
        if piece.table != self._table:
            self.refused["table"] += 1
            return None
        place = (piece.sender, piece.number)
        if piece.repeat:
            by_sender = piece.via == piece.sender
            self.recovery.answered(place, by_sender, piece.index, piece.count)
        if place not in self._pieces and not self._is_news(now, piece):
            return None
        if self._is_full(place):
            self._unusable(now, place, "ahead")
            return None
        got = self._pieces.add(piece)
        if got is True:
            return None  # asked for if the rest is not in the same batch: see `overdue`
        if got is False:
            self._unusable(now, place, "conflict")
            return None
        return self._decode(now, place, *got)

    def _is_full(self, place: Place) -> bool:
        """No room to let this frame wait: only the next of its sender may still come in."""
        pooled = self._pieces.bytes + self._waiting_bytes
        if pooled <= max(POOL_BYTES, POOL_WINDOWS * self._config.window_bytes_max):
            return False
        return place[1] != self.dag.have[place[0]] + 1

    def _is_news(self, now: int, piece: Fragment | Whole) -> bool:
        """The first that is seen of a frame. What it proves missing is asked for in time."""
        sender, number = piece.sender, piece.number
        if sender >= self.dag.n or piece.via >= self.dag.n:
            self.refused["sender"] += 1
            return False
        if sender == self._me:
            if number > self.dag.have[sender]:
                self.refused["sender"] += 1  # nobody but this member numbers its frames
            return False
        have = self.dag.have[sender]
        if number <= have or number in self._waiting[sender]:
            self.duplicates += 1
            return False
        if number > have + self._config.ahead_frames_max:
            self._hear(now, sender, number)
            self.refused["ahead"] += 1
            return False
        if number > self.heard[sender]:
            self._hear(now, sender, number - 1)
            self.heard[sender] = number
        return True

    def _hear(self, now: int, sender: int, number: int) -> None:
        """The sender's frames up to this one exist: ask for what is missing. Of what lies beyond
        the buffers ask only for the next few, and for more when those are here: a forged number
        cannot make them many."""
        have, ahead = self.dag.have[sender], self._config.ahead_frames_max
        if number > have + ahead:
            self._claimed[sender] = max(self._claimed[sender], number)
            number = have + min(ahead, AHEAD_ASKED_MAX)
        if number > self.heard[sender]:
            self.recovery.lost(now, sender, self.heard[sender] + 1, number)
            self.heard[sender] = number

    def _decode(self, now: int, place: Place, payload: bytes, size: int) -> Frame | None:
        frame = decode_frame(*place, payload, size, self._table, self.dag.n)
        if isinstance(frame, Refusal):
            self._unusable(now, place, frame.reason)
            return None
        return frame

    def _unusable(self, now: int, place: Place, reason: str) -> None:
        """Undamaged on the way and yet of no use now: ask again, later or another holder."""
        self.refused[reason] += 1
        self.recovery.lost(now, place[0], place[1], place[1])

    def overdue(self, now: int) -> None:
        """A batch of packets is through: frames that came only in part are missing the rest."""
        for place, absent in self._pieces.begun():
            self.recovery.lost_in_part(now, place, absent)

    def enter(self, now: int, frame: Frame) -> list[Frame]:
        """A whole frame has come: the frames that can enter the DAG now, in causal order."""
        place = (frame.sender, frame.number)
        if frame.tag not in self._tags:
            self._unusable(now, place, "view")
            return []
        if not self.dag.ready(frame):
            self._wait(now, place, frame)
            return []
        self.recovery.found(place)
        self.insert(frame)
        if not any(self._waiting):
            entered = [frame]
        else:
            entered = self._admit(frame)
        for frame in entered:
            if self._claimed[frame.sender] > self.heard[frame.sender]:
                self._hear(now, frame.sender, self._claimed[frame.sender])
        return entered

    def _admit(self, frame: Frame) -> list[Frame]:
        """A frame has entered: it, and the waiting ones that can enter after it."""
        entered = [frame]
        progress = True
        while progress:
            progress = False
            for sender, waiting in enumerate(self._waiting):
                following = self.dag.have[sender] + 1
                while waiting and following in waiting and self.dag.ready(waiting[following]):
                    frame = waiting.pop(following)
                    self._waiting_bytes -= len(frame.payload)
                    self.insert(frame)
                    entered.append(frame)
                    following += 1
                    progress = True
        return entered

    def _wait(self, now: int, place: Place, frame: Frame) -> None:
        """It follows frames that are not here: keep it, and ask for those."""
        have, ahead, far = self.dag.have, self._config.ahead_frames_max, False
        for member, number in zip(frame.ack_members, frame.ack_numbers, strict=True):
            if number > have[member]:
                if member == self._me:  # nobody can follow what this member has not sent
                    self._unusable(now, place, "vector")
                    return
                self._hear(now, member, number)
                far = far or number > have[member] + ahead
        if far or self._is_full(place):
            self._unusable(now, place, "ahead")
            return
        self.recovery.found(place)
        self._waiting[frame.sender][frame.number] = frame
        self._waiting_bytes += len(frame.payload)

    def insert(self, frame: Frame) -> None:
        """Enter a frame that is ready: a foreign one, or one's own."""
        self.dag.insert(frame)
        mine = frame.sender == self._me
        if frame.runs:
            size = len(frame.payload)
            self.bytes += size
            if mine:
                self.own_bytes += size
        if mine:
            self.heard[self._me] = frame.number

    # -------------------------------------------------------------- recovery

    def nack(self, now: int, nack: Nack) -> tuple[int, list[bytes]]:
        """Another member misses frames: about how many packets it has lost, and the packets to
        send at once; the rest is put off."""
        if nack.table != self._table:
            self.refused["table"] += 1
            return 0, []
        if nack.asker == self._me or nack.asker >= self.dag.n:
            self.refused["sender"] += 1
            return 0, []
        out: list[bytes] = []
        budget, visits, lost, gone = self._config.window_bytes_min, VISITS_MAX, 0, False
        for want in nack.wants:
            if want.sender >= self.dag.n or want.last < want.first:
                self.refused["malformed"] += 1
                continue
            dropped = self.dropped[want.sender]
            if want.sender == self._me and want.first <= dropped and not gone:
                gone = True
                held = Want(self._me, want.first, min(want.last, dropped))
                out.append(self._codec.encode(Gone(self._table, self._me, held)))
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
                    lost += _count(frame, mask)
                if frame is None:
                    self.recovery.asked_elsewhere(now, place, mask)
                elif want.sender != self._me:
                    self.recovery.answer_later(now, place, mask, want.attempt, self.dag.n)
                elif budget > 0:
                    packets = self._repeat(now, frame, mask)
                    budget -= sum(map(len, packets))
                    out += packets
            self._counted[pair] = counted
        return lost, out

    def due(self, now: int) -> tuple[int, list[bytes]]:
        """How many packets are asked for now for the first time, and the packets of these
        requests and of answers now due."""
        wants = self.recovery.wants(now)
        lost = 0
        for want in wants:
            if want.attempt == 1:
                lost += (want.last - want.first + 1) if not want.fragments else _bits(want)
        out = self._nacks(wants) if wants else []
        budget = self._config.window_bytes_min
        for place, mask in self.recovery.answers(now):
            frame = self._held(place)
            if frame is not None and budget > 0:
                packets = self._repeat(now, frame, mask)
                budget -= sum(map(len, packets))
                out += packets
        return lost, out

    def _nacks(self, wants: list[Want]) -> list[bytes]:
        """As many packets as the requests need: one holds what fits a datagram."""
        room = self._config.datagram_bytes_max - 64
        out = []
        batch: list[Want] = []
        used = 0
        for want in wants:
            if len(want.fragments) > room - 32:  # a mask that no datagram holds
                want = Want(want.sender, want.first, want.last, want.attempt)
            cost = 32 + len(want.fragments)
            if batch and used + cost > room:
                out.append(self._codec.encode(Nack(self._table, self._me, tuple(batch))))
                batch, used = [], 0
            batch.append(want)
            used += cost
        out.append(self._codec.encode(Nack(self._table, self._me, tuple(batch))))
        return out

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
        count = _count(frame, ALL)
        wanted = ((1 << count) - 1 if mask == ALL else mask) & ~frame.repeated
        frame.repeated |= wanted
        return self._codec.fragments(frame, self._me, repeat=1, wanted=indices(wanted))

    # -------------------------------------------------------------- stability

    def drop_stable(self) -> None:
        """Forget what every member has. Call it after delivery: what is stable can be
        delivered, and delivery must not find its frames gone."""
        dag = self.dag
        for sender in dag.moved:
            frames = dag.frames[sender]
            size = 0
            for number in range(self.dropped[sender] + 1, dag.stable[sender] + 1):
                frame = frames.pop(number)
                if frame.runs:
                    size += len(frame.payload)
            self.dropped[sender] = dag.stable[sender]
            self.bytes -= size
            if sender == self._me:
                self.own_bytes -= size
        dag.moved.clear()


def _count(frame: Frame | None, mask: int) -> int:
    """How many fragments the mask names of a frame; of one that is not here, one."""
    if mask != ALL:
        return mask.bit_count()
    if frame is None or not frame.piece:
        return 1
    return -(-len(frame.payload) // frame.piece)


def _bits(want: Want) -> int:
    return decode_mask(want.fragments).bit_count()
