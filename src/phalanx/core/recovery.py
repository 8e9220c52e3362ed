"""Asking for what is missing, and answering (S4 3.3; PROTOCOLS C.5 X10).

A gap is asked for after a random back-off, unless it fills in the meantime or another
member is heard asking for it: then that answer will serve here too, and this member waits
a retry time. Each unanswered request doubles the wait, up to eight times. The sender of a
frame answers at once, any other holder after a random time, unless it hears an answer
first. Nobody repeats a frame twice within the shortest back-off.

A request that was just answered by this member, or a frame that nobody holds any more, is
not this module's business: a `Gone` is only told, membership draws the conclusion.
"""

from __future__ import annotations

import msgspec

from phalanx.config import Config
from phalanx.core.dice import Dice
from phalanx.core.frames import WANTS_MAX, Want

Place = tuple[int, int]
"""(sender, number) of a frame."""

ALL = -1
"""As a fragment mask: every fragment."""


class Missing(msgspec.Struct, gc=False):
    due_ns: int
    tries: int
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
                and (last.sender, last.last + 1) == place
            ):
                out[-1] = Want(sender, last.first, number)
            else:
                out.append(Want(sender, number, number, bits))
        self._due_ns = None
        return out

    def _wait(self, tries: int) -> int:
        config = self._config
        wait = config.nack_retry_ns << min(tries, 4) >> 1
        return wait + self._dice.between(0, config.nack_ns_max)

    # -------------------------------------------------------------- answering

    def answer_later(self, now: int, place: Place, fragments: int) -> None:
        """Another member's frame was asked for, and is here."""
        entry = self._answers.get(place)
        if entry is not None:
            entry.fragments = (
                ALL if ALL in (fragments, entry.fragments) else entry.fragments | fragments
            )
            return
        due = now + self._dice.between(self._config.answer_ns_min, self._config.answer_ns_max)
        self._answers[place] = Missing(due, 0, fragments)
        self._due_ns = None

    def answered(self, place: Place) -> None:
        """An answer was heard, or the frame went away: no need to answer."""
        if self._answers and self._answers.pop(place, None) is not None:
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


def encode_mask(mask: int) -> bytes:
    return mask.to_bytes((mask.bit_length() + 7) // 8, "little")


def decode_mask(bits: bytes) -> int:
    return int.from_bytes(bits, "little") if bits else ALL


def indices(mask: int) -> list[int] | None:
    """The fragments that a mask names; None for all."""
    if mask == ALL:
        return None
    return [i for i in range(mask.bit_length()) if mask >> i & 1]
