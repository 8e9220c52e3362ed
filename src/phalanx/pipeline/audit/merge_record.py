"""Whom a member has met, and what merges have reported to it: what a merge report rests on besides
deliveries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec


class MergeRecord(msgspec.Struct):
    """One member, between two views. Members by their labels."""

    met: dict[str, int] = {}
    """Of a sender, what had been sent, as far as was reported, when the two met last."""
    told: dict[str, int] = {}
    """Of a known sender, the highest number that a component of a merge had delivered."""
    known: set[str] = msgspec.field(default_factory=set)
    """Whom it was in a view with."""

    def copy(self) -> MergeRecord:
        return MergeRecord(self.met.copy(), self.told.copy(), self.known.copy())

    def installed(
        self,
        label: str,
        inside: Iterable[str],
        together: Iterable[str],
        reported: Mapping[str, int],
    ) -> None:
        """The member has installed a view of these, which it came to together with some of them."""
        mine = {label, *together}
        for other in inside:
            self.known.add(other)
            if other not in mine:
                self.met[other] = reported.get(other, 0)
        raise_to(self.told, {m: number for m, number in reported.items() if m in self.known})


def raise_to(numbers: dict[str, int], others: Mapping[str, int]) -> None:
    """Keep of both the higher number of each sender."""
    for sender, number in others.items():
        numbers[sender] = max(numbers.get(sender, 0), number)
