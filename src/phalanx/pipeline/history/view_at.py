"""The view of a member at an instant.

The instant is one of the member's own wall clock, or of simulated time. Each life of the member has
its own answer: the view, or that it had none yet, or that its journal ends before. Where the wall
clock was set back an instant occurs twice, and both answers are given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from phalanx.pipeline.group_tables import GroupKey, GroupTables
from phalanx.pipeline.history.clocks import WallClock, wall_clocks
from phalanx.pipeline.history.instant import Instant
from phalanx.pipeline.history.intervals import ViewInterval, intervals, labels
from phalanx.pipeline.history.lookup import (
    MemberLife,
    check_member,
    check_run,
    find_lives,
    lives,
)
from phalanx.pipeline.time_window import check_clock

Answer = Literal["in view", "before", "after", "none"]


class ViewSpell(msgspec.Struct, frozen=True):
    """A member in a view, from when to when; instants as text."""

    view: str
    members: list[str]
    cause: str
    since: str
    until: str
    end: str
    next_view: str | None
    gapped: int


class ViewAt(msgspec.Struct, frozen=True):
    """What one life of a member had at the instant.

    `in view` has the view; `before` has the first view that came; `after` the last one; `none`
    has nothing, for the journal has no view at all.
    """

    cluster: str
    run: str
    group: str
    member: str
    instant: str
    answer: Answer
    stay: ViewSpell | None


class ViewAnswers(msgspec.Struct, frozen=True):
    """The answers of one group in one run, and the members that have a journal there."""

    key: GroupKey
    members: list[str]
    answers: list[ViewAt]


def views_at(member: str, at: Instant, run: str | None, group: GroupTables) -> ViewAnswers:
    """The kernel of `view_at`. PipelineError for an instant of the wrong clock."""
    if run not in (None, group.key.run):
        return ViewAnswers(group.key, [], [])
    known = lives(group)
    asked = find_lives(known, member)
    for life in asked:
        check_clock(at, life.run, life.simulated)
    clocks = wall_clocks(group)
    stays: dict[str, list[ViewInterval]] = {}
    for interval in intervals(group) if asked else ():
        stays.setdefault(interval.journal, []).append(interval)
    answers = [
        answer
        for life in asked
        for answer in _answers(life, at, stays.get(life.journal, []), clocks[life.journal])
    ]
    return ViewAnswers(group.key, [life.label for life in known], answers)


def view_at(
    results: Iterable[ViewAnswers], group: str, member: str, run: str | None = None
) -> list[ViewAt]:
    """For each life of the member (`ada`, or one life as `ada.2`) in each run that there is, in
    order. PipelineError for a name that is unknown, with those that are known."""
    some = list(results)
    check_run([one.key for one in some], group, run)
    found = [answer for one in some for answer in one.answers]
    check_member(bool(found), group, member, [label for one in some for label in one.members])
    return found


def _answers(
    life: MemberLife, at: Instant, stays: Sequence[ViewInterval], clock: WallClock
) -> list[ViewAt]:
    """The views that one life had at the instant, in the order of their rows."""
    if not stays:
        return [_answer(life, at, "none", None)]
    moments = [at.ns] if at.simulated else clock.moments(at.ns)
    hits = [stay for stay in stays if any(stay.from_ns <= ns < stay.to_ns for ns in moments)]
    if hits:
        return [_answer(life, at, "in view", stay) for stay in hits]
    first = stays[0]
    if moments:
        early = moments[0] < first.from_ns
    else:
        early = first.from_wall_ns is not None and at.ns < first.from_wall_ns
    return [_answer(life, at, "before" if early else "after", first if early else stays[-1])]


def _answer(life: MemberLife, at: Instant, answer: Answer, stay: ViewInterval | None) -> ViewAt:
    spell = None
    if stay is not None:
        begin, end = stay.from_wall_ns, stay.to_wall_ns
        if at.simulated:
            begin, end = stay.from_sim_ns, stay.to_sim_ns
        assert begin is not None, "the clock was checked"
        assert end is not None, "the clock was checked"
        spell = ViewSpell(
            stay.view,
            labels(stay.members, stay.member_incarnations),
            stay.cause,
            str(Instant(begin, at.simulated)),
            str(Instant(end, at.simulated)),
            stay.end,
            stay.next_view,
            stay.gapped,
        )
    return ViewAt(life.cluster, life.run, life.group, life.label, str(at), answer, spell)
