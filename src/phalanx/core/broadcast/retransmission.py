"""Asking for what is missing, and answering (rules B-6 to B-10; S4 3.3).

A gap is asked for after a random back-off, unless it fills in the meantime or another
member is heard asking for it: then that answer will serve here too, and this member waits
a retry time. Each unanswered request doubles the wait, up to 32-fold. The sender of a
frame answers at once, any other holder after a random time, unless it hears an answer
first. Nobody repeats a fragment twice within the shortest back-off.

An answer that this member hears need not reach the one who asked: links may be broken one
way. So a request says how often it was made. At the second time the sender's own answer
silences nobody; from the third on nothing does, and a random few of the holders answer, so
that any route there is will be found.

One roll of the dice serves a whole gap, and what is due soon is asked for together: a
request names ranges, and a gap of many frames costs one packet.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from phalanx.config import Config
from phalanx.core.ids import MemberId
from phalanx.core.prng import Prng
from phalanx.core.wire.frames import Place
from phalanx.core.wire.packets import WANTS_MAX, Want

Named = tuple[MemberId, int]
"""The same of a sender that has no slot here."""

TRIES = 4
"""So often at least a frame is asked for in the time after which silence is a failure."""
ALL = -1
"""As a fragment mask: every fragment."""

ANSWERERS = 6
"""From the third request on, so many of the holders answer, about."""


class PendingRequest(msgspec.Struct, gc=False):
    """A frame to ask for, or to answer for."""

    due_ns: int
    tries: int
    """How often it was asked for."""
    fragments: int
    """Bit mask of the fragments that are missing, ALL while none has come."""


class Retransmission:
    __slots__ = (
        "_answers",
        "_config",
        "_prng",
        "_due_ns",
        "_wait_max",
        "asked",
        "missed",
        "missing",
        "repeated",
    )

    def __init__(self, config: Config, prng: Prng) -> None:
        self._config = config
        self._prng = prng
        self._wait_max = max(config.nack_retry_ns, config.fail_ns // TRIES)
        self.missing: dict[Place, PendingRequest] = {}
        self._answers: dict[Place | Named, PendingRequest] = {}
        self._due_ns: int | None = None
        """No later than the earliest of both; None when it has to be found anew."""
        self.missed: Counter[int] = Counter()
        """Per sender, frames that were ever missing."""
        self.asked: Counter[int] = Counter()
        """Per sender, times that a frame was asked for."""
        self.repeated: Counter[int] = Counter()
        """Per asker, packets that were sent again at once."""

    # -------------------------------------------------------------- asking

    def lost(self, now: int, sender: int, first: int, last: int) -> None:
        """Frames first..last are known to exist and are not here (rule B-6)."""
        due = now + self._prng.between(self._config.nack_ns_min, self._config.nack_ns_max)
        for number in range(first, last + 1):
            entry = self.missing.get((sender, number))
            if entry is None:
                self.missing[sender, number] = PendingRequest(due, 0, ALL)
                self.missed[sender] += 1
            else:  # an answer came and was of no use: the way is open, so do not back off
                entry.fragments = ALL
                entry.tries = min(entry.tries, 1)
        self._sooner(due)

    def lost_in_part(self, now: int, place: Place, fragments: int) -> None:
        """Of a frame only these fragments are not here; the rest is probably on its way
        (rule B-7)."""
        entry = self.missing.get(place)
        if entry is not None and entry.fragments == fragments:
            return
        config = self._config
        due = now + config.nack_ns_max + self._prng.between(config.nack_ns_min, config.nack_ns_max)
        if entry is None:
            self.missing[place] = PendingRequest(due, 0, fragments)
            self.missed[place[0]] += 1
        else:  # some came: the request was answered, if only in part, so do not back off
            entry.due_ns = due
            entry.tries = min(entry.tries, 1)
            entry.fragments = fragments
        self._sooner(due)

    def found(self, place: Place) -> None:
        """The frame is wholly here: stop asking for it."""
        if self.missing:
            self.missing.pop(place, None)

    def asked_elsewhere(self, now: int, place: Place, fragments: int) -> None:
        """Another member asked for it: its answer will serve here too (rule B-6)."""
        entry = self.missing.get(place)
        if entry is not None and (
            fragments == ALL or (entry.fragments != ALL and not entry.fragments & ~fragments)
        ):
            roll = self._prng.between(0, self._config.nack_ns_max)
            entry.due_ns = max(entry.due_ns, now + self._wait(entry.tries) + roll)

    def wants(self, now: int) -> list[Want]:
        """What to ask for now, in ranges, with what would be due in a moment. All of it is put
        off until it is time to ask again."""
        self._due_ns = None
        if not any(entry.due_ns <= now for entry in self.missing.values()):
            return []
        soon = now + self._config.nack_ns_min
        due = sorted(place for place, entry in self.missing.items() if entry.due_ns <= soon)
        roll = self._prng.between(0, self._config.nack_ns_max)
        out: list[Want] = []
        for sender, number in due:
            entry = self.missing[sender, number]
            bits = b"" if entry.fragments == ALL else encode_mask(entry.fragments)
            last = out[-1] if out else None
            if (
                last is not None
                and not bits
                and not last.fragments
                and (last.sender, last.last + 1, last.attempt) == (sender, number, entry.tries + 1)
            ):
                out[-1] = Want(sender, last.first, number, entry.tries + 1)
            elif len(out) == WANTS_MAX:
                break
            else:
                out.append(Want(sender, number, number, entry.tries + 1, bits))
            entry.tries += 1
            entry.due_ns = now + self._wait(entry.tries) + roll
            self.asked[sender] += 1
        return out

    def _wait(self, tries: int) -> int:
        """Until it is asked for again: each time longer, but often enough before who does not
        acknowledge is taken for faulty (rule B-8)."""
        return min(self._config.nack_retry_ns << min(tries, 6) >> 1, self._wait_max)

    # -------------------------------------------------------------- answering

    def answer_later(
        self, now: int, place: Place | Named, fragments: int, attempt: int, n: int
    ) -> None:
        """Another member's frame was asked for, and is here, as in some of the n members
        (rule B-9)."""
        entry = self._answers.get(place)
        if entry is not None:
            entry.tries = max(entry.tries, attempt)
            entry.fragments = (
                ALL if ALL in (fragments, entry.fragments) else entry.fragments | fragments
            )
            return
        if attempt > 2 and n > ANSWERERS and self._prng.between(1, n) > ANSWERERS:
            return
        due = now + self._prng.between(self._config.answer_ns_min, self._config.answer_ns_max)
        self._answers[place] = PendingRequest(due, attempt, fragments)
        self._sooner(due)

    def answered(self, place: Place | Named, by_sender: bool, index: int, count: int) -> None:
        """A fragment was repeated by another: no need to repeat it too, unless the repeat may not
        have arrived (rule B-9)."""
        entry = self._answers.get(place) if self._answers else None
        if entry is not None and entry.tries <= (1 if by_sender else 2):
            if entry.fragments == ALL:
                entry.fragments = (1 << count) - 1
            entry.fragments &= ~(1 << index)
            if not entry.fragments:
                del self._answers[place]

    def answers(self, now: int) -> list[tuple[Place | Named, int]]:
        """What to repeat now."""
        due = [
            (place, entry.fragments)
            for place, entry in self._answers.items()
            if entry.due_ns <= now
        ]
        for place, _ in due:
            del self._answers[place]
        return due

    def clear(self) -> None:
        """Nothing is missing any more."""
        self.missing.clear()
        self._answers.clear()

    # -------------------------------------------------------------- time

    def deadline(self) -> int | None:
        """When `wants` or `answers` may have something; now and then too early."""
        if not self.missing and not self._answers:
            return None
        if self._due_ns is None:
            self._due_ns = min(
                min((e.due_ns for e in self.missing.values()), default=1 << 62),
                min((e.due_ns for e in self._answers.values()), default=1 << 62),
            )
        return self._due_ns

    def _sooner(self, due: int) -> None:
        if self._due_ns is not None and due < self._due_ns:
            self._due_ns = due


def encode_mask(mask: int) -> bytes:
    return mask.to_bytes((mask.bit_length() + 7) // 8, "little")


def decode_mask(bits: bytes) -> int:
    return int.from_bytes(bits, "little") if bits else ALL


def indices(mask: int) -> list[int]:
    """The fragments that a mask names."""
    return [i for i in range(mask.bit_length()) if mask >> i & 1]
