"""Journals of one long view for `bench_audit.py`, written straight as exported Parquet files.

    python bench/single_view_data.py --into FOLDER [--millions 10,100] [--shape even,skewed]

Sixteen members deliver frames of 1 to 13 messages in one order; half of the senders send agreed
messages, the others causal and safe ones. A member sends a frame when it has delivered all but the
last `LAG` frames, so the dependencies of a frame are what its sender delivered since its frame
before. In the end one member leaves, and the others install the next view. `even`: the sender of a
frame is drawn by lot. `skewed`: one sender has nine tenths of all messages. The rows are correct by
construction: nothing was simulated. `--violation` makes a copy in which one member lacks one range
near the end of the view.

    FOLDER/view-100-even/deliver/g-m03.parquet      a file for each table and journal
    FOLDER/view-100-even/facts.json                 what was made
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from phalanx.journal.arrow_schema import arrow, schema
from phalanx.journal.columnar_reader import ScanSummary
from phalanx.journal.parquet_export import LAYOUT, NOTES, Note, name_of, note_of, write_note
from phalanx.journal.parquet_writer import ParquetFileWriter
from phalanx.journal.schema import SCHEMA_VERSION
from phalanx.journal.segment import Header
from phalanx.pipeline.audit.number_ranges import Bools, Longs

MEMBERS = tuple(f"m{i:02}" for i in range(16))
SERVICES = ("AGREED", "CAUSAL", "AGREED", "SAFE")
"""By the rank of the sender."""
MILLION = 1_000_000
FRAME_MAX = 13
LAG = 20
SKEW = 0.9
ROWS = 1 << 16
"""Of a row group, as members' exports have them."""
FIRST, SECOND = "0.0:4c892b9045d13402", "0.1:a1d9da72d352b591"
CLUSTER, GROUP, RUN = "bench", "g", "bench"


class Frames(NamedTuple):
    """All frames of the view, in the order in which everybody delivers them."""

    s: Longs
    first: Longs
    last: Longs
    number: Longs
    """Of the frame, counted by sender."""
    pos: Longs
    ordered: Bools


def frames_of(deliveries: int, shape: str) -> Frames:
    random = np.random.default_rng(18)
    many = len(MEMBERS)
    size = deliveries // many * 2 // (FRAME_MAX + 1)
    s = random.integers(0, many, size)
    if shape == "skewed":
        s = np.where(random.random(size) < SKEW, 0, random.integers(1, many, size))
    length = random.integers(1, FRAME_MAX + 1, size)
    first, number = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    for k in range(many):
        mine = np.flatnonzero(s == k)
        first[mine] = 1 + np.cumsum(length[mine]) - length[mine]
        number[mine] = np.arange(1, len(mine) + 1)
    ordered = np.array([service != "CAUSAL" for service in SERVICES])[s % len(SERVICES)]
    placed = np.where(ordered, length, 0)
    return Frames(s, first, first + length - 1, number, np.cumsum(placed) - placed, ordered)


class Dependencies(NamedTuple):
    """Of the frames of one sender: how many each has, and the frames that they are."""

    counts: Longs
    frames: Longs


def dependencies(f: Frames, k: int) -> Dependencies:
    """For each other sender, its last frame that `k` delivered since its own frame before."""
    mine = np.flatnonzero(f.s == k)
    upto = np.maximum(0, mine - LAG)
    since = np.concatenate([[0], upto[:-1]])
    columns = []
    for other in range(len(MEMBERS)):
        theirs = np.flatnonzero(f.s == other)
        at = np.searchsorted(theirs, upto) - 1
        found = theirs[np.maximum(at, 0)] if len(theirs) else np.zeros(len(mine), dtype=np.int64)
        there = (at >= 0) & (found >= since) & (other != k)
        columns.append(np.where(there, found, -1))
    table = np.stack(columns, axis=1)
    return Dependencies((table >= 0).sum(axis=1), table[table >= 0])


class JournalWriter:
    """Writes the journal of one member as exported Parquet files."""

    def __init__(self, place: Path, k: int) -> None:
        self._pa = arrow()
        self._place, self._k = place, k
        self.header = Header(
            journal=f"{k:032x}",
            cluster=CLUSTER,
            group=GROUP,
            member=MEMBERS[k],
            incarnation=1,
            number=1,
            schema=SCHEMA_VERSION,
            wall_ns=1_800_000_000_000_000_000,
            mono_ns=0,
            boot_id=f"{k:032x}",
            config={"mode": "flow"},
        )
        self._tables: dict[str, int] = {}
        self._bytes = 0

    def write(self, table: str, lseq: Longs, t_ns: Longs, **columns: Any) -> None:
        """Columns are arrays, or one value for all rows."""
        pa, wanted = self._pa, schema(table)
        same: dict[str, Any] = {
            "run": RUN,
            "profile": "T",
            "group": GROUP,
            "member": MEMBERS[self._k],
        }
        same |= {"cluster": CLUSTER, "journal": self.header.journal, "incarnation": 1}
        known = same | {"lseq": lseq, "step": lseq, "t_ns": t_ns} | columns
        name = name_of(self.header)
        path = self._place / table / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        file = ParquetFileWriter(path, wanted)
        for low in range(0, len(lseq), ROWS):
            size = min(ROWS, len(lseq) - low)
            arrays = [self._array(known.get(f.name), f.type, low, size) for f in wanted]
            file.write(pa.record_batch(arrays, schema=wanted))
        file.complete()
        self._bytes += file.show().bytes
        self._tables[table] = len(lseq)

    def _array(self, values: Any, kind: Any, low: int, size: int) -> Any:
        pa = self._pa
        if isinstance(values, np.ndarray):
            return pa.array(values[low : low + size], kind)
        if isinstance(values, pa.Array | pa.ChunkedArray):
            return values.slice(low, size).cast(kind)
        if values is None and pa.types.is_list(kind):
            return pa.nulls(size, kind)
        return pa.nulls(size, kind) if values is None else pa.repeat(pa.scalar(values, kind), size)

    def note(self, rows: int, end_ns: int) -> None:
        found = ScanSummary(
            rows=rows, first=1, last=rows, stopped=1, run=RUN, end_t_ns=end_ns, sealed=1
        )
        name = name_of(self.header)
        tables, facts = self._tables, msgspec.to_builtins(found)
        note = Note(f"{name}.phj", self._bytes, True, self.header, tables, LAYOUT, facts)
        write_note(self._place / NOTES / f"{name}.json", note)


def write_member(place: Path, f: Frames, k: int) -> dict[str, int]:
    pa = arrow()
    size = len(f.s)
    mine = np.flatnonzero(f.s == k)
    stays = k < len(MEMBERS) - 1
    sent = 8 * np.maximum(0, mine - LAG)
    received = mine[f.ordered[mine]]
    events = {
        "accepted": sent,
        "sent": sent + 1,
        "deliver": 8 * np.arange(size) + 2,
        "ordered": 8 * received + 3,
        "stable": 8 * np.minimum(size - 1, mine + LAG) + 4,
    }
    keys = np.concatenate(list(events.values()))
    order = np.argsort(keys, kind="stable")
    lseq = np.empty(len(keys), dtype=np.int64)
    lseq[order] = np.arange(3, len(keys) + 3)  # START and the view come first
    spans = np.cumsum([0, *map(len, events.values())])
    numbers = {name: lseq[spans[i] : spans[i + 1]] for i, name in enumerate(events)}
    times = {name: 1000 + key for name, key in events.items()}
    last, end_ns = len(keys) + 2, int(keys.max(initial=0)) + 3000
    names = pa.array(MEMBERS)
    services = pa.array([SERVICES[i % len(SERVICES)] for i in range(len(MEMBERS))])
    service = SERVICES[k % len(SERVICES)]
    writer = JournalWriter(place, k)
    views = [FIRST, SECOND] if stays else [FIRST]
    some = len(views)
    view_rows = np.array([2, last + 1])[:some]
    end = last + some  # the STOP
    writer.write(
        "life",
        np.array([1, end]),
        np.array([0, end_ns]),
        op=pa.array(["START", "STOP"]),
        reason=pa.array([None, "ended" if stays else "left"]),
    )
    inside = [list(MEMBERS), list(MEMBERS[:-1])][:some]
    writer.write(
        "view_installed",
        view_rows,
        np.array([10, end_ns - 100])[:some],
        view=pa.array(views),
        joins=0,
        removals=np.arange(some),
        members=pa.array(inside),
        member_incarnations=pa.array([[1] * len(who) for who in inside]),
        context=pa.array(["c0", "c1"][:some]),
        cause=pa.array(["boot", "removal"][:some]),
        previous=pa.array([None, FIRST][:some], pa.string()),
        transitional=pa.array([[], inside[-1]][:some], pa.list_(pa.string())),
        transitional_incarnations=pa.array(
            [[], [1] * len(inside[-1])][:some], pa.list_(pa.int64())
        ),
        components=pa.array([[], []][:some], pa.list_(pa.string())),
        left=pa.array([[], [MEMBERS[-1]]][:some], pa.list_(pa.string())),
        left_incarnations=pa.array([[], [1]][:some], pa.list_(pa.int64())),
        joined=pa.array([[], []][:some], pa.list_(pa.string())),
        joined_incarnations=pa.array([[], []][:some], pa.list_(pa.int64())),
    )
    ranges: dict[str, Any] = {"first": f.first[mine], "last": f.last[mine], "service": service}
    length = f.last[mine] - f.first[mine] + 1

    def at(table: str) -> tuple[Longs, Longs]:
        return numbers[table], times[table]

    writer.write("accepted", *at("accepted"), **ranges, size=16 * length)
    depends = dependencies(f, k)
    starts = np.concatenate([[0], np.cumsum(depends.counts)]).astype(np.int32)
    others = names.take(pa.array(f.s[depends.frames]))
    lists = {
        "dep_senders": pa.ListArray.from_arrays(starts, others),
        "dep_incarnations": pa.ListArray.from_arrays(
            starts, pa.array(np.ones(len(others), dtype=np.int64))
        ),
        "dep_numbers": pa.ListArray.from_arrays(starts, pa.array(f.last[depends.frames])),
    }
    same: dict[str, Any] = {"view": FIRST, "phase": 0}
    writer.write("sent", *at("sent"), **(ranges | lists | same), frame=f.number[mine])
    writer.write(
        "deliver",
        *at("deliver"),
        sender=names.take(pa.array(f.s)),
        sender_incarnation=1,
        first=f.first,
        last=f.last,
        service=services.take(pa.array(f.s)),
        **same,
        region="REGULAR",
        frame=f.number,
        origin=FIRST,
        pos=pa.array(f.pos, mask=~f.ordered),
        batch=pa.array(np.arange(1, size + 1), mask=~f.ordered),
    )
    if len(received):
        upto = f.last[received]
        writer.write("ordered", *at("ordered"), upto=upto, view=FIRST)
    about: dict[str, Any] = {"sender": MEMBERS[k], "sender_incarnation": 1}
    writer.write("stable", *at("stable"), **about, upto=f.last[mine], view=FIRST)
    writer.note(end, end_ns)
    return {"deliver": size, "sent": len(mine), "rows": end}


def provide(folder: Path, millions: int, shape: str) -> Path:
    """The journals of a view with so many million deliveries, made if they are not there."""
    place = folder / f"view-{millions}-{shape}"
    if (place / "facts.json").exists():
        return place
    shutil.rmtree(place, ignore_errors=True)
    frames = frames_of(millions * MILLION, shape)
    written = [write_member(place, frames, k) for k in range(len(MEMBERS))]
    messages = int((frames.last - frames.first + 1).sum())
    deliveries = messages * len(MEMBERS)
    rows = sum(one["deliver"] for one in written)
    facts = {
        "members": len(MEMBERS),
        "distinct_runs": 1,
        "replicated": 1,
        "messages": messages,
        "largest_sender": round(float((frames.last - frames.first + 1)[frames.s == 0].sum()), 0)
        / messages,
        "deliveries": deliveries,
        "deliver_rows": rows,
        "rows": sum(one["rows"] for one in written),
        "mean_range": round(deliveries / rows, 2),
        "runs": [],
    }
    (place / "facts.json").write_text(json.dumps(facts))
    return place


def with_violation(place: Path) -> Path:
    """A copy in which one member lacks a range that the others delivered near the end. Its later
    rows are counted one less, so that none is missing."""
    broken = place.with_name(f"{place.name}-broken")
    if broken.exists():
        return broken
    made = broken.with_name(f"{broken.name}.tmp")
    shutil.rmtree(made, ignore_errors=True)
    shutil.copytree(place, made, copy_function=os.link)
    pa = arrow()
    (path,) = made.glob("deliver/*m03*.parquet")
    table = pa.parquet.read_table(path)
    at = table.num_rows - min(1000, table.num_rows // 4)
    lost = table.column("lseq")[at].as_py()
    for other in made.glob("*/*m03*.parquet"):
        rows = table if other == path else pa.parquet.read_table(other)
        if other == path:
            rows = pa.concat_tables([rows.slice(0, at), rows.slice(at + 1)])
        for name in ("lseq", "step"):
            numbers = rows.column(name).to_numpy().copy()
            numbers[numbers > lost] -= 1
            i = rows.schema.get_field_index(name)
            rows = rows.set_column(i, rows.schema.field(i), pa.array(numbers))
        other.unlink()  # it is the file of the whole, too
        pa.parquet.write_table(rows, other, compression="zstd", row_group_size=ROWS)
    (told,) = made.glob(f"{NOTES}/*m03*.json")
    note = note_of(told)
    assert note.found is not None
    told.unlink()
    note.tables["deliver"] -= 1
    note.found |= {"rows": note.found["rows"] - 1, "last": note.found["last"] - 1}
    write_note(told, note)
    made.rename(broken)
    return broken


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the journals of one long view.")
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--millions", default="10", help="deliveries: 10,20,100")
    parser.add_argument("--shape", default="even", help="even, skewed, or both: even,skewed")
    parser.add_argument("--violation", action="store_true", help="and a copy with a violation")
    chosen = parser.parse_args()
    for millions in map(int, chosen.millions.split(",")):
        for shape in chosen.shape.split(","):
            place = provide(chosen.into, millions, shape)
            print(f"{place}: {(place / 'facts.json').read_text()}", flush=True)
            if chosen.violation:
                print(with_violation(place), flush=True)


if __name__ == "__main__":
    main()
