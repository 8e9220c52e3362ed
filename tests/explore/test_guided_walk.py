"""Guided walks: they break nothing, are the same in every process, and find broken rules."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from phalanx.core.effects import Service
from phalanx.explore import story as stories
from phalanx.explore.guided_walk import WalkTree, walks
from phalanx.explore.live_group import LiveGroup, Setting
from phalanx.explore.walk_branch import UNDECIDED, Branch
from phalanx.explore.walk_runner import run_walks
from phalanx.sim.mutants import apply

KEPT = Path(__file__).parents[1] / "sweeps" / "kept"
SEEDS = 100
"""Of which walks find every broken rule that is asked of them."""
CORPUS = [stories.load(file) for file in sorted(KEPT.glob("*.story"))]


def check_walks(first: int, seeds: int) -> None:
    totals = run_walks(range(first, first + seeds), 4, 7, corpus=CORPUS, jobs=1)
    shown = [(w.seed, w.branch, w.finding, stories.text_of(w.story)) for w in totals.found]
    assert shown == []
    assert totals.walks > 6 * seeds


@pytest.mark.parametrize("first", [0, 1_000_000])
def test_guided_walks_of_100_seeds_find_nothing(first: int) -> None:
    """As many as `test_guided_walks_find_a_broken_rule` needs at most."""
    check_walks(first, SEEDS)


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1_000_000])
def test_guided_walks_of_more_seeds_find_nothing(first: int) -> None:
    check_walks(first + SEEDS, 400)


def test_the_story_of_a_walk_ends_as_the_walk_did() -> None:
    for walked in islice(walks(range(20)), 0, 200, 7):
        assert stories.play(walked.story) == walked.finding


def test_walks_are_the_same_again() -> None:
    once = [walked.story for walked in walks(range(40, 43), corpus=CORPUS)]
    assert once == [walked.story for walked in walks(range(40, 43), corpus=CORPUS)]


def test_a_fork_goes_its_own_way() -> None:
    """The same steps lead to the same state, whether forked on the way or not."""
    group = LiveGroup(Setting([[0, 1, 2]], hold=False, service=Service.AGREED))
    group.send(0, int(Service.AGREED))
    group.deliver(1, 0)
    fork = group.fork()
    fork.break_with(1, 2)
    fork.deliver(0, 1)
    assert fork.settle() is None
    assert group.members[1].stage == "STEADY"
    assert group.steps == ["send 0 2", "deliver 1 0"]
    assert group.settle() is None
    assert group.changes() == [0, 0, 0]
    assert fork.changes() != [0, 0, 0]


def test_what_a_fork_does_is_not_felt_by_the_other() -> None:
    """Copies of members share nothing that changes."""
    for story in CORPUS[:8]:
        plain, forked = LiveGroup(story.setting), LiveGroup(story.setting)
        for at, step in enumerate(story.steps):
            kept = forked.fork()
            for other in story.steps[at + 1 : at + 4]:
                stories.do(forked, other)
            forked = kept
            stories.do(plain, step)
            stories.do(forked, step)
        assert forked.shown() == plain.shown()
        assert _seen(forked) == _seen(plain)


def _seen(group: LiveGroup) -> list[object]:
    return [group._histories.stories[history].events for history in group._history]


def test_trees_grow_where_members_are_undecided() -> None:
    trees = [WalkTree(seed) for seed in range(40)]
    counts = [sum(1 for _ in tree.walks()) for tree in trees]
    torn = [count for tree, count in zip(trees, counts, strict=True) if tree.undecided]
    calm = [count for tree, count in zip(trees, counts, strict=True) if not tree.undecided]
    assert torn
    assert calm
    assert sum(torn) / len(torn) > 2 * sum(calm) / len(calm)


def test_undecided_members_are_seen() -> None:
    """m0 and m1 have issued two proposals that all their entries have issued."""
    group = LiveGroup(Setting([[0, 1, 2, 3]], hold=False, service=Service.AGREED))
    branch = Branch(group)
    for p in (0, 1, 3):
        group.break_with(p, 2)
    branch.observe()
    assert branch.undecided() == ([], 0)
    group.break_with(0, 3)
    group.break_with(1, 3)
    branch.observe()
    torn, nearness = branch.undecided()
    assert (torn, nearness) == ([0, 1], UNDECIDED)


@pytest.mark.parametrize(
    "mutant",
    ["older-proposal-installed", "any-witness", "no-closing-cut", "everything-delivered-early"],
)
def test_guided_walks_find_a_broken_rule(mutant: str) -> None:
    totals = run_walks(range(SEEDS), 4, 7, jobs=1, mutant=mutant)
    assert totals.found, f"{mutant} survived {totals.walks} walks"
    story = totals.found[0].story
    assert stories.play(story) is None
    with apply(mutant):
        assert stories.play(story) == totals.found[0].finding


def test_a_late_packet_arrives_again() -> None:
    group = LiveGroup(Setting([[0, 1]], hold=False, service=Service.AGREED))
    group.send(0, int(Service.BASIC))
    group.deliver(1, 0)
    group.late(1, 0, 0)
    assert group.steps == ["send 0 0", "deliver 1 0", "late 1 0 0"]
    assert group.settle() is None


def test_a_needless_time_out_is_found_in_a_calm_setting() -> None:
    group = LiveGroup(Setting([[0, 1, 2]], hold=False, service=Service.AGREED, calm=True))
    group.break_with(0, 2)
    group.pass_timer(0, "answer")
    assert group.wrong is not None
    assert group.wrong.check == "JN"
