"""Merged views report how far each of their components had delivered, and what one alone had.

A component had delivered the highest number that one of its members that come along had: at least
when it proposed the view, at most when it installed it. Where a journal does not show that of one
of them, more may be reported than the others show, but not less.

Alone a component had delivered ranges of numbers that one of these members delivered since it met
the sender, and that are above all that the members of other components had delivered, or were
told of, or that had been sent when they met the sender.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import msgspec
import numpy as np

from phalanx.pipeline.audit.chronicle import Chronicle, MemberRecord
from phalanx.pipeline.audit.group_findings import GroupFinding, GroupFindings
from phalanx.pipeline.audit.merge_record import MergeRecord, raise_to
from phalanx.pipeline.audit.message_columns import Deliveries
from phalanx.pipeline.audit.number_ranges import Longs
from phalanx.pipeline.audit.prepare import PreparedGroup
from phalanx.pipeline.audit.report_rows import Side
from phalanx.pipeline.audit.reports import proposals

KIND = "merge-report-truth/upto"
ALONE = "merge-report-truth/alone"

Upto = Callable[[int, list[int]], dict[int, Longs]]
"""Of a member and some of its rows: per row, the highest number that it had delivered of each
sender."""
Spans = list[tuple[int, int]]


class Come(msgspec.Struct):
    """A member that comes to a merged view. Numbers by the rank of the sender."""

    proposed: Longs
    """What it had delivered when it proposed the view."""
    delivered: Longs
    """The same when it installed the view."""
    met: Longs
    """What had been sent when it met the sender."""
    known: Longs
    """Of what is not above it, nothing is delivered by another component alone."""
    record: MergeRecord
    views: tuple[int, ...]
    """The last two views before, and their components: messages are carried from these."""


class Merge(msgspec.Struct):
    """The first report of a merged view, and who came from each component. None for a member whose
    journal does not show what it had delivered."""

    by: MemberRecord
    sides: list[Side]
    came: list[list[Come | None]]


def merges(p: PreparedGroup) -> None:
    judge_merges(p.run, p.out, lambda k, rows: upto(p.rows, k, rows, len(p.run.members)))


def judge_merges(run: Chronicle, out: GroupFindings, upto_of: Upto) -> None:
    for merge in _merges(run, out, upto_of):
        for side, came in zip(merge.sides, merge.came, strict=True):
            _judge_progress(run, merge.by, side, came, out)
        for index, side in enumerate(merge.sides):
            if not _is_alone_right(run, merge, index):
                shown = [(merge.by, side.lseq)]
                out.found(ALONE, who=merge.by, v=side.v, w=side.w, rows=shown)


def _merges(run: Chronicle, out: GroupFindings, upto_of: Upto) -> Iterator[Merge]:
    """The reports by view, with what the members had delivered."""
    reports = list(proposals(run, out))
    rows: dict[int, set[int]] = {}
    wanted: dict[int, set[int]] = {}
    installed = {m.k: {row.v: row.lseq for row in reversed(m.installs)} for m in run.known}
    for _, side, came in reports:
        for m, proposal in came:
            if m is not None and proposal is not None and side.v in installed[m.k]:
                rows.setdefault(m.k, set()).update((proposal.lseq, installed[m.k][side.v]))
                wanted.setdefault(m.k, set()).add(side.v)
    delivered = {k: upto_of(k, sorted(some)) for k, some in rows.items()}
    records = {k: _records(run, run.members[k], views) for k, views in wanted.items()}
    found: dict[int, Merge] = {}
    for by, side, came in reports:
        merge = found.setdefault(side.v, Merge(by, [], []))
        merge.sides.append(side)
        merge.came.append([])
        for m, proposal in came:
            come = None
            if m is not None and proposal is not None and side.v in records.get(m.k, ()):
                before = _before(run, m.k)
                numbers = delivered[m.k]
                come = _come(
                    run,
                    np.maximum(numbers[proposal.lseq], before),
                    np.maximum(numbers[installed[m.k][side.v]], before),
                    *records[m.k][side.v],
                )
            merge.came[-1].append(come)
    yield from found.values()


def _records(
    run: Chronicle, member: MemberRecord, wanted: set[int]
) -> dict[int, tuple[MergeRecord, tuple[int, ...]]]:
    """At each of these views, what the member knew when it came to it, and the views before with
    their components."""
    if member.excerpt.merges is None:
        return {}
    record, found = member.excerpt.merges.copy(), {}
    views: list[tuple[int, ...]] = []
    for install in member.installs:
        if install.v in wanted and install.v not in found:
            found[install.v] = record.copy(), tuple(chain(*views[-2:]))
        sides = member.sides.get(install.v, ())
        views.append((install.v, *(side.w for side in sides)))
        reported: dict[str, int] = {}
        for side in sides:
            raise_to(reported, dict(zip(side.delivered, side.delivered_upto, strict=True)))
        record.installed(member.label, install.inside, install.transitional, reported)
    return found


def _come(
    run: Chronicle,
    proposed: Longs,
    delivered: Longs,
    record: MergeRecord,
    views: tuple[int, ...],
) -> Come:
    met, told = (_numbers(run, numbers) for numbers in (record.met, record.told))
    known = np.maximum(np.maximum(met, told), delivered)
    return Come(proposed, delivered, met, known, record, views)


def _numbers(run: Chronicle, numbers: dict[str, int]) -> Longs:
    found = np.zeros(len(run.members), dtype=np.int64)
    for label, number in numbers.items():
        if label in run.by_label:
            found[run.by_label[label].k] = number
    return found


def _judge_progress(
    run: Chronicle, by: MemberRecord, side: Side, came: list[Come | None], out: GroupFindings
) -> None:
    least, most = (np.zeros(len(run.members), dtype=np.int64) for _ in range(2))
    for come in came:
        if come is not None:
            least, most = np.maximum(least, come.proposed), np.maximum(most, come.delivered)
    complete = None not in came
    reported = _numbers(run, dict(zip(side.delivered, side.delivered_upto, strict=True)))
    for s in np.flatnonzero((reported < least) | (complete & (reported > most))).tolist():
        real = int(least[s] if reported[s] < least[s] else most[s])
        rows = ((by.k, side.lseq),)
        about = (s, real, real, side.v, side.w)
        out.add(GroupFinding(KIND, by.k, None, *about, note=str(reported[s]), rows=rows))


def _is_alone_right(run: Chronicle, merge: Merge, index: int) -> bool:
    """Whether a component is said to have delivered alone what it did."""
    side, came = merge.sides[index], merge.came[index]
    apart = [come for i, some in enumerate(merge.came) if i != index for come in some]
    here, others = [c for c in came if c is not None], [c for c in apart if c is not None]
    complete = len(here) == len(came), len(others) == len(apart)
    theirs = [one for i, one in enumerate(merge.sides) if i != index]
    acquainted = {m for one in theirs for m in (*one.members, *one.delivered)}
    acquainted |= {m for come in others for m in come.record.known}
    claims: dict[str, Spans] = {}
    for label, *span in zip(side.alone, side.alone_first, side.alone_last, strict=True):
        claims.setdefault(label, []).append((span[0], span[1]))
    if not claims.keys() <= run.by_label.keys():
        return False
    floors = np.zeros(len(run.members), dtype=np.int64)
    for come in others:
        floors = np.maximum(floors, come.known)
    delivered = np.zeros(len(run.members), dtype=bool)
    for come in here:
        delivered |= come.proposed > 0
    asked = {run.members[s].label for s in np.flatnonzero(delivered).tolist()} | claims.keys()
    for label in asked:
        sender, spans = run.by_label[label], claims.get(label, [])
        s, floor = sender.k, int(floors[sender.k])
        if any(first <= floor or last < first for first, last in spans):
            return False
        had = [(int(come.met[s]) + 1, int(come.delivered[s])) for come in here]
        if complete[0] and not _covers(had, spans):
            return False
        if all(complete) and label not in acquainted:
            if spans:
                return False
        elif all(complete) and _is_plain(run, sender, others):
            due = [(max(int(c.met[s]), floor) + 1, int(c.proposed[s])) for c in here]
            if not _covers(spans, due):
                return False
    return True


def _is_plain(run: Chronicle, sender: MemberRecord, others: list[Come]) -> bool:
    """Whether these knew of no message of the sender that was for some members only."""
    views = {v for come in others for v in come.views}
    here = sender.journal is not None and not sender.torn
    return here and all((sender.k, v) not in run.selective for v in views)


def _covers(spans: Spans, wanted: Spans) -> bool:
    """Whether all numbers of the wanted ranges are in one of these."""
    for first, last in wanted:
        for begin, end in sorted(spans):
            if begin <= first <= end:
                first = end + 1
        if first <= last:
            return False
    return True


def _before(run: Chronicle, k: int) -> Longs:
    """The highest numbers that a member had delivered before the rows that are here."""
    return _numbers(run, run.members[k].excerpt.delivered or {})


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
