"""Simulated runs as text for people: totals, and the deliveries of each member by service."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

from phalanx.journal.schema import Deliver, Event
from phalanx.sim.run import RunResult
from phalanx.sim.scenario.model import SECOND
from phalanx.text import one_line
from phalanx.verify.render.timeline import COLUMNS_MAX, bands, letters_of, life_label
from phalanx.verify.render.verdict_table import properties

_BANDS = (
    ("BASIC", "as they come"),
    ("CAUSAL", "causes before effects"),
    ("AGREED", "one order for all"),
    ("SAFE", "in that order, once all have them"),
)


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
    """The views as bands, then for each service who delivered what, in order, a line for each
    life. The letter of a view stands where it begins, `!` where its transitional part does."""
    letters = letters_of(rows)
    said: dict[tuple[str, int, str], list[str]] = {}
    lives: dict[tuple[str, int], None] = {}
    where: dict[tuple[str, int, str], tuple[str, str]] = {}
    for row in rows:
        lives[row.member, row.incarnation] = None
        if isinstance(row, Deliver):
            key = row.member, row.incarnation, row.service
            words = said.setdefault(key, [])
            view, region = where.get(key, ("", "REGULAR"))
            where[key] = row.view, row.region
            if view != row.view:
                words.append(f"{letters.get(row.view, '?')}:")
            if row.region == "TRANSITIONAL" and (view, region) != where[key]:
                words.append("!")
            sender = life_label((row.sender, row.sender_incarnation))
            words += [f"{sender}#{number}" for number in range(row.first, row.last + 1)]
    order = sorted(lives, key=lambda life: (members.index(life[0]), life[1]))
    lines = ["views", *(f"  {line}".rstrip() for line in bands(rows, COLUMNS_MAX - 2))]
    for service, promise in _BANDS:
        lines += ["", f"{service.lower()}: {promise}"]
        for member, incarnation in order:
            label = f"  {life_label((member, incarnation)):<8} "
            words = said.get((member, incarnation, service), [])
            text = wrap(
                " ".join(words),
                COLUMNS_MAX,
                initial_indent=label,
                subsequent_indent=" " * len(label),
            )
            lines += text or [label.rstrip()]
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
