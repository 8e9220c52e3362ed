"""The view of a member at an instant.

The instant is one of the member's own wall clock, or of simulated time. Each life of the member has
its own answer: the view, or that it had none yet, or that its journal ends before. Where the wall
clock was set back an instant occurs twice, and both answers are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from phalanx.errors import PipelineError
from phalanx.pipeline.history import instant as instants
from phalanx.pipeline.history.clocks import moments
from phalanx.pipeline.history.instant import Instant
from phalanx.pipeline.history.intervals import intervals, labels
from phalanx.pipeline.history.lookup import MemberLife, find_group, find_member, lives, of_group
from phalanx.pipeline.tables import Tables


class ViewSpell(msgspec.Struct, frozen=True):
    """A member in a view, from when to when; instants as text."""

    view: str
    members: list[str]
    cause: str
    since: str
    until: str
    end: str
    next_view: str | None
    gapped: int


class ViewAt(msgspec.Struct, frozen=True):
    """What one life of a member had at the instant.

    `in view` has the view; `before` has the first view that came; `after` the last one; `none`
    has nothing, for the journal has no view at all.
    """

    cluster: str
    run: str
    group: str
    member: str
    instant: str
    answer: Literal["in view", "before", "after", "none"]
    stay: ViewSpell | None


def view_at(
    tables: Tables, group: str, member: str, instant: str | Instant, run: str | None = None
) -> list[ViewAt]:
    """For each life of the member (`ada`, or one life as `ada.2`) in each run that there is, in
    order. PipelineError for a name that is unknown, with those that are known, and for an instant
    of the wrong clock."""
    at = instants.parse(instant) if isinstance(instant, str) else instant
    asked = find_member(find_group(lives(tables), group, run), member)
    _check_clock(asked, at)
    mine = of_group(tables, group, run)
    journals = [life.journal for life in asked]
    frames = ("view_installed", "clock", "journals", "life")
    mine = Tables(
        tables.spark, {name: mine[name].where(F.col("journal").isin(journals)) for name in frames}
    )
    rows = _stays(mine, at).orderBy("journal", "from_lseq").collect()
    found: list[ViewAt] = []
    for life in asked:
        own = [row.asDict() for row in rows if row["journal"] == life.journal]
        hits = {row["from_lseq"]: row for row in own if row["hit"]}
        if hits:
            found += [_answer(life, at, "in view", row) for row in hits.values()]
        elif not own:
            found.append(_answer(life, at, "none", None))
        elif own[0]["early"]:
            found.append(_answer(life, at, "before", own[0]))
        else:
            found.append(_answer(life, at, "after", own[-1]))
    return found


def _check_clock(asked: Sequence[MemberLife], at: Instant) -> None:
    wrong = [life for life in asked if life.simulated != at.simulated]
    if not wrong:
        return
    run = f"run {wrong[0].run!r}"
    if at.simulated:
        raise PipelineError(run, "is not simulated", "give an instant of the wall clock")
    raise PipelineError(run, "is simulated and has no wall clock", "give an instant as 12.5s")


def _stays(tables: Tables, at: Instant) -> DataFrame:
    """All views of these journals; `hit` if the member had it at the instant, `early` if the
    instant lies before it."""
    stays = intervals(tables).withColumn("labels", labels("members", "member_incarnations"))
    if at.simulated:
        when = stays.withColumn("_at", F.lit(at.ns).cast("long"))
        begin, end = F.col("from_sim_ns"), F.col("to_sim_ns")
        early = F.col("_at") < begin
    else:
        own = moments(tables, at.ns).select("journal", F.col("t_ns").alias("_at"))
        when = stays.join(own, "journal", "left")
        begin, end = F.col("from_t_ns"), F.col("to_t_ns")
        early = F.coalesce(F.col("_at") < begin, F.lit(at.ns).cast("long") < F.col("from_wall_ns"))
    hit = F.coalesce((F.col("_at") >= begin) & (F.col("_at") < end), F.lit(False))
    return when.select(
        *("journal", "from_lseq", "view", "labels", "cause", "next_view", "end", "gapped"),
        *("from_sim_ns", "to_sim_ns", "from_wall_ns", "to_wall_ns"),
        hit.alias("hit"),
        early.alias("early"),
    )


def _answer(
    life: MemberLife,
    at: Instant,
    answer: Literal["in view", "before", "after", "none"],
    row: dict[str, object] | None,
) -> ViewAt:
    stay = None
    if row is not None:
        kind = "sim" if at.simulated else "wall"
        facts = row | {
            "members": row["labels"],
            "since": str(Instant(row[f"from_{kind}_ns"], at.simulated)),  # type: ignore[arg-type]
            "until": str(Instant(row[f"to_{kind}_ns"], at.simulated)),  # type: ignore[arg-type]
        }
        stay = msgspec.convert(facts, ViewSpell)
    return ViewAt(life.cluster, life.run, life.group, life.label, str(at), answer, stay)
