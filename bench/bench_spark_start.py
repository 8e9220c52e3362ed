"""What the start of Spark costs, with and without the archive of Java classes.

    python bench/bench_spark_start.py [--journals FOLDER] [--times 3] [--json]

`phalanx audit --engine spark` on small journals (those of two members, made here, unless some are
given), each time as a process of its own with a cache folder of its own, in turn:

    none      PHALANX_SPARK_ARCHIVE=off
    written   the first command of a machine: Java writes the archive when it ends
    there     the command after it, which finds the archive

`cpu_s` is the processor time of all processes of the command, user and system. A process that the
command leaves behind, as Java that still writes the archive, becomes a child of this program
(PR_SET_CHILD_SUBREAPER), which waits for it; so it counts. `wall_s` ends with the command itself.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from phalanx.pipeline.class_archive import OFF
from phalanx.sim.generators import scenario_of
from phalanx.sim.journal_export import write_journals
from phalanx.sim.run import run

PR_SET_CHILD_SUBREAPER = 36
KINDS = ("none", "written", "there")


def adopt_orphans() -> None:
    """What a child leaves behind becomes a child of this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")


def of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured(command: list[str], environment: dict[str, str]) -> dict[str, Any]:
    """Processor time of a command and all that it leaves behind, which is waited for."""
    load, before, began = os.getloadavg()[0], of_children(), time.monotonic()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    wall = time.monotonic() - began
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    assert done.returncode == 0, done.stderr[-2000:]
    cpu = of_children() - before
    return {"cpu_s": round(cpu, 2), "wall_s": round(wall, 2), "load": round(load, 1)}


def archives(cache: Path) -> int:
    """Bytes of the archives in a cache folder."""
    return sum(path.stat().st_size for path in cache.rglob("*.jsa*"))


def rounds(journals: str, times: int) -> dict[str, list[dict[str, Any]]]:
    command = [sys.executable, "-m", "phalanx.cli.main", "audit", journals, "--engine", "spark"]
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for _ in range(times):
        with tempfile.TemporaryDirectory() as cache:
            here = os.environ | {"XDG_CACHE_HOME": cache}
            for kind in KINDS:
                environment = here | ({OFF: "off"} if kind == "none" else {})
                one = measured(command, environment)
                one["archive_mb"] = round(archives(Path(cache)) / 1e6)
                found[kind].append(one)
                print(f"{kind:8} {one}", flush=True)
            assert not found["none"][-1]["archive_mb"]
            assert found["there"][-1]["archive_mb"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--journals", help="small ones; made here by default")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    adopt_orphans()
    print(f"{time.strftime('%Y-%m-%d')}, {platform.machine()}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as place:
        if given.journals is None:
            write_journals(run(scenario_of(1, 2, 2, "fixed")), Path(place) / "journals")
        found = rounds(given.journals or str(Path(place) / "journals"), given.times)
    for kind, some in found.items():
        cpu, wall = (median(one[name] for one in some) for name in ("cpu_s", "wall_s"))
        print(f"{kind:8} median {cpu:6.2f} CPU s {wall:7.2f} s wall")
    if given.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
