"""Merged views report how far each of their components had delivered: the members of it that come
along, when they proposed the view.

A component had delivered the highest number that one of these had. Where a journal does not show
that of one of them, more may be reported than the others show, but not less.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phalanx.pipeline.audit.chronicle import Chronicle
from phalanx.pipeline.audit.group_findings import GroupFinding, GroupFindings
from phalanx.pipeline.audit.message_columns import Deliveries
from phalanx.pipeline.audit.number_ranges import Longs
from phalanx.pipeline.audit.prepare import PreparedGroup
from phalanx.pipeline.audit.reports import proposals

KIND = "merge-report-truth/upto"


Upto = Callable[[int, list[int]], dict[int, Longs]]
"""Of a member and some of its rows: per row, the highest number that it had delivered of each
sender."""


def merges(p: PreparedGroup) -> None:
    judge_merges(p.run, p.out, lambda k, rows: upto(p.rows, k, rows, len(p.run.members)))


def judge_merges(run: Chronicle, out: GroupFindings, upto_of: Upto) -> None:
    reports = list(proposals(run, out))
    asked: dict[int, set[int]] = {}
    for _, _, came in reports:
        for m, proposal in came:
            if m is not None and proposal is not None:
                asked.setdefault(m.k, set()).add(proposal.lseq)
    delivered = {k: upto_of(k, sorted(rows)) for k, rows in asked.items()}
    for k, by_row in delivered.items():
        before = _before(run, k)
        for row, numbers in by_row.items():
            by_row[row] = np.maximum(numbers, before)
    for by, side, came in reports:
        real = np.zeros(len(run.members), dtype=np.int64)
        for m, proposal in came:
            if m is not None and proposal is not None:
                real = np.maximum(real, delivered[m.k][proposal.lseq])
        complete = all(proposal is not None for _, proposal in came)
        reported = np.zeros(len(run.members), dtype=np.int64)
        for sender, number in zip(side.delivered, side.delivered_upto, strict=True):
            reported[run.by_label[sender].k] = number
        for s in np.flatnonzero((reported < real) | (complete & (reported > real))).tolist():
            about = (s, int(real[s]), int(real[s]), side.v, side.w)
            rows = ((by.k, side.lseq),)
            out.add(GroupFinding(KIND, by.k, None, *about, note=str(reported[s]), rows=rows))


def _before(run: Chronicle, k: int) -> Longs:
    """The highest numbers that a member had delivered before the rows that are here."""
    found = np.zeros(len(run.members), dtype=np.int64)
    for label, number in (run.members[k].excerpt.delivered or {}).items():
        if label in run.by_label:
            found[run.by_label[label].k] = number
    return found


def upto(d: Deliveries, k: int, rows: list[int], members: int) -> dict[int, Longs]:
    """The highest number that a member had delivered of each sender, up to each of these rows."""
    begin, end = np.searchsorted(d.k, k), np.searchsorted(d.k, k, side="right")
    lseq, s, last = (column[begin:end] for column in (d.lseq, d.s, d.last))
    high = np.zeros(members, dtype=np.int64)
    found, at = {}, 0
    for row in rows:
        until = int(np.searchsorted(lseq, row, side="right"))
        np.maximum.at(high, s[at:until], last[at:until])
        found[row], at = high.copy(), until
    return found
