"""What must go up in the end, asked of a run that has settled.

Only members that live to the end owe anything, and for a message only in its home, if its sender
ended there: closed views are the business of virtual synchrony. A message that was accepted must
be sent, or reported as not sent, which is right if each member that it was for was missing from a
view that its sender had since. Self delivery is also owed by whoever left a message's home behind.
Termination of delivery makes no exception for the crashed.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.audit.findings import Case, asked, found, lowest
from phalanx.pipeline.audit.integrity import since
from phalanx.pipeline.audit.messages import BASIC, SAFE
from phalanx.pipeline.audit.prepare import Prepared
from phalanx.pipeline.audit.small import coded
from phalanx.pipeline.ranges import islands, sweep

SENDER = ["r", "s"]


def liveness(p: Prepared) -> list[DataFrame]:
    """Each cell that was sent, once per bank: is it where it must be?"""
    own = p.small["people"].select(
        "r",
        F.col("k").alias("s"),
        F.col("bank").alias("own_bank"),
        F.col("bit").alias("own_bit"),
        "torn",
        (F.col("alive") & F.col("settled")).alias("lasting"),
    )
    left = p.small["stays"].where("next is not null")
    left = left.select(
        "r", F.col("k").alias("s"), F.col("v").alias("home"), F.lit(True).alias("closed")
    )
    cells = (
        p.cells.where("once and s_lseq is not null")
        .join(F.broadcast(own), SENDER)
        .join(F.broadcast(left), [*SENDER, "home"], "left")
        .join(F.broadcast(p.small["owed"]), [*SENDER, "bank", "home"], "left")
        .withColumns(
            {
                "all": F.col("all").bitwiseAND(F.col("s_meant")),
                "live": F.col("live").bitwiseAND(F.col("s_meant")),
            }
        )
    )
    mine = F.col("to_self") & (F.col("bank") == F.col("own_bank"))
    closed = F.coalesce("closed", F.lit(False)) & ~F.col("torn")
    owed = mine & (F.col("lasting") | closed)
    some = {name: F.coalesce(F.col(name) != 0, F.lit(False)) for name in ("all", "live")}
    lack = {
        name: F.coalesce(F.col(name).bitwiseAND(F.bitwise_not(F.col("had"))), F.lit(0))
        for name in ("all", "live")
    }
    unsure = F.col("live").bitwiseAND(F.col("had")).bitwiseAND(F.bitwise_not(F.col("had_regular")))
    safe, basic = F.col("s_service") == SAFE, F.col("s_service") == BASIC
    given: dict[str, Any] = {"who": "s", "s": "s", "first": "c1", "last": "c2", "v": "s_v"}
    given |= {"rows": [("s", "s_lseq")]}
    late = {"other": lowest(lack["live"])}
    indication = "safe-indication-liveness"
    return [
        asked(
            cells,
            {
                "self-delivery": owed,
                "termination-of-delivery": some["all"],
                "multicast-liveness": some["live"],
                indication: some["live"] & safe,
                "basic": some["live"] & basic,
            },
        ),
        found(
            cells,
            Case("self-delivery/", owed & F.expr("had & own_bit = 0"), **given),
            Case("termination-of-delivery/", lack["all"] != 0, other=lowest(lack["all"]), **given),
            Case("multicast-liveness/missing", lack["live"] != 0, **late, **given),
            Case(f"{indication}/missing", (lack["live"] != 0) & safe, **late, **given),
            Case("basic/missing", (lack["live"] != 0) & basic, **late, **given),
            Case(
                f"{indication}/region",
                F.coalesce(unsure != 0, F.lit(False)) & safe,
                other=lowest(unsure),
                **given,
            ),
        ),
        *_accepted(p),
    ]


# ---------------------------------------------------------------------------- accepted


def _accepted(p: Prepared) -> list[DataFrame]:
    """Every accepted message leaves, or is reported and rightly so."""
    alive = p.small["people"].where("alive and settled")
    alive = F.broadcast(alive.select("r", F.col("k").alias("s")))
    sets = F.broadcast(p.sets.select("r", "t", "ks", "bare", "names"))
    submits = p.submits.join(alive, SENDER).join(sets, ["r", "t"], "left")
    told = coded(p.tables["not_sent"], p.small).select(
        "r", F.col("k").alias("s"), "first", "last", "step", "lseq"
    )
    own = F.col("t").isNull() | F.coalesce(F.array_contains("ks", F.col("s")), F.lit(False))
    zero, one = F.lit(0), F.lit(1)
    bounds = [*SENDER, "first", "last"]
    ranges = submits.select(
        *bounds, one.alias("taken"), own.cast("int").alias("own"), zero.alias("gone")
    )
    for covered in (p.sends.join(alive, SENDER), told):
        ranges = ranges.unionByName(
            covered.select(*bounds, zero.alias("taken"), zero.alias("own"), one.alias("gone"))
        )
    unsent = sweep(ranges, SENDER, ["taken", "own", "gone"]).where("taken > 0 and gone = 0")
    unsent = unsent.localCheckpoint()
    every, mine = islands(unsent, SENDER), islands(unsent.where("own > 0"), SENDER)
    given: dict[str, Any] = {"who": "s", "s": "s", "first": "first", "last": "last"}
    return [
        asked(submits, {"multicast-liveness": one}),
        found(every, Case("multicast-liveness/unsent", F.lit(True), **given)),
        found(mine, Case("self-delivery/accepted", F.lit(True), **given)),
        _reported(p, submits, told),
    ]


def _reported(p: Prepared, submits: DataFrame, told: DataFrame) -> DataFrame:
    """Views that count: from the one it was accepted in to the one at the end of the step that
    reports it."""
    reports = told.select(
        *SENDER,
        F.col("first").alias("from"),
        F.col("last").alias("upto"),
        F.col("step").alias("at"),
        F.col("lseq").alias("told"),
    )
    both = (
        submits.join(F.broadcast(reports), SENDER)
        .where("first <= upto and from <= last")
        .join(F.broadcast(p.small["lived"]), SENDER, "left")
    )
    until = F.filter("lived", lambda x: x.step <= F.col("at"))
    counted = since(until, F.col("lseq"))
    first = F.get(counted, F.lit(0)).here
    here = F.filter(first, lambda m: F.forall(counted, lambda x: F.array_contains(x.here, m)))
    meant = F.filter(
        here,
        lambda m: (
            F.when(F.col("t").isNull(), True)
            .when(F.col("bare"), F.array_contains("names", F.regexp_replace(m, r"\.\d+$", "")))
            .otherwise(F.array_contains("names", m))
        ),
    )
    judged = both.withColumn("stayed", F.get(F.array_sort(meant), F.lit(0)))
    return found(
        judged,
        Case(
            "multicast-liveness/reported",
            F.col("stayed").isNotNull(),
            who="s",
            s="s",
            first=F.greatest("first", "from"),
            last=F.least("last", "upto"),
            note="stayed",
            rows=[("s", "lseq"), ("s", "told")],
        ),
    )
