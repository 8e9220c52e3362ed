"""Short names of members, for output that people read.

One rule: a member is written as its name alone, as long as only one incarnation of that name has
appeared in the output. From the second on, each is written as the name and the last digits of its
incarnation: four, or as many as distinguish all known incarnations of the name. Incarnation 1 is
always the name alone. A small incarnation is written in full (`ada.2`), one from the clock as
`ada.3456`.

Output for programs (`--json`, journals, tables) has the full incarnation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from phalanx.core.ids import MemberId

DIGITS = 4
NAMES_MAX = 4096
INCARNATIONS_MAX = 64
"""The limits of what is remembered for endless output such as a log; the oldest is forgotten."""


def of_labels(labels: Iterable[str]) -> ShortNames:
    """Short names for members that are given in full, as `ada.1763355123456`."""
    parts = (label.rpartition(".") for label in labels)
    return ShortNames(
        (name, int(incarnation))
        for name, _, incarnation in parts
        if name and incarnation.isdecimal()
    )


class ShortNames:
    """The short names of one output. Incarnations that are known before the first line are
    distinguished from that line on."""

    def __init__(self, members: Iterable[tuple[str, int]] = ()) -> None:
        self._known: dict[str, dict[int, None]] = {}
        self._full: dict[str, tuple[str, int]] = {}
        self._pattern: re.Pattern[str] | None = None
        for name, incarnation in members:
            self._note(name, incarnation)

    def of(self, member: MemberId) -> str:
        return self.name(member.name, member.incarnation)

    def name(self, name: str, incarnation: int) -> str:
        """
        >>> names = ShortNames([("ada", 1763355123456), ("bea", 1), ("ada", 1763355127890)])
        >>> names.name("ada", 1763355127890), names.name("bea", 1)
        ('ada.7890', 'bea')
        """
        self._note(name, incarnation)
        known = self._known[name]
        if len(known) == 1 or incarnation == 1:
            return name
        digits = DIGITS
        while len({str(other)[-digits:] for other in known}) < len(known):
            digits += 1
        return f"{name}.{str(incarnation)[-digits:]}"

    def listed(self, members: Iterable[MemberId]) -> str:
        """The short names of members, separated by commas."""
        return ", ".join(map(self.of, members)) or "nobody"

    def in_text(self, text: str) -> str:
        """The text with every known full name replaced by the short name. The id of a view, as
        1.2:5f0c1a2b, is not mistaken for a member with the name 1.

        >>> ShortNames([("ada", 1763355123456)]).in_text("ada.1763355123456#7 of ada.5")
        'ada#7 of ada.5'
        """
        if self._pattern is None:
            lives = (
                (name, incarnation) for name, known in self._known.items() for incarnation in known
            )
            self._full = {
                f"{name}.{incarnation}": (name, incarnation) for name, incarnation in lives
            }
            longest_first = sorted(self._full, key=len, reverse=True)
            names = "|".join(map(re.escape, longest_first)) or "(?!)"
            self._pattern = re.compile(rf"(?<![\w.-])(?:{names})(?!\d|:[0-9a-f]{{4}})")
        return self._pattern.sub(lambda found: self.name(*self._full[found[0]]), text)

    def _note(self, name: str, incarnation: int) -> None:
        known = self._known.setdefault(name, {})
        if incarnation in known:
            return
        known[incarnation] = None
        self._pattern = None
        if len(known) > INCARNATIONS_MAX:
            del known[next(iter(known))]
        if len(self._known) > NAMES_MAX:
            del self._known[next(iter(self._known))]
