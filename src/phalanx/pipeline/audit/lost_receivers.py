"""Not-sent liveness: addressed members that are gone are reported to the sender, and no others.

An addressed member that is missing from the view that a message belongs to is reported; a member
that is reported before the message is sent never delivers it. These rows are few: they are judged
one by one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from phalanx.pipeline.audit.group_findings import GroupFinding, known
from phalanx.pipeline.audit.integrity import views_since
from phalanx.pipeline.audit.member_masks import lowest
from phalanx.pipeline.audit.number_ranges import cut, grid, holder, number_of, packed, packed_one
from phalanx.pipeline.audit.prepare import PreparedGroup

NOT_SENT = "not-sent-liveness"


class LostReport(NamedTuple):
    """A report of lost receivers, of a journal that is not torn."""

    s: int
    first: int
    last: int
    lseq: int
    step: int
    rest: int
    t: int
    """The members that are gone, as a set; -1 if all are, or in older journals."""
    gone: list[str] | None
    """Their names; None in older journals."""
    ended: bool
    """Nothing of the step is missing."""


def lost_receivers(p: PreparedGroup) -> None:
    reports = _reports(p)
    if p.facts.sets:
        _unreported(p, reports)
    for report in reports:
        _delivered(p, report)
    _pieces(p, reports)


def _reports(p: PreparedGroup) -> list[LostReport]:
    rows, run = p.columns.not_sent, p.run
    found = []
    for i in np.flatnonzero(~p.facts.torn[rows.s]).tolist():
        m = run.members[int(rows.s[i])]
        step, rest, t = int(rows.step[i]), int(rows.rest[i]), int(rows.t[i])
        last_step = None if run.whole(m) else m.last_step
        names = p.facts.sets[t] if t >= 0 else None
        gone = None if names is None or names.to_incarnations is None else names.names
        found.append(
            LostReport(
                *(m.k, int(rows.first[i]), int(rows.last[i]), int(rows.lseq[i]), step, rest),
                t=t if rest > 0 and gone is not None else -1,
                gone=gone,
                ended=last_step is None or step < last_step,
            )
        )
    return found


def _unreported(p: PreparedGroup, reports: list[LostReport]) -> None:
    """Of subset messages: addressed members that are not in their home, and no report names."""
    facts, sends = p.facts, p.sends
    exact = np.array([found.to_incarnations is not None for found in facts.sets] + [False])
    given = p.submissions
    given = given.at(facts.tells[given.s] & ~facts.torn[given.s] & exact[given.t])
    if not len(given) or not len(sends):
        return
    reported = np.array([(r.s, r.first, r.last) for r in reports], dtype=np.int64).reshape(-1, 3)
    cells = grid(
        (given.s, given.first, given.last),
        (sends.s, sends.first, sends.last),
        (reported[:, 0], reported[:, 1], reported[:, 2]),
    )
    row, cell = cut(cells, given.s, given.first, given.last)
    starts = packed(sends.s, sends.first)
    at = holder(starts, sends.last, sends.s, cells.key[cell], cells.first[cell])
    sent = at >= 0
    row, cell, at = row[sent], cell[sent], at[sent]
    home = sends.home[at]
    fair = p.counts(cells.key[cell], cells.first[cell])
    fair &= (home >= 0) & facts.view_known[home] & facts.has_ended(given.s[row], home)
    row, cell, at, home = row[fair], cell[fair], at[fair], home[fair]
    p.out.asked(NOT_SENT, len(row))
    missing: dict[tuple[int, int], list[str]] = {}
    by_sender: dict[int, list[LostReport]] = {}
    for report in reports:
        by_sender.setdefault(report.s, []).append(report)
    for r, c, i, v in zip(*(x.tolist() for x in (row, cell, at, home)), strict=True):
        t = int(given.t[r])
        if (t, v) not in missing:
            inside = p.run.views[v].inside
            missing[t, v] = [name for name in facts.sets[t].names if name not in inside]
        s, number = int(given.s[r]), int(cells.first[c])
        for name in missing[t, v]:
            if any(
                report.first <= number <= report.last
                and (report.gone is None or name in report.gone)
                for report in by_sender.get(s, ())
            ):
                continue
            rows = ((s, int(given.lseq[r])), (s, int(sends.lseq[i])))
            about = (s, number, int(cells.last[c]), v)
            p.out.add(GroupFinding(f"{NOT_SENT}/untold", s, None, *about, note=name, rows=rows))


def _delivered(p: PreparedGroup, report: LostReport) -> None:
    """Members that are reported before the messages are sent do not deliver them; nobody does if no
    receiver is left."""
    cells, sends = p.cells, p.sends
    points = cells.grid.points
    low = int(np.searchsorted(points, packed_one(report.s, report.first), side="right")) - 1
    high = int(np.searchsorted(points, packed_one(report.s, report.last), side="right"))
    for c in range(max(low, 0), min(high, len(points) - 1)):
        if points[c] >> 44 != report.s:
            continue
        first, last = int(number_of(points[c])), int(number_of(points[c + 1])) - 1
        at = int(cells.sent[c])
        if first > report.last or last < report.first or not p.counts_one(report.s, first):
            continue
        if at >= 0 and sends.lseq[at] <= report.lseq:
            continue
        had = cells.had[c] & p.facts.meant[report.t]
        if had.any():
            home = known(int(sends.home[at])) if at >= 0 else None
            about = (report.s, max(first, report.first), min(last, report.last), home)
            rows = ((report.s, report.lseq),)
            kind = f"{NOT_SENT}/delivered"
            p.out.add(GroupFinding(kind, report.s, lowest(had), *about, rows=rows))


def _pieces(p: PreparedGroup, reports: list[LostReport]) -> None:
    """Each piece of a report is as the first submission of its messages says."""
    named = [report for report in reports if report.gone is not None]
    given = p.submissions
    for report in named:
        begin, end = (np.searchsorted(given.s, report.s, side=side) for side in ("left", "right"))
        pieces: dict[int, int] = {}
        for i in range(int(begin), int(end)):  # by row
            if given.first[i] <= report.last and given.last[i] >= report.first:
                pieces.setdefault(max(int(given.first[i]), report.first), i)
        for piece, i in pieces.items():
            if not p.counts_one(report.s, piece):
                continue
            last = min(int(given.last[i]), report.last)
            _judge(p, report, named, piece, last, i)


def _judge(
    p: PreparedGroup, report: LostReport, named: list[LostReport], piece: int, last: int, i: int
) -> None:
    """Reported members were addressed, and have been missing from a view since; the number of
    those that are left is right. What was sent before the report is lost by members that are not in
    its home, what was not by those that were missing from a view between the submission and the
    end of the step that reports it."""
    given, sends, facts = p.submissions, p.sends, p.facts
    s, t, lseq = report.s, int(given.t[i]), int(given.lseq[i])
    meant = facts.sets[t] if t >= 0 else None
    bare = meant is not None and meant.to_incarnations is None
    about = (s, piece, last)
    rows = ((s, lseq), (s, report.lseq))
    so_far = {
        name
        for other in named
        if other.s == s and other.first <= piece <= other.last and other.lseq <= report.lseq
        for name in other.gone or ()
    }
    if meant is not None and not bare:
        left = sum(name not in so_far for name in meant.names)
        if left != report.rest:
            note = f"{report.rest} receivers are left, but there are {left}"
            p.out.add(GroupFinding(f"{NOT_SENT}/rest", s, None, *about, note=note, rows=rows))
    starts = packed(sends.s, sends.first)
    numbers = np.array([s], dtype=np.int64), np.array([piece], dtype=np.int64)
    at = int(holder(starts, sends.last, sends.s, *numbers)[0])
    sent = at >= 0 and int(sends.lseq[at]) < report.lseq
    home = int(sends.home[at]) if at >= 0 else -1
    views = views_since(p, s, lseq, lambda _, step: step <= report.step)
    for name in report.gone or ():
        plain = name.rpartition(".")[0] if bare else name
        if meant is not None and plain not in (meant.to if bare else meant.names):
            p.out.add(GroupFinding(f"{NOT_SENT}/stranger", s, None, *about, note=name, rows=rows))
        elif sent:
            here = p.run.views.get(home)
            if here is not None and name in here.inside:
                kind = f"{NOT_SENT}/home"
                p.out.add(GroupFinding(kind, s, None, *about, v=home, note=name, rows=rows))
        elif report.ended and views and all(name in inside for inside in views):
            p.out.add(GroupFinding(f"{NOT_SENT}/stayed", s, None, *about, note=name, rows=rows))
