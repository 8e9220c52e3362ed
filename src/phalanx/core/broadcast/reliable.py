"""Reliable broadcast in one view: the Lansis protocol (S4 3.3).

Packets arrive in any order, damaged, twice or not at all; frames leave once each, in causal order.
A gap shows in three ways: a number was skipped, a frame came in part, or a member acknowledges a
frame that is not here (S4: "analyzing the received message chains"). Missing frames go to
`retransmission`; frames that cannot enter yet wait in the `frame_store`, which also keeps what has
entered; `nack` asks for frames and answers the requests of others.

Departure from S4: the unit is the frame, which may be larger than a datagram; its fragments
are recovered one by one, so 1 % loss of datagrams does not become 10 % loss of frames.

While no view change is under way (`steady`) a frame enters by itself as soon as it can. Frames of
a change, and all frames during one, are deferred: `next_admissible` names them one at a time, and
`member.view_change` decides for each what it counts for.
"""

from __future__ import annotations

from collections import Counter, deque

from phalanx.config import Config
from phalanx.core.broadcast.frame_store import FrameStore, PastFrames
from phalanx.core.broadcast.nack import NackRequester, NackResponder, packets_lost
from phalanx.core.broadcast.retransmission import Retransmission
from phalanx.core.ids import View
from phalanx.core.membership.announcement import sender_of
from phalanx.core.prng import Prng
from phalanx.core.wire.frame_codec import decode_frame, encode_tag
from phalanx.core.wire.frames import Frame, FrameKind, Place
from phalanx.core.wire.packet_codec import PacketCodec
from phalanx.core.wire.packets import ANOTHER, CompleteFrame, Fragment, Nack, Refusal
from phalanx.core.wire.reassembly import FrameReassembler

AHEAD_ASKED_MAX = 64
"""Frames asked for at a time when a sender is further ahead than the buffers reach."""


POOL_WINDOWS, POOL_BYTES = 4, 8 << 20
"""Frames that wait, whole or in part, hold at most so many windows' bytes, or so many."""

_ACK = int(FrameKind.ACK)


class ReliableBroadcast:
    """The frames of one view: packets in, frames out, requests and answers."""

    __slots__ = (
        "_claimed",
        "_config",
        "_me",
        "_members",
        "_reassembler",
        "_requester",
        "_responder",
        "_table",
        "_tag",
        "_unread",
        "awaiting_first_frames",
        "dag",
        "duplicates",
        "has_deferred",
        "heard",
        "refused",
        "retransmission",
        "steady",
        "store",
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
        self._config = config
        self._members = view.members
        self._table = view.id.digest
        self._tag = encode_tag(view.id)
        self.store = FrameStore(me, n, base)
        self.dag = self.store.dag
        self.retransmission = Retransmission(config, prng)
        self._requester = NackRequester(me, view, codec, config)
        self._responder = NackResponder(
            me, view, self.store, past_frames, self.retransmission, codec, config
        )
        self.heard = self.dag.have.copy()
        """Per sender, the highest frame number known to exist, as far as it is asked for."""
        self._claimed = [0] * n
        """Per sender, the highest number that was heard of beyond the buffers."""
        self._reassembler = FrameReassembler()
        self._unread: deque[Frame] = deque()
        self.has_deferred = False
        """Some frame waits for `next_admissible`."""
        self.steady = True
        """No proposal has been issued in the view."""
        self.awaiting_first_frames = False
        """Not all members have spoken in the view: some may still be in another one."""
        self.duplicates = 0
        self.refused: Counter[str] = Counter()

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
        """No room to let this frame wait: only the next of its sender may still come in
        (rule B-5)."""
        pooled = self._reassembler.bytes + self.store.waiting_bytes
        if pooled <= max(POOL_BYTES, POOL_WINDOWS * self._config.window_bytes_max):
            return False
        return place[1] != self.dag.have[place[0]] + 1

    def _is_news(self, now: int, piece: Fragment | CompleteFrame) -> bool:
        """The first that is seen of a frame. What it proves missing is asked for in time
        (rule B-3)."""
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
        if number <= have or number in self.store.waiting[sender]:
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
        cannot make them many (rule B-4)."""
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
        """Undamaged on the way and yet of no use now: ask again, later or another holder
        (rule B-25)."""
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
        if frame.control is not None and sender_of(frame) != self._members[frame.sender]:
            self._unusable(now, place, "impossible")  # as members in a change do
            return []
        if not self.dag.ready(frame):
            self._wait(now, place, frame)
            return []
        self.retransmission.found(place)
        self.store.insert(frame)
        if not any(self.store.waiting):
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
        """A frame of the view that is not for the steady path: it waits for `next_admissible`
        (rule B-23)."""
        announced = frame.control is not None
        if announced != (sender_of(frame) == self._members[frame.sender]) or (
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
        """A frame that is carried into the view: it waits for `next_admissible`."""
        if self._is_new(now, frame.sender, frame.number):
            self.has_deferred = True
            self._wait(now, (frame.sender, frame.number), frame)

    def requeue(self, now: int, frame: Frame) -> None:
        """A frame of the view that arrived before the view was installed here."""
        if frame.sender != self._me and self._is_new(now, frame.sender, frame.number):
            self._defer(now, frame)

    def next_admissible(self) -> Frame | None:
        """A waiting frame all of whose past is here; it goes on waiting until it is admitted."""
        for sender, waiting in enumerate(self.store.waiting):
            frame = waiting.get(self.dag.have[sender] + 1) if waiting else None
            if frame is not None and self.dag.ready(frame):
                return frame
        return None

    def unread(self) -> Frame | None:
        """A frame of a change that waits for its past, each one once: its announcement says
        something already."""
        while self._unread:
            frame = self._unread.popleft()
            if self.store.waiting[frame.sender].get(frame.number) is frame:
                return frame
        return None

    def admit(self, now: int, frame: Frame) -> None:
        """Enter a deferred frame of phase 0 that counts."""
        self.store.remove_waiting(frame)
        self.insert(frame)
        self._claim(now, [frame])

    def admit_uncounted(self, now: int, frame: Frame) -> None:
        """Enter a deferred frame of phase 0 that may lie beyond what closes the view."""
        self.store.remove_waiting(frame)
        self.store.insert_deferred(frame)
        self._claim(now, [frame])

    def admit_without_vote(self, now: int, frame: Frame) -> None:
        """Enter a deferred frame of phase 1, or one that is carried into the view."""
        self.store.remove_waiting(frame)
        self.insert_without_vote(frame)
        self._claim(now, [frame])

    def insert_without_vote(self, frame: Frame) -> None:
        """Enter a frame of phase 1, or one that is carried into the view."""
        self.store.insert_without_vote(frame)
        self.heard[frame.sender] = max(self.heard[frame.sender], frame.number)

    def waiting(self) -> list[Frame]:
        """All frames that wait, by sender and number."""
        return self.store.all_waiting()

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
            for sender, waiting in enumerate(self.store.waiting):
                following = self.dag.have[sender] + 1
                while waiting and following in waiting and self.dag.ready(waiting[following]):
                    frame = waiting[following]
                    if frame.phase or frame.kind > _ACK:
                        self.has_deferred = True
                        break
                    self.store.remove_waiting(frame)
                    self.store.insert(frame)
                    entered.append(frame)
                    following += 1
                    progress = True
        return entered

    def _wait(self, now: int, place: Place, frame: Frame) -> None:
        """It follows frames that are not here: keep it, and ask for those (rule B-26)."""
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
        self.store.add_waiting(frame)
        if frame.phase and frame.tag == self._tag:
            self._unread.append(frame)

    def spoke(self, sender: int) -> bool:
        """A frame of its is here, entered or waiting for others: it has installed the view."""
        if self.dag.latest[sender][sender]:
            return True
        waiting = self.store.waiting[sender].values()
        return any(frame.tag == self._tag and not frame.phase for frame in waiting)

    def insert(self, frame: Frame) -> None:
        """Enter a ready frame: a foreign one, or one's own (rule W-8)."""
        self.store.insert(frame)
        if frame.sender == self._me:
            self.heard[self._me] = frame.number

    # -------------------------------------------------------------- requests and answers

    def answer(self, now: int, nack: Nack) -> tuple[int, list[bytes]]:
        """Another member misses frames: about how many packets it has lost, and the packets to
        send at once."""
        return self._responder.answer(now, nack, self.heard, self.refused)

    def due(self, now: int) -> tuple[int, list[bytes]]:
        """How many packets are asked for now for the first time, and the packets of these
        requests and of answers now due."""
        wants = self.retransmission.wants(now)
        out = self._requester.packets(wants, self.by_name) if wants else []
        return packets_lost(wants), out + self._responder.due(now)

    @property
    def by_name(self) -> bool:
        """Whether requests name members: others may be in another view by now (rule B-11)."""
        return self.awaiting_first_frames or not self.steady

    def repeat_last(self, now: int) -> list[bytes]:
        """This member's last frame, for a member that seems to have missed it."""
        return self._responder.repeat_last(now)
