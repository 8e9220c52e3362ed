"""Simulated runs as text for people."""

from __future__ import annotations

import pytest
from tests.verify.trace_builder import in_ms, odyssey

from phalanx.journal import schema as ev
from phalanx.sim.demo import demo_scenario
from phalanx.sim.render import summary as show
from phalanx.sim.run import run


def test_deliveries_are_told_by_life_and_view() -> None:
    lines = show.deliveries(in_ms(odyssey()), "abcd")
    agreed = lines[lines.index("agreed: one order for all") + 1 :][:5]
    assert agreed == [
        "  a        E: a#1 a#2 F: a#4 J: c#3 b#3",
        "  b        E: a#1 a#2 F: a#4 J: c#3 b#3",
        "  c        E: a#1 a#2 G: d#2 J: c#3 b#3",
        "  d        E: a#1 a#2 G: d#2 d#3",
        "  d.2      J: c#3 d.2#2 b#3",
    ]
    assert "  a        E: b#1 ! a#3 K: c#4" in lines, "after the marker"


@pytest.mark.parametrize("seed", [1, 2])
def test_the_demo_shows_a_crash_a_three_way_split_a_merge_and_a_return(seed: int) -> None:
    result = run(demo_scenario(seed))
    assert result.signature == ()
    verdicts = {name: found.verdict for name, found in result.report.properties.items()}
    assert verdicts.pop("no-needless-stop") == "unverifiable", "nobody leaves in the demo"
    assert set(verdicts.values()) == {"holds"}
    installs = [r for r in result.rows if isinstance(r, ev.ViewInstalled)]
    sizes = {(r.cause, len(r.members)) for r in installs}
    assert {("boot", 1), ("join", 5), ("removal", 4), ("removal", 1), ("join", 4)} <= sizes
    lines = show.deliveries(result.rows, result.scenario.members)
    assert max(map(len, lines)) <= 100
    assert any(line.strip().startswith("dov ") and "x" in line for line in lines)
    assert any(line.strip().startswith("dov.2") for line in lines)
