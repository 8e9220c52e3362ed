"""Run one scenario and check its trace.

`run` does not raise for defects of the protocol: an exception that leaves the core is the
violation `exception`. The digest identifies the run: equal digests mean equal rows.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from time import perf_counter

import msgspec

from phalanx.journal.schema import Event
from phalanx.sim.process import Maker
from phalanx.sim.scenario.model import MS, SECOND, Scenario, Traffic
from phalanx.sim.world import World
from phalanx.verify.checkers import FlowLimits, Report, check

TRACEBACK_LINES_KEPT = 8


class RunResult(msgspec.Struct):
    """The trace of a run and its verdict. All but `wall_s` depends on the scenario alone."""

    seed: int
    scenario: Scenario
    digest: str
    rows: list[Event]
    report: Report
    stuck: bool
    stuck_because: str | None
    exhausted: bool
    """Stuck only in that its steps came to an end: more of them might have settled it."""
    exception: str | None
    """The last lines of the traceback of what left the core."""
    faults: dict[str, int]
    cases: dict[str, int]
    """Situations that the protocol went through: see `coverage`."""
    steps: int
    sim_ns: int
    wall_s: float
    stories: dict[str, list[str]]

    @property
    def violated(self) -> dict[str, int]:
        """How often each property was violated, only those that were; `exception` is one."""
        counts = {name: r.found for name, r in self.report.properties.items() if r.found}
        return counts | ({"exception": 1} if self.exception else {})

    @property
    def expect_liveness(self) -> bool:
        """A run that is stuck had all the time it needs; one that an error ended, or whose steps
        came to an end, had not."""
        return self.exception is None and not self.exhausted

    @property
    def failed(self) -> bool:
        return self.stuck or bool(self.violated)

    @property
    def signature(self) -> tuple[str, ...]:
        """The names of the violations: a shrunk scenario must fail with one of them too."""
        return (*self.violated, *(("stuck",) if self.stuck else ()))

    @property
    def speed(self) -> float:
        """Simulated seconds per second, checking included."""
        return self.sim_ns / SECOND / max(self.wall_s, 1e-9)


def run(scenario: Scenario, make: Maker | None = None) -> RunResult:
    """Run the scenario with its seed and check every property."""
    with without_garbage_collection():
        return _run(scenario, make)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Turn off Python's cycle collector inside the block.

    A run makes hundreds of thousands of objects that live to its end and next to no cycles: the
    collector would walk them again and again and find nothing.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _run(scenario: Scenario, make: Maker | None) -> RunResult:
    started = perf_counter()
    outcome = World(scenario, make).run()
    config = scenario.common_config()
    report = check(
        outcome.rows,
        # see RunResult.expect_liveness
        expect_liveness=outcome.exception is None and not outcome.exhausted,
        mode=config.mode,
        inserted=outcome.inserted,
        contents=outcome.library.checksum,
        undisturbed_ns=scenario.undisturbed_ns(),
        changes_max=scenario.changes_max,
        limits=FlowLimits(
            config.window_bytes_max, config.frame_bytes_max, config.leave_ns, config.authentic
        ),
    )
    exception = outcome.exception
    if exception is not None:
        exception = "\n".join(exception.rstrip().splitlines()[-TRACEBACK_LINES_KEPT:])
    return RunResult(
        seed=scenario.seed,
        scenario=scenario,
        digest=digest_of_rows(outcome.rows),
        rows=outcome.rows,
        report=report,
        stuck=outcome.stuck is not None,
        stuck_because=outcome.stuck,
        exhausted=outcome.exhausted,
        exception=exception,
        faults=outcome.faults,
        cases=outcome.cases,
        steps=outcome.steps,
        sim_ns=outcome.sim_ns,
        wall_s=perf_counter() - started,
        stories=outcome.stories,
    )


def digest_of_rows(rows: list[Event]) -> str:
    """A digest of the rows, the same in every process."""
    encode = msgspec.msgpack.Encoder().encode
    digest = blake2b(digest_size=16)
    for row in rows:
        digest.update(encode(row))
    return digest.hexdigest()


def light_traffic(seconds: int, members: int = 5) -> Scenario:
    """A scenario in which each member sends about three messages a second."""
    names = tuple(f"m{i}" for i in range(members))
    return Scenario(
        name="light",
        members=names,
        traffic=tuple(
            Traffic(
                from_=name,
                at_ns=7 * MS * i,
                every_ns=300 * MS,
                jitter_ns=60 * MS,
                count=seconds * SECOND // (330 * MS),
                size=100,
            )
            for i, name in enumerate(names)
        ),
    )
