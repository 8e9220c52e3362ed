"""Sends and deliveries with numbers instead of names, each message once.

A number that was sent twice belongs to the send that came first, one that a member delivered twice
to the delivery that came first: what comes later is listed on its own. The *home* of a message is
the view it belongs to: the one it was sent in, or, if a change was under way there (phase 1), the
next that its sender installed; null if that cannot be known.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.audit.lives import labels, view
from phalanx.pipeline.audit.views import coded, elsewhere, spell_of, spelt
from phalanx.pipeline.tables import Tables

BASIC, CAUSAL, AGREED, SAFE = range(4)
SERVICES = ("BASIC", "CAUSAL", "AGREED", "SAFE")
WITNESS = 1 << 42
"""A row as one number, k * WITNESS + lseq: the least of them is the first of the first member."""


def service() -> Column:
    """0 to 3, in the order of SERVICES."""
    known = F.array(*[F.lit(name) for name in SERVICES])
    return (F.array_position(known, F.col("service")) - 1).cast("int")


def receivers() -> Column:
    """A number for a set of receivers; null is the whole view."""
    return F.when(F.col("to").isNotNull(), F.xxhash64("r", "to", "to_incs"))


def receiver_sets(tables: Tables, members: DataFrame) -> DataFrame:
    """Each set of receivers that rows name: labels, or bare names where incarnations were not
    told yet; the ranks of those with a journal; and these as a mask for each bank."""
    rows = [
        coded(tables[name].where("to is not null"), members).select("r", "to", "to_incs")
        for name in ("submit", "send", "deliver")
    ]
    sets = (
        reduce(DataFrame.unionByName, rows)
        .distinct()
        .select(
            "r",
            receivers().alias("t"),
            F.col("to_incs").isNull().alias("bare"),
            F.array_sort(F.coalesce(labels("to", "to_incs"), F.col("to"))).alias("names"),
        )
    )
    each = sets.select("r", "t", "bare", F.explode("names").alias("name"))
    known = members.where("known").select("r", "k", "node", "label", "bank", "bit")
    meant = F.when(each.bare, known.node).otherwise(known.label) == each.name
    found = each.join(F.broadcast(known), (each.r == known.r) & meant).select(
        each.r, "t", "k", "bank", "bit"
    )
    banks = found.groupBy("r", "t", "bank").agg(
        F.bit_or("bit").alias("mask"), F.collect_list("k").alias("ks")
    )
    whole = banks.groupBy("r", "t").agg(
        F.map_from_entries(F.collect_list(F.struct("bank", "mask"))).alias("masks"),
        F.flatten(F.collect_list("ks")).alias("ks"),
    )
    return sets.join(whole, ["r", "t"], "left")


def addressed(t: str, masks: str, bank: str = "bank") -> Column:
    """The mask of those in the bank that a set of receivers means."""
    some = F.coalesce(F.element_at(F.col(masks), F.col(bank)), F.lit(0).cast("long"))
    return F.when(F.col(t).isNull(), F.lit(-1).cast("long")).otherwise(some)


# ---------------------------------------------------------------------------- sends


def sent(tables: Tables, members: DataFrame, moves: DataFrame) -> DataFrame:
    """Every row of sends."""
    rows = coded(tables["send"], members)
    r = F.col("r")
    known = rows.select(
        "r",
        F.col("k").alias("s"),
        "first",
        "last",
        "lseq",
        "step",
        F.when(F.col("settled"), F.col("sim_ns")).alias("ns"),
        service().alias("service"),
        view(r, F.col("vid")).alias("v"),
        "phase",
        "frame",
        receivers().alias("t"),
        "dep_nodes",
        "dep_incs",
        "dep_numbers",
    )
    onward = moves.select(
        "r", F.col("k").alias("s"), F.col("before").alias("v"), F.col("v").alias("next")
    )
    fates = members.select("r", F.col("k").alias("s"), "settled", "alive")
    placed = known.join(F.broadcast(onward), ["r", "s", "v"], "left").join(
        F.broadcast(fates), ["r", "s"]
    )
    lasting = F.when(F.col("settled") & F.col("alive"), F.col("v"))
    home = F.when(F.col("phase") == 0, F.col("v")).otherwise(F.coalesce("next", lasting))
    return placed.withColumn("home", home).drop("next", "settled", "alive")


# ---------------------------------------------------------------------------- deliveries


def delivered(tables: Tables, members: DataFrame, stays: DataFrame) -> DataFrame:
    """Every row of deliveries, and where in the life of its member it lies: `now` is the view that
    it was in, `spell` the row from which on it was there, null if the delivery says another view,
    and `mark` that of the marker in that spell."""
    own = members.where("known").select("journal", "r", "k", "bank", "bit", "torn", "settled")
    senders = members.select(
        "r",
        F.col("node").alias("sender"),
        F.col("inc").alias("sender_inc"),
        F.col("k").alias("s"),
    )
    rows = tables["deliver"].drop("cluster", "run", "group", "node", "inc", "profile", "t_ns")
    r = F.col("r")
    named = (
        rows.join(F.broadcast(own), "journal")
        .join(F.broadcast(senders), ["r", "sender", "sender_inc"])
        .withColumn("v", view(r, F.col("vid")))
        .join(F.broadcast(stays.drop("installed")), ["r", "k", "v"], "left")
        .withColumn("_spell", spell_of(F.col("lseq")))
        .join(F.broadcast(spelt(stays)), ["r", "k"], "left")
        .withColumn("_else", F.when(F.col("_spell").isNull(), elsewhere(F.col("lseq"))))
    )
    return named.select(
        "r",
        "k",
        "s",
        "bank",
        "bit",
        "torn",
        "lseq",
        "step",
        F.when(F.col("settled"), F.col("sim_ns")).alias("ns"),
        "first",
        "last",
        service().alias("service"),
        "v",
        view(r, F.col("origin_vid")).alias("o"),
        (F.col("region") == "REGULAR").alias("regular"),
        "frame",
        "pos",
        "batch",
        receivers().alias("t"),
        "digest",
        F.col("_spell.begin").alias("spell"),
        F.coalesce("_spell.mark", "_else.spell.mark").alias("mark"),
        F.coalesce("_else.now", "v").alias("now"),
        "marker_lseq",
        "marker_pos",
    )


def submitted(tables: Tables, members: DataFrame) -> DataFrame:
    """What was accepted, by sender."""
    rows = coded(tables["submit"], members)
    bounds = ("first", "last", "lseq", "step", "torn")
    return rows.select("r", F.col("k").alias("s"), *bounds, receivers().alias("t"))


def heard(deliveries: DataFrame, banks: int) -> DataFrame:
    """Deliveries of all members put together: who has delivered a range in the same way. One row
    a range, way and bank; `mask` are the members, `regular` those before the marker."""
    zero = F.lit(0).cast("long")
    way = ["r", "s", "first", "last", "v", "o", "service", "frame", "pos", "batch", "t"]
    rows = deliveries.withColumn("bit_regular", F.when(F.col("regular"), F.col("bit")))
    here = [F.col("bank") == bank for bank in range(banks)]
    masks = [
        F.struct(
            F.lit(bank).alias("bank"),
            F.count(F.when(at, 1)).alias("n"),
            F.coalesce(F.bit_or(F.when(at, F.col("bit"))), zero).alias("mask"),
            F.coalesce(F.bit_or(F.when(at, F.col("bit_regular"))), zero).alias("regular"),
            F.min(F.when(at, F.col("k") * F.lit(WITNESS) + F.col("lseq"))).alias("witness"),
        )
        for bank, at in enumerate(here)
    ]
    own = F.col("k") == F.col("s")
    grouped = rows.groupBy(*way).agg(
        F.min(F.when(own, F.col("step"))).alias("own_step"),
        F.min(F.when(~own, F.col("ns"))).alias("ns"),
        F.array(*masks).alias("_banks"),
    )
    return grouped.select("*", F.inline("_banks")).drop("_banks")


def served(deliveries: DataFrame) -> DataFrame:
    """What a member delivered in a view, counted; basic messages are left out."""
    ordered = F.col("service") >= AGREED
    return (
        deliveries.where(F.col("service") != BASIC)
        .groupBy("r", "k", "v")
        .agg(
            F.count("*").alias("rows"),
            F.count(F.when(ordered, 1)).alias("ordered"),
            F.count("batch").alias("batched"),
            F.max(F.when(ordered, F.col("pos"))).alias("highest"),
        )
    )
