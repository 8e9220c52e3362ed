"""What must go up in the end, asked of a run that has settled.

Only members that live to the end owe anything, and for a message only in its home, if its sender
ended there: closed views are the business of virtual synchrony. A message that was accepted must
be sent, or reported as not sent, which is right if each member that it was for was missing from a
view that its sender had since. Self delivery is also owed by whoever left a message's home behind.
Termination of delivery makes no exception for the crashed.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.audit.findings import Case, Look, lowest
from phalanx.pipeline.audit.integrity import since
from phalanx.pipeline.audit.messages import BASIC, SAFE
from phalanx.pipeline.audit.prepare import Prepared
from phalanx.pipeline.audit.small import coded
from phalanx.pipeline.ranges import sweep

SENDER = ["r", "s"]


INDICATION = "safe-indication-liveness"


def _self() -> Column:
    """The sender owes it to itself."""
    sent = F.col("once") & F.col("s_lseq").isNotNull()
    mine = sent & F.col("to_self") & (F.col("bank") == F.col("own_bank"))
    return mine & (F.col("lasting") | F.coalesce("closed", F.lit(False)))


def _due(name: str) -> Column:
    """The mask of those that must have the cell: `all`, or only the `live`. Zero if nobody."""
    owed = F.col(name).bitwiseAND(F.col("s_meant"))
    sent = F.col("once") & F.col("s_lseq").isNotNull()
    return F.coalesce(F.when(sent, owed), F.lit(0).cast("long"))


def times() -> dict[str, Column]:
    """Each cell that was sent, once per bank."""
    live = _due("live") != 0
    return {
        "self-delivery": _self(),
        "termination-of-delivery": _due("all") != 0,
        "multicast-liveness": live,
        INDICATION: live & (F.col("s_service") == SAFE),
        "basic": live & (F.col("s_service") == BASIC),
    }


def cases() -> list[Case]:
    """Of cells: is it where it must be?"""
    not_had = F.bitwise_not(F.col("had"))
    lack, late = _due("all").bitwiseAND(not_had), _due("live").bitwiseAND(not_had)
    has = _due("live").bitwiseAND(F.col("had"))
    unsure = has.bitwiseAND(F.bitwise_not(F.col("had_regular")))
    safe, basic = F.col("s_service") == SAFE, F.col("s_service") == BASIC
    given: dict[str, Any] = {"who": "s", "s": "s", "first": "c1", "last": "c2", "v": "s_v"}
    given |= {"rows": [("s", "s_lseq")]}
    whom: dict[str, Any] = {"other": lowest(late)}
    return [
        Case("self-delivery/", _self() & F.expr("had & own_bit = 0"), **given),
        Case("termination-of-delivery/", lack != 0, other=lowest(lack), **given),
        Case("multicast-liveness/missing", late != 0, **whom, **given),
        Case(f"{INDICATION}/missing", (late != 0) & safe, **whom, **given),
        Case("basic/missing", (late != 0) & basic, **whom, **given),
        Case(f"{INDICATION}/region", (unsure != 0) & safe, other=lowest(unsure), **given),
    ]


# ---------------------------------------------------------------------------- accepted


def accepted(p: Prepared) -> list[Look]:
    """Every accepted message leaves, or is reported and rightly so."""
    told = coded(p.tables["not_sent"], p.small).where("coalesce(rest, 0) = 0")
    told = told.select("r", F.col("k").alias("s"), "first", "last", "step", "lseq")
    sets = F.broadcast(p.small["sets"].select("r", "t", "ks", "bare", "names"))
    own = F.col("t").isNull() | F.coalesce(F.array_contains("ks", F.col("s")), F.lit(False))
    submits = p.submits.join(sets, ["r", "t"], "left").withColumn("own", own.cast("int"))
    weights = {"taken": submits, "sent": p.sends, "told": told}
    ranges = [
        frame.select(
            *SENDER,
            "first",
            "last",
            (F.col("own") if name == "taken" else F.lit(0)).alias("own"),
            *[F.lit(int(name == weight)).alias(weight) for weight in weights],
        )
        for name, frame in weights.items()
    ]
    people = p.small["people"].select(
        "r", F.col("k").alias("s"), "torn", (F.col("alive") & F.col("settled")).alias("lasting")
    )
    books = sweep(reduce(DataFrame.unionByName, ranges), SENDER, ["own", *weights])
    books = books.where("taken > 0").join(F.broadcast(people), SENDER)
    unsent = F.expr("lasting and sent = 0 and told = 0")
    mine = unsent & (F.col("own") > 0)
    given: dict[str, Any] = {"who": "s", "s": "s", "first": "first", "last": "last"}
    return [
        Look(
            books,
            {
                "integrity": F.expr("sent > 0 and not torn"),
                "multicast-liveness": F.col("lasting"),
                "self-delivery": mine,
            },
            [
                Case("multicast-liveness/unsent", unsent, **given),
                Case("self-delivery/accepted", mine, **given),
            ],
        ),
        _reported(p, submits.join(F.broadcast(people.where("lasting")), SENDER), told),
    ]


def _reported(p: Prepared, submits: DataFrame, told: DataFrame) -> Look:
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
    return Look(
        judged,
        cases=[
            Case(
                "multicast-liveness/reported",
                F.col("stayed").isNotNull(),
                who="s",
                s="s",
                first=F.greatest("first", "from"),
                last=F.least("last", "upto"),
                note="stayed",
                rows=[("s", "lseq"), ("s", "told")],
            )
        ],
    )
