"""Where two journals contradict each other about the order of a view.

Two sorted lists of ranges are compared over a stretch of positions. At each position both must have
the same message, or both none: a message to the whole view is delivered by each member.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from phalanx.pipeline.message_stream.member_log import Range


class Contradiction(NamedTuple):
    """Different messages at one position; None stands for no message there."""

    pos: int
    one: Range | None
    other: Range | None


def compare(
    ones: Sequence[Range], others: Sequence[Range], begin: int, end: int
) -> Contradiction | None:
    """The first contradiction at positions begin..end-1."""
    i = j = 0
    at = begin
    while at < end:
        while i < len(ones) and ones[i].end <= at:
            i += 1
        while j < len(others) and others[j].end <= at:
            j += 1
        one = ones[i] if i < len(ones) else None
        other = others[j] if j < len(others) else None
        here = one if one is not None and one.pos <= at else None
        there = other if other is not None and other.pos <= at else None
        if here is None and there is None:
            at = min(r.pos for r in (one, other) if r is not None) if one or other else end
            continue
        if here is None or there is None or message_at(here, at) != message_at(there, at):
            return Contradiction(at, here or one, there or other)
        at = min(here.end, there.end)
    return None


def message_at(found: Range, pos: int) -> tuple[str, int, int]:
    return found.sender, found.sender_incarnation, found.first + pos - found.pos


def describe(found: Range | None, journal: str, pos: int) -> str:
    """What a journal has at a position, for an error."""
    if found is None:
        return f"journal {journal} has no message there"
    if found.pos > pos:
        return f"journal {found.journal} goes on at position {found.pos} with row {found.lseq}"
    sender, incarnation, number = message_at(found, pos)
    return f"journal {found.journal}, row {found.lseq}, has {sender}.{incarnation}#{number}"
