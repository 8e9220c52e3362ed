"""How soon guided walks find each broken rule of the membership protocol.

Every mutant that random walks are meant to find (`phalanx sim mutants`) is applied in turn, and
guided walks from the same first seed run on all cores until one finds something or the time is
over. Stories that are known to break a mutant are not used.

Some rules only save view changes. What the checks do not find in --seconds is hunted once more by
comparison: walks are settled under the sound protocol and under the mutant, which must not change
views more often at its worst member (JC).

    python bench/bench_search.py [--seconds 120] [--first 0] [--jobs 2] [--mutant NAME ...] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import closing
from time import perf_counter
from typing import Any

import msgspec

from phalanx.explore import stories
from phalanx.explore.campaign import run_walks
from phalanx.explore.crowd import Crowd
from phalanx.explore.guided import walks
from phalanx.explore.histories import Finding
from phalanx.sim.mutants import MUTANTS, apply
from phalanx.sim.workers import in_order

BLOCK = 10
"""So many seeds are one task of a comparison."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120.0, help="at most, for each mutant")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--mutant", action="append", choices=MUTANTS, metavar="NAME")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    names = options.mutant or [name for name, m in MUTANTS.items() if m.ground == "walk"]
    rows = []
    for name in names:
        rows.append(_hunted(name, options.seconds, options.first, options.jobs))
        print(_line(rows[-1]), file=sys.stderr if options.json else sys.stdout, flush=True)
    if options.json:
        machine = {"python": platform.python_version(), "cores": os.cpu_count()}
        print(json.dumps({"first": options.first, "mutants": rows, **machine}))
    else:
        missed = [row["mutant"] for row in rows if row["check"] is None]
        print(f"{len(rows) - len(missed)} of {len(rows)} found; not: {', '.join(missed) or 'none'}")


def _hunted(name: str, seconds: float, first: int, jobs: int) -> dict[str, Any]:
    totals = run_walks(range(first, 1 << 40), 4, 7, seconds, (), jobs, name)
    finding = totals.found[0].finding if totals.found else None
    count, used, compared = totals.walks, totals.seconds, finding is None
    if compared:
        count, used, finding = _compare(name, seconds, first, jobs)
    return {
        "mutant": name,
        "breaks": MUTANTS[name].breaks,
        "check": None if finding is None else finding.check,
        "walks": count,
        "seconds": round(used, 1),
        "compared": compared,
    }


def _compare(name: str, seconds: float, first: int, jobs: int) -> tuple[int, float, Finding | None]:
    count, started, finding = 0, perf_counter(), None
    with closing(in_order(_compare_block, _blocks(name, first), jobs)) as blocks:
        for walked, finding in blocks:
            count += walked
            if finding is not None or perf_counter() - started > seconds:
                break
    return count, perf_counter() - started, finding


def _blocks(name: str, first: int) -> Iterator[tuple[str, range]]:
    for at in range(first, 1 << 40, BLOCK):
        yield name, range(at, at + BLOCK)


def _compare_block(task: tuple[str, range]) -> tuple[int, Finding | None]:
    """Walks of some seeds, settled under the sound protocol and under the mutant."""
    name, seeds = task
    count = 0
    for walked in walks(seeds):
        count += 1
        crowd = Crowd(walked.story.setting)
        for step in walked.story.steps:
            stories.do(crowd, step)
        if crowd.settle() is None:
            bound = msgspec.structs.replace(
                walked.story.setting, changes_max=max(crowd.changes()), calm=False
            )
            with apply(name):
                finding = stories.play(msgspec.structs.replace(walked.story, setting=bound))
            if finding is not None:
                return count, finding
    return count, None


def _line(row: dict[str, Any]) -> str:
    check = (row["check"] or "not found") + (" by comparison" if row["compared"] else "")
    return f"{row['mutant']:32} {check:24} {row['walks']:>9,} walks {row['seconds']:>8.1f} s"


if __name__ == "__main__":
    main()
