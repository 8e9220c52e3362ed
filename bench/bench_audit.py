"""How fast an audit is: Spark, the checkers in one process, and DuckDB, on the same files.

    python bench/bench_audit.py --data FOLDER [--millions 1,10,100] [--out docs/results/FILE.json]
    python bench/bench_audit.py --data FOLDER --millions 10,100 --view even --engines spark,duckdb

The journals are those of `audit_data.py` in FOLDER, made if they are not there; with `--view` those
of `single_view_data.py`, one group in one view, of senders alike or of one that sends nine
tenths. Each engine runs
in a process of its own, so none finds the other's memory or caches; the files have been read once
before. `wall` is the whole process from its start; `open` is finding the files, or reading them
into memory; `check` is the verdicts, with Java starting in it for Spark. A row is a range of
delivered messages. Memory is the sum of the resident sets of the process and all its children,
sampled; `cpu` is their processor time, `load` that of the machine at the end, other work included.

    spark          all properties, `phalanx audit --engine spark`
    local          all properties, `phalanx audit --engine local`
    duckdb         virtual synchrony, causal order and total order in SQL (`audit_duckdb.py`)
    in-process     all properties, the simulator's checkers; not beyond 10 million deliveries
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

if not __package__:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import audit_data, audit_duckdb, single_view_data
from phalanx.journal.arrow_schema import arrow
from phalanx.journal.ground_truth import truth_of
from phalanx.journal.parquet_export import NOTES, note_of
from phalanx.journal.schema import TABLES, Event
from phalanx.pipeline.engine import Engine
from phalanx.verify.checkers import check

THREADS = 2
IN_PROCESS_MILLIONS_MAX = 10
SAMPLE_S = 0.1
PAGE = os.sysconf("SC_PAGE_SIZE")
THREE = tuple(audit_duckdb.CHECKS)


def audited(
    folder: Path, engine: Engine, properties: tuple[str, ...] | None = None
) -> dict[str, Any]:
    from phalanx.pipeline.audit import audit_plan, wanted
    from phalanx.pipeline.group_plan import plan_groups

    began = time.perf_counter()
    plan = plan_groups([folder])
    opened = time.perf_counter()
    found = audit_plan(plan, wanted(properties), engine=engine)
    ended = time.perf_counter()
    verdicts = {name: result.verdict for name, result in found.properties.items()}
    return {"open_s": opened - began, "check_s": ended - opened, "verdicts": verdicts}


def spark(folder: Path) -> dict[str, Any]:
    return audited(folder, "spark")


def local(folder: Path) -> dict[str, Any]:
    return audited(folder, "local")


def duckdb(folder: Path) -> dict[str, Any]:
    began = time.perf_counter()
    database = audit_duckdb.connect(folder, THREADS)
    opened = time.perf_counter()
    verdicts, times = {}, {}
    for name, ask in audit_duckdb.CHECKS.items():
        before = time.perf_counter()
        found = ask(database)
        times[name] = round(time.perf_counter() - before, 2)
        whole = not found.get("unmatched")
        verdicts[name] = "violated" if found["broken"] else "holds" if whole else "unverifiable"
    check_s = time.perf_counter() - opened
    return {"open_s": opened - began, "check_s": check_s, "verdicts": verdicts, "each_s": times}


def in_process(folder: Path) -> dict[str, Any]:
    """Run by run, so only one is in memory."""
    open_s = check_s = 0.0
    worst: dict[str, str] = {}
    notes = [note_of(path) for path in (folder / NOTES).glob("*.json")]
    configs = {str(note.shared): note.header.config for note in notes}
    for path in sorted((folder / "deliver").glob("*.parquet")):
        began = time.perf_counter()
        rows = _rows(folder, path.name)
        config = configs[path.stem]
        truth = truth_of(config)
        opened = time.perf_counter()
        report = check(
            rows,
            expect_liveness=truth.settled,
            mode=config["mode"],
            undisturbed_ns=truth.undisturbed_ns,
        )
        check_s += time.perf_counter() - opened
        open_s += opened - began
        for found, result in report.properties.items():
            if worst.get(found) != "violated":
                worst[found] = result.verdict
    return {"open_s": open_s, "check_s": check_s, "verdicts": worst}


def _rows(folder: Path, name: str) -> list[Event]:
    pa = arrow()
    rows: list[Event] = []
    for table, kind in TABLES.items():
        path = folder / table / name
        if not path.exists():
            continue
        with pa.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches():
                columns = batch.drop_columns(["cluster", "journal"]).to_pydict()
                names = list(columns)
                rows += [
                    kind(**dict(zip(names, values, strict=True)))  # type: ignore[misc]
                    for values in zip(*columns.values(), strict=True)
                ]
    return rows


ENGINES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "spark": spark,
    "local": local,
    "duckdb": duckdb,
    "in-process": in_process,
}


# ---------------------------------------------------------------------- processes


class FamilyUsage(threading.Thread):
    """The most memory that a process and its children had resident together, and their processor
    time."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._peak = 0
        self._ticks: dict[int, int] = {}
        self._pid = pid
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(SAMPLE_S):
            family = _family(self._pid)
            self._peak = max(self._peak, sum(size for size, _ in family.values()))
            self._ticks |= {pid: ticks for pid, (_, ticks) in family.items()}

    def stop(self) -> dict[str, Any]:
        self._over.set()
        self.join()
        cpu_s = sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")
        load = round(os.getloadavg()[0], 1)
        return {"peak_bytes": self._peak, "cpu_s": round(cpu_s, 1), "load": load}


def _family(pid: int) -> dict[int, tuple[int, int]]:
    """Bytes and ticks of the process and of all that descend from it."""
    parents: dict[int, int] = {}
    sizes: dict[int, tuple[int, int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            parents[int(entry.name)] = int(stat[1])
            sizes[int(entry.name)] = int(stat[21]) * PAGE, int(stat[11]) + int(stat[12])
    family = {pid}
    grown = True
    while grown:
        more = {child for child, parent in parents.items() if parent in family} - family
        grown = bool(more)
        family |= more
    return {member: sizes[member] for member in family if member in sizes}


def alone(engine: str, folder: Path, seconds: float) -> dict[str, Any]:
    """One engine on one folder, in a fresh process."""
    command = [sys.executable, __file__, "--engine", engine, "--data", str(folder)]
    began = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    usage = FamilyUsage(child.pid)
    usage.start()
    try:
        told, _ = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        child.terminate()
        child.wait()
        return {"problem": f"not within {seconds:.0f} s"} | usage.stop()
    wall = time.perf_counter() - began
    used = usage.stop()
    if child.returncode:
        return {"problem": f"exit {child.returncode}"} | used
    found: dict[str, Any] = json.loads(told.splitlines()[-1])
    return found | used | {"wall_s": wall}


# ---------------------------------------------------------------------- the whole


def compare(chosen: argparse.Namespace) -> dict[str, Any]:
    results: list[dict[str, Any]] = []
    for millions, place in _places(chosen):
        facts = msgspec.json.decode((place / "facts.json").read_bytes())
        del facts["runs"]
        times = "" if facts["replicated"] == 1 else f", replicated {facts['replicated']} times"
        print(
            f"{facts['deliveries']:,} deliveries in {facts['deliver_rows']:,} ranges "
            f"(mean {facts['mean_range']}), {facts['distinct_runs']} distinct runs{times}, "
            f"{facts['members']} members",
            flush=True,
        )
        _read_once(place)
        others = len(results)
        for engine in chosen.engines.split(","):
            if engine == "in-process" and millions > IN_PROCESS_MILLIONS_MAX:
                print(f"  {engine:12} does not fit into memory", flush=True)
                continue
            found = alone(engine, place, chosen.seconds)
            _tell(engine, facts["deliver_rows"], found)
            name = place.name
            results.append({"millions": millions, "data": name, "engine": engine, **facts, **found})
        _compare_verdicts(results[others:])
    return {
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {_memory_gb()} GB, "
        f"Python {platform.python_version()}",
        "command": " ".join(["python", "bench/bench_audit.py", *sys.argv[1:]]),
        "results": results,
    }


def _places(chosen: argparse.Namespace) -> Iterator[tuple[int, Path]]:
    for millions in map(int, chosen.millions.split(",")):
        if chosen.view is None:
            yield millions, audit_data.provide(chosen.data, millions, THREADS, chosen.copies)
            continue
        for shape in chosen.view.split(","):
            place = single_view_data.provide(chosen.data, millions, shape)
            yield millions, place
            if chosen.violation:
                yield millions, single_view_data.with_violation(place)


def _read_once(folder: Path) -> None:
    """So that every engine finds the files in the system's cache, or none does."""
    for path in folder.rglob("*.parquet"):
        with path.open("rb") as file:
            while file.read(1 << 24):
                pass


def _tell(engine: str, ranges: int, found: dict[str, Any]) -> None:
    peak = found["peak_bytes"] / (1 << 20)
    if "problem" in found:
        print(f"  {engine:12} {found['problem']}, {peak:,.0f} MB", flush=True)
        return
    found["ranges_per_second"] = round(ranges / max(found["check_s"], 1e-9))
    broken = [name for name, verdict in found["verdicts"].items() if verdict == "violated"]
    print(
        f"  {engine:12} wall {found['wall_s']:6.1f} s  cpu {found['cpu_s']:6.1f} s  "
        f"load {found['load']:4.1f}  open {found['open_s']:7.1f} s  "
        f"check {found['check_s']:8.1f} s  "
        f"{found['ranges_per_second']:>10,} ranges/s  {peak:7,.0f} MB  "
        f"{len(found['verdicts'])} properties, violated: {', '.join(broken) or 'none'}",
        flush=True,
    )


def _compare_verdicts(results: list[dict[str, Any]]) -> None:
    """Whoever was asked the same must have said the same."""
    told: dict[str, dict[str, str]] = {}
    for result in results:
        for name, verdict in result.get("verdicts", {}).items():
            told.setdefault(name, {})[result["engine"]] = verdict
    for name, verdicts in told.items():
        if len(set(verdicts.values())) > 1:
            print(f"  verdicts differ: {name}: {verdicts}", flush=True)


def _memory_gb() -> int:
    return round(os.sysconf("SC_PHYS_PAGES") * PAGE / (1 << 30))


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast an audit is.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--millions", default="1,10,100", help="deliveries: 1,10,100")
    parser.add_argument("--copies", type=int, default=1, help="of each run, in place of others")
    parser.add_argument("--view", help="one view instead: even, skewed, or even,skewed")
    parser.add_argument("--violation", action="store_true", help="with --view: also one violated")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--seconds", type=float, default=3600.0, help="at most, for each")
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    parser.add_argument("--engine", choices=list(ENGINES), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.engine is not None:
        print(json.dumps(ENGINES[chosen.engine](chosen.data)))
        return
    facts = compare(chosen)
    if chosen.out is not None:
        chosen.out.write_text(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
