"""Views and memberships as intervals of time.

A member is in a view from the row that installs it to the row that installs the next, or to the
end of its journal: `[from, to)`, by its own clock, by its wall clock, and by the simulator's clock
where there is one. `end` says what ended the interval:

    VIEW    the next view was installed
    STOP    the member stopped as intended
    CRASH   the member crashed; only a simulator records that
    OPEN    the journal ends without a stop: the member was killed, or is still running

`memberships` has the intervals during which one member considered another a member of the group:
runs of consecutive views of the first that all contain the second.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from phalanx.pipeline.history.clocks import MEMBER, RUN, with_wall
from phalanx.pipeline.tables import Tables

TIMES = ("lseq", "t_ns", "sim_ns", "wall_ns")
_VIEW = ("view", "joins", "removals", "cause", "members", "member_incarnations", "previous")


def labels(names: str, incarnations: str) -> Column:
    """Members as `ada.2`, of two lists of equal length."""
    return F.zip_with(
        names,
        incarnations,
        lambda name, incarnation: F.concat_ws(".", name, incarnation.cast("string")),
    )


def intervals(tables: Tables) -> DataFrame:
    """One row for each view that a member installed.

    cluster, run, group, journal, member, incarnation: who. view, joins, removals, cause: which
    view. members, member_incarnations: of whom it is. previous, next_view: the views before and
    after here.
    gained, lost: whom it has more and less than the view before, as `ada.2`; null where that view
    is missing from the journal.
    from_lseq, from_t_ns, from_sim_ns, from_wall_ns and to_...: from when to when.
    end: what ended it. gapped: 1 if rows are missing that may hide another view in it.
    """
    return _between(with_wall(tables, _marks(tables)), TIMES)


def own_clock_intervals(tables: Tables) -> DataFrame:
    """The same without the wall clock: less work where nobody asks for it."""
    return _between(_marks(tables), TIMES[:-1])


def _between(marks: DataFrame, times: Sequence[str]) -> DataFrame:
    """From each install to the next mark of its journal."""
    line = Window.partitionBy("journal").orderBy("lseq")
    now = labels("members", "member_incarnations")
    hides = F.when(
        F.col("next_view").isNotNull(), (F.lead("previous").over(line) != F.col("view")).cast("int")
    ).otherwise(F.col("torn"))
    follows = F.col("previous").isNull() | F.col("_follows")
    found = (
        marks.withColumn("_now", now)
        .withColumn("_before", F.lag("_now").over(line))
        .withColumn("_follows", F.lag("view").over(line) == F.col("previous"))
        .withColumn("next_view", F.lead("view").over(line))
        .withColumn("end", F.coalesce(F.lead("end").over(line), F.lit("VIEW")))
        .withColumn("torn", F.lead("torn").over(line))
        .withColumn("gapped", F.coalesce(hides, F.lit(1)))
        .withColumns({f"to_{time}": F.lead(time).over(line) for time in times})
        .where(F.col("view").isNotNull())
    )
    return found.select(
        *MEMBER,
        *_VIEW,
        "next_view",
        F.when(follows, F.array_except("_now", F.coalesce("_before", _nobody()))).alias("gained"),
        F.when(follows, F.array_except(F.coalesce("_before", _nobody()), "_now")).alias("lost"),
        *[F.col(time).alias(f"from_{time}") for time in times],
        *[f"to_{time}" for time in times],
        "end",
        "gapped",
    )


def _nobody() -> Column:
    return F.array().cast("array<string>")


def _marks(tables: Tables) -> DataFrame:
    """The installs, and the end of each journal."""
    installs = tables["view_installed"].select(
        *MEMBER,
        *_VIEW,
        "lseq",
        "t_ns",
        "sim_ns",
        F.lit(None).cast("string").alias("end"),
        F.lit(None).cast("int").alias("torn"),
    )
    return installs.unionByName(_ends(tables))


def _ends(tables: Tables) -> DataFrame:
    """Behind the last row of each journal, a row that says how it ended."""
    crashed = tables["life"].where("op = 'CRASH'").select("journal").distinct()
    crashed = crashed.withColumn("_crashed", F.lit(True))
    end = F.when(F.col("_crashed"), "CRASH").when(F.col("stopped") == 1, "STOP").otherwise("OPEN")
    return (
        tables["journals"]
        .join(F.broadcast(crashed), "journal", "left")
        .select(
            *MEMBER,
            *[F.lit(None).alias(name) for name in _VIEW],
            (F.col("last") + 1).alias("lseq"),
            F.col("end_t_ns").alias("t_ns"),
            F.col("end_sim_ns").alias("sim_ns"),
            end.alias("end"),
            F.col("torn").cast("int").alias("torn"),
        )
    )


def memberships(tables: Tables) -> DataFrame:
    """One row for each time that a member held another, or itself, for a member of the group.

    cluster, run, group, journal, member, incarnation: who held. target, target_incarnation: whom.
    first_view, last_view: the first and the last of the views that have it; last_lseq: where the
    last of them was installed. next_view: the first view without it.
    from_..., to_...: from when to when. end: as of intervals; VIEW means that it was removed.
    back_view, back_incarnation, back_lseq, back_t_ns, back_sim_ns, back_wall_ns: the next view here
    that has a member of this name again.
    """
    return _spells(intervals(tables), TIMES)


def own_clock_memberships(tables: Tables) -> DataFrame:
    """The same without the wall clock."""
    return _spells(own_clock_intervals(tables), TIMES[:-1])


def _spells(found: DataFrame, times: Sequence[str]) -> DataFrame:
    """Runs of consecutive views that have a member."""
    line = Window.partitionBy("journal").orderBy("from_lseq")
    views = found.withColumn("_index", F.row_number().over(line))
    held = views.select(
        *MEMBER,
        "_index",
        "view",
        "next_view",
        "end",
        *[f"{side}_{time}" for side in ("from", "to") for time in times],
        F.explode(F.arrays_zip("members", "member_incarnations")).alias("_one"),
    ).withColumns(
        {"target": F.col("_one.members"), "target_incarnation": F.col("_one.member_incarnations")}
    )
    pair = (*MEMBER, "target", "target_incarnation")
    each = Window.partitionBy("journal", "target", "target_incarnation").orderBy("_index")
    spells = (
        held.withColumn("_spell", F.col("_index") - F.row_number().over(each))
        .groupBy(*pair, "_spell")
        .agg(
            F.min_by(F.struct("view", *[f"from_{time}" for time in times]), "_index").alias("_a"),
            F.max_by(
                F.struct(
                    "view", "next_view", "end", "from_lseq", *[f"to_{time}" for time in times]
                ),
                "_index",
            ).alias("_z"),
        )
        .select(
            *pair,
            F.col("_a.view").alias("first_view"),
            F.col("_z.view").alias("last_view"),
            F.col("_z.from_lseq").alias("last_lseq"),
            F.col("_z.next_view").alias("next_view"),
            *[F.col(f"_a.from_{time}") for time in times],
            *[F.col(f"_z.to_{time}") for time in times],
            F.col("_z.end").alias("end"),
        )
    )
    name = Window.partitionBy("journal", "target").orderBy("from_lseq")
    back = {"view": "first_view", "incarnation": "target_incarnation"} | {
        time: f"from_{time}" for time in times
    }
    return spells.withColumns(
        {f"back_{short}": F.lead(column).over(name) for short, column in back.items()}
    )


def views(tables: Tables) -> DataFrame:
    """One row for each view that anybody installed.

    cluster, run, group, view, joins, removals, members, member_incarnations: the view.
    causes: why it was installed; more than one if some joined and others lost somebody.
    gained, lost: whom it has more and less than the views before it, as `ada.2`.
    installed: members that installed it; absent: members of it that did not, by their journals or
    for want of one. from_sim_ns, to_sim_ns: from the first install to the last end of it.
    from_wall_ns, to_wall_ns: the same by the wall clocks of machines, which may differ.
    """
    who = F.concat_ws(".", "member", F.col("incarnation").cast("string"))
    grouped = (
        intervals(tables)
        .groupBy(*RUN, "view")
        .agg(
            F.first("joins").alias("joins"),
            F.first("removals").alias("removals"),
            F.first("members").alias("members"),
            F.first("member_incarnations").alias("member_incarnations"),
            F.sort_array(F.collect_set("cause")).alias("causes"),
            F.sort_array(F.array_distinct(F.flatten(F.collect_list("gained")))).alias("gained"),
            F.sort_array(F.array_distinct(F.flatten(F.collect_list("lost")))).alias("lost"),
            F.sort_array(F.collect_set(who)).alias("installed"),
            F.min("from_sim_ns").alias("from_sim_ns"),
            F.max("to_sim_ns").alias("to_sim_ns"),
            F.min("from_wall_ns").alias("from_wall_ns"),
            F.max("to_wall_ns").alias("to_wall_ns"),
        )
    )
    absent = F.sort_array(F.array_except(labels("members", "member_incarnations"), "installed"))
    return grouped.select(
        *RUN,
        *("view", "joins", "removals", "members", "member_incarnations"),
        *("causes", "gained", "lost", "installed"),
        absent.alias("absent"),
        *("from_sim_ns", "to_sim_ns", "from_wall_ns", "to_wall_ns"),
    )
