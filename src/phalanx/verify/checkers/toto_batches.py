"""Batches of the total order (ToTo): the same at all members, sorted, and of concurrent messages.

toto-refinement   Members that went through a view alike divide its order into the same batches. A
                  batch is a set of concurrent frames in the order of their senders.

Concurrency is judged by deliveries, which are fewer than receptions: a batch that passes may still
be wrong, one that fails is wrong. docs/protocol/properties.md states the property in full.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations, groupby, pairwise

from phalanx.verify.checkers.causal_vectors import CausalVectors
from phalanx.verify.checkers.findings import Findings
from phalanx.verify.checkers.member_names import Member, label
from phalanx.verify.checkers.range_map import agree
from phalanx.verify.checkers.trace import DeliveredRange
from phalanx.verify.checkers.transitions import ViewTransition

NAME = "toto-refinement"


def check_batches(ways: Sequence[ViewTransition], vectors: CausalVectors, out: Findings) -> None:
    judged: set[tuple[tuple[Member, int, int], ...]] = set()
    for route in ways:
        claims: defaultdict[Member, dict[tuple[int, int, int], DeliveredRange]] = defaultdict(dict)
        for member, parts in route.parts.items():
            before: list[DeliveredRange] = []
            cut = [p for p in parts if p.row.batch is not None]
            out.evaluated(NAME, len(cut))
            for number, group in groupby(cut, _number):
                batch = list(group)
                if before and number < _number(before[0]):
                    text = (
                        f"{label(member)} went back from {_name(before[-1])} to {_name(batch[0])}"
                    )
                    out.violated(NAME, text, [before[-1].row, batch[0].row])
                before = batch
                for p in batch:
                    claims[p.sender].setdefault((p.first, p.last, number), p)
                what = tuple([(p.sender, p.row.frame, p.first) for p in batch])
                if len(batch) > 1 and what not in judged:
                    judged.add(what)
                    _inside(member, batch, vectors, out)
        for claimed in claims.values():
            for a, b in agree([(*key, part) for key, part in claimed.items()])[1]:
                text = (
                    f"{label(a.member)} has {a} in {_name(a)}, {label(b.member)} {b} in {_name(b)}"
                )
                out.violated(NAME, text, [a.row, b.row])


def _number(part: DeliveredRange) -> int:
    assert part.row.batch is not None
    return part.row.batch


def _name(part: DeliveredRange) -> str:
    return f"batch {part.row.batch} of {part.row.view}"


def _inside(
    member: Member, batch: list[DeliveredRange], vectors: CausalVectors, out: Findings
) -> None:
    """Compare the parts of one batch with each other."""
    for last, part in pairwise(batch):
        if (part.sender, part.row.frame, part.first) <= (last.sender, last.row.frame, last.first):
            text = f"{label(member)} delivered {part} after {last} in {_name(part)}"
            out.violated(NAME, text, [last.row, part.row])
    for other, part in combinations(batch, 2):
        if other.sender == part.sender and other.row.frame == part.row.frame:
            continue  # ranges of one frame
        if other.sender == part.sender or _follows(part, other, vectors):
            late, early = part, other
        elif _follows(other, part, vectors):
            late, early = other, part
        else:
            continue
        text = f"{late} follows {early}, yet both are in {_name(part)} at {label(member)}"
        out.violated(NAME, text, [early.row, late.row])


def _follows(late: DeliveredRange, early: DeliveredRange, vectors: CausalVectors) -> bool:
    if late.at < 0:
        return False
    return vectors.of(late.sender, late.at)[vectors.rank[early.sender]] >= early.first
