"""The audit: every check on what was prepared, put together, and the verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from phalanx.errors import PipelineError
from phalanx.pipeline.audit import (
    causal,
    homes,
    integrity,
    liveness,
    merges,
    order,
    receipts,
    safe,
    synchrony,
)
from phalanx.pipeline.audit.findings import (
    PUBLISHED,
    SCHEMA,
    Look,
    counted,
    found,
    property_of,
    summed,
    told,
)
from phalanx.pipeline.audit.order import PREFIX, WEAK
from phalanx.pipeline.audit.prepare import Prepared, keep, prepare
from phalanx.pipeline.audit.sentences import SENTENCES
from phalanx.pipeline.audit.small import Small, chronicles
from phalanx.pipeline.audit.verdicts import (
    Audit,
    AuditViolation,
    RunVerdicts,
    judged,
    overall,
    violation,
)
from phalanx.pipeline.tables import Tables
from phalanx.verify.properties import PROPERTIES

KEPT = 3
"""Counter-examples that are kept of each property of each run."""

RUNS_NAMED = 100
"""So many runs are looked at alone; more are not worth naming one by one."""

Tell = Callable[[str], None]
Key = tuple[int, str]
"""A run, and a property or a kind of violation."""

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
    small = chronicles(tables)
    facts = _facts(small)
    p = prepare(tables, small)
    tell(f"checking {len(facts)} run{'s' * (len(facts) != 1)}")
    looks = _looks(p, _needed(names))
    times = _said(p) + _counted(looks)
    broken = _broken(times)
    if WEAK in names and any(kind.startswith(f"{PREFIX}/") for kind in broken):
        tell("comparing orders")
        looks.append(_in_pairs(p, looks, broken))
        times += _counted(looks[-1:])
    broken = {kind: runs for kind, runs in _broken(times).items() if property_of(kind) in names}
    shown: dict[Key, list[AuditViolation]] = {}
    if broken:
        tell("looking up what was found")
        shown = _shown(p, looks, broken)
    return _audit(facts, names, times, shown)


def audit_frames(tables: Tables, properties: Sequence[str] | None = None) -> DataFrame:
    """Every violation as a row: the gold table `findings`. What it stores on the way is stored
    until the session ends."""
    names = wanted(properties)
    p = prepare(tables, chronicles(tables))
    looks = _looks(p, _needed(names))
    if WEAK in names:
        looks.append(_in_pairs(p, looks, dict.fromkeys(SENTENCES, ())))
    rows = _rows(p, [look.at(names) for look in looks])
    return told(rows.where(F.col("property").isin(*names)), p.small["lexicon"]).select(*PUBLISHED)


def wanted(properties: Sequence[str] | None) -> tuple[str, ...]:
    """The properties that are meant, in their order. PipelineError for an unknown name."""
    for name in properties or ():
        if name not in PROPERTIES:
            remedy = f"choose among {', '.join(PROPERTIES)}"
            raise PipelineError(f"property {name!r}", "there is no such property", remedy)
    return tuple(name for name in PROPERTIES if properties is None or name in properties)


# ---------------------------------------------------------------------------- looks


def _looks(p: Prepared, needed: set[str]) -> list[Look]:
    """All that is asked of rows for the sake of these properties."""
    looks = [_at_cells(p), *_at_deliveries(p)]
    if {"running-prefix", "toto-refinement"} & needed:
        looks += order.total_order(p)
    if "virtual-synchrony" in needed:
        looks += synchrony.synchrony(p)
    if "same-view" in needed:
        looks += homes.one_view(p)
    if "integrity" in needed:
        looks += integrity.bodies(p)
    if {"integrity", "basic"} & needed:
        looks += integrity.receivers(p)
    if {"integrity", "multicast-liveness", "self-delivery"} & needed:
        looks += liveness.accepted(p)
    if "receipt-truth" in needed:
        looks += receipts.receipts(p)
    if "not-sent-liveness" in needed:
        looks += receipts.lost_receivers(p)
    if "merge-report-truth" in needed:
        looks += merges.merges(p)
    if PAST & needed:
        looks += causal.causality(p, causal.pasts(p))
    return [look.at(needed) for look in looks]


def _at_cells(p: Prepared) -> Look:
    """What is asked of each cell, at one look."""
    parts = (integrity, homes, safe, liveness)
    times = summed(*[part.times() for part in parts])
    return Look(p.cells, times, [case for part in parts for case in part.cases()])


def _at_deliveries(p: Prepared) -> Iterator[Look]:
    """What is asked of each row, at one look: of deliveries, sends and markers."""
    cases = [*order.cases(), synchrony.region(), synchrony.side(), homes.misplaced("delivered")]
    yield Look(order.in_order(p), synchrony.times(), cases)
    yield Look(p.sent, cases=[homes.misplaced("sent")])
    yield Look(homes.markers(p), cases=[homes.misplaced("marked")])
    if p.repeated is not None:
        cases = [*integrity.again(), synchrony.region(), homes.misplaced("delivered")]
        yield Look(p.repeated, cases=cases)
    if p.resent is not None:
        yield Look(p.resent, cases=[integrity.resent()])


# ---------------------------------------------------------------------------- findings


def _needed(names: Collection[str]) -> set[str]:
    """Orders are compared pair by pair only in views where positions are broken."""
    return {*names, *([PREFIX] if WEAK in names else [])}


def _said(p: Prepared) -> Counter[Key]:
    """How often properties were asked in Python, and what was found there."""
    times: Counter[Key] = Counter()
    for row in p.small.rows["said"]:
        kind = row.get("kind")
        times[row["r"], kind or row["property"]] += 1 if kind else row["checked"]
    return times


def _counted(looks: Sequence[Look]) -> Counter[Key]:
    """The same, by looks. Properties of views alone need none."""
    times: Counter[Key] = Counter()
    looks = [look for look in looks if look.times or look.cases]
    for row in counted(looks).collect() if looks else ():
        times[row.r, row.name] += row.times
    return times


def _broken(times: Mapping[Key, int]) -> dict[str, Collection[int]]:
    """The kinds that were found, and in which runs."""
    broken: dict[str, Collection[int]] = {}
    for r, name in times:
        if "/" in name:
            broken[name] = {*broken.get(name, ()), r}
    return broken


def _in_pairs(p: Prepared, looks: Sequence[Look], broken: Mapping[str, Collection[int]]) -> Look:
    """Orders pair by pair in views in which there is no one order of positions."""
    kinds = {kind: runs for kind, runs in broken.items() if property_of(kind) == PREFIX}
    found_of = found(_into(looks, kinds))
    assert found_of is not None
    return order.weak_total_order(p, keep(found_of.select("r", "v").distinct()))


def _into(looks: Sequence[Look], broken: Mapping[str, Collection[int]]) -> list[Look]:
    """What shows these kinds, in the runs that have them if these are few."""
    found = []
    for look in looks:
        look = look.into(broken)
        runs = {r for case in look.cases for r in broken[case.kind]}
        few = 0 < len(runs) <= RUNS_NAMED
        found.append(replace(look, frame=look.frame.where(F.col("r").isin(*runs))) if few else look)
    return found


def _rows(p: Prepared, looks: Sequence[Look]) -> DataFrame:
    """All violations."""
    said = p.small["said"].where("kind is not null")
    said = said.select(*[F.col(n).cast(t).alias(n) for n, t in SCHEMA.items()])
    rows = found(looks)
    return said if rows is None else rows.unionByName(said)


def _shown(
    p: Prepared, looks: Sequence[Look], broken: Mapping[str, Collection[int]]
) -> dict[Key, list[AuditViolation]]:
    """Per run and property: the first violations."""
    first = Window.partitionBy("r", "property").orderBy(
        F.size("rows").desc(), "s", "first", "who", "other", "kind"
    )
    rows = _rows(p, _into(looks, broken)).where(F.col("kind").isin(*broken))
    some = rows.withColumn("_n", F.row_number().over(first)).where(F.col("_n") <= KEPT).drop("_n")
    shown: dict[Key, list[AuditViolation]] = {}
    for row in told(some, p.small["lexicon"]).collect():
        shown.setdefault((row.r, row.property), []).append(violation(row.asDict(recursive=True)))
    for key in shown:
        shown[key].sort(
            key=lambda v: (v.sender or "", v.sender_incarnation or 0, v.first or 0, v.text)
        )
    return shown


# ---------------------------------------------------------------------------- verdicts


def _facts(small: Small) -> dict[int, RunVerdicts]:
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
        facts[run["r"]] = RunVerdicts(
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
    for row in small.rows["settings"]:
        values = facts[row["r"]].settings.setdefault(row["name"], {})
        values[row["value"]] = row["members"]
    for row in small.rows["mixed"]:
        facts[row["r"]].mixed.append(row["view"])
    return facts


def _audit(
    facts: dict[int, RunVerdicts],
    wanted: tuple[str, ...],
    times: Mapping[Key, int],
    shown: dict[Key, list[AuditViolation]],
) -> Audit:
    violations: Counter[Key] = Counter()
    for (r, name), often in times.items():
        if "/" in name:
            violations[r, property_of(name)] += often
    runs = []
    for r, run in sorted(facts.items(), key=lambda item: item[1].run):
        for name in wanted:
            key = (r, name)
            checked, examples = times.get(key, 0), shown.get(key, ())
            run.properties[name] = judged(name, run, checked, examples, violations[key])
        runs.append(run)
    return Audit({name: overall(name, runs, KEPT) for name in wanted}, tuple(runs))
