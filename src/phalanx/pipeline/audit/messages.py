"""Sends and deliveries with numbers instead of names, each message once.

A number that was sent twice belongs to the send that came first, one that a member delivered twice
to the delivery that came first: what comes later is listed on its own. The *home* of a message is
the view it belongs to: the one it was sent in, or, if a change was under way there (phase 1), the
next that its sender installed; null if that cannot be known.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.audit.small import (
    Small,
    coded,
    elsewhere,
    number,
    receivers,
    spell_of,
)
from phalanx.pipeline.tables import Tables

BASIC, CAUSAL, AGREED, SAFE = range(4)
SERVICES = ("BASIC", "CAUSAL", "AGREED", "SAFE")
WITNESS = 1 << 42
"""A row as one number, k * WITNESS + lseq: the least of them is the first of the first member."""


def service() -> Column:
    """0 to 3, in the order of SERVICES."""
    known = F.array(*[F.lit(name) for name in SERVICES])
    return (F.array_position(known, F.col("service")) - 1).cast("int")


def addressed(t: str, masks: str, bank: str = "bank") -> Column:
    """The mask of those in the bank that a set of receivers means."""
    some = F.coalesce(F.element_at(F.col(masks), F.col(bank)), F.lit(0).cast("long"))
    return F.when(F.col(t).isNull(), F.lit(-1).cast("long")).otherwise(some)


# ---------------------------------------------------------------------------- sends


def sent(tables: Tables, small: Small) -> DataFrame:
    """Every row of sends. `spell` is null if it says another view than that which the member was
    in, `now`."""
    lseq = F.col("lseq")
    rows = coded(tables["sent"], small).withColumn("v", number(F.col("r"), F.col("view")))
    stays = small["stays"].select("r", "k", "v", "spells", "next")
    alive = small["people"].where("alive and settled").select("r", "k", "alive")
    placed = rows.join(F.broadcast(stays), ["r", "k", "v"], "left").join(
        F.broadcast(alive), ["r", "k"], "left"
    )
    home = F.when(F.col("phase") == 0, F.col("v")).otherwise(
        F.coalesce("next", F.when(F.col("alive"), F.col("v")))
    )
    return placed.select(
        "r",
        F.col("k").alias("s"),
        "torn",
        "first",
        "last",
        "lseq",
        "step",
        F.when(F.col("settled"), F.col("sim_ns")).alias("ns"),
        service().alias("service"),
        "v",
        "phase",
        "frame",
        receivers().alias("t"),
        "dep_senders",
        "dep_incarnations",
        "dep_numbers",
        home.alias("home"),
        spell_of(lseq).begin.alias("spell"),
        elsewhere(lseq).v.alias("now"),
    )


# ---------------------------------------------------------------------------- deliveries


def delivered(tables: Tables, small: Small) -> DataFrame:
    """Every row of deliveries, and where in the life of its member it lies: `now` is the view that
    it was in, `spell` the row from which on it was there, null if the delivery says another view,
    and `mark` that of the marker in that spell."""
    senders = small["people"].select(
        "r",
        F.col("member").alias("sender"),
        F.col("incarnation").alias("sender_incarnation"),
        F.col("k").alias("s"),
    )
    r, lseq = F.col("r"), F.col("lseq")
    named = (
        coded(tables["deliver"], small)
        .join(F.broadcast(senders), ["r", "sender", "sender_incarnation"])
        .withColumn("v", number(r, F.col("view")))
        .join(F.broadcast(small["stays"]), ["r", "k", "v"], "left")
        .withColumn("_spell", spell_of(lseq))
        .withColumn("_else", F.when(F.col("_spell").isNull(), elsewhere(lseq)))
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
        number(r, F.col("origin")).alias("o"),
        (F.col("region") == "REGULAR").alias("regular"),
        "frame",
        "pos",
        "batch",
        receivers().alias("t"),
        "digest",
        F.col("_spell.begin").alias("spell"),
        F.coalesce("_spell.mark", "_else.spell.mark").alias("mark"),
        F.coalesce("_else.v", F.when(F.col("_spell").isNotNull(), F.col("v"))).alias("now"),
        "marker_lseq",
        "marker_pos",
        F.coalesce("compared", F.lit(False)).alias("compared"),
    )


def submitted(tables: Tables, small: Small) -> DataFrame:
    """What was accepted, by sender."""
    rows = coded(tables["accepted"], small)
    bounds = ("first", "last", "lseq", "step", "torn", "digest")
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
