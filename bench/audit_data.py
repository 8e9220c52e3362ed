"""Journals for `bench_audit.py`: sixteen members under load, from the simulator, kept in a folder.

    python bench/audit_data.py --into FOLDER [--millions 1,10,100] [--jobs 2]

The protocol is the real one under virtual time. Members are slow enough (`CPU_NS` a step) that
packets gather, as on a busy machine, and what they submit meanwhile shares a frame. Half of the
members send agreed messages, the others causal and safe ones. In every second run a member
crashes and comes back, which makes four views or so.

    FOLDER/runs/audit-3/deliver/audit-3.parquet     a run, once, in the layout of `journal.parquet`
    FOLDER/100/deliver/audit-3.parquet              the same file, as part of a size
    FOLDER/100/facts.json                           what was really made

Rows go from the simulator to the files as they come, so a run of any length needs little memory.
A run that is there is not made again; one that was interrupted leaves nothing. With `--copies N`
one run is made for N: the others are copies of it under other names (`replicated` in facts.json).
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any, SupportsIndex

import msgspec

from phalanx.journal.arrow_schema import arrow
from phalanx.journal.ground_truth import GroundTruth
from phalanx.journal.parquet_export import NOTES, note_of, write_note
from phalanx.journal.schema import Deliver, Event
from phalanx.journal.segment import Header
from phalanx.sim.journal_export import JournalExporter, header, name_of
from phalanx.sim.scenario.model import (
    MS,
    STEPS_MAX,
    Crash,
    Network,
    Peculiarity,
    Restart,
    Scenario,
    Spoken,
    Traffic,
)
from phalanx.sim.scenario.toml_file import to_toml
from phalanx.sim.worker_pool import in_order
from phalanx.sim.world import World

MEMBERS = tuple(f"m{i:02}" for i in range(16))
SERVICES: tuple[Spoken, ...] = ("agreed", "causal", "agreed", "safe")
CPU_NS = 5 * MS
EVERY_NS = 6_100_000
BATCH = 2
MILLION = 1_000_000
LONG_RUN = 10 * MILLION
"""Deliveries of one run at most; more than that are several runs."""


def scenario_of(run: int, deliveries: int) -> Scenario:
    """A run of at least so many deliveries, over all members."""
    count = deliveries // (len(MEMBERS) ** 2 * BATCH) + 1
    changes: dict[str, Any] = {}
    if run % 2 == 0:
        # A tenth of the time without one of sixteen, and others wait while the view changes.
        count += count // 20
        end = count * EVERY_NS
        changes["crash"] = (Crash(member=MEMBERS[7], at_ns=end // 3),)
        changes["restart"] = (Restart(member=MEMBERS[7], at_ns=end // 3 + end // 10),)
    traffic = tuple(
        Traffic(
            from_=name,
            at_ns=10 * MS + MS * i,
            every_ns=EVERY_NS,
            jitter_ns=MS,
            count=count,
            batch=BATCH,
            size=16,
            service=SERVICES[i % 4],
        )
        for i, name in enumerate(MEMBERS)
    )
    return Scenario(
        name="audit",
        seed=run,
        members=MEMBERS,
        steps_max=STEPS_MAX,
        network=Network(loss_ppm=20),
        member=tuple(Peculiarity(name=name, cpu_ns=CPU_NS) for name in MEMBERS),
        traffic=traffic,
        **changes,
    )


class Passing(list[Event]):
    """Looks like a list to the simulator, and passes every row on to an export."""

    def __init__(self, export: JournalExporter, scenario: Scenario) -> None:
        super().__init__()
        self.headers: dict[tuple[str, int], Header] = {}
        self.ranges = self.messages = 0
        self._export = export
        self._scenario = scenario
        self._digest = blake2b(to_toml(scenario).encode(), digest_size=16).hexdigest()

    def append(self, row: Event) -> None:
        self += [row]

    def __iadd__(self, rows: Iterable[Event], /) -> Passing:  # type: ignore[override,misc]
        for row in rows:
            if type(row) is Deliver:
                self.ranges += 1
                self.messages += row.last - row.first + 1
            self._export.add_rows(self._header(row), (row,))
        return self

    def __len__(self) -> int:
        return 0

    def __getitem__(self, at: SupportsIndex | slice) -> Any:
        raise IndexError("rows were passed on")

    def _header(self, row: Event) -> Header:
        member = row.member, row.incarnation
        found = self.headers.get(member)
        if found is None:
            truth = GroundTruth(settled=True, undisturbed_ns=self._scenario.undisturbed_ns())
            found = self.headers[member] = header(row, self._scenario, truth, self._digest)
        return found


def make(task: tuple[Path, int, int]) -> dict[str, Any]:
    """One run, unless it is there: what it holds."""
    folder, run, deliveries = task
    scenario = scenario_of(run, deliveries)
    name = name_of(scenario)
    place = folder / f"{name}-{deliveries // MILLION}M"
    told = place / "facts.json"
    if told.exists():
        known: dict[str, Any] = json.loads(told.read_text())
        return known
    with JournalExporter(place, place.name) as export:
        rows = Passing(export, scenario)
        outcome = World(scenario, rows=rows).run()
        assert outcome.exception is None, outcome.exception
        assert outcome.stuck is None, outcome.stuck
    facts = {
        "run": place.name,
        "deliveries": rows.messages,
        "deliver_rows": rows.ranges,
        "journals": len(rows.headers),
        "views": {k: v for k, v in outcome.cases.items() if k.startswith("views_")},
        "simulated_seconds": round(outcome.sim_ns / 1e9, 1),
    }
    told.write_text(json.dumps(facts))
    return facts


def provide(folder: Path, millions: int, jobs: int = 1, copies: int = 1) -> Path:
    """Journals with so many million deliveries, made if they are not there: their folder."""
    place = folder / (str(millions) if copies == 1 else f"{millions}x{copies}")
    told = place / "facts.json"
    if told.exists():
        return place
    wanted = millions * MILLION // copies
    each = min(wanted, LONG_RUN)
    tasks = [(folder / "runs", run, each) for run in range(-(-wanted // each))]
    runs = []
    for facts in in_order(make, tasks, min(jobs, len(tasks))):
        runs.append(facts)
        print(json.dumps(facts), flush=True)
        _link(folder / "runs" / facts["run"], place)
        for number in range(1, copies):
            _copy(folder / "runs" / facts["run"], place, number)
    deliveries = copies * sum(facts["deliveries"] for facts in runs)
    ranges = copies * sum(facts["deliver_rows"] for facts in runs)
    total = {
        "members": len(MEMBERS),
        "distinct_runs": len(runs),
        "replicated": copies,
        "deliveries": deliveries,
        "deliver_rows": ranges,
        "mean_range": round(deliveries / ranges, 2),
        "runs": runs,
    }
    told.write_text(json.dumps(total))
    return place


def _link(run: Path, place: Path) -> None:
    """Notes come last: what has one is all there."""
    files = [path for path in run.rglob("*") if path.is_file() and path.parent != run]
    for path in sorted(files, key=lambda path: path.parent.name == NOTES):
        link = place / path.relative_to(run)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        os.link(path, link)


def _copy(run: Path, place: Path, number: int) -> None:
    """A run under another name, with other journals."""
    pa = arrow()
    end = f"-{number}"
    for path in sorted(run.glob("*/*.parquet")):
        table = pa.parquet.read_table(path)
        for column in ("run", "journal"):
            values = pa.compute.binary_join_element_wise(table.column(column), end, "")
            at = table.schema.get_field_index(column)
            table = table.set_column(at, table.schema.field(at), values)
        copy = place / path.parent.name / f"{path.stem}{end}.parquet"
        copy.parent.mkdir(parents=True, exist_ok=True)
        pa.parquet.write_table(table, copy, compression="zstd", row_group_size=1 << 16)
    for path in sorted((run / NOTES).glob("*.json")):
        note = note_of(path)
        assert note.found is not None
        note.header = msgspec.structs.replace(note.header, journal=note.header.journal + end)
        note.found["run"] += end
        note.shared = f"{note.shared}{end}"
        write_note(place / NOTES / f"{path.stem}{end}.json", note)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the journals that bench_audit.py audits.")
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--millions", default="1,10,100", help="deliveries: 1,10,100")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--copies", type=int, default=1, help="so many of each run")
    chosen = parser.parse_args()
    for millions in map(int, chosen.millions.split(",")):
        place = provide(chosen.into, millions, chosen.jobs, chosen.copies)
        facts = msgspec.json.decode((place / "facts.json").read_bytes())
        del facts["runs"]
        print(f"{place}: {json.dumps(facts)}", flush=True)


if __name__ == "__main__":
    main()
