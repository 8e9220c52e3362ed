"""In which view a message is delivered: sending view, same view, and initial view.

In mode `hold` a message is delivered in the view it was sent in. In mode `flow` one that was sent
during a change (phase 1) is carried into the next view; members that part may then deliver it in
different views, but two that were both in both of these views may not.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from phalanx.pipeline.audit.group_findings import GroupFinding, known, shown_rows
from phalanx.pipeline.audit.member_masks import Words
from phalanx.pipeline.audit.number_ranges import Bools, Longs, group_starts
from phalanx.pipeline.audit.prepare import PreparedGroup
from phalanx.pipeline.audit.row_coder import BASIC


def delivery_view(p: PreparedGroup) -> None:
    _moved(p)
    _several(p)


def initial_view(p: PreparedGroup) -> None:
    """Each row names the view that its member is in."""
    d, s, m = p.deliveries, p.sent_rows, p.columns.markers
    s, m = s.at(p.counts_member(s.s)), m.at(p.counts_member(m.k))
    _misplaced(p, "delivered", d.k, d.lseq, d.v, d.s, d.first, d.last)
    again = p.repeated
    if len(again):
        _misplaced(p, "delivered", again.k, again.lseq, again.v, again.s, again.first, again.last)
    _misplaced(p, "sent", s.s, s.lseq, s.v, s.s, s.first, s.last)
    none = np.full(len(m), -1, dtype=np.int64)
    _misplaced(p, "marked", m.k, m.lseq, m.v, none, none, none)


def _moved(p: PreparedGroup) -> None:
    """Delivered in another view than it was sent in, where that is forbidden."""
    w, sends = p.cells.ways, p.sends
    sent = np.flatnonzero(w.sent >= 0)
    if not len(sent):
        return
    at = w.sent[sent]
    hold = p.run.mode == "hold"
    if hold:
        p.out.asked("sending-view", np.where(w.head, w.n, 0)[sent].sum())
    moved = w.v[sent] != sends.v[at]
    early = moved & (sends.phase[at] == 0) & (w.service[sent] != BASIC)
    kind, bad = ("sending-view/", moved) if hold else ("same-view/moved", early)
    if not hold:
        p.out.asked("same-view", early.sum())

    def shown(j: int) -> GroupFinding:
        i, a = int(sent[j]), int(at[j])
        s, k = int(w.s[i]), int(w.k[i])
        about = (s, int(w.c1[i]), int(w.c2[i]), int(w.v[i]), int(sends.v[a]))
        rows = ((s, int(sends.lseq[a])), (k, int(w.lseq[i])))
        return GroupFinding(kind, k, None, *about, rows=rows)

    p.out.add_each(kind, bad, w.s[sent], w.c1[sent], shown)


def _several(p: PreparedGroup) -> None:
    """Two views of one cell: a member that delivered it in one installed the other as well, and
    the other way round."""
    w, cells = p.cells.ways, p.cells
    mine = (w.sent >= 0) & (w.service != BASIC)
    heads = mine & w.head
    ranges = len(np.unique(w.sent[heads]))
    p.out.asked("same-view", w.n[heads].sum() - ranges)
    odd = np.flatnonzero(mine & cells.several)
    if not len(odd):
        return
    starts = [*group_starts(w.cell[odd]).tolist(), len(odd)]
    judged: dict[bytes, list[tuple[int, int]]] = {}
    for begin, end in pairwise(starts):
        ways = odd[begin:end]
        views, masks = w.v[ways], cells.mask[ways]
        key = views.tobytes() + masks.tobytes()
        if key not in judged:
            judged[key] = _crossed(p, views, masks)
        for a, b in judged[key]:
            i, j = int(ways[a]), int(ways[b])
            rows = ((int(w.k[i]), int(w.lseq[i])), (int(w.k[j]), int(w.lseq[j])))
            about = (int(w.s[i]), int(w.c1[i]), int(w.c2[i]), int(w.v[i]), int(w.v[j]))
            who = (int(w.k[i]), int(w.k[j]))
            p.out.add(GroupFinding("same-view/several", *who, *about, rows=rows))


def _crossed(p: PreparedGroup, views: Longs, masks: Words) -> list[tuple[int, int]]:
    """Pairs of ways whose members were in each other's view; each pair of views once."""
    first: dict[int, int] = {}
    have: dict[int, Words] = {}
    for i, v in enumerate(views.tolist()):
        first.setdefault(v, i)
        have[v] = have[v] | masks[i] if v in have else masks[i]
    installed, hold = p.facts.installed, p.run.mode == "hold"
    return [
        (first[v], first[w])
        for v in first
        for w in first
        if v < w and (hold or ((have[v] & installed[w]).any() and (have[w] & installed[v]).any()))
    ]


def _misplaced(
    p: PreparedGroup, did: str, k: Longs, lseq: Longs, v: Longs, s: Longs, first: Longs, last: Longs
) -> None:
    """Rows that name another view than their member was in. A torn journal may lack its install."""
    now = p.facts.where(k, lseq).now
    bad: Bools = ~p.facts.torn[k] & (now != v)

    def shown(i: int) -> GroupFinding:
        about = (known(int(s[i])), known(int(first[i])), known(int(last[i])))
        rows = shown_rows((int(k[i]), int(lseq[i])))
        views = (int(v[i]), known(int(now[i])))
        return GroupFinding(f"initial-view/{did}", int(k[i]), None, *about, *views, rows=rows)

    p.out.add_each(f"initial-view/{did}", bad, s, first, shown)
