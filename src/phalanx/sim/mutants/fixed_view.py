"""Mutants of the protocol within one view: total order, delivery, reliable broadcast."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.core.broadcast.ack_scheduler import AckScheduler
from phalanx.core.broadcast.frame_store import FrameStore
from phalanx.core.broadcast.nack import NackResponder
from phalanx.core.broadcast.outbox import MessageReassembler
from phalanx.core.broadcast.reliable import ReliableBroadcast
from phalanx.core.broadcast.retransmission import Retransmission
from phalanx.core.deadline import NEVER
from phalanx.core.delivery.delivery_queue import DeliveryQueue
from phalanx.core.delivery.total_order import ToTo
from phalanx.core.effects import Deliver, Effect, Service
from phalanx.core.member.active_view import ActiveView
from phalanx.core.member.member import Member
from phalanx.core.wire.frame_codec import decode_frame
from phalanx.core.wire.frames import Frame, MessageRun, Place
from phalanx.core.wire.packets import Fragment
from phalanx.sim.mutants.mutant import Mutant

# ------------------------------------------------------------------ order


def simple_majority(self: ToTo) -> list[int]:
    winners = [c for c in self._cands if 2 * self._voters[c].bit_count() > self._n]
    return winners or (self._cands if self._known.bit_count() == self._n else [])


def no_internal_stability(self: ToTo, sources: list[int]) -> bool:
    return True


def no_external_stability(self: ToTo) -> list[int]:
    known = self._known.bit_count()
    sources = self._sources(self._n - known)
    if not sources or not self._internal(sources) or 2 * known < self._n:
        return []
    return sources


# ------------------------------------------------------------------ delivery


def always_stable(self: DeliveryQueue, frame: Frame) -> bool:
    return True


def never_blocked(self: DeliveryQueue, frame: Frame) -> bool:
    return self._front[frame.sender] == frame.number


def for_everybody(self: DeliveryQueue, run: MessageRun) -> bool:
    return True


def lose_second_part(self: MessageReassembler, run: MessageRun, payload: bytes) -> bytes | None:
    if run.part == 0:
        self._parts.clear()
    if run.part != 1:
        self._parts.append(payload[run.offset : run.offset + run.lengths[0]])
    return b"".join(self._parts) if run.completes else None


# ------------------------------------------------------------------ reliable broadcast


def gone_one_frame_early(self: FrameStore, place: Place) -> Frame | None:
    sender, number = place
    if sender < self.dag.n and number <= self.dag.stable[sender] + 1:
        return None
    return _GET(self, place)


def forget_what_lies_ahead(self: ReliableBroadcast, now: int, sender: int, number: int) -> None:
    if number <= self.dag.have[sender] + self._config.ahead_frames_max:
        _HEAR(self, now, sender, number)


def answer_with_the_neighbour(
    self: NackResponder, now: int, frame: Frame, mask: int
) -> list[bytes]:
    frames = self._store.dag.frames[frame.sender]
    other = frames.get(frame.number + 1) or frames.get(frame.number - 1)
    if other is None:
        return _REPEAT(self, now, frame, mask)
    number = other.number
    other.number = frame.number
    packets = self._codec.fragments(other, self._me, repeat=1)
    other.number = number
    return packets


def acknowledge_what_is_missing(self: ActiveView) -> tuple[list[int], list[int]]:
    state = self.state
    last = state.dag.latest[state.rank]
    known = [(q, number) for q, number in enumerate(state.broadcast.heard) if number > last[q]]
    return [q for q, _ in known], [number for _, number in known]


def duplicates_go_up(self: Member, now: int, packets: Sequence[bytes], out: list[Effect]) -> None:
    """A frame that has entered before is not recognised where basic messages leave."""
    again: list[Deliver] = []
    state = self._active.state
    for data in packets:
        piece = self._codec.decode(data)
        if (
            isinstance(piece, Fragment)
            and piece.count == 1
            and piece.sender != state.rank
            and piece.table == state.table
            and piece.number <= state.dag.have[piece.sender]
        ):
            frame = decode_frame(
                piece.sender, piece.number, piece.piece, 0, piece.table, state.dag.n
            )
            if isinstance(frame, Frame):
                for run in frame.runs:
                    if run.service is Service.BASIC:
                        state.queue._emit(frame, run, None, again)
    _RECEIVE(self, now, packets, out)
    out += again


def any_answer_silences(
    self: Retransmission, place: Place, by_sender: bool, index: int, count: int
) -> None:
    self._answers.pop(place, None)


# ------------------------------------------------------------------ acknowledgements


def nobody_steps_in(self: AckScheduler, settled: bool) -> int:
    """A member that owes something and is not chosen for it waits for messages of its own."""
    return NEVER if 0 < self._turn < NEVER else _DEADLINE(self, settled)


_DEADLINE = AckScheduler.deadline
_HEAR = ReliableBroadcast._hear
_GET = FrameStore.get
_REPEAT = NackResponder._repeat
_RECEIVE = Member._receive

MUTANTS: dict[str, Mutant] = {
    "toto-simple-majority": Mutant(
        "O-5: deliver every candidate that a majority votes for",
        ((ToTo, "_batch", simple_majority),),
    ),
    "toto-no-internal-stability": Mutant(
        "O-6: do not wait until the other candidates are beaten for good",
        ((ToTo, "_internal", no_internal_stability),),
    ),
    "toto-no-external-stability": Mutant(
        "O-7: do not wait until unknown candidates cannot matter",
        ((ToTo, "_batch", no_external_stability),),
    ),
    "safe-without-stability": Mutant(
        "D-5: deliver safe messages when they are ordered",
        ((DeliveryQueue, "_is_stable", always_stable),),
    ),
    "gc-one-frame-early": Mutant(
        "B-13: forget a frame while one member may still miss it",
        ((FrameStore, "get", gone_one_frame_early),),
    ),
    "duplicate-let-through": Mutant(
        "B-2: deliver a basic message again when its frame comes twice",
        ((Member, "_receive", duplicates_go_up),),
    ),
    "nack-answered-with-wrong-frame": Mutant(
        "B-9: repeat a frame's neighbour under its number",
        ((NackResponder, "_repeat", answer_with_the_neighbour),),
    ),
    "ack-for-what-was-not-received": Mutant(
        "B-17: acknowledge frames that are known to exist and are not here",
        ((ActiveView, "_acknowledgements", acknowledge_what_is_missing),),
    ),
    "part-of-large-message-lost": Mutant(
        "D-8: put a large message together without its second part",
        ((MessageReassembler, "add", lose_second_part),),
    ),
    "subset-shown-to-stranger": Mutant(
        "D-7: deliver messages that are addressed to others",
        ((DeliveryQueue, "_addressed", for_everybody),),
    ),
    "causal-without-waiting": Mutant(
        "D-3: deliver a causal message before what it follows",
        ((DeliveryQueue, "_unblocked", never_blocked),),
    ),
    "what-lies-ahead-forgotten": Mutant(
        "B-4: refuse a frame beyond the buffers without asking for those in between",
        ((ReliableBroadcast, "_hear", forget_what_lies_ahead),),
    ),
    "nobody-steps-in": Mutant(
        "B-19: let only the chosen acknowledge agreed messages",
        ((AckScheduler, "deadline", nobody_steps_in),),
    ),
    "any-answer-silences": Mutant(
        "B-9: let an answer that the asker may not hear silence all other holders",
        ((Retransmission, "answered", any_answer_silences),),
    ),
}
