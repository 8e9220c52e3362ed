"""Fifo, causal, reliable causal, no inversion across views, and what a batch may hold.

The work is done in `past`, one run at a time; a large run is shared among tasks by member, each
with all of the run's sends. Here are the way there and the way back.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.audit.batched import batches
from phalanx.pipeline.audit.findings import Case, Look
from phalanx.pipeline.audit.messages import BASIC
from phalanx.pipeline.audit.past import NONE, Past, PastDeliveries, PastSends, judge
from phalanx.pipeline.audit.prepare import Prepared

BATCH = "spark.sql.execution.arrow.maxBytesPerBatch"
"""Spark measures the batch that it fills after every row unless told not to, which took as long as
all of the kernel. Batches are bounded by their rows anyway."""
LARGE = 200_000
"""Rows of deliveries from which on a run is shared among tasks."""
TASKS = 2

LATE = "kind string, r bigint, k int, s int, number bigint, v bigint, w bigint, part_s int"
LATE += ", part_first bigint, part_last bigint, lseq bigint, cause bigint, checked bigint"


def pasts(p: Prepared) -> DataFrame:
    """What the kernel says: rows of `past.Late`, and counts. Computed."""
    conf = p.tables.spark.conf
    before = conf.get(BATCH) or ""
    conf.set(BATCH, str((1 << 31) - 1))
    try:
        return _pasts(p).localCheckpoint()
    finally:
        conf.set(BATCH, before or "")


def _pasts(p: Prepared) -> DataFrame:
    tasks = F.when(F.col("size") > LARGE, TASKS).otherwise(1).alias("tasks")
    runs = p.small["runs"].select("r", "ranks", "senders", tasks)
    runs = F.broadcast(runs)
    stream = _sends(p, runs).unionByName(_deliveries(p, runs))
    grouped = stream.repartition("r", "task").sortWithinPartitions("r", "task", "kind", "k", "at")
    return grouped.mapInArrow(_kernel, LATE)


def _sends(p: Prepared, runs: DataFrame) -> DataFrame:
    deps = F.zip_with(
        F.transform(
            F.arrays_zip("dep_senders", "dep_incarnations"),
            lambda d: F.element_at(
                "ranks", F.concat(d.dep_senders, F.lit("."), d.dep_incarnations.cast("string"))
            ),
        ),
        "dep_numbers",
        lambda k, n: F.struct(k.alias("k"), n.alias("n")),
    )
    known = F.filter(deps, lambda d: d.k.isNotNull())
    sets = p.small["sets"].select("r", "t", F.col("ks").alias("to"))
    rows = p.sends.join(runs, "r").join(F.broadcast(sets), ["r", "t"], "left")
    rows = rows.withColumn("task", F.explode(F.sequence(F.lit(0), F.col("tasks") - 1)))
    rows = rows.withColumn("deps", known)
    none = F.lit(NONE)
    return rows.select(
        "r",
        "task",
        F.lit(0).alias("kind"),
        F.col("s").alias("k"),
        F.col("first").alias("at"),
        "senders",
        "s",
        "first",
        "last",
        "lseq",
        F.coalesce("home", none).alias("v"),
        F.lit(0).cast("long").alias("frame"),
        none.alias("batch"),
        (F.col("service") == BASIC).alias("basic"),
        "to",
        F.transform("deps", lambda d: d.k).alias("dep_s"),
        F.transform("deps", lambda d: d.n).alias("dep_n"),
    )


def _deliveries(p: Prepared, runs: DataFrame) -> DataFrame:
    rows = p.deliveries.join(runs, "r")
    return rows.select(
        "r",
        (F.col("k") % F.col("tasks")).alias("task"),
        F.lit(1).alias("kind"),
        "k",
        F.col("lseq").alias("at"),
        "senders",
        "s",
        "first",
        "last",
        "lseq",
        "v",
        F.col("frame").cast("long").alias("frame"),
        F.coalesce(F.col("batch").cast("long"), F.lit(NONE)).alias("batch"),
        (F.col("service") == BASIC).alias("basic"),
        F.lit(None).cast("array<int>").alias("to"),
        F.lit(None).cast("array<int>").alias("dep_s"),
        F.lit(None).cast("array<bigint>").alias("dep_n"),
    )


# ---------------------------------------------------------------------------- in the worker


def _kernel(stream: Iterator[Any]) -> Iterator[Any]:
    past: Past | None = None
    current: tuple[int, int] | None = None
    out: list[tuple[Any, ...]] = []
    for (r, task, kind, _), table in _groups(stream):
        if (r, task) != current or past is None:
            current = (r, task)
            past = Past(_sends_of(table if kind == 0 else table.slice(0, 0), table))
            if task == 0:
                out += [_loop(past, r, i) for i in past.looped]
        if kind == 1:
            out += _judged(past, r, _deliveries_of(table))
        if len(out) > 10_000:
            yield _batch(out)
            out = []
    yield _batch(out)


def _groups(stream: Iterator[Any]) -> Iterator[tuple[tuple[int, int, int, int], Any]]:
    """The rows of each run and task: first all sends, then each member's deliveries."""
    import pyarrow as pa

    held: list[Any] = []
    last: tuple[int, int, int, int] | None = None
    for batch in stream:
        if not batch.num_rows:
            continue
        r, task, kind, k = (batch.column(i).to_numpy() for i in range(4))
        k = np.where(kind == 0, -1, k)
        change = (np.diff(r) != 0) | (np.diff(task) != 0) | (np.diff(kind) != 0) | (np.diff(k) != 0)
        turns = [0, *(np.flatnonzero(change) + 1).tolist(), batch.num_rows]
        for begin, end in pairwise(turns):
            key = (int(r[begin]), int(task[begin]), int(kind[begin]), int(k[begin]))
            if key != last and last is not None:
                yield last, pa.Table.from_batches(held).combine_chunks()
                held = []
            last = key
            held.append(batch.slice(begin, end - begin))
    if last is not None:
        yield last, pa.Table.from_batches(held).combine_chunks()


def _longs(table: Any, name: str) -> Any:
    return table.column(name).to_numpy().astype(np.int64, copy=False)


def _sends_of(table: Any, any_rows: Any) -> PastSends:
    lists = table.column("dep_s").to_pylist()
    sizes = np.array([len(x) for x in lists], dtype=np.int64)
    numbers = table.column("dep_n").to_pylist()
    return PastSends(
        senders=int(any_rows.column("senders")[0].as_py()),
        s=_longs(table, "s"),
        first=_longs(table, "first"),
        last=_longs(table, "last"),
        lseq=_longs(table, "lseq"),
        basic=table.column("basic").to_numpy().astype(bool),
        home=_longs(table, "v"),
        to=table.column("to").to_pylist(),
        dep_at=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        dep_s=np.array([k for x in lists for k in x], dtype=np.int64),
        dep_n=np.array([n for x in numbers for n in x], dtype=np.int64),
    )


def _deliveries_of(table: Any) -> PastDeliveries:
    names = ("s", "first", "last", "lseq", "v", "frame", "batch")
    columns = {name: _longs(table, name) for name in names}
    basic = table.column("basic").to_numpy().astype(bool)
    return PastDeliveries(k=int(table.column("k")[0].as_py()), basic=basic, **columns)


def _judged(past: Past, r: int, rows: PastDeliveries) -> list[tuple[Any, ...]]:
    fifo, causal, reliable, crossing, late = judge(past, rows)
    counts = (
        ("fifo", fifo),
        ("causal", causal),
        ("reliable-causal", reliable),
        ("no-view-crossing-inversion", crossing),
    )
    out: list[tuple[Any, ...]] = [
        (name, r, rows.k, *[None] * 9, times) for name, times in counts if times
    ]
    found = late + batches(past, rows)
    return out + [(x.kind, r, *[None if y == NONE else y for y in x[1:]], None) for x in found]


def _loop(past: Past, r: int, i: int) -> tuple[Any, ...]:
    """A send row that depends on itself."""
    sends = past.sends
    s, first, last = int(sends.s[i]), int(sends.first[i]), int(sends.last[i])
    return ("loop", r, s, s, first, None, None, s, first, last, int(sends.lseq[i]), None, None)


def _batch(out: list[tuple[Any, ...]]) -> Any:
    import pyarrow as pa

    kinds = {"string": pa.string(), "bigint": pa.int64(), "int": pa.int32()}
    fields = [column.split(" ") for column in LATE.split(", ")]
    arrays = [
        pa.array([row[i] for row in out], type=kinds[kind]) for i, (_, kind) in enumerate(fields)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in fields])


# ---------------------------------------------------------------------------- findings


NAMES = ("causal", "reliable-causal", "no-view-crossing-inversion")


def causality(p: Prepared, late: DataFrame) -> list[Look]:
    """What the kernel found, as findings. Causality is asked of whole journals only, a torn one
    may lack what came first; batches of members on a route."""
    people = p.small["people"].select("r", "k", "label", "torn")
    parts = people.select("r", F.col("k").alias("part_s"), F.col("label").alias("part_label"))
    causes = people.select("r", F.col("k").alias("s"), F.col("label").alias("s_label"))
    on_route = p.small["stays"].where("compared").select("r", "k", "v", "compared")
    known = (
        late.join(F.broadcast(people.drop("label")), ["r", "k"])
        .join(F.broadcast(parts), ["r", "part_s"], "left")
        .join(F.broadcast(causes), ["r", "s"], "left")
        .join(F.broadcast(on_route), ["r", "k", "v"], "left")
    )
    fine = ~F.col("torn")
    kind, counted = F.col("kind"), F.col("checked").isNotNull()
    times = {name: F.when(fine & (kind == name), F.col("checked")) for name in NAMES}
    times["fifo"] = F.when(kind == "fifo", F.col("checked"))
    given: dict[str, Any] = {"who": "k", "s": "s", "first": "part_first", "last": "part_last"}
    cases = [_late(name, ~counted & fine & (kind == name)) for name in NAMES]
    cases.append(
        Case(
            "fifo/",
            ~counted & (kind == "fifo"),
            v="v",
            note=F.concat("s_label", F.lit("#"), "number"),
            rows=[("k", "cause"), ("k", "lseq")],
            **given,
        )
    )
    cases.append(Case("integrity/loop", kind == "loop", rows=[("k", "lseq")], **given))
    cases += [
        _in_batch(f"toto-refinement/{way}", F.col("compared") & (kind == way))
        for way in ("order", "follows")
    ]
    homeless = _homeless(p, known.where("checked is null"))
    return [Look(known, times, cases), Look(homeless, cases=[_late("reliable-causal", fine)])]


def _homeless(p: Prepared, told: DataFrame) -> DataFrame:
    """Of messages whose home cannot be known: the view is home if anybody delivered it there."""
    lost = told.where("kind = 'homeless'")
    shown = p.cells.where("n > 0").select("r", "s", "v", "c1", "c2")
    both = shown.join(F.broadcast(lost), ["r", "s", "v"]).where("number between c1 and c2")
    return both.select(*lost.columns).dropDuplicates(["r", "k", "s", "number", "v"])


def _late(name: str, when: Column) -> Case:
    several = F.when(
        F.col("part_last") > F.col("part_first"), F.concat(F.lit(".."), "part_last")
    ).otherwise("")
    cause = F.when(F.lit(name == "reliable-causal"), F.col("s")).otherwise(F.col("k"))
    return Case(
        f"{name}/",
        when,
        who="k",
        other="part_s",
        s="s",
        first="number",
        last="number",
        v="v",
        w="w",
        note=F.concat("part_label", F.lit("#"), "part_first", several),
        rows=[(cause, "cause"), ("k", "lseq")],
    )


def _in_batch(kind: str, when: Column) -> Case:
    """The later part is what is told, the earlier message is the note."""
    return Case(
        kind,
        F.coalesce(when, F.lit(False)),
        who="k",
        other="s",
        s="part_s",
        first="part_first",
        last="part_last",
        v="v",
        note=F.concat("s_label", F.lit("#"), "number"),
        rows=[("k", "cause"), ("k", "lseq")],
    )
