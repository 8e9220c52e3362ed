"""Sets of members as bit masks: rows of 64-bit words, as many as a group needs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
"""One set: a row of words. Or many: a matrix with a row each."""

WORD = 64


class MaskSpace:
    """The masks of a group of so many members."""

    def __init__(self, members: int) -> None:
        self.words = max(1, -(-members // WORD))
        self.bits = np.zeros((max(1, members), self.words), dtype=np.uint64)
        """Per rank, the set of that member alone."""
        ranks = np.arange(members)
        self.bits[ranks, ranks // WORD] = np.uint64(1) << (ranks % WORD).astype(np.uint64)

    def nobody(self, count: int) -> Words:
        return np.zeros((count, self.words), dtype=np.uint64)

    def everybody(self, count: int) -> Words:
        return np.full((count, self.words), np.iinfo(np.uint64).max, dtype=np.uint64)

    def of(self, ranks: Iterable[int]) -> Words:
        """The set of these members."""
        found = np.zeros(self.words, dtype=np.uint64)
        for rank in ranks:
            found |= self.bits[rank]
        return found


def some(masks: Words) -> NDArray[np.bool_]:
    """Which of the sets have a member."""
    found: NDArray[np.bool_] = np.any(masks, axis=1)
    return found


def united(masks: Words, starts: NDArray[np.int64]) -> Words:
    """The union of the sets of each group of rows; `starts` are the first rows of the groups."""
    if not len(starts):
        return masks[:0]
    found: Words = np.bitwise_or.reduceat(masks, starts, axis=0)
    return found


def ranks_of(mask: Words) -> list[int]:
    """The members of one set, by rank."""
    return [
        word * WORD + bit
        for word, value in enumerate(mask.tolist())
        if value
        for bit in range(WORD)
        if value >> bit & 1
    ]


def lowest(mask: Words) -> int:
    """The member of the lowest rank in a set that is not empty."""
    return ranks_of(mask)[0]
