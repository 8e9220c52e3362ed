"""The servers of the service in a simulated network with faults.

Properties (`phalanx.sim.service.service_checks`, `service_run`): agreement, order, member, GP and
C4 at every state; P9 at rest.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from phalanx.cli.sim_service import service
from phalanx.errors import ConfigurationError
from phalanx.sim.service.service_mutants import service_mutant
from phalanx.sim.service.service_run import ServicePlan, run_service
from phalanx.sim.service.service_sweep import sweep_service

SHORT = ServicePlan(faults=6, seconds=15)


def test_trees_of_servers_come_to_rest_and_violate_nothing() -> None:
    tally = sweep_service((0, 6), SHORT, jobs=1)
    assert tally.failing_seeds == []
    assert tally.counts["fork applied"] > 0
    assert tally.counts["union applied"] > 0


def test_a_tree_that_nothing_disturbs_decides_nothing() -> None:
    run = run_service(1, ServicePlan(faults=0, seconds=5))
    assert run.violations == ()
    assert run.counts["commits"] == 0


@pytest.mark.parametrize(
    ("mutant", "seed", "found"),
    [("no-acting", 3, "P9"), ("never-isolates", 3, "P9"), ("one-sided-union", 3, "P9")],
)
def test_a_broken_rule_of_the_tree_is_found(mutant: str, seed: int, found: str) -> None:
    run = run_service(seed, ServicePlan(), mutant)
    assert found in {name for name, _ in run.violations}


def test_groups_through_faults_come_to_rest_and_violate_nothing() -> None:
    tally = sweep_service((0, 4), ServicePlan(faults=8, calls=20), jobs=1)
    assert tally.failing_seeds == []
    for what in ("entry adopt", "entry take", "call join done", "union applied", "entry fail"):
        assert tally.counts[what] > 0


@pytest.mark.parametrize(
    "seed",
    [
        35,  # a merge that was refused was pinned and unpinned without end
        115,  # a claim took another branch that the interface held as well
        122,  # two components of a child set, of which one had handed the group up
    ],
)
def test_runs_that_violated_a_property_once(seed: int) -> None:
    assert run_service(seed, ServicePlan(faults=8, calls=20)).violations == ()


@pytest.mark.parametrize(
    "seed",
    [
        1039,  # the name of a group was lost with its scope, while it was owned two levels below
        1088,  # two components decided a union with the same third one
    ],
)
def test_runs_with_all_rights_that_violated_a_property_once(seed: int) -> None:
    plan = ServicePlan(faults=10, calls=40, all_rights=True)
    assert run_service(seed, plan).violations == ()


def test_two_coordinators_that_isolate_each_other_share_no_member() -> None:
    """Members gave up an answer to one coordinator for the change of the other, and both committed
    with them."""
    plan = ServicePlan(faults=10, calls=60, all_rights=True)
    assert run_service(2115, plan).violations == ()


def test_a_single_crash_of_a_server_excludes_no_live_member() -> None:
    tally = sweep_service((0, 8), ServicePlan(calls=1, single=True), jobs=1)
    assert tally.failing_seeds == []
    assert tally.counts["excluded alive"] == 0


def test_servers_leave_for_good_and_ways_are_cut_in_one_direction() -> None:
    plan = ServicePlan(faults=14, calls=20, all_faults=True)
    tally = sweep_service((0, 3), plan, jobs=1)
    assert tally.failing_seeds == []
    for case in ("servers out of all their sets", "ways cut in one direction", "pauses"):
        assert tally.cases()[case] > 0


def test_a_part_that_had_narrowed_the_scope_of_a_group_meets_the_others() -> None:
    plan = ServicePlan(faults=14, calls=20, all_rights=True, all_faults=True)
    assert run_service(30017, plan).violations == ()


def test_a_stranger_that_acts_as_parent_gives_way_to_a_member_of_the_set() -> None:
    """The configured parent had left for good, and the most senior member was in the set only as
    acting parent of a set below: it could never leave."""
    plan = ServicePlan(levels=4, faults=14, all_faults=True)
    assert run_service(50004, plan).violations == ()


def test_an_unknown_mutant_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="mutant"), service_mutant("no-such"):
        pass


def test_a_run_does_not_depend_on_the_order_of_hashes() -> None:
    program = (
        "from phalanx.sim.service.service_run import ServicePlan, run_service\n"
        "print(run_service(2, ServicePlan(faults=6, seconds=10)).digest)"
    )
    digests = set()
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        digests.add(done.stdout)
    assert len(digests) == 1


def test_the_command_prints_the_sums_and_how_to_replay_a_failure() -> None:
    arguments = ["--seeds", "1:2", "--faults", "2", "--calls", "3", "--seconds", "5"]
    done = CliRunner().invoke(service, [*arguments, "--jobs", "1", "--json"])
    assert done.exit_code == 0
    facts = json.loads(done.output)
    assert facts["runs"] == 1
    assert facts["cases"]["views installed"] > 0
    assert facts["cases"]["groups claimed"] >= 0
    done = CliRunner().invoke(
        service, ["--seeds", "3:4", "--calls", "0", "--jobs", "1", "--mutant", "no-acting"]
    )
    assert done.exit_code == 1
    assert "replay: phalanx sim service --seeds 3:4" in done.output
