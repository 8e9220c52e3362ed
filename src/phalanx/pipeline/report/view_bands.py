"""Bands of the report page: which member was in which view, and when.

The intervals are those of `phalanx history` (history/intervals.py). The longest are drawn one by
one. Those that are too short or too many to be drawn are counted: one band per life and stretch of
time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from phalanx.pipeline.history.intervals import own_clock_intervals
from phalanx.pipeline.report.model import Bands, Changes, ViewBand
from phalanx.pipeline.report.time_axis import Axis
from phalanx.pipeline.tables import Tables

TONES = 8
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class BandSpell(NamedTuple):
    """One installation of a view by one life."""

    life: int
    view: str
    cause: str
    members: tuple[int, ...]
    begin: int
    end: int


def ranked_intervals(tables: Tables, axis: Axis) -> DataFrame:
    """Every installation of a view: run_no, life, view, cause, members, member_incarnations, begin,
    end, rank (the last view of each life first, then by length), total."""
    run = Window.partitionBy("run_no")
    is_last = F.col("end") != "VIEW"
    found = axis.place_intervals(own_clock_intervals(tables).withColumn("last", is_last))
    longest = run.orderBy(
        F.col("last").desc(), (F.col("end") - F.col("begin")).desc(), "begin", "life"
    )
    return found.select(
        *("run_no", "life", "view", "cause", "members", "member_incarnations", "begin"),
        F.greatest("begin", "end").alias("end"),
        F.row_number().over(longest).alias("rank"),
        F.count("*").over(run).alias("total"),
    )


def short(found: DataFrame, kept: int, bucket: int) -> DataFrame:
    """What `kept` cuts off: run_no, life, begin, end, count of each stretch of `bucket`."""
    cut = found.where(F.col("rank") > kept)
    grouped = cut.groupBy("run_no", "life", F.expr(f"begin div {bucket}").alias("stretch"))
    return grouped.agg(
        F.min("begin").alias("begin"), F.max("end").alias("end"), F.count("*").alias("count")
    ).drop("stretch")


def collect_bands(tables: Tables, axis: Axis) -> list[tuple[Bands, list[ViewBand]]]:
    """Of each run."""
    each = max(1, axis.caps.bands // (2 * len(axis.runs)))
    found = ranked_intervals(tables, axis)
    kept: list[list[BandSpell]] = [[] for _ in axis.runs]
    totals = [0] * len(axis.runs)
    for row in found.where(F.col("rank") <= each).orderBy("begin", "view").collect():
        run = axis.runs[row.run_no]
        members = zip(row.members, row.member_incarnations, strict=True)
        known = tuple(run.lives[m] for m in members if m in run.lives)
        kept[row.run_no].append(BandSpell(row.life, row.view, row.cause, known, row.begin, row.end))
        totals[row.run_no] = row.total
    by_run = [_bands_of(stays_of, total) for stays_of, total in zip(kept, totals, strict=True)]
    if any(total > each for total in totals):
        lives = sum(len(run.lives) for run in axis.runs)
        bucket = max(1, max(run.span for run in axis.runs) * lives // each)
        for row in short(found, each, bucket).collect():
            bands = by_run[row.run_no][0]
            _add(bands, row.life, -1, row.begin, row.end, row["count"])
    return by_run


def _bands_of(found: Sequence[BandSpell], total: int) -> tuple[Bands, list[ViewBand]]:
    views = views_of(found)
    index = {view.view: i for i, view in enumerate(views)}
    bands = Bands(total=total)
    for stay in found:
        _add(bands, stay.life, index[stay.view], stay.begin, stay.end, 1)
    return bands, views


def _add(bands: Bands, life: int, view: int, begin: int, end: int, count: int) -> None:
    bands.life.append(life)
    bands.view.append(view)
    bands.begin.append(begin)
    bands.end.append(end)
    bands.count.append(count)


def views_of(found: Sequence[BandSpell]) -> list[ViewBand]:
    """The views in the order of their first installation, named A, B, ... and coloured."""
    by_view: dict[str, list[BandSpell]] = {}
    for stay in sorted(found, key=lambda s: (s.begin, s.view, s.life)):
        by_view.setdefault(stay.view, []).append(stay)
    spans = [
        (min(s.begin for s in group), max(s.end for s in group), len(group[0].members))
        for group in by_view.values()
    ]
    tones = toned(spans)
    return [
        ViewBand(
            view=view,
            label=lettered(i),
            cause=group[0].cause,
            members=list(group[0].members),
            begin=spans[i][0],
            end=spans[i][1],
            tone=tones[i],
        )
        for i, (view, group) in enumerate(by_view.items())
    ]


def lettered(number: int) -> str:
    """A to Z, then AA, AB, ..."""
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, len(LETTERS))
        text = LETTERS[rest] + text
    return text


def toned(spans: Sequence[tuple[int, int, int]]) -> list[int]:
    """A colour for each (begin, end, members): different from that of every view it overlaps, or
    touches, while there are colours; the one that was used longest ago, so that neighbours differ
    too. Views of several members choose first."""
    tones = [-1] * len(spans)
    used: list[list[tuple[int, int]]] = [[] for _ in range(TONES)]
    order = sorted(range(len(spans)), key=lambda i: (spans[i][2] == 1, spans[i][0], i))
    for i in order:
        begin, end, _ = spans[i]

        def cost(tone: int, begin: int = begin, end: int = end) -> tuple[int, int, int]:
            overlaps = sum(1 for a, b in used[tone] if a <= end and begin <= b)
            latest = max((b for _, b in used[tone]), default=-1)
            return overlaps, latest, tone

        tones[i] = min(range(TONES), key=cost)
        used[tones[i]].append((begin, end))
        if len(used[tones[i]]) > 64:  # what is long past cannot overlap in practice
            used[tones[i]].pop(0)
    return tones


def collect_changes(tables: Tables, axis: Axis) -> list[Changes]:
    """When a change of views was under way: from its first step to the next installation, or to
    where it was given up."""
    mine = Window.partitionBy("run_no", "life").orderBy("lseq")
    steps = axis.place(tables["view_change_step"]).where(F.col("action") != "CLOSED")
    given_up = (F.col("action") == "FORGET").cast("int")
    steps = steps.select("run_no", "life", "lseq", "at", given_up.alias("over"))
    installs = axis.place(tables["view_installed"])
    installs = installs.select("run_no", "life", "lseq", "at", F.lit(1).alias("over"))
    both = steps.unionByName(installs)
    number = F.sum("over").over(mine) - F.col("over")
    spans = (
        both.select("run_no", "life", "at", "over", number.alias("n"))
        .groupBy("run_no", "life", "n")
        .agg(
            F.min(F.when(F.col("over") == 0, F.col("at"))).alias("begin"),
            F.max("at").alias("end"),
        )
        .where(F.col("begin").isNotNull())
    )
    each = max(1, axis.caps.bands // (2 * len(axis.runs)))
    longest = Window.partitionBy("run_no").orderBy((F.col("end") - F.col("begin")).desc(), "begin")
    spans = spans.withColumn("rank", F.row_number().over(longest)).where(F.col("rank") <= each)
    by_run = [Changes() for _ in axis.runs]
    for row in spans.orderBy("begin", "life").collect():
        changes = by_run[row.run_no]
        changes.life.append(row.life)
        changes.begin.append(row.begin)
        changes.end.append(row.end)
    return by_run
