"""Short names of members, for everything that people read.

One rule: a member is written as its name alone. Once two incarnations of a name have appeared in
one output, each of them is written as the name and the last digits of its incarnation: four, or as
many as tell all known incarnations of the name apart. An incarnation that is counted in a state
directory is short and appears whole (`ada.2`), one that comes from the clock as `ada.3456`.

What programs read (`--json`, journals, tables) has the whole incarnation.
"""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.core.ids import MemberId

DIGITS = 4
NAMES_MAX = 4096
INCARNATIONS_MAX = 64
"""So much is remembered of an output without end, such as a log; the oldest is forgotten."""


class ShortNames:
    """The names in one output. Members that are known before the first line is written are told
    apart from that line on."""

    def __init__(self, members: Iterable[tuple[str, int]] = ()) -> None:
        self._known: dict[str, dict[int, None]] = {}
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
        if len(known) == 1:
            return name
        digits = DIGITS
        while len({str(other)[-digits:] for other in known}) < len(known):
            digits += 1
        return f"{name}.{str(incarnation)[-digits:]}"

    def listed(self, members: Iterable[MemberId]) -> str:
        """Members one after the other, separated by commas."""
        return ", ".join(map(self.of, members)) or "nobody"

    def _note(self, name: str, incarnation: int) -> None:
        known = self._known.setdefault(name, {})
        known[incarnation] = None
        if len(known) > INCARNATIONS_MAX:
            del known[next(iter(known))]
        if len(self._known) > NAMES_MAX:
            del self._known[next(iter(self._known))]
