"""How soon guided walks find each broken rule of the membership protocol.

Every mutant that random walks are meant to find (`phalanx sim mutants`) is applied in turn, and
guided walks from the same first seed run on all cores until one finds something or the time is
over. Stories that are known to break a mutant are not used.

Some rules only save view changes. What the checks do not find in --seconds is hunted once more by
comparison: walks are settled under the sound protocol and under the mutant, which must not change
views more often at its worst member (JC).

With --save, what was found is written to a folder as a minimal story with the mutant's name, which
the sound protocol passes. An exception of the mutant is not enough for that: the hunt goes on.

    python bench/bench_search.py [--seconds 120] [--first 0] [--jobs 2] [--mutant NAME ...]
                                 [--save DIR] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec

from phalanx.explore import story as stories
from phalanx.explore.guided_walk import walks
from phalanx.explore.live_group import LiveGroup
from phalanx.explore.member_history import Finding
from phalanx.explore.story import Story
from phalanx.explore.walk_runner import run_walks
from phalanx.sim.mutants import MUTANTS, apply
from phalanx.sim.worker_pool import in_order

BLOCK = 10
"""So many seeds are one task of a comparison."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120.0, help="at most, for each mutant")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--mutant", action="append", choices=MUTANTS, metavar="NAME")
    parser.add_argument("--save", type=Path, metavar="DIR", help="write minimal stories there")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    names = options.mutant or [name for name, m in MUTANTS.items() if m.ground == "walk"]
    rows = []
    for name in names:
        rows.append(_hunted(name, options.seconds, options.first, options.jobs, options.save))
        print(_line(rows[-1]), file=sys.stderr if options.json else sys.stdout, flush=True)
    if options.json:
        machine = {"python": platform.python_version(), "cores": os.cpu_count()}
        print(json.dumps({"first": options.first, "mutants": rows, **machine}))
    else:
        missed = [row["mutant"] for row in rows if row["check"] is None]
        print(f"{len(rows) - len(missed)} of {len(rows)} found; not: {', '.join(missed) or 'none'}")


def _hunted(name: str, seconds: float, first: int, jobs: int, save: Path | None) -> dict[str, Any]:
    totals = run_walks(range(first, 1 << 40), 4, 7, seconds, (), jobs, name)
    while save is not None and set(totals.checks) == {"JX"} and totals.seconds < seconds:
        rest, past = seconds - totals.seconds, totals
        first = max(walked.seed for walked in past.found) + 1
        totals = run_walks(range(first, 1 << 40), 4, 7, rest, (), jobs, name)
        totals.walks += past.walks
        totals.seconds += past.seconds
    found = [walked for walked in totals.found if walked.finding is not None]
    found.sort(key=lambda walked: walked.finding is not None and walked.finding.check == "JX")
    story, finding = (found[0].story, found[0].finding) if found else (None, None)
    count, used, compared = totals.walks, totals.seconds, finding is None
    if compared:
        count, used, story = _compare(name, seconds, first, jobs)
        finding = None if story is None else _played(name, story)
    if save is not None and story is not None and finding is not None:
        small = stories.shrunk(story, lambda shorter: _shows(name, shorter, finding.check))
        small = msgspec.structs.replace(small, about=f"{name}: {finding.check}")
        save.mkdir(parents=True, exist_ok=True)
        file = save / f"{name.replace('-', '_')}.story"
        file.write_text(stories.text_of(small), encoding="utf-8")
    return {
        "mutant": name,
        "breaks": MUTANTS[name].breaks,
        "check": None if finding is None else finding.check,
        "walks": count,
        "seconds": round(used, 1),
        "compared": compared,
    }


def _played(name: str, story: Story) -> Finding | None:
    with apply(name):
        return stories.play(story)


def _shows(name: str, story: Story, check: str) -> bool:
    """Whether a story breaks the mutant in this way and the sound protocol passes it."""
    finding = _played(name, story)
    return finding is not None and finding.check == check and stories.play(story) is None


def _compare(name: str, seconds: float, first: int, jobs: int) -> tuple[int, float, Story | None]:
    count, started, story = 0, perf_counter(), None
    with closing(in_order(_compare_block, _blocks(name, first), jobs)) as blocks:
        for walked, story in blocks:
            count += walked
            if story is not None or perf_counter() - started > seconds:
                break
    return count, perf_counter() - started, story


def _blocks(name: str, first: int) -> Iterator[tuple[str, range]]:
    for at in range(first, 1 << 40, BLOCK):
        yield name, range(at, at + BLOCK)


def _compare_block(task: tuple[str, range]) -> tuple[int, Story | None]:
    """Walks of some seeds, settled under the sound protocol and under the mutant; the first that
    only the mutant fails."""
    name, seeds = task
    count = 0
    for walked in walks(seeds):
        count += 1
        group = LiveGroup(walked.story.setting)
        for step in walked.story.steps:
            stories.do(group, step)
        if group.settle() is None:
            bound = msgspec.structs.replace(
                walked.story.setting, changes_max=max(group.changes()), calm=False
            )
            story = msgspec.structs.replace(walked.story, setting=bound)
            if _played(name, story) is not None:
                return count, story
    return count, None


def _line(row: dict[str, Any]) -> str:
    check = (row["check"] or "not found") + (" by comparison" if row["compared"] else "")
    return f"{row['mutant']:32} {check:24} {row['walks']:>9,} walks {row['seconds']:>8.1f} s"


if __name__ == "__main__":
    main()
