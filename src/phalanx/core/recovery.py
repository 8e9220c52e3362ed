"""Asking for what is missing, and answering (S4 3.3; PROTOCOLS C.5 X10).

A gap is asked for after a random back-off, unless it fills in the meantime or another
member is heard asking for it: then that answer will serve here too, and this member waits
a retry time. Each unanswered request doubles the wait, up to 32-fold. The sender of a
frame answers at once, any other holder after a random time, unless it hears an answer
first. Nobody repeats a frame twice within the shortest back-off.

An answer that this member hears need not reach the one who asked: links may be broken one
way. So a request says how often it was made. At the second time the sender's own answer
silences nobody; from the third on nothing does, and a growing random share of the holders
answers, so that any route there is will be found.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from phalanx.config import Config
from phalanx.core.dice import Dice
from phalanx.core.frames import WANTS_MAX, Want

Place = tuple[int, int]
"""(sender, number) of a frame."""

ALL = -1
"""As a fragment mask: every fragment."""


class Missing(msgspec.Struct, gc=False):
    """A frame to ask for, or to answer for."""

    due_ns: int
    tries: int
    """How often it was asked for."""
    fragments: int
    """Bit mask of the fragments that are missing, ALL while none has come."""


class Recovery:
    __slots__ = ("_answers", "_config", "_dice", "_due_ns", "missing")

    def __init__(self, config: Config, dice: Dice) -> None:
        self._config = config
        self._dice = dice
        self.missing: dict[Place, Missing] = {}
        self._answers: dict[Place, Missing] = {}
        self._due_ns: int | None = None

    # -------------------------------------------------------------- asking

    def lost(self, now: int, place: Place, fragments: int = ALL) -> None:
        """A frame is known to exist and is not (wholly) here."""
        entry = self.missing.get(place)
        if entry is not None:
            entry.fragments = fragments
            return
        due = now + self._dice.between(self._config.nack_ns_min, self._config.nack_ns_max)
        if fragments != ALL:
            due += self._config.nack_ns_max  # the rest is probably on its way
        self.missing[place] = Missing(due, 0, fragments)
        self._due_ns = None

    def found(self, place: Place) -> None:
        """The frame is wholly here: stop asking for it, and stop answering for it."""
        if self.missing and self.missing.pop(place, None) is not None:
            self._due_ns = None

    def asked_elsewhere(self, now: int, place: Place, fragments: int) -> None:
        """Another member asked for it: its answer will serve here too."""
        entry = self.missing.get(place)
        if entry is not None and (fragments == ALL or entry.fragments == fragments):
            entry.due_ns = max(entry.due_ns, now + self._wait(entry.tries))
            self._due_ns = None

    def wants(self, now: int) -> list[Want]:
        """What to ask for now, in ranges. Those asked for are put off."""
        due = sorted(place for place, entry in self.missing.items() if entry.due_ns <= now)
        out: list[Want] = []
        for place in due:
            if len(out) == WANTS_MAX:
                break
            sender, number = place
            entry = self.missing[place]
            entry.tries += 1
            entry.due_ns = now + self._wait(entry.tries)
            bits = b"" if entry.fragments == ALL else encode_mask(entry.fragments)
            last = out[-1] if out else None
            if (
                last is not None
                and not bits
                and not last.fragments
                and (last.sender, last.last + 1, last.attempt) == (sender, number, entry.tries)
            ):
                out[-1] = Want(sender, last.first, number, entry.tries)
            else:
                out.append(Want(sender, number, number, entry.tries, bits))
        self._due_ns = None
        return out

    def _wait(self, tries: int) -> int:
        config = self._config
        wait = config.nack_retry_ns << min(tries, 6) >> 1
        return wait + self._dice.between(0, config.nack_ns_max)

    # -------------------------------------------------------------- answering

    def answer_later(self, now: int, place: Place, fragments: int, attempt: int, n: int) -> None:
        """Another member's frame was asked for, and is here, as in some of the n members."""
        entry = self._answers.get(place)
        if entry is not None:
            entry.tries = max(entry.tries, attempt)
            entry.fragments = (
                ALL if ALL in (fragments, entry.fragments) else entry.fragments | fragments
            )
            return
        if attempt > 2 and self._dice.between(1, n) > attempt:
            return
        due = now + self._dice.between(self._config.answer_ns_min, self._config.answer_ns_max)
        self._answers[place] = Missing(due, attempt, fragments)
        self._due_ns = None

    def answered(self, place: Place, by_sender: bool) -> None:
        """An answer was heard: no need to answer too, unless it may not have arrived."""
        entry = self._answers.get(place) if self._answers else None
        if entry is not None and entry.tries <= (1 if by_sender else 2):
            del self._answers[place]
            self._due_ns = None

    def answers(self, now: int) -> list[tuple[Place, int]]:
        """What to repeat now."""
        due = [
            (place, entry.fragments)
            for place, entry in self._answers.items()
            if entry.due_ns <= now
        ]
        for place, _ in due:
            del self._answers[place]
        if due:
            self._due_ns = None
        return due

    # -------------------------------------------------------------- time

    def deadline(self) -> int | None:
        if not self.missing and not self._answers:
            return None
        if self._due_ns is None:
            self._due_ns = min(
                min((e.due_ns for e in self.missing.values()), default=1 << 62),
                min((e.due_ns for e in self._answers.values()), default=1 << 62),
            )
        return self._due_ns


def packets_of(wants: Sequence[Want]) -> int:
    """About how many packets were lost, for the window."""
    return sum(
        int.from_bytes(want.fragments, "little").bit_count()
        if want.fragments
        else want.last - want.first + 1
        for want in wants
    )


def encode_mask(mask: int) -> bytes:
    return mask.to_bytes((mask.bit_length() + 7) // 8, "little")


def decode_mask(bits: bytes) -> int:
    return int.from_bytes(bits, "little") if bits else ALL


def indices(mask: int) -> list[int] | None:
    """The fragments that a mask names; None for all."""
    if mask == ALL:
        return None
    return [i for i in range(mask.bit_length()) if mask >> i & 1]
