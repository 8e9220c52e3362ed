"""ToTo's batches (PROTOCOLS A.2, D.1): all members cut the order into the same batches, and a
batch is a set of concurrent frames in the order of their senders.

Concurrency is judged by what was delivered, which is less than what was received: a batch
that passes here may still be wrong, one that fails is.
"""

from __future__ import annotations

from collections import defaultdict

from phalanx.sim.checkers.findings import Findings
from phalanx.sim.checkers.spans import agree
from phalanx.sim.checkers.trace import Member, Part, Trace, label
from phalanx.sim.checkers.vectors import Vectors

NAME = "toto-refinement"


def check_batches(trace: Trace, vectors: Vectors, out: Findings) -> None:
    claims: defaultdict[tuple[str, Member, str | None], list[tuple[int, int, int, Part]]]
    claims = defaultdict(list)
    judged: set[tuple[Member, int, Member, int]] = set()
    for member, parts in trace.parts.items():
        batch: list[Part] = []
        for part in parts:
            if part.row.batch is None:
                continue
            out.evaluated(NAME)
            after = trace.successor.get((member, part.row.vid))
            key = (part.row.vid, part.sender, after.vid if after else None)
            claims[key].append((part.first, part.last, part.row.batch, part))
            if batch and _batch(batch[0]) != _batch(part):
                if batch[0].row.vid == part.row.vid and _batch(part) < _batch(batch[0]):
                    text = f"{label(member)} went back from {_name(batch[-1])} to {_name(part)}"
                    out.violated(NAME, text, [batch[-1].row, part.row])
                batch = []
            _inside(member, batch, part, vectors, judged, out)
            batch.append(part)
    for group in claims.values():
        for a, b in agree(group)[1]:
            text = f"{label(a.member)} has {a} in {_name(a)}, {label(b.member)} {b} in {_name(b)}"
            out.violated(NAME, text, [a.row, b.row])


def _batch(part: Part) -> tuple[str, int]:
    assert part.row.batch is not None
    return part.row.vid, part.row.batch


def _name(part: Part) -> str:
    return f"batch {part.row.batch} of {part.row.vid}"


def _inside(
    member: Member,
    batch: list[Part],
    part: Part,
    vectors: Vectors,
    judged: set[tuple[Member, int, Member, int]],
    out: Findings,
) -> None:
    """`part` against those before it in its batch."""
    if not batch:
        return
    last = batch[-1]
    if (part.sender, part.row.frame, part.first) <= (last.sender, last.row.frame, last.first):
        text = f"{label(member)} delivered {part} after {last} in {_name(part)}"
        out.violated(NAME, text, [last.row, part.row])
    for other in batch:
        if other.sender == part.sender and other.row.frame == part.row.frame:
            continue  # one frame, cut into ranges
        pair = (other.sender, other.first, part.sender, part.first)
        if pair in judged:
            continue
        judged.add(pair)
        if other.sender == part.sender or _follows(part, other, vectors):
            late, early = part, other
        elif _follows(other, part, vectors):
            late, early = other, part
        else:
            continue
        text = f"{late} follows {early}, yet both are in {_name(part)} at {label(member)}"
        out.violated(NAME, text, [early.row, late.row])


def _follows(late: Part, early: Part, vectors: Vectors) -> bool:
    if late.at < 0:
        return False
    return vectors.of(late.sender, late.at)[vectors.rank[early.sender]] >= early.first
