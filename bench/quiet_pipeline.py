"""All wall times that the documents of the pipeline promise, measured one after the other.

    python bench/quiet_pipeline.py --data FOLDER --prepare        makes the data, once
    python bench/quiet_pipeline.py --data FOLDER --out FILE.json  measures, in under 25 minutes

For a machine on which nothing else runs. The figures are measured in rounds: the first round has
each of them once; further rounds follow, up to `--rounds`, as long as `--seconds` allow, each
figure with what it took before. So a figure has one to three runs, `median` is over them, and slow
changes of the machine meet all figures. Each run is one process with all its children: `wall_s`
from its start to its end, `peak_mb` and `cpu_s` of the whole family (`bench_audit.FamilyUsage`),
`load` of the machine before it, and `other_cpu_s`, what anything else used of the processors
meanwhile: a figure with much of that says little. `doubling` is derived: the quotient of two
medians. Data that is missing is made first, and counts nowhere.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

if not __package__:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.bench_audit import FamilyUsage

from bench import audit_data, bench_audit, single_view_data
from phalanx.journal.reader import read_all

TICKS = os.sysconf("SC_CLK_TCK")
HERE = Path(__file__).resolve().parent
SECONDS = 1440.0
ROUNDS = 3
SECONDS_MAX = 600.0
"""Of one run; what takes longer is a problem, and not repeated."""
DOUBLED = ("view of 20 M, Spark", "view of 40 M, Spark")
"""Both are judged in parts. The view of 10 M is judged as a whole."""


class Figure(NamedTuple):
    """One thing that is measured."""

    name: str
    command: list[str]
    promise: str
    value: Callable[[dict[str, Any]], float] = lambda found: float(found["wall_s"])
    """The number that the promise is about."""
    most: float | None = None
    least: float | None = None
    peak_mb_max: float | None = None

    def kept(self, middle: float, peak_mb: float) -> bool | None:
        """Whether the promise is kept; None where there is none."""
        bounds = (
            (self.most, middle <= (self.most or 0.0)),
            (self.least, middle >= (self.least or 0.0)),
            (self.peak_mb_max, peak_mb <= (self.peak_mb_max or 0.0)),
        )
        asked = [kept for bound, kept in bounds if bound is not None]
        return all(asked) if asked else None


def phalanx(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "phalanx.cli.main", *arguments]


def program(name: str, *arguments: str) -> list[str]:
    return [sys.executable, str(HERE / name), *arguments]


def prepare(folder: Path) -> None:
    """The data, and the archive of Java classes that the second start of Spark has anyway."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "demo" / "journals").exists():
        subprocess.run(phalanx("demo", "--keep", str(folder / "demo")), check=True)
    audit_data.provide(folder, 1)
    audit_data.provide(folder, 10, copies=10)
    audit_data.provide(folder, 100, copies=100)
    for millions, shape in ((10, "even"), (20, "even"), (40, "even"), (100, "even")):
        single_view_data.provide(folder, millions, shape)
    single_view_data.provide(folder, 100, "skewed")
    subprocess.run([sys.executable, "-m", "phalanx.pipeline.class_archive"], check=True)


def group_of(journals: str) -> str:
    """The group that the journals are of."""
    return next(iter(read_all([journals]).journals.values()))[0].group


def figures(folder: Path) -> list[Figure]:
    """In the order in which they are measured."""
    journals = str(folder / "demo" / "journals")
    group = group_of(journals)
    page = str(folder / "page.html")
    made = [
        Figure("demo, Spark", phalanx("audit", journals, "--engine", "spark"), "9 s", most=9.0),
        Figure("demo, in process", phalanx("audit", journals), "1.5 s", most=1.5),
        Figure("demo, measures", phalanx("measures", journals), "3 s", most=3.0),
        Figure(
            "demo, history views", phalanx("history", "views", group, journals), "3 s", most=3.0
        ),
        Figure("demo, report", phalanx("report", journals, "--out", page), "3 s", most=3.0),
    ]

    def audit(text: str, place: str, engine: str, most: float | None = None, **more: Any) -> None:
        command = program("bench_audit.py", "--engine", engine, "--data", str(folder / place))
        made.append(Figure(text, command, f"{most:g} s" if most else "", most=most, **more))

    audit("1 M, Spark", "1", "spark", 12.0)
    audit("1 M, in process", "1", "local")
    audit("1 M, DuckDB", "1", "duckdb")
    audit("10 M, Spark", "10x10", "spark", 20.0)
    audit("10 M, DuckDB", "10x10", "duckdb")
    audit("100 M, Spark", "100x100", "spark", 120.0, peak_mb_max=6000.0)
    audit("view of 10 M, Spark", "view-10-even", "spark")
    audit("view of 20 M, Spark", "view-20-even", "spark")
    audit("view of 40 M, Spark", "view-40-even", "spark")
    audit("view of 100 M, Spark", "view-100-even", "spark", 120.0, peak_mb_max=6000.0)
    audit("view of 100 M, DuckDB", "view-100-even", "duckdb")
    audit("one sender of 90 % of 100 M, Spark", "view-100-skewed", "spark", 120.0)
    audit("one sender of 90 % of 100 M, DuckDB", "view-100-skewed", "duckdb")
    stream = program("bench_stream.py", "--rows", "6000000", "--json")
    made.append(
        Figure(
            "stream, all columns",
            stream,
            "200,000 rows/s",
            value=lambda found: float(found["followed_rows_per_s"]),
            least=200_000.0,
        )
    )
    made.append(
        Figure(
            "delay of a finding",
            program("bench_watch.py"),
            "",
            value=lambda found: float(found["delay_s"]["closed"]["median"]),
        )
    )
    return made


def busy_s() -> float:
    """Processor time of the whole machine since it started."""
    first = Path("/proc/stat").read_text().partition("\n")[0]
    user, nice, system, _, _, irq, softirq = (int(word) for word in first.split()[1:8])
    return (user + nice + system + irq + softirq) / TICKS


def once(figure: Figure, seconds: float = SECONDS_MAX) -> dict[str, Any]:
    """One run."""
    load, busy = round(os.getloadavg()[0], 2), busy_s()
    began = time.monotonic()
    child = subprocess.Popen(
        figure.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    usage = FamilyUsage(child.pid)
    usage.start()
    problem = None
    try:
        out, err = child.communicate(timeout=seconds)
        if child.returncode:
            problem = f"exit {child.returncode}: {err[-500:]}"
    except subprocess.TimeoutExpired:
        child.terminate()
        out, _ = child.communicate()
        problem = f"not within {seconds:.0f} s"
    wall_s = time.monotonic() - began
    used = usage.stop()
    found = {} if problem else _last_object(out)
    found |= {
        "wall_s": round(wall_s, 2),
        "cpu_s": used["cpu_s"],
        "peak_mb": round(used["peak_bytes"] / 1e6),
        "load": load,
        "other_cpu_s": round(max(0.0, busy_s() - busy - used["cpu_s"]), 1),
    }
    verdicts = found.pop("verdicts", {})
    # The benchmark of `watch` reports how many verdicts there were, not which.
    by_name = verdicts if isinstance(verdicts, dict) else {}
    violated = [name for name, verdict in by_name.items() if verdict == "violated"]
    if violated:
        problem = f"violated: {', '.join(violated)}"
    return found | ({"problem": problem} if problem else {})


def _last_object(out: str) -> dict[str, Any]:
    """The JSON object that the output ends with, if it does."""
    at = re.search(r"^\{.*\Z", out, re.DOTALL | re.MULTILINE)
    if at is None:
        return {}
    found: dict[str, Any] = json.loads(at.group())
    return found


def measured(
    every: Iterable[Figure], rounds: int, seconds: float, run: Callable[[Figure], dict[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    """The runs of each figure; of one that had a problem there are no more."""
    every = list(every)
    runs: dict[str, list[dict[str, Any]]] = {figure.name: [] for figure in every}
    began = time.monotonic()
    for turn in range(rounds):
        for figure in every:
            before = runs[figure.name]
            longest = max((found["wall_s"] for found in before), default=0.0)
            late = time.monotonic() - began + longest > seconds
            if turn and (late or any("problem" in found for found in before)):
                continue
            found = run(figure)
            before.append(found)
            print(f"{figure.name:36} {_told(figure, found)}", flush=True)
    return runs


def _told(figure: Figure, found: dict[str, Any]) -> str:
    used = f"cpu {found['cpu_s']:6.1f} s  other {found['other_cpu_s']:6.1f} s"
    about = f"{used}  load {found['load']:5.2f}  {found['peak_mb']:5} MB"
    what = found.get("problem") or f"{figure.value(found):10,.2f}"
    return f"{what}  {about}"


def summary(every: list[Figure], runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Of each figure its median, and whether that is what was promised."""
    told: dict[str, Any] = {}
    for figure in every:
        good = [found for found in runs[figure.name] if "problem" not in found]
        row: dict[str, Any] = {"promise": figure.promise, "runs": runs[figure.name]}
        if good:
            middle = median(figure.value(found) for found in good)
            peak_mb = max(found["peak_mb"] for found in good)
            row |= {"median": round(middle, 2), "kept": figure.kept(middle, peak_mb)}
        else:
            row |= {"median": None, "kept": False if figure.promise else None}
        told[figure.name] = row
    small, large = (told.get(name, {}).get("median") for name in DOUBLED)
    if small and large:
        factor = round(large / small, 2)
        told["doubling"] = {"promise": "2.1 times", "median": factor, "kept": factor <= 2.1}
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="about 3 GB; kept")
    parser.add_argument("--prepare", action="store_true", help="only make the data")
    parser.add_argument("--only", default="", help="figures whose name has this in it")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for all rounds together")
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    given = parser.parse_args()
    prepare(given.data)
    if given.prepare:
        return
    every = [figure for figure in figures(given.data) if given.only in figure.name]
    began = time.monotonic()
    runs = measured(every, given.rounds, given.seconds, once)
    told: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {bench_audit._memory_gb()} GB, "
        f"Python {platform.python_version()}",
        "seconds": round(time.monotonic() - began),
        "figures": summary(every, runs),
    }
    for name, row in told["figures"].items():
        kept = {True: "kept", False: "NOT KEPT", None: ""}[row["kept"]]
        print(f"{name:36} median {row['median']}  promised {row['promise'] or '-'}  {kept}")
    if given.out is not None:
        given.out.write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
