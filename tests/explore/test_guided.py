"""Guided walks: they break nothing, are the same in every process, and find broken rules."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from phalanx.core.effects import Service
from phalanx.explore import stories
from phalanx.explore.campaign import run_walks
from phalanx.explore.crowd import Crowd, Setting
from phalanx.explore.guided import Guided, walks
from phalanx.sim.mutants import apply

KEPT = Path(__file__).parents[1] / "sweeps" / "kept"
CORPUS = [stories.load(file) for file in sorted(KEPT.glob("*.story"))]


@pytest.mark.parametrize("part", range(2))
def test_guided_walks_of_400_seeds_find_nothing(part: int) -> None:
    first = 1_000_000 * part
    totals = run_walks(range(first, first + 400), 4, 7, 60.0, CORPUS, jobs=1)
    shown = [(w.seed, w.branch, w.finding, stories.text_of(w.story)) for w in totals.found]
    assert shown == []
    assert totals.walks > 100


def test_the_story_of_a_walk_ends_as_the_walk_did() -> None:
    for walked in islice(walks(range(20)), 30):
        assert stories.play(walked.story) == walked.finding


def test_branches_begin_where_two_ways_are_open() -> None:
    torn = next(w for w in map(_walked, range(200)) if w[0].torn_at is not None)
    guided, steps = torn
    assert guided.torn_at is not None
    again = list(walks(range(guided._seed, guided._seed + 1)))
    assert [walked.branch for walked in again] == [0, 1, 2, 3]
    for walked in again:
        assert walked.story.steps[: guided.torn_at] == steps[: guided.torn_at]


def _walked(seed: int) -> tuple[Guided, tuple[str, ...]]:
    guided = Guided(seed)
    return guided, guided.run().story.steps


@pytest.mark.parametrize(
    "mutant",
    ["older-proposal-installed", "any-witness", "no-closing-cut", "everything-delivered-early"],
)
def test_guided_walks_find_a_broken_rule(mutant: str) -> None:
    totals = run_walks(range(400), 4, 7, 60.0, jobs=1, mutant=mutant)
    assert totals.found, f"{mutant} survived {totals.walks} walks"
    story = totals.found[0].story
    assert stories.play(story) is None
    with apply(mutant):
        assert stories.play(story) == totals.found[0].finding


def test_a_late_packet_arrives_again() -> None:
    crowd = Crowd(Setting([[0, 1]], hold=False, service=Service.AGREED))
    crowd.send(0, int(Service.BASIC))
    crowd.deliver(1, 0)
    crowd.late(1, 0, 0)
    assert crowd.steps == ["send 0 0", "deliver 1 0", "late 1 0 0"]
    assert crowd.settle() is None


def test_a_needless_time_out_is_found_in_a_calm_setting() -> None:
    crowd = Crowd(Setting([[0, 1, 2]], hold=False, service=Service.AGREED, calm=True))
    crowd.break_with(0, 2)
    crowd.pass_timer(0, "answer")
    assert crowd.wrong is not None
    assert crowd.wrong.check == "JN"
