"""Lansis: reliable broadcast in one domain (S4 3.3).

Packets come in, in any order, damaged, twice or not at all; frames come out once each, in an
order that respects what they follow. Gaps show in three ways: a number was skipped, a frame
came in part, or somebody acknowledges a frame that is not here (S4: "analyzing the received
message chains"). What is missing goes to `retransmission`; what has come but cannot enter yet
waits. What has entered is kept and repeated by `holdings`.

Departure from S4: the unit is the frame, which may be larger than a datagram; its fragments
are recovered one by one, so 1 % loss of datagrams does not become 10 % loss of frames.

While no change of membership is under way (`steady`) a frame enters by itself as soon as it
can. Frames of a change, and all frames while there is one, wait to be pulled, one at a
time: the member decides for each what it counts for (`member.view_change`).
"""

from __future__ import annotations

from collections import deque

from phalanx.config import Config
from phalanx.core.broadcast.frame_store import FrameStore, PastFrames
from phalanx.core.broadcast.retransmission import Place
from phalanx.core.ids import View
from phalanx.core.membership.announcement import sender_of
from phalanx.core.prng import Prng
from phalanx.core.wire.frame_codec import decode_frame, encode_tag
from phalanx.core.wire.frames import ANOTHER, CompleteFrame, Fragment, Frame, FrameKind, Refusal
from phalanx.core.wire.packet_codec import PacketCodec
from phalanx.core.wire.reassembly import FrameReassembler

AHEAD_ASKED_MAX = 64
"""Frames asked for at a time when a sender is further ahead than the buffers reach."""


POOL_WINDOWS, POOL_BYTES = 4, 8 << 20
"""Frames that wait, whole or in part, hold at most so many windows' bytes, or so many."""

_ACK = int(FrameKind.ACK)


class ReliableBroadcast(FrameStore):
    __slots__ = (
        "_claimed",
        "_reassembler",
        "_tag",
        "_unread",
        "_waiting_bytes",
        "duplicates",
        "has_deferred",
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
        super().__init__(me, view, base, past_frames, codec, config, prng)
        self._tag = encode_tag(view.id)
        self.has_deferred = False
        """Something waits to be pulled."""
        self._claimed = [0] * len(view.members)
        """Per sender, the highest number that was heard of beyond the buffers."""
        self.duplicates = 0
        self._reassembler = FrameReassembler()
        self._waiting_bytes = 0
        self._unread: deque[Frame] = deque()

    # -------------------------------------------------------------- packets in

    def whole(self, now: int, whole: CompleteFrame) -> Frame | None:
        """Take a frame that came in one piece or batch; None if it is no news or no use."""
        assert whole.table == self._table
        place = (whole.sender, whole.number)
        if whole.repeat:
            count = -(-len(whole.payload) // whole.size) if whole.size else 1
            for index in range(count):
                self.retransmission.answered(place, whole.via == whole.sender, index, count)
        if not self._is_news(now, whole):
            return None
        if place in self._reassembler:
            self._reassembler.drop(place)
        return self._decode(now, place, whole.payload, whole.size)

    def fragment(self, now: int, piece: Fragment) -> Frame | None:
        """Take a fragment; the frame that it makes whole, if any, for `enter`."""
        assert piece.table == self._table
        place = (piece.sender, piece.number)
        if piece.repeat:
            by_sender = piece.via == piece.sender
            self.retransmission.answered(place, by_sender, piece.index, piece.count)
        if place not in self._reassembler and not self._is_news(now, piece):
            return None
        if self._is_full(place):
            self._unusable(now, place, "ahead")
            return None
        got = self._reassembler.add(piece)
        if got is True:
            return None  # asked for if the rest is not in the same batch: see `overdue`
        if got is False:
            self._unusable(now, place, "conflict")
            return None
        return self._decode(now, place, *got)

    def _is_full(self, place: Place) -> bool:
        """No room to let this frame wait: only the next of its sender may still come in."""
        pooled = self._reassembler.bytes + self._waiting_bytes
        if pooled <= max(POOL_BYTES, POOL_WINDOWS * self._config.window_bytes_max):
            return False
        return place[1] != self.dag.have[place[0]] + 1

    def _is_news(self, now: int, piece: Fragment | CompleteFrame) -> bool:
        """The first that is seen of a frame. What it proves missing is asked for in time."""
        sender, number, via = piece.sender, piece.number, piece.via
        if sender >= self.dag.n or (via >= self.dag.n and via != ANOTHER):
            self.refused["sender"] += 1
            return False
        if sender == self._me:
            if number > self.dag.have[sender]:
                self.refused["sender"] += 1  # nobody but this member numbers its frames
            return False
        return self._is_new(now, sender, number)

    def _is_new(self, now: int, sender: int, number: int) -> bool:
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
            self.retransmission.lost(now, sender, self.heard[sender] + 1, number)
            self.heard[sender] = number

    def _decode(self, now: int, place: Place, payload: bytes, size: int) -> Frame | None:
        frame = decode_frame(*place, payload, size, self._table, self.dag.n)
        if isinstance(frame, Refusal):
            self._unusable(now, place, frame.reason)
            return None
        if frame.tag != self._tag:
            self._unusable(now, place, "view")
            return None
        return frame

    def _unusable(self, now: int, place: Place, reason: str) -> None:
        """Undamaged on the way and yet of no use now: ask again, later or another holder."""
        self.refused[reason] += 1
        self.retransmission.lost(now, place[0], place[1], place[1])

    def overdue(self, now: int) -> None:
        """A batch of packets is through: frames that came only in part are missing the rest."""
        for place, absent in self._reassembler.begun():
            self.retransmission.lost_in_part(now, place, absent)

    def enter(self, now: int, frame: Frame) -> list[Frame]:
        """A whole frame has come: the frames that can enter the DAG now, in causal order."""
        place = (frame.sender, frame.number)
        if frame.phase or frame.kind > _ACK or not self.steady:
            self._defer(now, frame)
            return []
        if not self.dag.ready(frame):
            self._wait(now, place, frame)
            return []
        self.retransmission.found(place)
        self.insert(frame)
        if not any(self._waiting):
            entered = [frame]
        else:
            entered = self._admit(frame)
        self._claim(now, entered)
        return entered

    def _claim(self, now: int, entered: list[Frame]) -> None:
        for frame in entered:
            if self._claimed[frame.sender] > self.heard[frame.sender]:
                self._hear(now, frame.sender, self._claimed[frame.sender])

    def _defer(self, now: int, frame: Frame) -> None:
        """A frame of the view that is not for the steady path: it waits to be pulled."""
        announced = frame.control is not None
        if announced != (sender_of(frame) == self.roster[frame.sender]) or (
            frame.phase and not announced
        ):
            self._unusable(now, (frame.sender, frame.number), "impossible")
            return
        if frame.phase and frame.control is not None:
            acks = [(r, a) for r, a in enumerate(frame.control.vector) if a and r != frame.sender]
            frame.ack_members = tuple(rank for rank, _ in acks)
            frame.ack_numbers = tuple(number for _, number in acks)
        self.has_deferred = True
        self._wait(now, (frame.sender, frame.number), frame)

    def offer(self, now: int, frame: Frame) -> None:
        """A frame that is carried into the view: it waits to be pulled."""
        if self._is_new(now, frame.sender, frame.number):
            self.has_deferred = True
            self._wait(now, (frame.sender, frame.number), frame)

    def readmit(self, now: int, frame: Frame) -> None:
        """A frame of the view that arrived before the view was installed here."""
        if frame.sender != self._me and self._is_new(now, frame.sender, frame.number):
            self._defer(now, frame)

    def pull(self) -> Frame | None:
        """A waiting frame all of whose past is here; it goes on waiting until it is taken."""
        for sender, waiting in enumerate(self._waiting):
            frame = waiting.get(self.dag.have[sender] + 1) if waiting else None
            if frame is not None and self.dag.ready(frame):
                return frame
        return None

    def unread(self) -> Frame | None:
        """A frame of a change that waits for its past, each one once: its announcement says
        something already."""
        while self._unread:
            frame = self._unread.popleft()
            if self._waiting[frame.sender].get(frame.number) is frame:
                return frame
        return None

    def take(self, now: int, frame: Frame) -> None:
        """Enter a pulled frame of phase 0 that counts."""
        self._unpool(frame)
        self.insert(frame)
        self._claim(now, [frame])

    def admit_uncounted(self, now: int, frame: Frame) -> None:
        """Enter a pulled frame of phase 0 that may lie beyond what closes the view."""
        self._unpool(frame)
        self.dag.insert_deferred(frame)
        self.bytes += len(frame.payload) if frame.runs else 0
        self._claim(now, [frame])

    def admit_without_vote(self, now: int, frame: Frame) -> None:
        """Enter a pulled frame of phase 1, or one that is carried into the view."""
        self._unpool(frame)
        self.insert_without_vote(frame)
        self._claim(now, [frame])

    def insert_without_vote(self, frame: Frame) -> None:
        self.dag.insert_without_vote(frame)
        size = len(frame.payload) if frame.runs else 0
        self.bytes += size
        self.heard[frame.sender] = max(self.heard[frame.sender], frame.number)
        if frame.sender == self._me:
            self.own_bytes += size

    def waiting(self) -> list[Frame]:
        """All frames that wait, by sender and number."""
        return [w[number] for w in self._waiting for number in sorted(w)]

    def ask(self, now: int, sender: int, number: int) -> None:
        """A frame of a member is known to exist."""
        if number > self.dag.have[sender] and sender != self._me:
            self._hear(now, sender, number)

    def _admit(self, frame: Frame) -> list[Frame]:
        """A frame has entered: it, and the waiting ones that can enter after it."""
        entered = [frame]
        progress = True
        while progress:
            progress = False
            for sender, waiting in enumerate(self._waiting):
                following = self.dag.have[sender] + 1
                while waiting and following in waiting and self.dag.ready(waiting[following]):
                    frame = waiting[following]
                    if frame.phase or frame.kind > _ACK:
                        self.has_deferred = True
                        break
                    self._unpool(frame)
                    self.insert(frame)
                    entered.append(frame)
                    following += 1
                    progress = True
        return entered

    def _unpool(self, frame: Frame) -> None:
        del self._waiting[frame.sender][frame.number]
        self._waiting_bytes -= len(frame.payload)

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
        if far:
            self._unusable(now, place, "ahead")
            return
        self._keep(now, place, frame)

    def _keep(self, now: int, place: Place, frame: Frame) -> None:
        """It waits, if there is room."""
        if self._is_full(place):
            self._unusable(now, place, "ahead")
            return
        self.retransmission.found(place)
        self._waiting[frame.sender][frame.number] = frame
        if frame.phase and frame.tag == self._tag:
            self._unread.append(frame)
        self._waiting_bytes += len(frame.payload)

    def spoke(self, sender: int) -> bool:
        """A frame of its is here, entered or waiting for others: it has installed the view."""
        if self.dag.latest[sender][sender]:
            return True
        waiting = self._waiting[sender].values()
        return any(frame.tag == self._tag and not frame.phase for frame in waiting)

    def insert(self, frame: Frame) -> None:
        """Enter a ready frame: a foreign one, or one's own."""
        self.dag.insert(frame)
        if frame.runs:
            self.bytes += len(frame.payload)
        if frame.sender == self._me:
            self.heard[self._me] = frame.number
            if frame.runs:
                self.own_bytes += len(frame.payload)
