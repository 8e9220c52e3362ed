"""Audit many correct runs together: no property may be violated in any of them.

    python bench/correct_runs.py --into FOLDER [--runs 5000] [--jobs 2]

Plays short scenarios of three members by the simulator, two fifths with a fixed membership, two
fifths with changes, one fifth with storms of them, exports their journals and audits all of them
as one folder. Runs that are in the folder are not played again, so that a program that was stopped
can go on. Exit 1 if anything is violated, or if a run lacks its verdicts.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from phalanx.pipeline.audit import audit_plan, wanted
from phalanx.pipeline.group_plan import plan_groups
from phalanx.sim.generators import Kind, scenario_of
from phalanx.sim.journal_export import JournalExporter
from phalanx.sim.run import run
from phalanx.sim.worker_pool import in_order

KINDS: tuple[Kind, ...] = ("fixed", "membership", "fixed", "membership", "storm")
MEMBERS = 3
FILE_RUNS = 100
"""Runs whose journals share their files."""
FIRST_SEED = 100_000


def play(task: tuple[Path, int, int]) -> int:
    """Some runs into one set of files, unless they are there."""
    folder, first, count = task
    name = f"runs-{first}"
    told = folder / f"{name}-{count}.json"
    if told.exists():
        return count
    with JournalExporter(folder, name) as export:
        for number in range(first, first + count):
            kind = KINDS[number % len(KINDS)]
            result = run(scenario_of(FIRST_SEED + number, MEMBERS, MEMBERS, kind))
            export.add(result)
    told.write_text(json.dumps({"first": first, "runs": count}))
    return count


def tasks(folder: Path, runs: int) -> Iterator[tuple[Path, int, int]]:
    for first in range(0, runs, FILE_RUNS):
        yield folder, first, min(FILE_RUNS, runs - first)


def audited(folder: Path) -> dict[str, object]:
    """What an audit of all runs says."""
    found = audit_plan(plan_groups([folder]), wanted(None))
    verdicts = Counter(result.verdict for result in found.properties.values())
    return {
        "runs": len(found.runs),
        "violated": list(found.violated),
        "properties": dict(verdicts),
        "not_verified": [n for n, r in found.properties.items() if r.verdict == "unverifiable"],
        "checked": sum(result.checked for result in found.properties.values()),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Audit many correct runs together.")
    parser.add_argument("--into", type=Path, required=True, help="a folder for the journals")
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    began = time.perf_counter()
    every = list(tasks(chosen.into, chosen.runs))
    played = sum(in_order(play, every, min(chosen.jobs, len(every))))
    made = time.perf_counter()
    facts = audited(chosen.into)
    times = {"play_s": round(made - began, 1), "audit_s": round(time.perf_counter() - made, 1)}
    print(json.dumps({"played": played, **facts, **times}))
    return int(bool(facts["violated"]) or facts["runs"] != chosen.runs)


if __name__ == "__main__":
    sys.exit(main())
