"""Groups whose members come and go, from seeds and from cuts.

1. Every guarantee holds in random turmoil and in random storms, and nothing gets stuck (also in
   `test_behaviour`).
2. Every guarantee is put to the test, and every case that matters really occurs.
3. No single link, and no single direction of one, changes a view when it is cut.
4. With default settings a crash and a heal lead to the next view in time.
5. Members that leave together keep every guarantee, and do not wait for each other.
"""

from __future__ import annotations

from itertools import permutations

import pytest

from phalanx.journal.schema import Life, ViewInstalled
from phalanx.sim.run import run
from phalanx.sim.scenario.model import (
    MS,
    SECOND,
    Crash,
    Cut,
    Heal,
    Network,
    Partition,
    PlannedLeave,
    Scenario,
    Traffic,
)
from phalanx.sim.sweep import Seeds, run_seeds

NAMES = ("ada", "bea", "cyd", "dov")
CASES = {
    "carried",
    "fault_in_join",
    "from_crashed",
    "held",
    "joined_3_or_more",
    "large_across",
    "markers",
    "merges_2",
    "merges_3_or_more",
    "restarted_joined",
    "stopped_left",
    "stopped_name_in_use",
    "subset_across",
    "transitional_safe",
    "views_join",
    "views_removal",
    "window_closed_across",
}


def test_every_guarantee_is_put_to_the_test_and_every_case_occurs() -> None:
    tally = run_seeds(Seeds(100, 132, 3, 8, "membership"))
    assert tally.never_evaluated == []
    assert not CASES - set(tally.cases)
    assert "stopped_for_nothing" not in tally.cases


def talk(every_ns: int = 60 * MS, count: int = 60) -> tuple[Traffic, ...]:
    return tuple(Traffic(from_=name, every_ns=every_ns, count=count, size=50) for name in NAMES)


@pytest.mark.parametrize(("sender", "receiver"), list(permutations(NAMES, 2)))
def test_a_cut_link_changes_no_view(sender: str, receiver: str) -> None:
    both = sender < receiver  # each link once in both directions, and once in one
    cut = Cut(at_ns=300 * MS, for_ns=5 * SECOND, from_=(sender,), to=(receiver,), both=both)
    scenario = Scenario(
        name="cut", members=NAMES, network=Network(jitter_ns=MS // 10), traffic=talk(), cut=(cut,)
    )
    result = run(scenario)
    assert not result.failed, result.signature
    assert result.cases["semi"] > 0  # it was noticed
    assert [row.cause for row in result.rows if isinstance(row, ViewInstalled)] == ["boot"] * 4


@pytest.mark.parametrize("seed", range(6))
def test_a_crash_is_followed_by_a_view_within_1200_ms(seed: int) -> None:
    at = SECOND + 37 * MS * seed
    crash = (Crash(member=NAMES[seed % 4], at_ns=at),)
    result = run(Scenario(name="crash", seed=seed, members=NAMES, traffic=talk(), crash=crash))
    assert not result.failed, result.signature
    installs = [r.sim_ns or 0 for r in result.rows if isinstance(r, ViewInstalled)]
    after = [at_ns for at_ns in installs if at_ns > at]
    assert len(after) == 3
    assert max(after) - at <= 1_200 * MS


@pytest.mark.parametrize("seed", range(6))
def test_a_heal_is_followed_by_a_merged_view_within_1500_ms(seed: int) -> None:
    at = 3 * SECOND + 41 * MS * seed
    result = run(
        Scenario(
            name="heal",
            seed=seed,
            members=NAMES,
            traffic=talk(),
            partition=(Partition(at_ns=SECOND, groups=((NAMES[seed % 4],),)),),
            heal=(Heal(at_ns=at),),
        )
    )
    assert not result.failed, result.signature
    merged = [r for r in result.rows if isinstance(r, ViewInstalled) and r.cause == "join"]
    assert len(merged) == 4
    assert max(r.sim_ns or 0 for r in merged) - at <= 1_500 * MS


@pytest.mark.parametrize("loss_ppm", [0, 50_000])
@pytest.mark.parametrize("leavers", [2, 3, 4])
def test_members_that_leave_together_keep_every_guarantee(leavers: int, loss_ppm: int) -> None:
    for seed in range(4):
        at = SECOND + 31 * MS * seed
        leave = tuple(
            PlannedLeave(member=name, at_ns=at + seed * MS * i) for i, name in enumerate(NAMES)
        )
        result = run(
            Scenario(
                name="leave",
                seed=seed,
                members=NAMES,
                network=Network(loss_ppm=loss_ppm, jitter_ns=2 * MS),
                traffic=talk(),
                leave=leave[:leavers],
            )
        )
        assert not result.failed, result.signature
        left = [r for r in result.rows if isinstance(r, Life) and r.reason == "left"]
        assert len(left) == leavers
        if not loss_ppm:
            assert max(r.sim_ns or 0 for r in left) - at <= 100 * MS


def test_members_that_have_said_much_can_merge() -> None:
    """More frames than the buffers reach: of strangers only what their floors leave is asked."""
    result = run(
        Scenario(
            name="old",
            members=NAMES,
            config={"ahead_frames_max": 8},
            traffic=talk(every_ns=5 * MS, count=400),
            partition=(Partition(at_ns=SECOND, groups=(("ada", "bea"),)),),
            heal=(Heal(at_ns=3 * SECOND),),
        )
    )
    assert not result.failed, result.signature
    merged = [r for r in result.rows if isinstance(r, ViewInstalled) and r.cause == "join"]
    assert len(merged) == 4
    assert max(r.sim_ns or 0 for r in merged) <= 4_500 * MS


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000, 12_000, 100))
def test_many_storms_keep_every_guarantee(first: int) -> None:
    tally = run_seeds(Seeds(first, first + 100, 3, 5, "storm"))
    assert tally.lowest_failing_seed is None, (tally.lowest_failing_seed, tally.lowest_failure)
