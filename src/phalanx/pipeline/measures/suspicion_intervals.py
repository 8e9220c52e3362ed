"""Suspicions as intervals, and whether each was right.

A member suspects another from a row with SUSPECTED or FAULTY to the first with OPERATIONAL or SEMI
(TRUST), or to the view without it (REMOVAL), or to the end of the journal (END). Whether it was
right is judged by what is known of the suspected member:

    RIGHT     it was down
    APART     it was up and the two could not reach each other, as a simulator knows; or, in real
              journals, it was up, was removed, and went on in a view of its own: whether the
              network or the detector was at fault is not known
    MISTAKE   it was up, and reachable as far as is known: a simulator says so, or packets of it
              arrived again
    UNKNOWN   there is no evidence
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import groupby
from typing import Any, Literal

import msgspec

from phalanx.core.effects import PROTOCOL_EVIDENCE
from phalanx.pipeline.group_tables import GroupTables, each_row
from phalanx.pipeline.history.clocks import own_time
from phalanx.pipeline.history.removal_outcome import RemovalOutcomes
from phalanx.pipeline.measures.watch_intervals import Watches, WatchInterval

SuspicionKind = Literal["RIGHT", "APART", "MISTAKE", "UNKNOWN"]


class SuspicionInterval(msgspec.Struct, frozen=True, kw_only=True):
    """A suspicion of a member of the view, from when to when."""

    cluster: str
    run: str
    group: str
    member: str
    incarnation: int
    target: str
    target_incarnation: int
    spell: int
    """Numbers the time that the target was watched, by the row that began it."""
    from_lseq: int
    from_ns: int
    to_ns: int
    evidence: str
    """Of its first row."""
    faulty: int
    """1 if it came to FAULTY."""
    ended_by: Literal["TRUST", "REMOVAL", "END"]
    kind: SuspicionKind
    mistake_ns: int | None
    """Its length as a mistake, up to when the target went down; None if it was none."""


class _Reachable:
    """The members that a member could exchange packets with, as a simulator knows."""

    def __init__(self, group: GroupTables) -> None:
        self._rows: dict[str, list[tuple[int, list[str]]]] = {}
        for journal, lseq, component in each_row(group["topology"], "journal", "lseq", "component"):
            self._rows.setdefault(journal, []).append((lseq, component))
        for rows in self._rows.values():
            rows.sort(key=lambda row: row[0])

    def has(self, journal: str, lseq: int, target: str) -> bool:
        """Whether the target was among them at a row; True where nothing is known."""
        rows = self._rows.get(journal, [])
        place = bisect_right(rows, lseq, key=lambda row: row[0])
        return not place or target in rows[place - 1][1]


def suspicions(group: GroupTables) -> list[SuspicionInterval]:
    """All suspicions, in the order of observers, targets and time."""
    watches, outcomes, reachable = Watches(group), RemovalOutcomes(group), _Reachable(group)
    by_watch: dict[int, tuple[WatchInterval, list[dict[str, Any]]]] = {}
    names = ("journal", "target", "target_incarnation", "lseq", "t_ns", "sim_ns", "state")
    for row in group["peer_suspicion"].select([*names, "evidence"]).to_pylist():
        watch = watches.at(row["journal"], row["lseq"], row["target"], row["target_incarnation"])
        if watch is not None and row["evidence"] not in PROTOCOL_EVIDENCE:
            by_watch.setdefault(id(watch), (watch, []))[1].append(row)
    found = []
    for watch, rows in by_watch.values():
        rows.sort(key=lambda row: row["lseq"])
        runs = [list(run) for _, run in groupby(rows, key=_is_bad)]
        for run, after in zip(runs, (*runs[1:], None), strict=True):
            if _is_bad(run[0]):
                trusted = None if after is None else own_time(after[0]["t_ns"], after[0]["sim_ns"])
                found.append(_interval(watch, run, trusted, outcomes, reachable))
    return sorted(found, key=_order)


def _is_bad(row: dict[str, Any]) -> bool:
    return row["state"] in ("SUSPECTED", "FAULTY")


def _order(one: SuspicionInterval) -> tuple[str, int, str, int, int]:
    return one.member, one.incarnation, one.target, one.target_incarnation, one.from_lseq


def _interval(
    watch: WatchInterval,
    rows: list[dict[str, Any]],
    trusted: int | None,
    outcomes: RemovalOutcomes,
    reachable: _Reachable,
) -> SuspicionInterval:
    first = rows[0]
    from_ns = own_time(first["t_ns"], first["sim_ns"])
    to_ns = watch.to_ns if trusted is None else trusted
    ended_by: Literal["TRUST", "REMOVAL", "END"] = "TRUST"
    if trusted is None:
        ended_by = "REMOVAL" if watch.end == "VIEW" else "END"
    fate = outcomes.of(watch.target, watch.target_incarnation, watch.last_view).fate
    reached = reachable.has(watch.journal, first["lseq"], watch.target)
    kind = _kind(watch, from_ns, ended_by, fate, reached)
    until = to_ns if watch.down_ns is None else min(to_ns, watch.down_ns)
    return SuspicionInterval(
        cluster=watch.cluster,
        run=watch.run,
        group=watch.group,
        member=watch.member,
        incarnation=watch.incarnation,
        target=watch.target,
        target_incarnation=watch.target_incarnation,
        spell=watch.from_lseq,
        from_lseq=first["lseq"],
        from_ns=from_ns,
        to_ns=to_ns,
        evidence=first["evidence"],
        faulty=int(any(row["state"] == "FAULTY" for row in rows)),
        ended_by=ended_by,
        kind=kind,
        mistake_ns=until - from_ns if kind == "MISTAKE" else None,
    )


def _kind(
    watch: WatchInterval, from_ns: int, ended_by: str, fate: str, reached: bool
) -> SuspicionKind:
    removed = ended_by == "REMOVAL"
    if watch.down_ns is not None and watch.down_ns <= from_ns:
        return "RIGHT"
    if watch.simulated and watch.comparable:
        return "MISTAKE" if reached else "APART"
    if ended_by == "TRUST":
        return "MISTAKE"
    if removed and fate == "APART":
        return "APART"
    if removed and watch.comparable and watch.down_ns is not None:
        return "MISTAKE"
    if removed and not watch.comparable and fate in ("LEFT", "CRASHED", "ENDED", "STOPPED"):
        return "RIGHT"
    return "UNKNOWN"
