"""Runs as text for people: what each member delivered, and each guarantee with its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phalanx.journal.events import Deliver, Event, ViewInstall
from phalanx.sim.checkers import FIXED_VIEW, Report
from phalanx.sim.run import RunResult
from phalanx.sim.scenario import SECOND
from phalanx.sim.spelling import one_line

MEANING = {
    "self-inclusion": "a member is in its own views",
    "initial-view": "everything is sent and delivered in an installed view",
    "vid-sanity": "one view id, one set of members",
    "integrity": "what is delivered was sent before, with the same content",
    "no-duplication": "nothing is delivered twice",
    "sending-view": "delivered in the view it was sent in",
    "same-view": "all deliver a message in one view",
    "self-delivery": "a member delivers its own messages",
    "fifo": "messages of one sender keep their order",
    "causal": "what caused a message is delivered before it",
    "reliable-causal": "and none of it is missing",
    "running-prefix": "agreed and safe messages have one order at all members",
    "toto-refinement": "batches of the order are the same everywhere and sorted",
    "safe-prefix": "a safe message is delivered only when all members have it",
    "basic": "basic messages arrive at most once, and were sent",
    "membership-precision": "all end in one view of all who are connected",
    "multicast-liveness": "everything sent is delivered by all it was addressed to",
    "termination-of-delivery": "and no delivery waits for ever",
    "safe-indication-liveness": "and every safe message becomes safe",
}
_BANDS = (
    ("BASIC", "as they come"),
    ("CAUSAL", "causes before effects"),
    ("AGREED", "one order for all"),
    ("SAFE", "in that order, once all have them"),
)


def verdicts(report: Report) -> list[str]:
    """Each guarantee that means something on a fixed view, one a line; others if violated."""
    lines: list[str] = []
    for name, result in report.properties.items():
        if name in FIXED_VIEW or result.found:
            meaning = MEANING.get(name, "")
            times = f"{result.evaluated:>9,}"
            lines.append(f"  {result.verdict:<12} {times}  {name:<25} {meaning}".rstrip())
    return lines


def totals(result: RunResult) -> list[str]:
    """What happened in a run, in a few lines."""
    faults = ", ".join(f"{kind} {count:,}" for kind, count in result.faults.items()) or "none"
    seconds = f"{result.sim_ns / SECOND:.3f} s simulated in {result.wall_s:.2f} s"
    size = len(result.scenario.members)
    group = f"{size} member{'' if size == 1 else 's'}"
    return [
        f"{one_line(result.scenario.name)}, seed {result.seed}: {group}, {seconds}",
        f"{result.steps:,} steps, {len(result.rows):,} rows",
        f"digest {result.digest}",
        f"faults: {faults}",
    ]


def deliveries(rows: Sequence[Event], members: Sequence[str]) -> list[str]:
    """The view of each member, then a band for each service: who delivered what, in order."""
    lines = ["views"]
    lines += [
        f"  {row.node:<8} {row.vid}  {' '.join(row.members)}"
        for row in rows
        if isinstance(row, ViewInstall)
    ]
    for service, promise in _BANDS:
        lines += ["", f"{service.lower()}: {promise}"]
        for member in members:
            said = [
                f"{row.sender}{number}"
                for row in rows
                if isinstance(row, Deliver) and (row.node, row.service) == (member, service)
                for number in range(row.first, row.last + 1)
            ]
            lines.append(f"  {member:<8} {' '.join(said)}")
    return lines


def summary(result: RunResult) -> dict[str, Any]:
    """What `phalanx sim run --json` prints."""
    return {
        "name": result.scenario.name,
        "seed": result.seed,
        "members": list(result.scenario.members),
        "digest": result.digest,
        "failed": result.failed,
        "violations": sum(result.violated.values()),
        "violated": result.violated,
        "stuck": result.stuck,
        "exception": result.exception,
        "faults": result.faults,
        "cases": result.cases,
        "rows": len(result.rows),
        "steps": result.steps,
        "simulated_seconds": round(result.sim_ns / SECOND, 6),
        "wall_seconds": round(result.wall_s, 3),
        "simulated_seconds_per_second": round(result.speed, 2),
        "properties": properties(result.report),
    }


def properties(report: Report) -> dict[str, dict[str, Any]]:
    """Per property the verdict, how often it was put to the test, and examples."""
    return {
        name: {
            "verdict": result.verdict,
            "evaluated": result.evaluated,
            "violated": result.found,
            "examples": [str(violation) for violation in result.violations[:3]],
        }
        for name, result in report.properties.items()
        if name in FIXED_VIEW or result.evaluated or result.found
    }
