"""Random scenarios from seeds, under the sound protocol and under broken ones.

1. Every guarantee of a fixed view holds and is put to the test, and nothing gets stuck.
2. Scenarios and stories that once failed are kept and stay mended.
3. Every mutant is caught by a checker within a few seeds.

A failure prints the lowest seed and the line that replays it. `make test-long` plays 5,000 seeds.
Groups whose members come and go are in `test_membership`; `test_behaviour` plays the first seeds of
each kind.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.sweeps.mutant_files import seeds_for

from phalanx.explore.random_walk import play
from phalanx.sim.mutants import MUTANTS, apply
from phalanx.sim.mutation_testing import run_mutant
from phalanx.sim.render.narrative import story
from phalanx.sim.run import run
from phalanx.sim.scenario.toml_file import load
from phalanx.sim.sweep import Seeds, run_seeds

KEPT = sorted((Path(__file__).parent / "kept").glob("*.toml"))
STORIES = sorted((Path(__file__).parent / "kept").glob("*.story"))


def test_every_guarantee_is_put_to_the_test() -> None:
    tally = run_seeds(Seeds(200, 212))
    assert tally.never_evaluated == []
    missing = {"loss", "duplicate", "reorder", "pause", "slow", "garbage", "subset", "large"} - set(
        tally.faults
    )
    assert not missing


@pytest.mark.parametrize("path", KEPT, ids=lambda p: p.stem)
def test_a_scenario_that_once_failed_stays_mended(path: Path) -> None:
    result = run(load(str(path)))
    assert not result.failed, "\n".join(story(result))


@pytest.mark.parametrize("path", STORIES, ids=lambda p: p.stem)
def test_a_story_that_once_failed_stays_mended(path: Path) -> None:
    assert play(path).violated == ()


def test_random_loss_removes_nobody() -> None:
    """30 % each way. With half the time before a member counts as stalled, seeds 12 and 55 part."""
    lossy = load(str(Path(__file__).parent / "mutants" / "stalled_while_one_catches_up.toml"))
    seeds = range(60)
    failed = [n for n in seeds if run(msgspec.structs.replace(lossy, seed=n)).failed]
    assert failed == []


def test_kept_scenarios_fail_without_the_rule_that_mended_them() -> None:
    """The third of them is so slow that a member may be removed and come back."""
    mended = [path for path in KEPT if path.stem in ("far_behind_lossy", "far_behind_reordered")]
    with apply("what-lies-ahead-forgotten"):
        assert [run(load(str(path))).failed for path in mended] == [True, True]


@pytest.mark.parametrize("mutant", [m for m, broken in MUTANTS.items() if broken.ground == "fixed"])
def test_a_broken_protocol_is_caught(mutant: str) -> None:
    result = run_mutant(mutant, seeds_for(mutant, range(60)), play)
    assert result.seed is not None, f"{mutant} survived {result.seeds_needed} seeds"
    assert set(result.caught_by) - {"stuck", "exception"}, "no checker named what was violated"


def test_a_mutant_is_gone_when_its_context_is() -> None:
    with apply("safe-without-stability"):
        pass
    assert run_seeds(Seeds(0, 1)).failed_runs == 0
