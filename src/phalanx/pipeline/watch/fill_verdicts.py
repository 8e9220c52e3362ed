"""Fill `verdicts` and `findings` of a lake for whole groups, or a window of their lives."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from phalanx.pipeline.audit.view_stays import views_in
from phalanx.pipeline.group_plan import unknown_name
from phalanx.pipeline.group_tables import GroupKey
from phalanx.pipeline.lake.lake import Lake, Snapshot
from phalanx.pipeline.lake.lake_transaction import LakeTransaction, change
from phalanx.pipeline.segment_stats import JournalFacts
from phalanx.pipeline.time_window import TimeWindow
from phalanx.pipeline.watch.closed_views import ClosedViews, RowsTaken, TimePassed, ends_of
from phalanx.pipeline.watch.unit_audit import LakeGroup, UnitVerdict, group_key, put_verdicts

WINDOW_ALL = TimeWindow()


class Filled(msgspec.Struct, kw_only=True):
    """What was judged."""

    version: int = 0
    views: int = 0
    violated: int = 0


def fill_verdicts(
    lake: Lake,
    *,
    group: str | None = None,
    window: TimeWindow = WINDOW_ALL,
    progress: Callable[[int, int], None] | None = None,
) -> Filled:
    """Judges the views of all groups, or of those with this name, that overlap the window, and
    replaces their verdicts. Views with members that did not stop and did not leave them are
    *incomplete*. PipelineError for a group that is not there, or if another process writes."""
    with change(lake, "verdicts") as transaction:
        done = judge_into(transaction, group=group, window=window, progress=progress)
        return msgspec.structs.replace(done, version=transaction.commit())


def judge_into(
    transaction: LakeTransaction,
    *,
    group: str | None = None,
    window: TimeWindow = WINDOW_ALL,
    progress: Callable[[int, int], None] | None = None,
) -> Filled:
    """The same within a transaction that the caller commits."""
    units = list(judged_units(transaction.base, group=group, window=window, progress=progress))
    if units:
        put_verdicts(transaction, units)
    violated = sum(unit.verdict.verdict == "violated" for unit in units)
    return Filled(views=len(units), violated=violated)


def judged_units(
    snapshot: Snapshot,
    *,
    group: str | None = None,
    window: TimeWindow = WINDOW_ALL,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[UnitVerdict]:
    """The verdict on each view."""
    by_group: dict[GroupKey, list[JournalFacts]] = {}
    for facts in snapshot.journals(groups=None if group is None else [group]):
        by_group.setdefault(group_key(facts), []).append(facts)
    if group is not None and not by_group:
        names = [facts.group for facts in snapshot.journals()]
        raise unknown_name(f"group {group!r}", "groups", names)
    for nth, (key, journals) in enumerate(sorted(by_group.items())):
        yield from units_of(LakeGroup(snapshot, key, journals), window)
        if progress is not None:
            progress(nth + 1, len(by_group))


def units_of(rows: LakeGroup, window: TimeWindow = WINDOW_ALL) -> Iterator[UnitVerdict]:
    """The verdicts on the views of one group that overlap the window."""
    views = set(rows.index.by_view)
    if window:
        views = views_in(rows.known, window, rows.index)
    machine = ClosedViews(0)
    ends = ends_of((j.member, j.incarnation, j.journal, j.last, j.stopped) for j in rows.journals)
    stays = [stay for some in rows.index.by_journal.values() for stay in some]
    machine.step(0, RowsTaken(tuple(stays), ends))
    for unit in machine.step(1, TimePassed()):
        if unit.view in views:
            yield rows.judge(unit)
