"""The audit: every check on what was prepared, put together, and the verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from phalanx.errors import PipelineError
from phalanx.pipeline.audit import (
    causal,
    homes,
    integrity,
    liveness,
    order,
    safe,
    synchrony,
)
from phalanx.pipeline.audit.findings import PUBLISHED, SCHEMA, Case, asked, found, summed, told
from phalanx.pipeline.audit.prepare import Prepared, keep, prepare
from phalanx.pipeline.audit.small import Small
from phalanx.pipeline.audit.verdicts import (
    PROPERTIES,
    Audit,
    Run,
    Violation,
    judged,
    overall,
    violation,
)
from phalanx.pipeline.tables import Tables

KEPT = 3
"""Counter-examples that are kept of each property of each run."""

Tell = Callable[[str], None]

PAST = frozenset(
    {
        "fifo",
        "causal",
        "reliable-causal",
        "no-view-crossing-inversion",
        "toto-refinement",
        "integrity",
    }
)
"""What needs vectors: see `past`."""


def audit(
    tables: Tables, properties: Sequence[str] | None = None, tell: Tell = lambda _: None
) -> Audit:
    """Judges all properties, or some, of each run in the tables, and overall. PipelineError for
    two journals of one life, or an unknown property."""
    names = wanted(properties)
    tell("reading journals")
    p = prepare(tables)
    facts = _facts(p.small)
    tell(f"checking {len(facts)} run{'s' * (len(facts) != 1)}")
    counts, shown = _collected(p, _findings(p, names, tell))
    return _audit(facts, names, counts, shown)


def audit_frames(tables: Tables, properties: Sequence[str] | None = None) -> DataFrame:
    """Every violation as a row: the gold table `findings`. What it stores on the way is stored
    until the session ends."""
    p = prepare(tables)
    found = _findings(p, wanted(properties), lambda _: None).where("kind is not null")
    return told(found, p.small["lexicon"]).select(*PUBLISHED)


def wanted(properties: Sequence[str] | None) -> tuple[str, ...]:
    """The properties that are meant, in their order. PipelineError for an unknown name."""
    for name in properties or ():
        if name not in PROPERTIES:
            remedy = f"choose among {', '.join(PROPERTIES)}"
            raise PipelineError(f"property {name!r}", "there is no such property", remedy)
    return tuple(name for name in PROPERTIES if properties is None or name in properties)


# ---------------------------------------------------------------------------- findings


def _findings(p: Prepared, wanted: tuple[str, ...], tell: Tell) -> DataFrame:
    """What all checks say, stored."""
    weak = "weak-total-order" in wanted
    needed = {*wanted, *(["running-prefix"] if weak else [])}
    frames = [*_of_cells(p, needed), *_of_deliveries(p, needed)]
    if needed & {"running-prefix", "toto-refinement"}:
        frames += order.total_order(p)
    if "virtual-synchrony" in needed:
        frames += synchrony.synchrony(p)
    if "same-view" in needed:
        frames += homes.one_view(p)
    if "integrity" in needed:
        frames += integrity.bodies(p)
    if needed & {"integrity", "basic"}:
        frames += integrity.receivers(p)
    if needed & {"integrity", "multicast-liveness", "self-delivery"}:
        frames += liveness.accepted(p)
    if needed & PAST:
        frames += causal.causality(p, causal.pasts(p))
    said = p.small["said"]
    frames.append(said.select(*[F.col(n).cast(t).alias(n) for n, t in SCHEMA.items()]))
    found = keep(_union(frames).where(F.col("property").isin(*sorted(needed))))
    if not weak:
        return found
    tell("comparing orders")
    broken = found.where("property = 'running-prefix' and kind is not null").select("r", "v")
    if not broken.isEmpty():
        found = found.unionByName(order.weak_total_order(p, broken))
    return found.where(F.col("property").isin(*wanted))


def _of_cells(p: Prepared, needed: set[str]) -> list[DataFrame]:
    """What is asked of each cell, at one look."""
    parts = (integrity, homes, safe, liveness)
    times = summed(*[part.times() for part in parts])
    cases = [case for part in parts for case in part.cases()]
    return _asked_and_found(p.cells, times, cases, needed)


def _of_deliveries(p: Prepared, needed: set[str]) -> list[DataFrame]:
    """What is asked of each row, at one look: of deliveries, sends and markers."""
    times = synchrony.times()
    cases = [*order.cases(), synchrony.region(), synchrony.side(), homes.misplaced("delivered")]
    frames = _asked_and_found(order.in_order(p), times, cases, needed)
    if "initial-view" in needed:
        frames.append(found(p.sent, homes.misplaced("sent")))
        frames.append(found(homes.markers(p), homes.misplaced("marked")))
    if p.repeated is not None:
        cases = [*integrity.again(), synchrony.region(), homes.misplaced("delivered")]
        frames.append(found(p.repeated, *cases))
    if p.resent is not None:
        frames.append(found(p.resent, integrity.resent()))
    return frames


def _asked_and_found(
    rows: DataFrame, times: dict[str, Column], cases: list[Case], needed: set[str]
) -> list[DataFrame]:
    times = {name: often for name, often in times.items() if name in needed}
    cases = [case for case in cases if case.kind.partition("/")[0] in needed]
    frames = [asked(rows, times)] if times else []
    return [*frames, found(rows, *cases)] if cases else frames


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, frames)


Key = tuple[int, str]


def _collected(
    p: Prepared, found: DataFrame
) -> tuple[dict[Key, tuple[int, int]], dict[Key, list[Violation]]]:
    """Per run and property: how often it was asked, how often broken, the first violations."""
    counts = found.groupBy("r", "property").agg(
        F.coalesce(F.sum("checked"), F.lit(0)).alias("checked"), F.count("kind").alias("found")
    )
    told_of = {(row.r, row.property): (row.checked, row.found) for row in counts.collect()}
    if not any(found for _, found in told_of.values()):
        return told_of, {}
    first = Window.partitionBy("r", "property").orderBy(
        F.size("rows").desc(), "s", "first", "who", "other", "kind"
    )
    some = found.where("kind is not null").withColumn("_n", F.row_number().over(first))
    shown: dict[Key, list[Violation]] = {}
    words = told(some.where(F.col("_n") <= KEPT).drop("_n"), p.small["lexicon"])
    for row in words.collect():
        shown.setdefault((row.r, row.property), []).append(violation(row.asDict(recursive=True)))
    for key in shown:
        shown[key].sort(key=lambda v: (v.sender or "", v.sender_inc or 0, v.first or 0, v.text))
    return told_of, shown


# ---------------------------------------------------------------------------- verdicts


def _facts(small: Small) -> dict[int, Run]:
    """What is known of each run's journals. PipelineError for two journals of one life."""
    people: dict[int, list[dict[str, Any]]] = {run["r"]: [] for run in small.rows["runs"]}
    for member in small.rows["people"]:
        people[member["r"]].append(member)
    facts = {}
    for run in small.rows["runs"]:
        members = people[run["r"]]
        for member in members:
            if member["twice"]:
                raise PipelineError(
                    f"group {run['group']!r}",
                    f"a second journal of {member['label']}",
                    "audit one at a time; an incarnation must never be used twice",
                )
        known = [m for m in members if m["journal"] is not None]
        facts[run["r"]] = Run(
            cluster=run["cluster"],
            run=run["run"],
            group=run["group"],
            settled=run["settled"],
            mode=run["mode"],
            members=tuple(m["label"] for m in known),
            absent=tuple(m["label"] for m in members if m["journal"] is None and m["named"]),
            torn=tuple(m["label"] for m in known if m["torn"]),
            unended=tuple(m["label"] for m in known if not m["stopped"]),
            properties={},
        )
    return facts


def _audit(
    facts: dict[int, Run],
    wanted: tuple[str, ...],
    counts: dict[Key, tuple[int, int]],
    shown: dict[Key, list[Violation]],
) -> Audit:
    runs = []
    for r, run in sorted(facts.items(), key=lambda item: item[1].run):
        for name in wanted:
            checked, found = counts.get((r, name), (0, 0))
            run.properties[name] = judged(name, run, checked, shown.get((r, name), ()), found)
        runs.append(run)
    return Audit({name: overall(name, runs, KEPT) for name in wanted}, tuple(runs))
