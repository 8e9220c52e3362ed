"""Watch journals that grow: each view once, by its last rows, as the audit of the whole lake."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.pipeline.watch.live_journals import (
    LiveJournals,
    findings_of,
    simulated_journals,
    verdicts_of,
    with_a_lost_message,
)

from phalanx.pipeline.group_tables import each_batch, groups_of_rows
from phalanx.pipeline.ingest import ingest
from phalanx.pipeline.lake.lake import Lake
from phalanx.pipeline.lake.lake_transaction import change
from phalanx.pipeline.watch import unit_audit
from phalanx.pipeline.watch.alerts import AlertChange
from phalanx.pipeline.watch.fill_verdicts import fill_verdicts
from phalanx.pipeline.watch.watcher import (
    ProblemEvent,
    VerdictEvent,
    Watcher,
    WatchEvent,
    WatchSettings,
)

SECOND = 1_000_000_000


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def watched(folder: Path, clock: Clock, once: bool = False) -> Watcher:
    settings = WatchSettings(grace_s=30, open_s=0, once=once)
    return Watcher(folder / "lake", [str(folder / "journals")], settings, now=clock)


def judged(events: Sequence[WatchEvent]) -> list[str]:
    return [event.unit.verdict.view for event in events if isinstance(event, VerdictEvent)]


@pytest.mark.parametrize("memory_rows", [unit_audit.MEMORY_ROWS, 0], ids=["small", "large"])
def test_views_of_growing_journals_are_judged_as_the_whole_lake_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory_rows: int
) -> None:
    made = with_a_lost_message(simulated_journals(1))
    live, clock = LiveJournals(tmp_path / "journals", made), Clock()
    watcher = watched(tmp_path, clock)
    events: list[WatchEvent] = []
    monkeypatch.setattr(unit_audit, "MEMORY_ROWS", memory_rows)
    for turn in range(1, 5):
        live.grow(turn / 4)
        clock.now += SECOND
        events += watcher.trigger()
        if turn == 2:  # another process takes over
            watcher = watched(tmp_path, clock)
    clock.now += 60 * SECOND
    events += watcher.trigger()
    live.close()
    monkeypatch.undo()
    ingest([tmp_path / "journals"], tmp_path / "other")
    done = fill_verdicts(Lake(tmp_path / "other"))
    found, expected = verdicts_of(tmp_path / "lake"), verdicts_of(tmp_path / "other")
    assert found == expected
    assert findings_of(tmp_path / "lake") == findings_of(tmp_path / "other")
    assert done.violated >= 1
    alerts = [event for event in events if isinstance(event, AlertChange)]
    assert {alert.alert.kind for alert in alerts} >= {"violation"}
    assert list(watcher.trigger()) == [], "nothing is judged twice"


def test_a_late_journal_replaces_the_verdicts_of_its_views(tmp_path: Path) -> None:
    made = simulated_journals(1)
    live, clock = LiveJournals(tmp_path / "journals", made), Clock()
    early = range(1, len(made))
    live.grow(1, early)
    watcher = watched(tmp_path, clock)
    list(watcher.trigger())
    clock.now += 60 * SECOND
    list(watcher.trigger())
    before = verdicts_of(tmp_path / "lake")
    assert "incomplete" in {status for status, _, _ in before.values()}
    live.grow(1)
    list(watcher.trigger())
    clock.now += 60 * SECOND
    list(watcher.trigger())
    live.close()
    ingest([tmp_path / "journals"], tmp_path / "other")
    fill_verdicts(Lake(tmp_path / "other"))
    assert verdicts_of(tmp_path / "lake") == verdicts_of(tmp_path / "other")


def test_a_lake_that_another_process_writes_to_is_judged_later(tmp_path: Path) -> None:
    live = LiveJournals(tmp_path / "journals", simulated_journals(1))
    live.grow(1)
    live.close()
    ingest([tmp_path / "journals"], tmp_path / "lake")
    watcher = Watcher(tmp_path / "lake", [], WatchSettings(open_s=0), now=Clock())
    with change(Lake(tmp_path / "lake"), "something else"):
        (problem,) = watcher.trigger()
    assert isinstance(problem, ProblemEvent)
    assert "another process writes" in problem.text
    assert len(judged(list(watcher.trigger()))) >= 3


def test_an_open_view_is_judged_while_it_lasts(tmp_path: Path) -> None:
    live, clock = LiveJournals(tmp_path / "journals", simulated_journals(1)), Clock()
    live.grow(0.5)
    settings = WatchSettings(open_s=10, grace_s=1000)
    watcher = Watcher(tmp_path / "lake", [str(tmp_path / "journals")], settings, now=clock)
    list(watcher.trigger())
    clock.now += 10 * SECOND
    events = list(watcher.trigger())
    live.close()
    statuses = {e.unit.verdict.status for e in events if isinstance(e, VerdictEvent)}
    assert statuses == {"open"}
    clock.now += 10 * SECOND
    assert judged(list(watcher.trigger())) == [], "not without new rows"


def test_once_judges_every_view(tmp_path: Path) -> None:
    made = simulated_journals(1, 6)
    live = LiveJournals(tmp_path / "journals", made)
    live.grow(1)
    live.close()
    list(watched(tmp_path, Clock(), once=True).trigger())
    expected = {
        (*group.key, view)
        for group in groups_of_rows(made)
        for view in group["view_installed"].column("view").to_pylist()
    }
    assert verdicts_of(tmp_path / "lake").keys() == expected
    assert judged(list(watched(tmp_path, Clock(), once=True).trigger())) == []


def test_a_large_group_is_judged_without_the_files_of_earlier_days(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second segment of each journal begins three days later; the last views lie in it."""
    made = with_a_lost_message(simulated_journals(4))
    first, second = [], []
    for header, rows in made:
        half = len(rows) // 2
        later = {"number": 2, "wall_ns": header.wall_ns + 3 * 86_400 * SECOND}
        first.append((header, rows[:half]))
        second.append((msgspec.structs.replace(header, **later), rows[half:]))
    monkeypatch.setattr(unit_audit, "MEMORY_ROWS", 0)
    days: list[set[str]] = []
    real = each_batch

    def recorded(key: Any, journals: Any, files: Any, rows: int) -> Any:
        days.append({file.day for file in files.get("deliver", ())})
        return real(key, journals, files, rows)

    monkeypatch.setattr(unit_audit, "each_batch", recorded)
    clock = Clock()
    watcher = watched(tmp_path, clock)
    for part, turns in ((first, 1), (second, 2)):
        live = LiveJournals(tmp_path / "journals", part)
        for turn in range(1, turns + 1):
            live.grow(turn / turns)
            clock.now += SECOND
            list(watcher.trigger())
        live.close()
    clock.now += 60 * SECOND
    list(watcher.trigger())
    assert {"1970-01-04"} in days, "some views are judged by the second day alone"
    monkeypatch.undo()
    ingest([tmp_path / "journals"], tmp_path / "other")
    fill_verdicts(Lake(tmp_path / "other"))
    assert verdicts_of(tmp_path / "lake") == verdicts_of(tmp_path / "other")
    assert findings_of(tmp_path / "lake") == findings_of(tmp_path / "other")
