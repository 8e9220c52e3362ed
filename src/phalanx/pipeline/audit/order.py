"""Order of agreed and safe messages (running prefix, weak total order), and of batches.

Positions count every ordered message of the view, whether it was addressed to the member or not. So
a hole at a member is legal exactly where another member shows that the message there was not for
it. Members that went through a view alike (`routes`) have one order in it. If each message has one
position and positions rise, sequences do not differ; only where that fails are sequences compared.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from phalanx.pipeline.audit.group_findings import GroupFinding
from phalanx.pipeline.audit.member_masks import some
from phalanx.pipeline.audit.message_columns import Deliveries
from phalanx.pipeline.audit.number_ranges import (
    NONE,
    Bools,
    Longs,
    cut,
    grid,
    group_ends,
    group_starts,
    order_of,
)
from phalanx.pipeline.audit.prepare import PreparedGroup
from phalanx.pipeline.audit.row_coder import AGREED, BASIC
from phalanx.pipeline.audit.synchrony import on_routes

PREFIX, WEAK, TOTO = "running-prefix", "weak-total-order", "toto-refinement"


def total_order(p: PreparedGroup) -> None:
    rising(p)
    one_position(p)
    one_message(p)
    for v in sorted(p.out.disordered):
        weak_total_order(p, v)


def _note(p: PreparedGroup, views: Longs, bad: Bools | Longs) -> None:
    """Views in which there is no one order of positions."""
    p.out.disordered.update(np.unique(views[bad]).tolist())


# ---------------------------------------------------------------------------- per member


def rising(p: PreparedGroup) -> None:
    """Positions and batches of a member rise in a view. Basic messages have none."""
    d = p.deliveries
    d = d.at(order_of(d.k, d.v, d.lseq, d.first))
    compared = p.facts.is_compared(d.k, d.v) & (d.service != BASIC)
    ordered = d.service >= AGREED
    placed, batched = ordered & (d.pos != NONE), (d.service != BASIC) & (d.batch != NONE)
    before = _last_before(d, placed)
    batch_before = _last_before(d, batched)
    end = d.pos + d.last - d.first
    back = compared & placed & (before >= 0) & (d.pos <= end[before])
    cut_back = (
        compared & (d.batch != NONE) & (batch_before >= 0) & (d.batch < d.batch[batch_before])
    )
    cases = [
        (f"{PREFIX}/placeless", compared & ordered & (d.pos == NONE), None),
        (f"{PREFIX}/back", back, before),
        (f"{TOTO}/back", cut_back, batch_before),
    ]
    for kind, bad, earlier in cases:

        def shown(i: int, kind: str = kind, earlier: Longs | None = earlier) -> GroupFinding:
            k = int(d.k[i])
            rows: list[tuple[int, int]] = [(k, int(d.lseq[i]))]
            note = None
            if earlier is not None:
                j = int(earlier[i])
                rows.insert(0, (k, int(d.lseq[j])))
                note = f"{d.pos[i]} after position {end[j]}"
                if kind.startswith(TOTO):
                    note = f"from batch {d.batch[j]} to {d.batch[i]}"
            about = (int(d.s[i]), int(d.first[i]), int(d.last[i]), int(d.v[i]))
            return GroupFinding(kind, k, None, *about, note=note, rows=tuple(rows))

        p.out.add_each(kind, bad, d.s, d.first, shown)
        if kind.startswith(PREFIX):
            _note(p, d.v, bad)


def _last_before(d: Deliveries, which: Bools) -> Longs:
    """For each row, the last of these rows before it at the same member in the same view; -1
    without one."""
    size = len(d)
    if not size:
        return np.zeros(0, dtype=np.int64)
    here = np.maximum.accumulate(np.where(which, np.arange(size), -1))
    before = np.concatenate([[-1], here[:-1]])
    starts = group_starts(d.k, d.v)
    begin = np.repeat(starts, np.diff(np.append(starts, size)))
    return np.where(before >= begin, before, -1)


# ---------------------------------------------------------------------------- per route


def one_position(p: PreparedGroup) -> None:
    """Each message has one position and one batch on a route, and no member skips it."""
    way, route, pos = _claims(p)
    for what, values in (("pos", pos), ("batch", p.cells.ways.batch[way])):
        _moved(p, way, route, values, what)
    _skipped(p, way, route, pos)


def one_message(p: PreparedGroup) -> None:
    """Each position of a route has one message."""
    _taken(p, *_claims(p))


def _claims(p: PreparedGroup) -> tuple[Longs, Longs, Longs]:
    """Ways with a position or a batch on the routes that they are of, and the positions."""
    w, facts = p.cells.ways, p.facts
    claims = np.flatnonzero((w.service != BASIC) & ((w.pos != NONE) | (w.batch != NONE)))
    way, route = on_routes(p, claims)
    here = some(p.cells.mask[way] & facts.along[route])
    way, route = way[here], route[here]
    return way, route, np.where(w.service[way] >= AGREED, w.pos[way], NONE)


def _moved(p: PreparedGroup, way: Longs, route: Longs, values: Longs, what: str) -> None:
    """One message at two positions, or in two batches."""
    w = p.cells.ways
    there = values != NONE
    way, route, values = way[there], route[there], values[there]
    order = np.lexsort((w.lseq[way], w.k[way], values, route, w.cell[way]))
    way, route, values = way[order], route[order], values[order]
    starts = group_starts(w.cell[way], route)
    ends = group_ends(starts, len(way))
    bad = values[starts] != values[ends]
    kind, word = (f"{PREFIX}/moved", "") if what == "pos" else (f"{TOTO}/apart", "in batch ")

    def shown(i: int) -> GroupFinding:
        a, b = int(way[starts[i]]), int(way[ends[i]])
        one, two = values[starts[i]], values[ends[i]]
        note = f"{word}{one}, another {word or 'at '}{two}"
        about = (int(w.s[a]), int(w.c1[a]), int(w.c2[a]), int(w.v[a]))
        rows = ((int(w.k[a]), int(w.lseq[a])), (int(w.k[b]), int(w.lseq[b])))
        return GroupFinding(kind, int(w.k[a]), int(w.k[b]), *about, note=note, rows=rows)

    first = way[starts]
    p.out.add_each(kind, bad, w.s[first], w.c1[first], shown)
    if what == "pos":
        _note(p, w.v[first], bad)


def _taken(p: PreparedGroup, way: Longs, route: Longs, pos: Longs) -> None:
    """Two messages at one position."""
    w = p.cells.ways
    there = pos != NONE
    way, route, pos = way[there], route[there], pos[there]
    end = pos + w.c2[way] - w.c1[way]
    order = np.lexsort((w.lseq[way], w.k[way], w.cell[way], end, pos, route))
    way, route, pos, end = way[order], route[order], pos[order], end[order]
    one = group_starts(route, pos, end, w.cell[way])
    way, route, pos, end = way[one], route[one], pos[one], end[one]
    if len(way) < 2:
        return
    low = int(min(pos.min(), 0))
    key = route * (int(end.max()) - low + 2) + (end - low)
    highest = np.maximum.accumulate(key)
    holding = np.maximum.accumulate(np.where(key == highest, np.arange(len(key)), 0))
    held = holding[:-1]
    bad = np.flatnonzero((route[held] == route[1:]) & (pos[1:] <= end[held])) + 1
    if p.positions is not None:
        low, high = p.positions
        bad = bad[(pos[bad] >= low) & (pos[bad] < high)]

    def shown(i: int) -> GroupFinding:
        a, b = int(way[i]), int(way[holding[i - 1]])
        about = (int(w.s[a]), int(w.c1[a]), int(w.c2[a]), int(w.v[a]))
        rows = ((int(w.k[b]), int(w.lseq[b])), (int(w.k[a]), int(w.lseq[a])))
        note = f"{pos[i]}, where another message is"
        return GroupFinding(
            f"{PREFIX}/taken", int(w.k[a]), int(w.k[b]), *about, note=note, rows=rows
        )

    p.out.add_each(f"{PREFIX}/taken", bad, w.s[way], w.c1[way], shown)
    _note(p, w.v[way], bad)


def _skipped(p: PreparedGroup, way: Longs, route: Longs, pos: Longs) -> None:
    """A hole below a position that a member has, where another has a message for it."""
    w, facts = p.cells.ways, p.facts
    lack = facts.ordered[route] & facts.meant[p.cells.meant[way]] & ~p.cells.placed[way]
    holes = np.flatnonzero(some(lack) & (pos != NONE))
    for r in np.unique(route[holes]).tolist():
        mine = holes[route[holes] == r]
        for k, highest in facts.climbers[r]:
            lacks = some(lack[mine] & facts.masks.bits[k]) & (pos[mine] < highest)
            bad = mine[lacks]

            def shown(i: int, k: int = k) -> GroupFinding:
                j = int(way[i])
                about = (int(w.s[j]), int(w.c1[j]), int(w.c2[j]), int(w.v[j]))
                rows = ((int(w.k[j]), int(w.lseq[j])),)
                note = str(pos[i])
                return GroupFinding(
                    f"{PREFIX}/skipped", int(w.k[j]), k, *about, note=note, rows=rows
                )

            p.out.add_each(f"{PREFIX}/skipped", bad, w.s[way], w.c1[way], shown)
            _note(p, w.v[way], bad)


# ---------------------------------------------------------------------------- pair by pair


def weak_total_order(p: PreparedGroup, v: int) -> None:
    """Each two members that moved on together delivered what both have in one order. Asked of a
    view in which positions are broken, message by message and pair by pair."""
    d = p.deliveries
    d = d.at((d.v == v) & (d.service >= AGREED))
    together: dict[int, list[int]] = {}
    for route in p.facts.routes:
        if route.v == v and route.w is not None:
            together.setdefault(route.w, []).extend(m.k for m in route.members)
    for w, members in together.items():
        mine = d.at(np.isin(d.k, members))
        cells = grid((mine.s, mine.first, mine.last))
        row, cell = cut(cells, mine.s, mine.first, mine.last)
        sequences = {k: np.flatnonzero(mine.k[row] == k) for k in members}
        for a, b in combinations(sorted(sequences), 2):
            _compare(
                p, mine, v, w, (sequences[a], sequences[b]), row, cell, cells.first, cells.last
            )


def _compare(
    p: PreparedGroup,
    d: Deliveries,
    v: int,
    w: int,
    pair: tuple[Longs, Longs],
    row: Longs,
    cell: Longs,
    c1: Longs,
    c2: Longs,
) -> None:
    one, two = (some_cells[np.argsort(cell[some_cells], kind="stable")] for some_cells in pair)
    _, i, j = np.intersect1d(cell[one], cell[two], return_indices=True)
    one, two = one[i], two[j]
    if len(one) < 2:
        return
    order = np.lexsort((c1[cell[one]], d.lseq[row[one]]))
    one, two = one[order], two[order]
    lseq, first = d.lseq[row[two]], c1[cell[two]]
    bad = np.flatnonzero(
        (lseq[1:] < lseq[:-1]) | ((lseq[1:] == lseq[:-1]) & (first[1:] < first[:-1]))
    )
    bad = bad + 1

    def shown(x: int) -> GroupFinding:
        a, b, last = int(row[one[x]]), int(row[two[x]]), int(cell[one[x - 1]])
        who = (int(d.k[a]), int(d.k[b]))
        about = (int(d.s[a]), int(c1[cell[one[x]]]), int(c2[cell[one[x]]]), v, w)
        label = p.run.members[int(d.s[row[one[x - 1]]])].label
        rows = ((who[0], int(d.lseq[a])), (who[1], int(d.lseq[b])))
        return GroupFinding(f"{WEAK}/", *who, *about, note=f"{label}#{c1[last]}", rows=rows)

    p.out.add_each(f"{WEAK}/", bad, d.s[row[one]], c1[cell[one]], shown)
