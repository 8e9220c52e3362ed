"""Liveness: what must be delivered in the end, asked of a run that has settled.

Only members that live to the end owe anything, and for a message only in its home, if its sender
ended there: virtual synchrony judges closed views. An accepted message must be sent, or reported as
not sent, which is right if each addressed member was missing from a view that its sender had since.
Self delivery is also owed by a member that left a message's home behind. Termination of delivery
makes no exception for crashed members.
"""

from __future__ import annotations

import numpy as np

from phalanx.pipeline.audit.group_findings import GroupFinding, known
from phalanx.pipeline.audit.integrity import views_since
from phalanx.pipeline.audit.member_masks import Words, lowest, some
from phalanx.pipeline.audit.number_ranges import Bools, cut, grid
from phalanx.pipeline.audit.prepare import PreparedGroup
from phalanx.pipeline.audit.row_coder import BASIC, SAFE

INDICATION = "safe-indication-liveness"


def liveness(p: PreparedGroup) -> None:
    _delivered(p)
    _accepted(p)


def _delivered(p: PreparedGroup) -> None:
    """Each cell that was sent is where it must be."""
    cells, facts, sends, out = p.cells, p.facts, p.sends, p.out
    at = np.flatnonzero(cells.sent >= 0)
    if not len(at):
        return
    i = cells.sent[at]
    s, c1, c2 = sends.s[i], cells.grid.first[at], cells.grid.last[at]
    closed, due_all, due_live = facts.owed(s, sends.home[i])
    meant, had = facts.meant[sends.t[i]], cells.had[at]
    own = facts.is_meant(sends.t[i], s) & (facts.lasting[s] | closed)
    lack, late = due_all & meant & ~had, due_live & meant & ~had
    unsure = due_live & meant & had & ~cells.had_regular[at]
    live = some(due_live & meant)
    safe, basic = sends.service[i] == SAFE, sends.service[i] == BASIC
    out.asked("self-delivery", own.sum())
    out.asked("termination-of-delivery", some(due_all & meant).sum())
    out.asked("multicast-liveness", live.sum())
    out.asked(INDICATION, (live & safe).sum())
    out.asked("basic", (live & basic).sum())
    not_own = own & ~some(had & facts.masks.bits[s])
    cases: list[tuple[str, Bools, Words | None]] = [
        ("self-delivery/", not_own, None),
        ("termination-of-delivery/", some(lack), lack),
        ("multicast-liveness/missing", some(late), late),
        (f"{INDICATION}/missing", some(late) & safe, late),
        ("basic/missing", some(late) & basic, late),
        (f"{INDICATION}/region", some(unsure) & safe, unsure),
    ]
    for kind, bad, whom in cases:

        def shown(j: int, kind: str = kind, whom: Words | None = whom) -> GroupFinding:
            who = int(s[j])
            other = None if whom is None else lowest(whom[j])
            about = (who, int(c1[j]), int(c2[j]), int(sends.v[i[j]]), known(int(sends.home[i[j]])))
            return GroupFinding(kind, who, other, *about, rows=((who, int(sends.lseq[i[j]])),))

        out.add_each(kind, bad, s, c1, shown)


def _accepted(p: PreparedGroup) -> None:
    """Every accepted message is sent, or reported and rightly so."""
    given, sends, facts, out = p.submissions, p.sends, p.facts, p.out
    lost = p.columns.not_sent
    nobody = lost.at(lost.rest == 0)
    if not len(given):
        return
    cells = grid(
        (given.s, given.first, given.last),
        (sends.s, sends.first, sends.last),
        (nobody.s, nobody.first, nobody.last),
    )
    size = len(cells.points)
    taken, sent, reported, own = (np.zeros(size, dtype=bool) for _ in range(4))
    row, cell = cut(cells, given.s, given.first, given.last)
    taken[cell] = True
    own[cell[facts.is_meant(given.t, given.s)[row]]] = True
    sent[cut(cells, sends.s, sends.first, sends.last).cell] = True
    reported[cut(cells, nobody.s, nobody.first, nobody.last).cell] = True
    at = np.flatnonzero(taken)
    at = at[p.counts(cells.key[at], cells.first[at])]
    s = cells.key[at]
    lasting = facts.lasting[s]
    unsent = lasting & ~sent[at] & ~reported[at]
    mine = unsent & own[at]
    out.asked("integrity", (sent[at] & ~facts.torn[s]).sum())
    out.asked("multicast-liveness", lasting.sum())
    out.asked("self-delivery", mine.sum())
    for kind, bad in (("multicast-liveness/unsent", unsent), ("self-delivery/accepted", mine)):

        def shown(j: int, kind: str = kind) -> GroupFinding:
            about = (int(s[j]), int(cells.first[at[j]]), int(cells.last[at[j]]))
            return GroupFinding(kind, int(s[j]), None, *about)

        out.add_each(kind, bad, s, cells.first[at], shown)
    for i in np.flatnonzero(facts.lasting[nobody.s]).tolist():
        _reported(p, i)


def _reported(p: PreparedGroup, report: int) -> None:
    """A report that messages go to nobody. Views count from the one that they were accepted in to
    the one at the end of the step that reports it."""
    lost, given = p.columns.not_sent, p.submissions
    row = lost.at(lost.rest == 0)
    s, low, high = int(row.s[report]), int(row.first[report]), int(row.last[report])
    step, lseq = int(row.step[report]), int(row.lseq[report])
    begin, end = np.searchsorted(given.s, s), np.searchsorted(given.s, s, side="right")
    for i in range(int(begin), int(end)):
        if given.first[i] > high or given.last[i] < low:
            continue
        views = views_since(p, s, int(given.lseq[i]), lambda _, at: at <= step)
        if not views:
            continue
        here = {name for name in views[0] if all(name in inside for inside in views)}
        t = int(given.t[i])
        if t >= 0:
            meant = p.facts.sets[t]
            if meant.to_incarnations is None:
                here = {name for name in here if name.rpartition(".")[0] in meant.to}
            else:
                here &= set(meant.names)
        if here and p.counts_one(s, max(low, int(given.first[i]))):
            about = (s, max(low, int(given.first[i])), min(high, int(given.last[i])))
            rows = ((s, int(given.lseq[i])), (s, lseq))
            kind = "multicast-liveness/reported"
            p.out.add(GroupFinding(kind, s, None, *about, note=min(here), rows=rows))
