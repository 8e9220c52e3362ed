"""The quality of the detectors, by observer and target (Chen, Toueg, Aguilera, IEEE TC 51(5)).

    T_D    detection time: from the crash to the last suspicion, the one that stays; 0 if it began
           before; to the removal where the observer learned of it from others
    T_M    length of a mistake; T_MR: from the beginning of one mistake to that of the next;
    T_G    good period: from the end of a mistake to the beginning of the next
    rate   lambda_M: mistakes per second in which the target was watched and up
    P_A    query accuracy: the part of that time in which the observer was not mistaken
    T_FG   forward good period: E(T_G) / 2 * (1 + V(T_G) / E(T_G)^2), how long, from a random
           moment at which the observer is right, it stays so

In the long run the rate is 1/E(T_MR) and P_A is 1 - E(T_M)/E(T_MR); both are counted here over the
time that was watched, so that they are defined for few mistakes, and for none. Mistakes of one
spell of watching are chained, across spells they are not. What counts as a mistake: `suspicions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, pvariance
from typing import Literal

import msgspec

from phalanx.pipeline.group_tables import GroupTables
from phalanx.pipeline.measures.suspicion_intervals import SuspicionInterval, suspicions
from phalanx.pipeline.measures.watch_intervals import Watches, WatchInterval

NS = 1_000_000_000
Pair = tuple[str, int, str, int]


class DetectorQuality(msgspec.Struct, frozen=True, kw_only=True):
    """An observer, and a target that it ever watched."""

    cluster: str
    run: str
    group: str
    member: str
    incarnation: int
    target: str
    target_incarnation: int
    watched_ns: int
    """For how long it was watched while it was up."""
    suspicions: int
    mistakes: int
    apart: int
    mistake_ns: float | None
    """Means of T_M, T_MR, T_G."""
    mistake_ns_max: int | None
    recurrence_ns: float | None
    good_ns: float | None
    rate: float | None
    """Per second."""
    accuracy: float | None
    """P_A."""
    forward_good_ns: float | None
    """E(T_FG)."""
    crash: Literal["KNOWN", "ESTIMATED"] | None = None
    """If the target crashed while it was watched."""
    detected: int | None = None
    """1 if it ended suspected or removed."""
    detection_ns: int | None = None
    """T_D."""
    removal_ns: int | None = None
    """From the crash to the view without it."""
    after_ns: int | None = None
    """For how long the observer watched on after the crash, to the removal or to the end of its
    journal; a crash that was not detected within a short time proves nothing."""


def detector(group: GroupTables) -> list[DetectorQuality]:
    """All observers and targets, in the order of their names."""
    watched: dict[Pair, list[WatchInterval]] = {}
    for watch in Watches(group).all:
        watched.setdefault(_pair(watch), []).append(watch)
    suspected: dict[Pair, list[SuspicionInterval]] = {}
    for one in suspicions(group):
        suspected.setdefault(_pair(one), []).append(one)
    return [
        _quality(group, pair, watched[pair], suspected.get(pair, [])) for pair in sorted(watched)
    ]


def _pair(one: WatchInterval | SuspicionInterval) -> Pair:
    return one.member, one.incarnation, one.target, one.target_incarnation


def _quality(
    group: GroupTables,
    pair: Pair,
    watches: Sequence[WatchInterval],
    some: Sequence[SuspicionInterval],
) -> DetectorQuality:
    watched_ns = sum(max(0, _until(watch) - watch.from_ns) for watch in watches)
    wrong = [one for one in some if one.kind == "MISTAKE"]
    lengths = [one.mistake_ns or 0 for one in wrong]
    chained = [(a, b) for a, b in pairwise(wrong) if a.spell == b.spell]
    good = [b.from_ns - a.to_ns for a, b in chained]
    mean = _mean(good)
    forward = mean / 2 * (1 + pvariance(good) / mean**2) if mean and mean > 0 else None
    found = DetectorQuality(
        cluster=group.key.cluster,
        run=group.key.run,
        group=group.key.group,
        member=pair[0],
        incarnation=pair[1],
        target=pair[2],
        target_incarnation=pair[3],
        watched_ns=watched_ns,
        suspicions=len(some),
        mistakes=len(wrong),
        apart=sum(one.kind == "APART" for one in some),
        mistake_ns=_mean(lengths),
        mistake_ns_max=max(lengths, default=None),
        recurrence_ns=_mean([b.from_ns - a.from_ns for a, b in chained]),
        good_ns=mean,
        rate=len(wrong) / (watched_ns / NS) if watched_ns else None,
        accuracy=1 - sum(lengths) / watched_ns if watched_ns else None,
        forward_good_ns=forward,
    )
    # Of crashes that happened while the target was watched, or a moment before.
    crashes = [w for w in watches if w.crash and w.down_ns is not None and w.down_ns <= w.to_ns]
    return _with_crash(found, crashes[-1], some) if crashes else found


def _until(watch: WatchInterval) -> int:
    return watch.to_ns if watch.down_ns is None else min(watch.to_ns, watch.down_ns)


def _mean(values: Sequence[int]) -> float | None:
    return fmean(values) if values else None


def _with_crash(
    found: DetectorQuality, watch: WatchInterval, some: Sequence[SuspicionInterval]
) -> DetectorQuality:
    assert watch.down_ns is not None
    stayed = [
        one.from_ns for one in some if one.spell == watch.from_lseq and one.ended_by != "TRUST"
    ]
    removed = watch.to_ns if watch.end == "VIEW" else None
    seen = max(stayed, default=removed)
    return msgspec.structs.replace(
        found,
        crash=watch.crash,
        detected=int(seen is not None),
        detection_ns=None if seen is None else max(0, seen - watch.down_ns),
        removal_ns=None if removed is None else removed - watch.down_ns,
        after_ns=watch.to_ns - watch.down_ns,
    )
