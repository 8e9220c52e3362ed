"""Fifo, causal, reliable causal, no inversion across views, and what a batch may hold.

`direct_causes` and `past` judge; here the rows of a group become their columns, and what they find
becomes findings. Causality is asked of whole journals only, since a torn one may lack what
came first; batches of members on a route.
"""

from __future__ import annotations

import numpy as np

from phalanx.pipeline.audit.batched import batches
from phalanx.pipeline.audit.direct_causes import DirectCauses, Shown, shown
from phalanx.pipeline.audit.group_findings import GroupFinding, shown_rows
from phalanx.pipeline.audit.number_ranges import NONE, Longs
from phalanx.pipeline.audit.past import Late, Past, PastDeliveries, PastSends, judge, judge_fifo
from phalanx.pipeline.audit.prepare import PreparedGroup
from phalanx.pipeline.audit.row_coder import BASIC

NAMES = ("causal", "reliable-causal", "no-view-crossing-inversion")


def causality(p: PreparedGroup) -> None:
    sends = _sends(p)
    past = Past(sends, p.facts.meant, p.facts.masks.bits)
    causes = DirectCauses(sends, p.facts.epochs, p.facts.sent_before)
    d = p.deliveries
    ends = np.searchsorted(d.k, np.arange(len(p.run.members) + 1))
    senders = np.unique(sends.s)
    unshown = set(senders[p.counts_member(senders)].tolist())
    found: list[Late] = []
    for k in range(len(p.run.members)):
        begin, end = int(ends[k]), int(ends[k + 1])
        if begin == end:
            continue
        rows = _deliveries(p, k, begin, end)
        proved = None if p.facts.torn[k] else shown(causes, rows, bool(p.facts.rising[k]))
        found += _member(p, past, rows, proved)
        if proved is not None:
            unshown.discard(k)
    if unshown:
        for i in past.looped:
            if int(sends.s[i]) in unshown:
                _loop(p, past, i)
    _report(p, found)


def _member(p: PreparedGroup, past: Past, rows: PastDeliveries, proved: Shown | None) -> list[Late]:
    """One member, with vectors if the induction over direct causes does not apply."""
    if p.facts.torn[rows.k]:
        fifo, late = judge_fifo(past, rows)
        p.out.asked("fifo", fifo)
        return late + batches(past, rows)
    if proved is not None:
        times, late = proved, batches(past, rows, with_past=False)
    else:
        *counts, late = judge(past, rows)
        times, late = Shown(*counts), late + batches(past, rows)
    for name, count in zip(("fifo", *NAMES), times, strict=True):
        p.out.asked(name, count)
    return late


def _sends(p: PreparedGroup) -> PastSends:
    sends = p.sends
    senders, numbers, at = _dependencies(p)
    return PastSends(
        senders=len(p.run.members),
        s=sends.s,
        first=sends.first,
        last=sends.last,
        lseq=sends.lseq,
        basic=sends.service == BASIC,
        home=sends.home,
        t=sends.t,
        dep_at=at,
        dep_s=senders,
        dep_n=numbers,
    )


def _dependencies(p: PreparedGroup) -> tuple[Longs, Longs, Longs]:
    """The lists of direct dependencies of the sends, flat: senders, numbers, and where each list
    begins. Members that no row names otherwise are left out."""
    columns = p.columns
    table = columns.tables["sent"].take(p.sends.row)
    lists = [
        table.column(f"dep_{name}").combine_chunks()
        for name in ("senders", "incarnations", "numbers")
    ]
    lengths = lists[0].value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
    flat = [one.flatten() for one in lists]
    names, incarnations = (one.dictionary_encode() for one in flat[:2])
    code = [
        one.indices.to_numpy(zero_copy_only=False).astype(np.int64) for one in (names, incarnations)
    ]
    many = max(1, len(incarnations.dictionary))
    every, where = np.unique(code[0] * many + code[1], return_inverse=True)
    words, others = names.dictionary.to_pylist(), incarnations.dictionary.to_pylist()
    by_label = p.run.by_label
    ranks = []
    for key in every.tolist():
        m = by_label.get(f"{words[key // many]}.{others[key % many]}")
        ranks.append(-1 if m is None else m.k)
    senders = np.array(ranks or [0], dtype=np.int64)[where.reshape(-1)]
    numbers = flat[2].to_numpy(zero_copy_only=False).astype(np.int64)
    row = np.repeat(np.arange(len(lengths)), lengths)
    there = senders >= 0
    kept = np.bincount(row[there], minlength=len(lengths))
    return senders[there], numbers[there], np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)


def _deliveries(p: PreparedGroup, k: int, begin: int, end: int) -> PastDeliveries:
    d = p.deliveries.at(np.arange(begin, end))
    return PastDeliveries(
        k=k,
        s=d.s,
        first=d.first,
        last=d.last,
        lseq=d.lseq,
        v=d.v,
        frame=d.frame,
        batch=d.batch,
        basic=d.service == BASIC,
    )


def _loop(p: PreparedGroup, past: Past, i: int) -> None:
    """A send row that depends on itself."""
    sends = past.sends
    s = int(sends.s[i])
    about = (s, int(sends.first[i]), int(sends.last[i]))
    p.out.add(GroupFinding("integrity/loop", s, None, *about, rows=((s, int(sends.lseq[i])),)))


def _report(p: PreparedGroup, found: list[Late]) -> None:
    # Of a message whose home cannot be known: a view is its home if a member delivered it there.
    homeless: dict[tuple[int, int, int, int], Late] = {}
    for late in found:
        if late.kind == "fifo":
            _add(p, late, "fifo/")
        elif late.kind in ("order", "follows"):
            if (late.k, late.v) in p.facts.compared:
                _add_in_batch(p, late)
        elif late.kind == "homeless":
            homeless.setdefault((late.k, late.s, late.number, late.v), late)
        elif not p.facts.torn[late.k]:
            _add(p, late, f"{late.kind}/")
    for late in homeless.values():
        if not p.facts.torn[late.k] and p.delivered_in(late.s, late.v, late.number):
            _add(p, late, "reliable-causal/")


def _label(p: PreparedGroup, s: int, first: int, last: int | None = None) -> str:
    several = f"..{last}" if last is not None and last > first else ""
    return f"{p.run.members[s].label}#{first}{several}"


def _add(p: PreparedGroup, late: Late, kind: str) -> None:
    w = None if late.w == NONE else late.w
    if kind == "fifo/":
        about = (late.s, late.part_first, late.part_last, late.v)
        note = _label(p, late.s, late.number)
        rows = shown_rows((late.k, late.cause), (late.k, late.lseq))
        p.out.add(GroupFinding(kind, late.k, None, *about, note=note, rows=rows))
        return
    note = _label(p, late.part_s, late.part_first, late.part_last)
    cause = late.s if kind == "reliable-causal/" else late.k
    rows = shown_rows((cause, late.cause), (late.k, late.lseq))
    numbers = (late.s, late.number, late.number)
    p.out.add(GroupFinding(kind, late.k, late.part_s, *numbers, late.v, w, note, rows))


def _add_in_batch(p: PreparedGroup, late: Late) -> None:
    """The later part is the subject, the earlier message is the note."""
    about = (late.part_s, late.part_first, late.part_last, late.v)
    note = _label(p, late.s, late.number)
    rows = shown_rows((late.k, late.cause), (late.k, late.lseq))
    kind = f"toto-refinement/{late.kind}"
    p.out.add(GroupFinding(kind, late.k, late.s, *about, note=note, rows=rows))
