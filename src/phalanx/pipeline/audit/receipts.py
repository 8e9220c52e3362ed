"""Receipt truth: the receipts that a sender gets for its own messages are true.

A receipt speaks of messages that were sent, unless they were reported as going to nobody, and of
the view that they belong to; in older journals it may name the view before. A receipt of stability
promises that the members of the view have them: those that left the view behind, or stay in it to
the end, delivered them there. A receipt that all delivered promises that every addressed member of
the view, or of those that it names, had delivered them in the view.
"""

from __future__ import annotations

import numpy as np

from phalanx.pipeline.audit.group_findings import GroupFinding, GroupFindings
from phalanx.pipeline.audit.member_masks import Words, lowest, some
from phalanx.pipeline.audit.message_columns import NotSentRows, ReceiptRows
from phalanx.pipeline.audit.number_ranges import (
    NONE,
    Bools,
    Longs,
    counted,
    group_starts,
    holder,
    number_of,
    packed,
    repeated,
)
from phalanx.pipeline.audit.prepare import PreparedGroup
from phalanx.pipeline.audit.reports import promises

TRUTH = "receipt-truth"


def receipts(p: PreparedGroup) -> None:
    promised = _promised(p)
    for rows, stable in ((p.columns.stable, True), (p.columns.ordered, False)):
        rows = rows.at(~p.facts.torn[rows.s])
        if len(rows):
            _judge(p, rows, stable, promised)
    if p.first:
        _foreign(p)
    _all_delivered(p)


def _promised(p: PreparedGroup) -> dict[tuple[int, int], Words]:
    """Per receipt at the end of a view, the members of which it speaks."""
    return {
        (member.k, row.lseq): p.facts.masks.of(m.k for m in come)
        for member, row, come in promises(p.run, p.out if p.first else GroupFindings())
    }


def newly(group: Longs, upto: Longs) -> Longs:
    """The first number that each receipt newly speaks of. Rows of a group follow each other."""
    starts = group_starts(group)
    counts = np.diff(np.append(starts, len(group)))
    dense = np.repeat(np.arange(len(starts)), counts)
    highest = number_of(np.maximum.accumulate(packed(dense, upto)))
    before = np.concatenate([[0], highest[:-1]])
    before[starts] = 0
    return before + 1


def _spoken_before(p: PreparedGroup, rows: ReceiptRows, stable: bool) -> Longs:
    """Per member, the number up to which receipts spoke before the rows that are here. If that is
    not known, the first receipt that is here is not judged."""
    found = np.zeros(len(p.run.members) + 1, dtype=np.int64)
    for m in p.run.known:
        excerpt = m.excerpt
        upto = excerpt.stable if stable else excerpt.ordered
        if upto is None:
            mine = rows.upto[rows.s == m.k]
            upto = int(mine[0]) if len(mine) else 0
        found[m.k] = max(upto, excerpt.sent) if excerpt.is_cut else 0
    return found


def _cells_of(p: PreparedGroup, s: Longs, first: Longs, last: Longs) -> tuple[Longs, Longs]:
    """Ranges of numbers as the sent cells that they meet: index of the range, and cell."""
    points = p.cells.grid.points
    low = np.searchsorted(points, packed(s, first), side="right") - 1
    high = np.searchsorted(points, packed(s, last), side="right") - 1
    low = np.maximum(low, 0)
    counts = np.maximum(np.minimum(high, len(points) - 2) - low + 1, 0)
    row = repeated(counts)
    cell = low[row] + counted(counts)
    if not len(cell):
        return row, cell
    fits = (p.cells.sent[cell] >= 0) & (p.cells.grid.key[cell] == s[row])
    return row[fits], cell[fits]


def _judge(
    p: PreparedGroup, rows: ReceiptRows, stable: bool, promised: dict[tuple[int, int], Words]
) -> None:
    facts, cells, sends = p.facts, p.cells, p.sends
    first = np.maximum(newly(rows.s, rows.upto), _spoken_before(p, rows, stable)[rows.s] + 1)
    if p.stretch is not None:
        first = np.maximum(first, p.stretch.low[rows.s])
        rows.upto = np.minimum(rows.upto, p.stretch.high[rows.s] - 1)
    new = first <= rows.upto
    rows, first = rows.at(new), first[new]
    row, cell = _cells_of(p, rows.s, first, rows.upto)
    c1 = np.maximum(cells.grid.first[cell], first[row])
    c2 = np.minimum(cells.grid.last[cell], rows.upto[row])
    _unsent(p, rows, first, row, c1, c2)
    s, v, at = rows.s[row], rows.v[row], cells.sent[cell]
    home = sends.home[at]
    apart = (home >= 0) & (home != v)
    elsewhere = apart & facts.tells[s]
    speaks = stable & ~rows.foreign[row] & ~apart
    asked = facts.masks.everybody(len(rows))
    for i, key in enumerate(zip(rows.s.tolist(), rows.lseq.tolist(), strict=True)):
        if key in promised:
            asked[i] = promised[key]
    own = facts.masks.bits[s]
    absent = asked[row] & facts.absent[v] & ~own
    lack = asked[row] & facts.duty[v] & facts.meant[sends.t[at]]
    lack &= ~(cells.had_in(cell, v) | own)
    cases: list[tuple[str, Bools, Words | None]] = [
        (f"{TRUTH}/home", elsewhere, None),
        (f"{TRUTH}/absent", speaks & some(absent), absent),
        (f"{TRUTH}/missing", speaks & some(lack), lack),
    ]
    for kind, bad, whom in cases:

        def shown(i: int, kind: str = kind, whom: Words | None = whom) -> GroupFinding:
            who = int(s[i])
            other = None if whom is None else lowest(whom[i])
            about = (who, int(c1[i]), int(c2[i]), int(v[i]))
            second = int(home[i]) if kind.endswith("/home") else None
            shown = ((who, int(sends.lseq[at[i]])), (who, int(rows.lseq[row[i]])))
            return GroupFinding(kind, who, other, *about, second, rows=shown)

        p.out.add_each(kind, bad, s, c1, shown)


def _unsent(
    p: PreparedGroup,
    rows: ReceiptRows,
    first: Longs,
    row: Longs,
    c1: Longs,
    c2: Longs,
) -> None:
    """Messages of which a receipt speaks, and that were neither sent nor reported as going to
    nobody."""
    lost = p.columns.not_sent
    nobody = lost.at(lost.rest == 0)
    covered = np.zeros(len(rows), dtype=np.int64)
    np.add.at(covered, row, c2 - c1 + 1)
    for i in np.flatnonzero(covered < rows.upto - first + 1).tolist():
        mine = row == i
        holes = _gaps(int(first[i]), int(rows.upto[i]), c1[mine], c2[mine])
        s = int(rows.s[i])
        for low, high in holes:
            excused = nobody.at((nobody.s == s) & (nobody.first <= high) & (nobody.last >= low))
            for a, b in _gaps(low, high, *_merged(excused)):
                rows_shown = ((s, int(rows.lseq[i])),)
                about = (s, a, b, int(rows.v[i]))
                p.out.add(GroupFinding(f"{TRUTH}/unsent", s, None, *about, rows=rows_shown))


def _merged(rows: NotSentRows) -> tuple[Longs, Longs]:
    order = np.argsort(rows.first, kind="stable")
    return rows.first[order], rows.last[order]


def _gaps(low: int, high: int, firsts: Longs, lasts: Longs) -> list[tuple[int, int]]:
    """What of low..high none of the ranges has; they are sorted by their first numbers."""
    found = []
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        if first > low:
            found.append((low, min(first - 1, high)))
        low = max(low, last + 1)
        if low > high:
            break
    if low <= high:
        found.append((low, high))
    return found


def _foreign(p: PreparedGroup) -> None:
    """Receipts for messages of another member."""
    rows = p.columns.stable
    bad = np.flatnonzero(rows.foreign & ~p.facts.torn[rows.s])
    if not len(bad):
        return
    table = p.columns.tables["stable"]
    whose = {
        (p.columns.rank_of_journal[journal], lseq): f"{sender}.{incarnation}"
        for journal, lseq, sender, incarnation in zip(
            *(
                table.column(name).to_pylist()
                for name in ("journal", "lseq", "sender", "sender_incarnation")
            ),
            strict=True,
        )
    }

    def shown(i: int) -> GroupFinding:
        key = int(rows.s[i]), int(rows.lseq[i])
        return GroupFinding(f"{TRUTH}/foreign", who=key[0], note=whose[key], rows=(key,))

    p.out.add_each(f"{TRUTH}/foreign", bad, rows.s, rows.lseq, shown)


# ---------------------------------------------------------------------------- delivered by all


def _all_delivered(p: PreparedGroup) -> None:
    """Each member that a receipt is about delivered the messages of the view, up to its number, in
    the view. Time is compared where there is one clock; a journal that just ends may lack the
    delivery."""
    table, facts, d = p.columns.tables["all_delivered"], p.facts, p.deliveries
    if not table.num_rows:
        return
    asked = _asked_members(p)
    if not len(asked):
        return
    s, v, k, lseq, upto, at_ns = asked.T
    order = np.lexsort((lseq, k, v, s))
    s, v, k, lseq, upto, at_ns = (c[order] for c in (s, v, k, lseq, upto, at_ns))
    starts = group_starts(s, v, k)
    group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(s))))
    first = newly(group, upto)
    new = np.flatnonzero(first <= upto)
    row, cell = _cells_of(p, s[new], first[new], upto[new])
    at, row = p.cells.sent[cell], new[row]
    due = (p.sends.home[at] == v[row]) & facts.is_meant(p.sends.t[at], k[row])
    row, cell, at = row[due], cell[due], at[due]
    c1 = np.maximum(p.cells.grid.first[cell], first[row])
    c2 = np.minimum(p.cells.grid.last[cell], upto[row])
    members = len(p.run.members)
    by = np.lexsort((d.first, d.s, d.k))
    pair = d.k[by] * members + d.s[by]
    had = holder(packed(pair, d.first[by]), d.last[by], pair, k[row] * members + s[row], c1)
    there = had >= 0
    delivery = by[np.where(there, had, 0)] if len(by) else np.zeros(len(had), dtype=np.int64)
    if len(d):
        there &= d.v[delivery] == v[row]
        late = there & (at_ns[row] != NONE) & (d.ns[delivery] != NONE)
        late &= d.ns[delivery] > at_ns[row]
    else:
        late = there
    bad = (~there & ((at_ns[row] != NONE) | facts.whole[k[row]])) | late

    def shown(i: int) -> GroupFinding:
        r = int(row[i])
        who = int(s[r])
        rows = ((who, int(p.sends.lseq[at[i]])), (who, int(lseq[r])))
        about = (who, int(c1[i]), int(c2[i]), int(v[r]))
        return GroupFinding(f"{TRUTH}/undelivered", who, int(k[r]), *about, rows=rows)

    p.out.add_each(f"{TRUTH}/undelivered", bad, s[row], c1, shown)


def _asked_members(p: PreparedGroup) -> Longs:
    """Rows of sender, view, member, row, number and time: each receipt with each member that it is
    about and that has a whole journal."""
    run, facts = p.run, p.facts
    names = ("journal", "lseq", "view", "upto", "sim_ns", "members", "member_incarnations")
    table = p.columns.tables["all_delivered"]
    found = []
    for journal, lseq, view, upto, ns, members, incarnations in zip(
        *(table.column(name).to_pylist() for name in names), strict=True
    ):
        s, v = p.columns.rank_of_journal[journal], p.columns.view_number(view)
        if facts.torn[s]:
            continue
        if members is None:
            known = run.views.get(v)
            about = set() if known is None else known.inside
        else:
            about = {f"{m}.{i}" for m, i in zip(members, incarnations, strict=True)}
        at_ns = ns if run.settled and ns is not None else NONE
        for name in sorted(about):
            m = run.by_label.get(name)
            if m is not None and m.journal is not None and not m.torn:
                found.append((s, v, m.k, lseq, upto, at_ns))
    return np.array(found, dtype=np.int64).reshape(-1, 6)
