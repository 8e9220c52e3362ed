"""What must go up in the end, asked of a run that has settled.

Only members that live to the end owe anything, and for a message only in its home, if its sender
ended there: closed views are the business of virtual synchrony. A message that was accepted must
be sent, or reported as not sent, which is right if each member that it was for was missing from a
view that its sender had since. Self delivery is also owed by whoever left a message's home behind.
Termination of delivery makes no exception for the crashed.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.audit.findings import asked, finding, lowest
from phalanx.pipeline.audit.integrity import submitted
from phalanx.pipeline.audit.messages import BASIC, SAFE, addressed
from phalanx.pipeline.audit.prepare import Prepared
from phalanx.pipeline.audit.settling import living
from phalanx.pipeline.audit.views import coded
from phalanx.pipeline.ranges import islands, sweep

SENDER = ["r", "s"]
OWED = "owed"


def liveness(p: Prepared) -> list[DataFrame]:
    cells = _sent(p)
    return [*_self_delivery(p, cells), *_deliveries(p, cells), *_accepted(p)]


def _sent(p: Prepared) -> DataFrame:
    """The cells of what was sent, each once per bank, with whom it was for."""
    sets = p.sets.select("r", F.col("t").alias("s_t"), "masks", "ks")
    cells = p.cells.where("s_lseq is not null").groupBy(
        "r", "s", "c1", "c2", "bank", "home", "s_lseq", "s_v", "s_service", "s_t"
    )
    had = cells.agg(F.bit_or("had").alias("had"), F.bit_or("regular").alias("regular"))
    meant = had.join(F.broadcast(sets), ["r", "s_t"], "left")
    to_self = F.col("s_t").isNull() | F.coalesce(F.array_contains("ks", F.col("s")), F.lit(False))
    return meant.select(
        *had.columns, addressed("s_t", "masks").alias("meant"), to_self.alias("to_self")
    )


def _self_delivery(p: Prepared, cells: DataFrame) -> list[DataFrame]:
    own = p.members.select(
        "r", F.col("k").alias("s"), "bank", "bit", "torn", "alive", "settled"
    )
    left = p.moves.select(
        "r", F.col("k").alias("s"), F.col("before").alias("home"), F.lit(True).alias("closed")
    )
    owed = (
        cells.where("to_self")
        .join(F.broadcast(own), [*SENDER, "bank"])
        .join(F.broadcast(left), [*SENDER, "home"], "left")
        .where("(settled and alive) or (closed and not torn)")
    )
    return [
        asked(owed, "self-delivery"),
        finding(
            owed.where("had & bit = 0"),
            "self-delivery/",
            who="s",
            s="s",
            first="c1",
            last="c2",
            v="s_v",
            rows=[("s", "s_lseq")],
        ),
    ]


def _duties(p: Prepared) -> DataFrame:
    """Per living sender and bank, in the view it ended in: all that have a whole journal, and
    those of them that live, ended in the view too and can be reached."""
    people = p.members.where("known and not torn").select("r", "k", "node", "label", "bank", "bit")
    ended = living(p).select("r", "k", F.col("v").alias("end"))
    senders = living(p).select("r", F.col("k").alias("s"), "v", "reach")
    inside = p.views.select("r", "v", F.explode("inside").alias("label"))
    known = (
        senders.join(inside, ["r", "v"])
        .join(people, ["r", "label"])
        .join(ended, ["r", "k"], "left")
    )
    near = F.coalesce(F.array_contains("reach", F.col("node")), F.lit(True))
    live = F.coalesce(F.col("end") == F.col("v"), F.lit(False)) & near
    return known.groupBy("r", "s", "bank", F.col("v").alias("home")).agg(
        F.bit_or("bit").alias("all"),
        F.bit_or(F.when(live, F.col("bit")).otherwise(F.lit(0).cast("long"))).alias("live"),
    )


def _deliveries(p: Prepared, cells: DataFrame) -> list[DataFrame]:
    owed = cells.join(F.broadcast(_duties(p)), [*SENDER, "bank", "home"])
    owed = owed.withColumns(
        {name: F.col(name).bitwiseAND(F.col("meant")) for name in ("all", "live")}
    )
    safe = owed.where(F.col("s_service") == SAFE)
    basic = owed.where(F.col("s_service") == BASIC)
    mute = F.col("live").bitwiseAND(F.col("had")).bitwiseAND(F.bitwise_not(F.col("regular")))
    return [
        *_missing(owed, "termination-of-delivery/", "all"),
        *_missing(owed, "multicast-liveness/missing", "live"),
        *_missing(safe, "safe-indication-liveness/missing", "live"),
        *_missing(basic, "basic/missing", "live"),
        _late(safe.where(mute != 0), "safe-indication-liveness/region", mute),
    ]


def _missing(owed: DataFrame, kind: str, who: str) -> list[DataFrame]:
    lack = F.col(who).bitwiseAND(F.bitwise_not(F.col("had")))
    return [
        asked(owed.where(F.col(who) != 0), kind.partition("/")[0]),
        _late(owed.where(lack != 0), kind, lack),
    ]


def _late(lacking: DataFrame, kind: str, lack: Column) -> DataFrame:
    return finding(
        lacking,
        kind,
        who="s",
        other=lowest(lack),
        s="s",
        first="c1",
        last="c2",
        v="s_v",
        rows=[("s", "s_lseq")],
    )


# ---------------------------------------------------------------------------- accepted


def _accepted(p: Prepared) -> list[DataFrame]:
    """Every accepted message leaves, or is reported and rightly so."""
    alive = living(p).select("r", F.col("k").alias("s"))
    submits = submitted(p).join(F.broadcast(alive), SENDER)
    told = coded(p.tables["not_sent"], p.members).select(
        "r", F.col("k").alias("s"), "first", "last", "step", "lseq"
    )
    sets = p.sets.select("r", "t", "ks", "bare", "names")
    known = submits.join(F.broadcast(sets), ["r", "t"], "left")
    own = F.col("t").isNull() | F.coalesce(F.array_contains("ks", F.col("s")), F.lit(False))
    claims = known.select(*SENDER, "first", "last", own.cast("int").alias("own"))
    zero, one = F.lit(0), F.lit(1)
    ranges = claims.select(*SENDER, "first", "last", one.alias("taken"), "own", zero.alias("gone"))
    for left in (p.sends.join(F.broadcast(alive), SENDER), told):
        covered = left.select(
            *SENDER, "first", "last", zero.alias("taken"), zero.alias("own"), one.alias("gone")
        )
        ranges = ranges.unionByName(covered)
    unsent = sweep(ranges, SENDER, ["taken", "own", "gone"]).where("taken > 0 and gone = 0")
    every = islands(unsent, SENDER)
    mine = islands(unsent.where("own > 0"), SENDER)
    given = {"who": "s", "s": "s", "first": "first", "last": "last"}
    return [
        asked(submits, "multicast-liveness"),
        finding(every, "multicast-liveness/unsent", **given),
        asked(mine, "self-delivery"),
        finding(mine, "self-delivery/accepted", **given),
        *_reported(p, known, told),
    ]


def _reported(p: Prepared, submits: DataFrame, told: DataFrame) -> list[DataFrame]:
    """Views that count: from the one it was accepted in to the one at the end of the step that
    reports it."""
    views = (
        p.installs.join(p.views.select("r", "v", F.col("inside").alias("here")), ["r", "v"])
        .groupBy("r", F.col("k").alias("s"))
        .agg(F.array_sort(F.collect_list(F.struct("lseq", "step", "here"))).alias("views"))
    )
    reports = told.select(
        *SENDER,
        F.col("first").alias("from"),
        F.col("last").alias("to"),
        F.col("step").alias("at"),
        F.col("lseq").alias("told"),
    )
    both = (
        submits.join(F.broadcast(reports), SENDER)
        .where("first <= to and from <= last")
        .join(F.broadcast(views), SENDER, "left")
    )
    until = F.filter("views", lambda x: x.step <= F.col("at"))
    begun = F.size(F.filter(until, lambda x: x.lseq < F.col("lseq")))
    counted = F.slice(until, F.greatest(begun, F.lit(1)), F.lit(1 << 30))
    first = F.get(counted, F.lit(0)).here
    here = F.filter(
        first, lambda m: F.forall(counted, lambda x: F.array_contains(x.here, m))
    )
    meant = F.filter(
        here,
        lambda m: F.when(F.col("t").isNull(), True)
        .when(F.col("bare"), F.array_contains("names", F.regexp_replace(m, r"\.\d+$", "")))
        .otherwise(F.array_contains("names", m)),
    )
    wrong = both.withColumn("stayed", F.get(F.array_sort(meant), F.lit(0))).where(
        "stayed is not null"
    )
    return [
        finding(
            wrong,
            "multicast-liveness/reported",
            who="s",
            s="s",
            first=F.greatest("first", "from"),
            last=F.least("last", "to"),
            note=F.col("stayed"),
            rows=[("s", "lseq"), ("s", "told")],
        )
    ]
