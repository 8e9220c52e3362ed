"""One audit that most tests look at: hand-made traces, changed ones, simulated runs, correct and of
broken protocols. An audit has a price of its own, whatever it is of."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.pipeline.audit import situations
from tests.pipeline.audit.played import Played, groups_of
from tests.verify.trace_builder import odyssey

from phalanx.pipeline.audit import Audit, RunVerdicts, audit_groups
from phalanx.sim.generators import Kind

CHANGED = 12
"""Random legal traces in which something was changed; `test_differential` has many more."""
MISREPORTED = 14
"""Runs of which something that members are told was changed."""
SEEDS: dict[Kind, range] = {"fixed": range(5), "membership": range(4), "storm": range(4)}
MUTATED: tuple[tuple[str, Kind, int], ...] = (
    ("duplicate-let-through", "fixed", 0),
    ("causal-without-waiting", "fixed", 6),
    ("subset-shown-to-stranger", "fixed", 2),
    ("epoch-not-raised", "storm", 1),
)
"""Broken rules, and where chance shows them soon."""


@pytest.fixture(scope="session")
def good() -> list[Played]:
    """Correct runs of the simulator."""
    return list(situations.by_seed(SEEDS))


@pytest.fixture(scope="session")
def bad() -> list[Played]:
    """Runs of broken protocols."""
    return [situations.mutated(*one) for one in MUTATED]


@pytest.fixture(scope="session")
def traces() -> dict[str, Played]:
    """Small ones that tell of one thing each."""
    with pytest.MonkeyPatch.context() as patch:
        runs = [*situations.broken(), *situations.kept(), *situations.told(patch)]
    runs += situations.reported()
    runs += situations.changed(CHANGED) + situations.misreported(MISREPORTED)
    rows = odyssey().rows
    for known in (False, True):  # what a simulator knows is not believed of a part
        one, two = (("absent", "torn"), ("absent, settled", "torn, settled"))[known]
        runs.append(
            Played(one, [r for r in rows if (r.member, r.incarnation) != ("b", 1)], known, "flow")
        )
        runs.append(Played(two, [r for r in rows if (r.member, r.lseq) != ("b", 5)], known, "flow"))
    return {run.name: run for run in runs}


@pytest.fixture(scope="session")
def judged(traces: dict[str, Played], good: list[Played], bad: list[Played]) -> Audit:
    every: Iterable[Played] = (*traces.values(), *good, *bad)
    return audit_groups(groups_of(every))


@pytest.fixture(scope="session")
def runs(judged: Audit) -> dict[str, RunVerdicts]:
    return {run.run: run for run in judged.runs}
