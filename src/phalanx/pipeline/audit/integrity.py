"""Integrity, no duplication, and their share of basic: a delivered message was sent, to the member
that delivers it, and arrives once and unchanged."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phalanx.pipeline.audit.chronicle import Receivers
from phalanx.pipeline.audit.delivered_cells import FAR
from phalanx.pipeline.audit.group_findings import GroupFinding, shown_rows
from phalanx.pipeline.audit.member_masks import Words, lowest, some
from phalanx.pipeline.audit.message_columns import Deliveries, Submissions
from phalanx.pipeline.audit.number_ranges import (
    NONE,
    Bools,
    Longs,
    cut,
    grid,
    group_ends,
    group_starts,
    holder,
    packed,
)
from phalanx.pipeline.audit.prepare import PreparedGroup
from phalanx.pipeline.audit.row_coder import BASIC, SERVICES


def integrity(p: PreparedGroup) -> None:
    _ways(p)
    _bodies(p)
    _as_accepted(p)


def _ways(p: PreparedGroup) -> None:
    """Each way of delivery against its sending."""
    w, cells, facts, sends, out = p.cells.ways, p.cells, p.facts, p.sends, p.out
    if not len(w):
        return
    basic, sent = w.service == BASIC, w.sent >= 0
    at = np.where(sent, w.sent, 0) if len(sends) else np.zeros(len(w), dtype=np.int64)
    s_lseq = _of(sends.lseq, at, sent, -1)
    outside = _outside(p)
    before_end = facts.sends_end[w.s] | (w.c1 <= facts.sent_last[w.s])
    before_end &= w.c1 > facts.sent_before[w.s]
    judged = sent | (outside >= 0) | (facts.known[w.s] & ~facts.torn[w.s] & before_end)
    counted = np.where(judged & w.head, w.n, 0)
    out.asked("integrity", counted.sum())
    out.asked("basic", counted[basic].sum())
    fair = judged & (outside < 0)
    both = fair & sent
    s_t = _of(sends.t, at, sent, -1)
    strangers = cells.mask & ~facts.meant[s_t]
    service, frame, v = (_of(c, at, sent, -1) for c in (sends.service, sends.frame, sends.v))
    step, ns = _of(sends.step, at, sent, NONE), _of(sends.ns, at, sent, NONE)
    early = w.own_lseq < s_lseq  # rows of one journal: also within a step
    early |= (w.own_step != FAR) & (w.own_step < step)
    early |= (w.ns != FAR) & (ns != NONE) & (w.ns < ns)
    different = both & (w.t != s_t) & some(cells.mask & facts.meant[s_t])
    different[different] = [
        not _same_receivers(p, *pair)
        for pair in zip(*(c[different].tolist() for c in (w.t, s_t, w.v, v)), strict=True)
    ]

    def frames(i: int) -> str:
        return f"{w.frame[i]}, it left in frame {frame[i]}"

    cases: list[tuple[str, Bools, Callable[[int], str | None], Words | None]] = [
        ("outsider", outside >= 0, _no_note, None),
        ("unsent", fair & ~sent, _no_note, None),
        ("stranger", both & some(strangers), lambda i: facts.receivers(int(s_t[i])), strangers),
        (
            "service",
            both & (w.service != service),
            lambda i: f"{SERVICES[w.service[i]]}, it was sent as {SERVICES[service[i]]}",
            None,
        ),
        ("frame", both & (w.frame != frame), frames, None),
        ("origin", both & (w.o != v), _no_note, None),
        ("early", both & early, _no_note, None),
        (
            "receivers",
            different,
            lambda i: (
                f"{facts.receivers(int(w.t[i]))}, it was sent to {facts.receivers(int(s_t[i]))}"
            ),
            None,
        ),
    ]
    for way, bad, note, whom in cases:
        for name, apply in (("integrity", bad), ("basic", bad & basic)):

            def shown(
                i: int,
                kind: str = f"{name}/{way}",
                note: Callable[[int], str | None] = note,
                whom: Words | None = whom,
            ) -> GroupFinding:
                origin = kind.endswith("/origin")
                second = v[i] if origin else outside[i]
                return GroupFinding(
                    kind,
                    who=lowest(whom[i]) if whom is not None else int(w.k[i]),
                    s=int(w.s[i]),
                    first=int(w.c1[i]),
                    last=int(w.c2[i]),
                    v=int(w.o[i] if origin else w.v[i]),
                    w=None if second < 0 else int(second),
                    note=note(i),
                    rows=shown_rows((int(w.s[i]), int(s_lseq[i])), (int(w.k[i]), int(w.lseq[i]))),
                )

            out.add_each(f"{name}/{way}", apply, w.s, w.c1, shown)
    _contradictions(p)


def _outside(p: PreparedGroup) -> Longs:
    """Per way, the view of the delivery, or, if there is no journal of the sender, that of the
    sending, if the sender is not in it; -1 otherwise."""
    w, facts = p.cells.ways, p.facts
    not_here = ~facts.is_inside(w.s, w.v)
    not_there = ~facts.known[w.s] & ~facts.is_inside(w.s, w.o)
    return np.where(not_here, w.v, np.where(not_there, w.o, -1))


def _no_note(_: int) -> None:
    return None


def _of(column: Longs, at: Longs, there: Bools, otherwise: int) -> Longs:
    if not len(column):
        return np.full(len(at), otherwise, dtype=np.int64)
    return np.where(there, column[at], otherwise)


def _contradictions(p: PreparedGroup) -> None:
    """Members that delivered a message of which no sending is known have it alike: with the same
    service, frame and view of sending, and in one view for the same receivers."""
    w = p.cells.ways
    lone = np.flatnonzero(w.sent < 0)
    if len(lone) < 2:
        return
    cell = w.cell[lone]
    same = cell[1:] == cell[:-1]
    one, two = lone[:-1][same], lone[1:][same]
    what = {
        "service": w.service[one] != w.service[two],
        "frame": w.frame[one] != w.frame[two],
        "view of sending": w.o[one] != w.o[two],
        "receivers": (w.t[one] != w.t[two]) & (w.v[one] == w.v[two]),
    }
    bad = np.logical_or.reduce(list(what.values()))
    basic = (w.service[one] == BASIC) & (w.service[two] == BASIC)
    for name, apply in (("integrity", bad), ("basic", bad & basic)):

        def shown(i: int, kind: str = f"{name}/contradiction") -> GroupFinding:
            a, b = int(one[i]), int(two[i])
            return GroupFinding(
                kind,
                who=int(w.k[a]),
                other=int(w.k[b]),
                s=int(w.s[a]),
                first=int(w.c1[a]),
                last=int(w.c2[a]),
                v=int(w.v[a]),
                note=" and ".join(name for name, differs in what.items() if differs[i]),
                rows=shown_rows((int(w.k[a]), int(w.lseq[a])), (int(w.k[b]), int(w.lseq[b]))),
            )

        p.out.add_each(f"{name}/contradiction", apply, w.s[one], w.c1[one], shown)


# ---------------------------------------------------------------------------- receivers


def _bare_names(found: Receivers) -> list[str]:
    return sorted(found.to)


def _same_receivers(p: PreparedGroup, t: int, s_t: int, v: int, s_v: int) -> bool:
    """A delivery names the receivers that the sending named. A carried message may name those of
    them alone that are in the next view."""
    if t < 0 or s_t < 0:
        return False
    named, sent = p.facts.sets[t], p.facts.sets[s_t]
    if named.to_incarnations is None or sent.to_incarnations is None:
        return _bare_names(named) == _bare_names(sent)
    if named.names == sent.names:
        return True
    here = p.run.views.get(v)
    if here is None:
        return set(named.names) <= set(sent.names)
    return v != s_v and named.names == [name for name in sent.names if name in here.inside]


def _as_accepted(p: PreparedGroup) -> None:
    """A message is sent to the receivers that it was accepted for, less those that left its
    sender's view. A torn journal may lack the view that they left."""
    if not p.facts.sets:
        return
    given = p.submissions.at(~p.facts.torn[p.submissions.s])
    sends = p.sends
    if not len(given) or not len(sends):
        return
    cells = grid((given.s, given.first, given.last), (sends.s, sends.first, sends.last))
    row, cell = cut(cells, given.s, given.first, given.last)
    at = holder(
        packed(sends.s, sends.first), sends.last, sends.s, cells.key[cell], cells.first[cell]
    )
    both = (at >= 0) & ((given.t[row] >= 0) | (sends.t[np.maximum(at, 0)] >= 0))
    both &= p.counts(cells.key[cell], cells.first[cell])
    row, cell, at = row[both], cell[both], at[both]
    bad = np.array(
        [
            not _accepted_for(
                p,
                int(given.s[r]),
                int(given.t[r]),
                int(sends.t[i]),
                int(given.lseq[r]),
                int(sends.lseq[i]),
            )
            for r, i in zip(row.tolist(), at.tolist(), strict=True)
        ],
        dtype=bool,
    )

    def shown(i: int) -> GroupFinding:
        r, j, c = int(row[i]), int(at[i]), int(cell[i])
        s = int(given.s[r])
        sets = p.facts.receivers(int(given.t[r])), p.facts.receivers(int(sends.t[j]))
        return GroupFinding(
            "integrity/accepted",
            who=s,
            s=s,
            first=int(cells.first[c]),
            last=int(cells.last[c]),
            note=f"{sets[0]} and sent to {sets[1]}",
            rows=((s, int(given.lseq[r])), (s, int(sends.lseq[j]))),
        )

    p.out.add_each("integrity/accepted", bad, cells.key[cell], cells.first[cell], shown)


def _accepted_for(p: PreparedGroup, s: int, t: int, s_t: int, lseq: int, s_lseq: int) -> bool:
    if t < 0 or s_t < 0:
        return False
    meant, named = p.facts.sets[t], p.facts.sets[s_t]
    if meant.to_incarnations is None or named.to_incarnations is None:
        return set(named.to) <= set(meant.to)
    if not set(named.names) <= set(meant.names):
        return False
    if named.names == meant.names:
        return True
    views = views_since(p, s, lseq, lambda row_lseq, _: row_lseq < s_lseq)
    stayed = {name for name in meant.names if all(name in inside for inside in views)}
    return stayed <= set(named.names)


def views_since(
    p: PreparedGroup, s: int, lseq: int, counts: Callable[[int, int], bool]
) -> list[frozenset[str]]:
    """The members of the views of `s`, from the one that row `lseq` was written in, as far as an
    install counts: a function of its row and step."""
    installs = [row for row in p.run.members[s].installs if counts(row.lseq, row.step)]
    begun = sum(row.lseq < lseq for row in installs)
    return [p.run.views[row.v].inside for row in installs[max(begun, 1) - 1 :]]


# ---------------------------------------------------------------------------- once, and unchanged


def _bodies(p: PreparedGroup) -> None:
    """Members that delivered the same range got the same bodies, and the submitted ones, where
    checksums of bodies were recorded."""
    d, given = p.rows, p.submissions
    got = d.at((d.digest != NONE) & p.counts(d.s, d.first))
    known = given.at(given.digest != NONE)
    if not len(got):
        return
    order = np.lexsort((got.lseq, got.k, got.digest, got.last, got.first, got.s))
    got = got.at(order)
    starts = group_starts(got.s, got.first, got.last)
    ends = group_ends(starts, len(got))
    p.out.asked("integrity", len(got))
    least, most = got.digest[starts], got.digest[ends]
    given_digest, given_lseq = _submitted(known, got.at(starts))
    there = given_digest != NONE
    altered = there & ((least != given_digest) | (most != given_digest))
    s, first, last = got.s[starts], got.first[starts], got.last[starts]

    def shown_altered(i: int) -> GroupFinding:
        at = starts[i] if least[i] != given_digest[i] else ends[i]
        who = int(got.k[at])
        rows = ((who, int(got.lseq[at])), (int(s[i]), int(given_lseq[i])))
        return GroupFinding(
            "integrity/altered", who, None, int(s[i]), int(first[i]), int(last[i]), rows=rows
        )

    def shown_apart(i: int) -> GroupFinding:
        a, b = int(starts[i]), int(ends[i])
        rows = ((int(got.k[a]), int(got.lseq[a])), (int(got.k[b]), int(got.lseq[b])))
        about = (int(s[i]), int(first[i]), int(last[i]))
        return GroupFinding("integrity/bodies", int(got.k[a]), int(got.k[b]), *about, rows=rows)

    p.out.add_each("integrity/altered", altered, s, first, shown_altered)
    p.out.add_each("integrity/bodies", ~there & (least != most), s, first, shown_apart)


def _submitted(known: Submissions, ranges: Deliveries) -> tuple[Longs, Longs]:
    """Checksum and row of the last submission of exactly these ranges; NONE without one."""
    none = np.full(len(ranges), NONE, dtype=np.int64)
    if not len(known):
        return none, none
    known = known.at(np.lexsort((known.lseq, known.digest, known.last, known.first, known.s)))
    ends = group_ends(group_starts(known.s, known.first, known.last), len(known))
    known = known.at(ends)
    key, wanted = packed(known.s, known.first), packed(ranges.s, ranges.first)
    at = np.searchsorted(key, wanted)  # of several ranges that begin there, the shortest
    digest, lseq = none.copy(), none.copy()
    more = np.arange(len(ranges))
    while len(more):
        inside = at[more] < len(key)
        more = more[inside]
        more = more[key[at[more]] == wanted[more]]
        fits = more[known.last[at[more]] == ranges.last[more]]
        digest[fits], lseq[fits] = known.digest[at[fits]], known.lseq[at[fits]]
        at[more] += 1
    return digest, lseq


def no_duplication(p: PreparedGroup) -> None:
    """Rows that deliver or send a message again: once in a whole life, whatever the view."""
    d, again = p.repeated, p.resent.at(p.counts_member(p.resent.s))
    basic = d.service == BASIC
    for kind, bad in (("no-duplication/again", np.full(len(d), True)), ("basic/again", basic)):

        def shown(i: int, kind: str = kind) -> GroupFinding:
            k = int(d.k[i])
            about = (int(d.s[i]), int(d.first[i]), int(d.last[i]), int(d.v[i]))
            return GroupFinding(kind, k, None, *about, rows=((k, int(d.lseq[i])),))

        p.out.add_each(kind, bad, d.s, d.first, shown)

    def resent(i: int) -> GroupFinding:
        s = int(again.s[i])
        about = (s, int(again.first[i]), int(again.last[i]), int(again.v[i]))
        return GroupFinding(
            "no-duplication/resent", s, None, *about, rows=((s, int(again.lseq[i])),)
        )

    p.out.add_each("no-duplication/resent", np.full(len(again), True), again.s, again.first, resent)
