"""Views of a group judged one by one: the same violations as of the whole, and no false ones.

1. Correct runs: no view is violated.
2. Hand-made and changed traces, and runs of broken protocols: each view, judged on its own rows and
   those of the view before, violates what it violates when all rows are evidence, and as often. Of
   two views in which one message was delivered at least one does.
3. All views together violate what the whole does, liveness aside: that is asked of whole runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from tests.pipeline.audit.played import Played, groups_of
from tests.pipeline.audit.situations import by_seed, caught, changed, misreported
from tests.pipeline.made import WALL, Hand, write_journal
from tests.sweeps.mutant_files import FOLDER

from phalanx.cli.main import main
from phalanx.journal import schema as ev
from phalanx.pipeline.audit import audit_plan, judge_group
from phalanx.pipeline.audit.journal_excerpt import JournalExcerpt
from phalanx.pipeline.audit.judge_views import OF_TWO_VIEWS, judge_views
from phalanx.pipeline.audit.view_scope import WHOLE, carried_to, scope_of, scope_tables
from phalanx.pipeline.audit.view_stays import StayIndex, stays_of
from phalanx.pipeline.group_plan import plan_groups
from phalanx.pipeline.group_tables import GroupTables
from phalanx.pipeline.history.instant import parse
from phalanx.pipeline.time_window import TimeWindow
from phalanx.sim.mutants import MUTANTS
from phalanx.verify.properties import PROPERTIES, Needs, needing

EVERY = 3
"""Of the traces, every so many; all of them in the slow test."""


def views_of(group: GroupTables) -> list[str]:
    return sorted(set(group["view_installed"].column("view").to_pylist()))


def as_real(group: GroupTables) -> GroupTables:
    """Without what only a simulator knows."""
    journals = [msgspec.structs.replace(facts, settled=0) for facts in group.journals]
    return GroupTables(group.key, journals, {name: group[name] for name in group.names})


def violated_by_view(
    group: GroupTables, views: Iterable[str], depth: int = 1
) -> dict[str, dict[str, int]]:
    """How often each view violates which property."""
    found = {}
    for view in views:
        judged = judge_views(group, [view], depth=depth)
        found[view] = {name: judged.properties[name].violations for name in judged.violated}
    return found


def compare(runs: Sequence[Played]) -> None:
    for run, group in zip(sorted(runs, key=lambda run: run.name), groups_of(runs), strict=True):
        assert group.key.run == run.name
        views = views_of(group)
        alone = violated_by_view(group, views)
        by_all_rows = violated_by_view(group, views, WHOLE)
        torn = any(facts.torn for facts in group.journals)
        for view in views:
            one, other = (_of_one_view(found[view]) for found in (alone, by_all_rows))
            # Rows that are missing elsewhere do not matter to a view.
            assert one == other or (torn and one.items() >= other.items()), (run.name, view)
        together = {name for some in alone.values() for name in some}
        whole = judge_group(as_real(group))
        elsewhere = {
            example.property
            for result in whole.properties.values()
            for example in result.counterexamples
            if example.view not in views
        }
        assert torn or together <= set(whole.violated), run.name
        assert set(whole.violated) - together <= elsewhere, run.name


def _of_one_view(found: dict[str, int]) -> dict[str, int]:
    return {name: times for name, times in found.items() if name not in OF_TWO_VIEWS}


def test_views_of_correct_runs_are_not_violated(good: list[Played]) -> None:
    for group in groups_of(good):
        found = violated_by_view(group, views_of(group))
        assert not any(found.values()), (group.key, found)


def test_each_view_alone_violates_what_it_violates_in_the_whole(
    traces: dict[str, Played], bad: list[Played]
) -> None:
    compare([*list(traces.values())[::EVERY], *bad])


def test_liveness_is_not_asked_of_views(good: list[Played]) -> None:
    group = groups_of(good)[0]
    judged = judge_views(group, views_of(group))
    for name in needing(Needs.SETTLED_RUN):
        assert judged.properties[name].verdict == "unverifiable", name


def test_what_is_carried_from_view_to_view_is_what_all_rows_before_say(good: list[Played]) -> None:
    compared = 0
    for group in groups_of(good):
        index = StayIndex(stays_of(group["view_installed"]))
        carried: dict[tuple[str, int], JournalExcerpt] = {}
        for view in index.by_view:
            scope = scope_of(group.key, group.journals, index, [view])
            tables, excerpts = scope_tables(group, scope)
            carried |= carried_to(view, tables, excerpts, index)
        for view in index.by_view:
            _, excerpts = scope_tables(group, scope_of(group.key, group.journals, index, [view]))
            for journal, found in excerpts.items():
                if (journal, found.begin) in carried:
                    told = carried[journal, found.begin]
                    assert msgspec.structs.replace(told, goes_on=found.goes_on) == found
                    compared += found.begin > 1
    assert compared > 20


@pytest.mark.slow
def test_each_view_of_all_traces_alone_violates_what_it_violates_in_the_whole(
    traces: dict[str, Played],
) -> None:
    compare(list(traces.values()))


@pytest.mark.slow
def test_each_view_of_changed_traces_alone_violates_what_it_violates_in_the_whole() -> None:
    compare(changed(300))
    compare(misreported(200))


@pytest.mark.slow
def test_views_of_many_correct_runs_are_not_violated() -> None:
    runs = by_seed({"membership": range(100, 160), "storm": range(100, 160)})
    for group in groups_of(runs):
        found = violated_by_view(group, views_of(group))
        assert not any(found.values()), (group.key, found)


@pytest.mark.slow
def test_mutants_are_caught_view_by_view_as_in_the_whole() -> None:
    compare([caught(mutant, range(60), FOLDER) for mutant in MUTANTS])


# ---------------------------------------------------------------------------- a window of a life


def a_long_life(tmp_path: Path) -> Path:
    """Two real members for three seconds, a view each; a message is lost in the second."""
    for who in ("ada", "bea"):
        hand = Hand(f"{who}.1", run="phalanx", group="orders")
        hand.put(0, ev.Life, op="START")
        for nth in range(3):
            members = "ada.1 bea.1"
            both = {"transitional": ["ada", "bea"], "transitional_incarnations": [1, 1]}
            more: dict[str, Any] = {"removals": nth, "joined": [], "joined_incarnations": []}
            more |= {"left": [], "left_incarnations": [], **(both if nth else {})}
            at = 1000 * nth
            hand.view(at + 1, f"v{nth}", members, **more)
            common = {"first": nth + 1, "last": nth + 1, "service": "AGREED", "view": f"v{nth}"}
            common |= {"phase": 0, "frame": nth + 1}
            if who == "ada":
                deps: dict[str, Any] = {"dep_senders": [], "dep_incarnations": []}
                hand.put(at + 10, ev.Sent, **common, **deps, dep_numbers=[])
            if (who, nth) != ("bea", 1):
                region: dict[str, Any] = {"region": "REGULAR", "origin": f"v{nth}", "pos": 0}
                sender = {"sender": "ada", "sender_incarnation": 1}
                hand.put(at + 20, ev.Deliver, **common, **region, **sender)
        write_journal(tmp_path / "journals", hand.journal)
    return tmp_path / "journals"


def at_second(seconds: float) -> str:
    return str(WALL // 1_000_000_000 + seconds)


@pytest.mark.parametrize(
    ("since", "until", "violated"),
    [
        (None, None, True),
        (1.1, 1.5, True),
        (None, 0.9, False),
        (2.1, None, False),
        (0.5, 2.5, True),
    ],
)
def test_a_window_judges_the_views_that_overlap_it(
    tmp_path: Path, since: float | None, until: float | None, violated: bool
) -> None:
    """The cluster is the run of real members: their whole life is one run."""
    journals = a_long_life(tmp_path)
    options = [] if since is None else ["--since", at_second(since)]
    options += [] if until is None else ["--until", at_second(until)]
    done = CliRunner().invoke(main, ["audit", str(journals), *options, "--json"])
    found = json.loads(done.stdout)
    assert (done.exit_code == 1) == violated, done.output
    assert ("virtual-synchrony" in violated_names(found)) == violated


def violated_names(found: dict[str, Any]) -> set[str]:
    return {name for name, r in found["properties"].items() if r["verdict"] == "violated"}


def test_a_window_without_views_has_nothing_to_audit(tmp_path: Path) -> None:
    journals = a_long_life(tmp_path)
    done = CliRunner().invoke(main, ["audit", str(journals), "--since", at_second(1e6)])
    assert done.exit_code == 0
    assert "nothing to audit" in done.stdout


def test_a_large_group_in_files_is_judged_in_a_window_as_in_memory(tmp_path: Path) -> None:
    journals = a_long_life(tmp_path)
    window = TimeWindow(parse(at_second(1.1)), parse(at_second(1.5)))
    plan = plan_groups([journals])
    whole = audit_plan(plan, PROPERTIES, engine="local", window=window)
    parts = audit_plan(plan, PROPERTIES, engine="local", window=window, large_rows=1, large_bytes=1)
    assert parts.to_json() == whole.to_json()
