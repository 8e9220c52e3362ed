"""Removals of members, each with its evidence at each member that made it.

A removal is a view with a member, followed at another member by a view without it. Each member that
made that step recorded what led to it:

    SUSPECT  the states its failure detector gave the removed member since it last was OPERATIONAL
    STEP     the steps of the change that closed the view, and earlier ones that name the member
    MARKER   the position from which deliveries were transitional
    VIEW     the view without the member

`evidence` has a row for each of these, `removals` one row per removal that contains all of them.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from phalanx.pipeline.history.asof_join import as_of
from phalanx.pipeline.history.clocks import MEMBER, RUN, own_time, with_wall
from phalanx.pipeline.history.intervals import labels, own_clock_memberships
from phalanx.pipeline.history.removal_outcome import with_fate
from phalanx.pipeline.tables import Tables

REMOVED = ("target", "target_incarnation", "view", "next_view")
CHAIN = (
    *("member", "incarnation", "lseq", "t_ns", "sim_ns", "wall_ns", "kind"),
    *("state", "previous", "evidence", "relay"),
    *("action", "stage", "context", "failed_before", "failed_after", "names_it"),
    *("pos", "members", "back_view", "back_incarnation", "back_ns"),
)
"""What is kept of each row of evidence, in this order."""
_PLACE = ("journal", "lseq", "t_ns", "sim_ns")
_STEP = ("action", "stage", "context", "failed_before", "failed_after")
_TYPES = {
    "state": "string",
    "previous": "string",
    "evidence": "string",
    "relay": "string",
    "action": "string",
    "stage": "string",
    "context": "string",
    "failed_before": "array<string>",
    "failed_after": "array<string>",
    "names_it": "boolean",
    "pos": "long",
    "members": "array<string>",
    "back_view": "string",
    "back_incarnation": "long",
    "back_ns": "long",
}


def departures(tables: Tables) -> DataFrame:
    """One row for each removal at each member that made it; `_gone` is where it installed the
    view without it."""
    return (
        own_clock_memberships(tables)
        .where("end = 'VIEW'")
        .select(
            *MEMBER,
            *("target", "target_incarnation", "next_view", "back_view", "back_incarnation"),
            F.col("last_view").alias("view"),
            F.col("from_lseq").alias("_held"),
            F.col("to_lseq").alias("_gone"),
            F.coalesce("back_sim_ns", "back_t_ns").alias("back_ns"),
        )
    )


def evidence(tables: Tables) -> DataFrame:
    """One row for each piece of evidence of each removal at each member that made it.

    cluster, run, group, journal, member, incarnation: where. target, target_incarnation, view,
    next_view: who was removed, between which views. lseq, t_ns, sim_ns, wall_ns: when. kind: see
    the module. state, previous, evidence, relay, stands: of SUSPECT; stands says that it was not
    taken back. action, stage, context, failed_before, failed_after, names_it: of STEP; names_it
    says that the removed is among the failed. pos: of MARKER. members: of VIEW, as `ada.2`;
    back_view, back_incarnation, back_ns: the next view here with a member of that name, its
    incarnation, and when, by the clock of the observer.
    """
    gone = departures(tables)
    rows = doubts(tables, gone).unionByName(_steps(tables, gone), allowMissingColumns=True)
    rows = rows.unionByName(_views(tables, gone), allowMissingColumns=True)
    found = with_wall(tables, rows)
    typed = [F.col(name).cast(_TYPES[name]).alias(name) for name in CHAIN if name in _TYPES]
    when = [name for name in CHAIN if name not in (*_TYPES, "member", "incarnation")]
    return found.select(*MEMBER, *REMOVED, *when, *typed, "stands")


def doubts(tables: Tables, gone: DataFrame) -> DataFrame:
    """What the detectors thought of those who were removed, since they last thought well of
    them; `gone` are the departures."""
    whom = ["journal", "target", "target_incarnation"]
    rows = tables["peer_suspicion"].select(
        *_PLACE,
        "target",
        "target_incarnation",
        *("state", "previous", "evidence", "relay"),
    )
    marks = gone.withColumn("lseq", F.col("_gone"))
    kept = [name for name in gone.columns if name not in whom]
    held = as_of(rows, marks, whom, "lseq", kept, behind=True).where("lseq > _held")
    later = Window.partitionBy(*whom, "_gone").orderBy(F.col("lseq").desc())
    since = later.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    fine = F.max((F.col("state") == "OPERATIONAL").cast("int")).over(since)
    trusted = F.max(F.col("state").isin("OPERATIONAL", "SEMI").cast("int")).over(since)
    return held.withColumns({"_fine": fine, "stands": trusted == 0}).where("_fine = 0").select(
        *MEMBER, *REMOVED, "_gone", *_PLACE[1:], F.lit("SUSPECT").alias("kind"), "stands",
        *("state", "previous", "evidence", "relay"),
    )  # fmt: skip


def named(tables: Tables, gone: DataFrame) -> DataFrame:
    """Steps that name somebody among the failed, with the departure that they led to, which may
    be behind a view that still has it; `_gone` is where that was, `_closed` the next install."""
    whom = ["journal", "target", "target_incarnation"]
    names = F.explode(F.array_distinct(F.concat("failed_before", "failed_after")))
    rows = closing(tables, tables["view_change_step"].select(*_PLACE, *_STEP)).withColumn(
        "_name", names
    )
    rows = rows.withColumns(
        {
            "target": F.regexp_extract("_name", r"^(.*)\.\d+$", 1),
            "target_incarnation": F.regexp_extract("_name", r"\.(\d+)$", 1).cast("long"),
        }
    )
    marks = gone.withColumn("lseq", F.col("_gone"))
    kept = [name for name in gone.columns if name not in whom]
    found = as_of(rows.drop("_name"), marks, whom, "lseq", kept, behind=True)
    return found.where("lseq > _held and (_closed = _gone or _given_up = 0)")


def _steps(tables: Tables, gone: DataFrame) -> DataFrame:
    """Of the change that closed the view; markers of its end; and earlier steps that name it."""
    steps = tables["view_change_step"].select(*_PLACE, F.lit("STEP").alias("kind"), *_STEP)
    markers = tables["transitional"].select(*_PLACE, F.lit("MARKER").alias("kind"), "pos")
    rows = closing(tables, steps.unionByName(markers, allowMissingColumns=True))
    subject = F.concat_ws(".", "target", F.col("target_incarnation").cast("string"))
    naming = F.array_contains(F.concat("failed_before", "failed_after"), subject)
    columns = (*MEMBER, *REMOVED, *_PLACE[1:], "kind", *_STEP, "names_it", "pos")
    here = (
        gone.join(rows.withColumnRenamed("_closed", "_gone"), ["journal", "_gone"])
        .withColumn("names_it", F.when(F.col("kind") == "STEP", naming))
        .where("_given_up = 0 and not coalesce(names_it, false)")
    )
    naming_it = named(tables, gone).withColumns(
        {
            "kind": F.lit("STEP"),
            "names_it": F.lit(True),
            "pos": F.lit(None).cast("long"),
        }
    )
    return here.select(*columns).unionByName(naming_it.select(*columns))


def closing(tables: Tables, rows: DataFrame) -> DataFrame:
    """The rows, with `_closed`, the next install of their journal, and `_given_up`, 1 if the change
    that they are of was given up before it."""
    installs = tables["view_installed"].select("journal", "lseq", F.col("lseq").alias("_closed"))
    found = as_of(rows, installs, ["journal"], "lseq", ["_closed"], behind=True)
    given_up = (F.col("action") == "FORGET").cast("int")
    later = Window.partitionBy("journal", "_closed").orderBy(F.col("lseq").desc())
    since = later.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return found.withColumn("_given_up", F.coalesce(F.max(given_up).over(since), F.lit(0)))


def _views(tables: Tables, gone: DataFrame) -> DataFrame:
    installs = tables["view_installed"].select(
        "journal", F.col("lseq").alias("_gone"), "lseq", "t_ns", "sim_ns",
        labels("members", "member_incarnations").alias("members"),
    )  # fmt: skip
    return gone.join(installs, ["journal", "_gone"]).select(
        *MEMBER, *REMOVED, *_PLACE[1:], F.lit("VIEW").alias("kind"), "members",
        *("back_view", "back_incarnation", "back_ns"),
    )  # fmt: skip


def removals(tables: Tables) -> DataFrame:
    """One row for each removal: a member, the last view with it and the first without it.

    cluster, run, group, target, target_incarnation, view, next_view: who, and between which views.
    fate, own_next_view, own_end_t_ns, own_end_sim_ns: what its own journal says, see `fates`.
    back_view, back_incarnation: the next view with a member of its name at one of those who removed
    it. observers: array of those who removed it: member, incarnation, boot_id; suspected_ns,
    stepped_ns, removed_ns: the first suspicion, the first step that names it, and the view without
    it, by the clock of the observer (simulated time in a simulation); back_ns: when it was back.
    chain: array of all evidence, in order of observers and then of time, columns as in `evidence`.
    """
    key = (*RUN, *REMOVED)
    at = own_time()

    def first(condition: Column) -> Column:
        return F.min(F.when(condition, at))

    suspected = (F.col("kind") == "SUSPECT") & F.col("stands")
    seen = (
        evidence(tables)
        .groupBy(*key, "journal", "member", "incarnation")
        .agg(
            first(suspected).alias("suspected_ns"),
            first(F.col("names_it")).alias("stepped_ns"),
            first(F.col("kind") == "VIEW").alias("removed_ns"),
            *[F.max(name).alias(name) for name in ("back_ns", "back_view", "back_incarnation")],
            F.sort_array(F.collect_list(F.struct(*CHAIN))).alias("chain"),
        )
        .join(F.broadcast(tables["journals"].select("journal", "boot_id")), "journal", "left")
    )
    who = (
        "member",
        "incarnation",
        "boot_id",
        "suspected_ns",
        "stepped_ns",
        "removed_ns",
        "back_ns",
    )
    back = F.struct("member", "incarnation", "back_view", "back_incarnation")
    both = seen.groupBy(*key).agg(
        F.sort_array(F.collect_list(F.struct(*who, "chain"))).alias("_seen"),
        F.min(F.when(F.col("back_view").isNotNull(), back)).alias("_back"),
    )
    without = F.transform("_seen", lambda one: F.struct(*[one[name].alias(name) for name in who]))
    fated = with_fate(tables, both, "target", "target_incarnation", "view")
    return fated.select(
        *key,
        *("fate", "own_next_view", "own_end_t_ns", "own_end_sim_ns"),
        F.col("_back.back_view").alias("back_view"),
        F.col("_back.back_incarnation").alias("back_incarnation"),
        without.alias("observers"),
        F.flatten(F.transform("_seen", lambda one: one["chain"])).alias("chain"),
    )
