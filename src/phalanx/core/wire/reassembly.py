"""Frames that came in part: their fragments, until all are there.

What is kept is what really came, so memory is bounded by the packets received and not by
what a packet claims. Fragments that do not fit together are all dropped: the frame is asked
for again as a whole.
"""

from __future__ import annotations

from phalanx.core.wire.frames import Place
from phalanx.core.wire.packets import Fragment


class PartialFrame:
    """A frame of which some fragments have come."""

    __slots__ = ("absent", "count", "pieces")

    def __init__(self, count: int) -> None:
        self.count = count
        self.pieces: dict[int, bytes] = {}
        self.absent = (1 << count) - 1


class FrameReassembler:
    __slots__ = ("_begun", "_partial", "bytes")

    def __init__(self) -> None:
        self._partial: dict[Place, PartialFrame] = {}
        self._begun: dict[Place, None] = {}
        """Frames that got a fragment in this batch of packets and are not whole."""
        self.bytes = 0

    def __contains__(self, place: Place) -> bool:
        return place in self._partial

    def __len__(self) -> int:
        """Of how many frames a part is here."""
        return len(self._partial)

    def add(self, piece: Fragment) -> tuple[bytes, int] | bool:
        """Keep a fragment. The frame's bytes and the size of its fragments when it is whole;
        else whether it fits the others: if not, all of them are gone."""
        place = (piece.sender, piece.number)
        partial = self._partial.get(place)
        if partial is None:
            partial = self._partial[place] = PartialFrame(piece.count)
        elif partial.count != piece.count:
            self.drop(place)
            return False
        self._begun[place] = None
        if piece.index not in partial.pieces:
            partial.pieces[piece.index] = piece.piece
            partial.absent ^= 1 << piece.index
            self.bytes += len(piece.piece)
        if partial.absent:
            return True
        self.drop(place)
        pieces = [partial.pieces[i] for i in range(partial.count)]
        size = len(pieces[0]) if len(pieces) > 1 else 0
        if len(pieces) > 1 and (
            set(map(len, pieces[:-1])) != {size} or not 0 < len(pieces[-1]) <= size
        ):
            return False
        return b"".join(pieces), size

    def drop(self, place: Place) -> None:
        """Forget what came of a frame: it is whole, or of no use."""
        partial = self._partial.pop(place, None)
        if partial is not None:
            self.bytes -= sum(map(len, partial.pieces.values()))

    def begun(self) -> list[tuple[Place, int]]:
        """A batch is through: the frames it left incomplete, with the fragments they miss."""
        if not self._begun:
            return []
        out = [
            (place, self._partial[place].absent) for place in self._begun if place in self._partial
        ]
        self._begun.clear()
        return out
