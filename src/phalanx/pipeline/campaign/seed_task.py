"""One seed of a campaign: simulate it, check it, and return the result as one row.

A row depends only on the seed and the code, except for `cpu_ms`: every machine gets the same row
for a seed. A run is therefore bounded by simulator steps, never by a clock. A run that uses up its
steps is *inconclusive*, unless it has violated a guarantee before. An exception is recorded in a
row like any other result.

    ok            settled, and every guarantee held
    violated      a guarantee was violated; `violated` names it
    stuck         the run had all the time it needed and did not settle
    exception     the core or the checkers raised an exception that they must not raise
    inconclusive  the run used up its steps; never a failure
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from hashlib import blake2b
from time import process_time_ns
from typing import Any, Literal

import msgspec

from phalanx.explore.guided_walk import walks
from phalanx.journal.arrow_schema import arrow, field
from phalanx.journal.schema import Deliver
from phalanx.sim.generators import Kind, scenario_of
from phalanx.sim.run import RunResult, run
from phalanx.sim.scenario.model import Scenario
from phalanx.sim.sweep import broken_by

Status = Literal["ok", "violated", "stuck", "exception", "inconclusive"]
FAILED: tuple[Status, ...] = ("violated", "stuck", "exception")
ERROR_CHARACTERS_MAX = 2000


PlayedKind = Kind | Literal["walk"]
"""Random scenarios of a kind, or guided walks (`phalanx explore --walk`)."""
WALK_MEMBERS = (4, 7)


class Campaign(msgspec.Struct, frozen=True):
    """What is played: the seeds of one kind of scenario, with groups of lo to hi members."""

    kind: PlayedKind
    lo: int
    hi: int
    mutant: str | None = None
    """A rule of the protocol that is broken, by name."""
    steps_max: int | None = None
    """Steps of one run at most; None: as many as its scenario says."""

    @property
    def name(self) -> str:
        """Two campaigns of one name play the same."""
        steps = f"+{self.steps_max}" if self.steps_max else ""
        mutant = f"+{self.mutant}" if self.mutant else ""
        return f"{self.kind}-{self.lo}-{self.hi}{steps}{mutant}"

    def scenario(self, seed: int) -> Scenario:
        assert self.kind != "walk", "a walk has no scenario"
        made = scenario_of(seed, self.lo, self.hi, self.kind)
        if self.steps_max is None:
            return made
        return msgspec.structs.replace(made, steps_max=self.steps_max)


def named(name: str) -> Campaign:
    """The campaign of this name."""
    front, *more = name.split("+")
    kind, lo, hi = front.split("-")
    steps = [int(text) for text in more if text.isdigit()]
    mutants = [text for text in more if not text.isdigit()]
    known = {"kind": kind, "lo": int(lo), "hi": int(hi)}
    known |= {"steps_max": steps[0]} if steps else {}
    known |= {"mutant": mutants[0]} if mutants else {}
    return msgspec.convert(known, Campaign)


class SeedResult(msgspec.Struct, frozen=True):
    """The row of one seed."""

    campaign: str
    code_version: str
    seed: int
    status: Status
    steps: int
    sim_ns: int
    digest: str
    """Names the rows of the run; empty if there are none."""
    violated: list[str]
    error: str | None
    """The first violation, what it is stuck for, or the end of the traceback."""
    rows: int
    delivered: int
    """Messages, over all members."""
    counts: dict[str, int]
    """`fault.`, what really happened to the members; `case.`, what the protocol went through;
    `property.`, how often each was put to the test."""
    cpu_ms: int


def schema() -> Any:
    """The Arrow schema of the rows."""
    pa = arrow()
    counts = pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))
    own = {"counts": pa.field("counts", counts, nullable=False)}
    hints = {name: known.type for name, known in _FIELDS.items()}
    return pa.schema([own.get(name) or field(name, hints[name]) for name in hints])


def play(
    campaign: Campaign,
    code_version: str,
    seed: int,
    player: Callable[[Scenario], RunResult] = run,
) -> SeedResult:
    """The row of a seed. Never raises for what a run does."""
    began = process_time_ns()
    try:
        with broken_by(campaign.mutant):
            if campaign.kind == "walk":
                known = _walk_row(seed, campaign.lo, campaign.hi)
            else:
                known = _row(player(campaign.scenario(seed)))
    except Exception:
        known = _nothing("exception", traceback.format_exc())
    cpu_ms = (process_time_ns() - began) // 1_000_000
    return SeedResult(
        campaign=campaign.name, code_version=code_version, seed=seed, cpu_ms=cpu_ms, **known
    )


def _row(result: RunResult) -> dict[str, Any]:
    violated = list(result.violated)
    counts = {f"fault.{name}": n for name, n in result.faults.items()}
    counts |= {f"case.{name}": n for name, n in result.cases.items()}
    tested = result.report.properties.items()
    counts |= {f"property.{name}": found.evaluated for name, found in tested if found.evaluated}
    status, error = _status(result)
    return {
        "status": status,
        "steps": result.steps,
        "sim_ns": result.sim_ns,
        "digest": result.digest,
        "violated": violated,
        "error": None if error is None else _text(error),
        "rows": len(result.rows),
        "delivered": sum(r.last - r.first + 1 for r in result.rows if isinstance(r, Deliver)),
        "counts": dict(sorted(counts.items())),
    }


def _walk_row(seed: int, lo: int, hi: int) -> dict[str, Any]:
    """The guided walks of a seed: all of its tree, or those up to the first finding."""
    steps, count, found, digest = 0, 0, None, blake2b(digest_size=16)
    for walked in walks(range(seed, seed + 1), lo, hi):
        steps, count = steps + len(walked.story.steps), count + 1
        digest.update("\n".join(walked.story.steps).encode())
        found = walked.finding
        if found is not None:
            break
    return {
        "status": "ok" if found is None else "violated",
        "steps": steps,
        "sim_ns": 0,
        "digest": digest.hexdigest(),
        "violated": [] if found is None else [found.check],
        "error": None if found is None else _text(found.text),
        "rows": 0,
        "delivered": 0,
        "counts": {"case.walks": count},
    }


def _status(result: RunResult) -> tuple[Status, str | None]:
    if result.exception is not None:
        return "exception", result.exception
    if result.violated:
        return "violated", str(result.report.violations[0])
    if result.exhausted:
        return "inconclusive", result.stuck_because
    if result.stuck:
        return "stuck", result.stuck_because
    return "ok", None


def _nothing(status: Status, error: str) -> dict[str, Any]:
    """Of a run that did not even come to its end."""
    empty: dict[str, Any] = {"steps": 0, "sim_ns": 0, "digest": "", "violated": []}
    empty |= {"rows": 0, "delivered": 0, "counts": {}}
    return {"status": status, "error": _text(error), **empty}


def _text(error: str) -> str:
    """Its end; and files of the package by their place in it, wherever that was imported from."""
    return re.sub(r'File ".*/(phalanx/[^"]+)"', r'File "\1"', error)[-ERROR_CHARACTERS_MAX:]


_FIELDS = {known.name: known for known in msgspec.structs.fields(SeedResult)}
