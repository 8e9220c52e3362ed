"""Random scenarios over channels that break: repeatable, playable, connected where they say so."""

from __future__ import annotations

from collections import Counter

import pytest

from phalanx.sim.connectivity import components, severed
from phalanx.sim.generators.mesh import random_mesh
from phalanx.sim.run import run
from phalanx.sim.scenario.model import Scenario
from phalanx.sim.scenario.toml_file import parse, to_toml
from phalanx.sim.scenario.validation import flaw_of

SEEDS = range(300)


def test_every_scenario_can_be_drawn_again_and_written_down() -> None:
    for seed in SEEDS:
        scenario = random_mesh(seed)
        assert scenario == random_mesh(seed)
        assert flaw_of(scenario) is None, seed
        assert parse(to_toml(scenario)) == scenario, seed
        assert scenario.network.channels
        assert scenario.network.loss_ppm == 0


def test_where_no_view_change_has_cause_all_members_reach_each_other_at_any_time() -> None:
    apart = 0
    for scenario in filter(_is_around, map(random_mesh, SEEDS)):
        assert [table for table in ("crash", "leave", "pause") if getattr(scenario, table)] == []
        times = {cut.at_ns for cut in scenario.cut}
        ends = {cut.at_ns + cut.for_ns for cut in scenario.cut if cut.for_ns is not None}
        for now in sorted(times | ends):
            is_severed = severed(scenario, now)
            names = scenario.members
            nodes = range(len(names))
            both = [[not is_severed(a, b) and not is_severed(b, a) for b in names] for a in names]
            assert len(components(nodes, lambda a, b: both[a][b])) == 1, scenario.seed  # noqa: B023
            apart += sum(row.count(False) for row in both)
    assert apart > 1000, "channels are broken, all the same"


def test_breaks_both_ways_and_one_way_and_every_shape_are_drawn() -> None:
    drawn: Counter[str] = Counter()
    for scenario in map(random_mesh, SEEDS):
        drawn.update(["around" if _is_around(scenario) else "free", scenario.start])
        drawn.update({f"both {cut.both}" for cut in scenario.cut})
        drawn.update({"lasting" if cut.for_ns is None else "brief" for cut in scenario.cut})
        drawn.update(
            name
            for name in ("crash", "leave", "restart", "partition", "pause", "role")
            if getattr(scenario, name)
        )
        waits = [crash for crash in scenario.crash if crash.after_proposal is not None]
        drawn.update("initiator crashes" for _ in waits)
        drawn.update([f"{len(scenario.members)} members", str(scenario.config["mode"])])
    assert min(drawn.values()) >= 8
    assert len(drawn) == 2 + 2 + 2 + 2 + 6 + 1 + 6 + 2


@pytest.mark.parametrize("seed", range(1000, 1012))
def test_members_stay_together_around_broken_channels(seed: int) -> None:
    result = run(random_mesh(seed))
    assert not result.failed, result.signature


def _is_around(scenario: Scenario) -> bool:
    return scenario.changes_max == 0
