"""Receipts and lost receivers: what a sender is told of its own messages is true.

A receipt speaks of messages that were sent, unless they were reported as going to nobody, and in
the view that they belong to; in older journals it may name the view before. One of stability
promises that the members of the view have them: those that left the view behind, or stay in it to
the end, delivered them there. One that all delivered promises that every addressed member of the
view, or of those that it names, had delivered them in the view. An addressed member that is
missing from the view that a message belongs to is reported, and no other member is; a member that
is reported before the message is sent never delivers it.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from phalanx.pipeline.audit.findings import Case, Look, lowest
from phalanx.pipeline.audit.integrity import since
from phalanx.pipeline.audit.messages import addressed
from phalanx.pipeline.audit.prepare import Prepared
from phalanx.pipeline.audit.small import LOST_RECEIVERS, coded, label, labels, number, receivers
from phalanx.pipeline.ranges import cut, grid

SENDER = ["r", "s"]
TRUTH, NOT_SENT = "receipt-truth", "not-sent-liveness"
FOREIGN = "sender != member or sender_incarnation != incarnation"


# ---------------------------------------------------------------------------- receipts


def receipts(p: Prepared) -> list[Look]:
    """How often receipts are asked is counted in `outline`."""
    if not _asked(p, TRUTH):
        return []
    ranges = _ranges(p)
    sent = p.cells.where("s_lseq is not null").select(
        *SENDER,
        F.col("c1").alias("first"),
        F.col("c2").alias("last"),
        "bank",
        F.col("v").alias("in_v"),
        *("have", "s_lseq", "home", "s_meant", "own_bank", "own_bit"),
    )
    unsent = _unsent(p)
    numbers = grid(
        [ranges, sent.select(*SENDER, "first", "last"), *([] if unsent is None else [unsent])],
        SENDER,
    ).localCheckpoint()
    covered = cut(ranges, numbers, SENDER).drop("first", "last")
    cell = [*SENDER, "c1", "c2"]
    excused = F.lit(False)
    if unsent is not None:
        nobody = cut(unsent, numbers, SENDER).select(*cell).distinct()
        covered = covered.join(nobody.withColumn("nobody", F.lit(True)), cell, "left")
        excused = F.col("nobody").isNotNull()
    covered = covered.withColumn("excused", excused).drop("nobody")
    both = covered.join(cut(sent, numbers, SENDER).drop("first", "last"), cell, "left")
    once = both.groupBy(*cell, "stable", "foreign", "lseq", "v", "bank").agg(
        F.bit_or(F.when(F.col("in_v") == F.col("v"), F.col("have"))).alias("have"),
        *[F.first(name).alias(name) for name in ("s_lseq", "home", "s_meant")],
        F.first(F.when(F.expr("bank = own_bank"), F.col("own_bit"))).alias("own"),
        F.first("excused").alias("excused"),
    )
    tells = p.small["people"].select("r", F.col("k").alias("s"), "tells")
    duty = F.broadcast(p.small["views"].select("r", "v", "bank", "duty", "absent"))
    judged = (
        once.join(F.broadcast(p.small["closing"]), ["r", "s", "lseq", "bank"], "left")
        .join(duty, ["r", "v", "bank"], "left")
        .join(F.broadcast(tells), SENDER)
    )
    apart = F.expr("home is not null and home != v")
    given: dict[str, Any] = {"who": "s", "s": "s", "first": "c1", "last": "c2", "v": "v"}
    rows = [("s", "s_lseq"), ("s", "lseq")]
    never = F.col("s_lseq").isNull() & ~F.col("excused")
    elsewhere = apart & F.col("tells") & (F.col("bank") == 0)
    speaks = F.col("stable") & ~F.col("foreign") & F.col("s_lseq").isNotNull() & ~apart
    lack, absent = F.when(speaks, _lacking()), F.when(speaks, _absent())
    return [
        Look(
            judged,
            cases=[
                Case(f"{TRUTH}/unsent", never, rows=rows[1:], **given),
                Case(f"{TRUTH}/home", elsewhere, w="home", rows=rows, **given),
                Case(f"{TRUTH}/absent", absent != 0, other=lowest(absent), rows=rows, **given),
                Case(f"{TRUTH}/missing", lack != 0, other=lowest(lack), rows=rows, **given),
            ],
        ),
        _foreign(p),
        *all_delivered(p),
    ]


def _foreign(p: Prepared) -> Look:
    """Receipts for messages of another member."""
    rows = coded(p.tables["stable"].where(FOREIGN), p.small).where("not torn")
    whose = label(F.col("sender"), F.col("sender_incarnation")).alias("whose")
    case = Case(f"{TRUTH}/foreign", F.lit(True), who="k", note="whose", rows=[("k", "lseq")])
    return Look(rows.select("r", "k", "lseq", whose), cases=[case])


def _absent() -> Column:
    """Members of which a receipt of stability speaks, and that never installed the view."""
    zero = F.lit(0).cast("long")
    promised = F.coalesce("promised", F.lit(-1).cast("long"))
    asked = promised.bitwiseAND(F.coalesce("absent", zero))
    return asked.bitwiseAND(F.bitwise_not(F.coalesce("own", zero)))


def _lacking() -> Column:
    """Members of which a receipt of stability speaks, and that must have delivered the messages in
    the view and did not. At the end of a view it speaks of those that move on."""
    zero = F.lit(0).cast("long")
    promised = F.coalesce("promised", F.lit(-1).cast("long"))
    asked = promised.bitwiseAND(F.coalesce("duty", zero)).bitwiseAND(F.col("s_meant"))
    has = F.coalesce("have", zero).bitwiseOR(F.coalesce("own", zero))
    return asked.bitwiseAND(F.bitwise_not(has))


def _unsent(p: Prepared) -> DataFrame | None:
    """Messages that were reported as going to nobody: they need not have been sent."""
    if not _asked(p, NOT_SENT):
        return None
    rows = coded(p.tables["not_sent"], p.small).where("coalesce(rest, 0) = 0")
    return rows.select("r", F.col("k").alias("s"), "first", "last")


def _ranges(p: Prepared) -> DataFrame:
    """Receipts as ranges of the messages that each newly speaks of."""
    tables = {
        "stable": p.tables["stable"].withColumn("foreign", F.expr(FOREIGN)),
        "ordered": p.tables["ordered"].withColumn("foreign", F.lit(False)),
    }
    rows = [
        coded(table, p.small)
        .where("not torn")
        .select(
            "r",
            F.col("k").alias("s"),
            F.lit(name == "stable").alias("stable"),
            "foreign",
            "lseq",
            number(F.col("r"), F.col("view")).alias("v"),
            F.col("upto").alias("last"),
        )
        for name, table in tables.items()
    ]
    before = Window.partitionBy("r", "s", "stable").orderBy("lseq")
    until_now = before.rowsBetween(Window.unboundedPreceding, -1)
    first = F.coalesce(F.max("last").over(until_now), F.lit(0).cast("long")) + 1
    return reduce(DataFrame.unionByName, rows).withColumn("first", first).where("first <= last")


# ---------------------------------------------------------------------------- delivered by all


def all_delivered(p: Prepared) -> list[Look]:
    """Receipts that all members delivered messages: each member that a receipt is about delivered
    the messages of the view, up to its number, in the view. Time is compared where there is one
    clock; a journal that just ends may lack the delivery."""
    table = p.tables["all_delivered"]
    if table.isEmpty():
        return []
    promised = _promised(p, table).localCheckpoint()
    senders = F.broadcast(promised.select(*SENDER).distinct())
    bounds = (*SENDER, "first", "last")
    sent = p.sends.where("home is not null").join(senders, SENDER, "left_semi")
    sent = sent.select(*bounds, F.col("home").alias("v"), F.col("lseq").alias("s_lseq"), "t")
    had = p.deliveries.join(senders, SENDER, "left_semi")
    had = had.select(*bounds, "v", "k", "ns", F.lit(True).alias("had"))
    numbers = grid([promised, sent, had], SENDER).localCheckpoint()
    cell = [*SENDER, "c1", "c2", "v"]
    pieces = [cut(ranges, numbers, SENDER).drop("first", "last") for ranges in (sent, had)]
    receivers_of = F.broadcast(p.small["sets"].select("r", "t", "ks"))
    due = (
        cut(promised, numbers, SENDER)
        .join(pieces[0], cell)
        .join(receivers_of, ["r", "t"], "left")
        .where("t is null or array_contains(ks, k)")
        .join(pieces[1], [*cell, "k"], "left")
    )
    lacks = F.col("had").isNull() & (F.col("at_ns").isNotNull() | F.col("whole"))
    late = F.coalesce(F.expr("had and ns > at_ns"), F.lit(False))
    case = Case(
        f"{TRUTH}/undelivered",
        lacks | late,
        who="s",
        other="k",
        s="s",
        first="c1",
        last="c2",
        v="v",
        rows=[("s", "s_lseq"), ("s", "lseq")],
    )
    return [Look(due, cases=[case])]


def _promised(p: Prepared, table: DataFrame) -> DataFrame:
    """Per receipt and member with a journal, the numbers that the receipts of a view newly promise
    of the member. `at_ns` is null where there is no common clock."""
    rows = coded(table, p.small).where("not torn")
    rows = rows.select(
        "r",
        F.col("k").alias("s"),
        "lseq",
        number(F.col("r"), F.col("view")).alias("v"),
        F.col("upto").alias("last"),
        F.when(F.col("settled"), F.col("sim_ns")).alias("at_ns"),
        labels("members", "member_incarnations").alias("named"),
    )
    views = p.small["views"].where("bank = 0").select("r", "v", "inside")
    members = p.small["people"].where("journal is not null and not torn")
    members = members.select("r", "label", "k", "whole")
    about = F.explode(F.array_distinct(F.coalesce("named", "inside"))).alias("label")
    each = (
        rows.join(F.broadcast(views), ["r", "v"], "left")
        .select(*SENDER, "lseq", "v", "last", "at_ns", about)
        .join(F.broadcast(members), ["r", "label"])
        .drop("label")
    )
    before = Window.partitionBy(*SENDER, "v", "k").orderBy("lseq")
    until_now = before.rowsBetween(Window.unboundedPreceding, -1)
    first = F.coalesce(F.max("last").over(until_now), F.lit(0).cast("long")) + 1
    return each.withColumn("first", first).where("first <= last")


# ---------------------------------------------------------------------------- lost receivers


def lost_receivers(p: Prepared) -> list[Look]:
    """How often reports are asked is counted in `outline`."""
    looks = [*_untold(p)] if p.small.rows["sets"] else []
    return [*looks, *_reports(p)] if _asked(p, NOT_SENT) else looks


def _asked(p: Prepared, name: str) -> bool:
    return any(said["property"] == name and said.get("checked") for said in p.small.rows["said"])


def _told(p: Prepared) -> DataFrame:
    """Reports of lost receivers. `t` is null if all are lost, or in older journals; `gone` are the
    names of the lost, null in older journals. `ended`: nothing of the step is missing."""
    rows = p.tables["not_sent"].withColumnsRenamed(LOST_RECEIVERS)
    rows = coded(rows, p.small).where("not torn")
    rest = F.coalesce("rest", F.lit(0))
    ended = F.col("last_step").isNull() | (F.col("step") < F.col("last_step"))
    told = rows.join(F.broadcast(p.small["people"].select("r", "k", "last_step")), ["r", "k"])
    told = told.select(
        "r",
        F.col("k").alias("s"),
        F.col("first").alias("from"),
        F.col("last").alias("upto"),
        F.col("lseq").alias("told"),
        F.col("step").alias("at"),
        F.when((rest > 0) & F.col("to_incarnations").isNotNull(), receivers()).alias("t"),
        rest.alias("rest"),
        ended.alias("ended"),
        receivers().alias("lost"),
    )
    names = p.small["sets"].where("not bare")
    names = names.select("r", F.col("t").alias("lost"), F.col("names").alias("gone"))
    return told.join(F.broadcast(names), ["r", "lost"], "left").drop("lost")


def _untold(p: Prepared) -> list[Look]:
    """Of subset messages: addressed members that are not in their home, and no report says so."""
    people = p.small["people"].where("tells and not torn").select("r", F.col("k").alias("s"))
    names = p.small["sets"].where("not bare").select("r", "t", "names")
    submits = (
        p.submits.join(F.broadcast(people), SENDER)
        .join(F.broadcast(names), ["r", "t"])
        .select(*SENDER, "first", "last", "lseq", "names")
    )
    sends = p.sends.select(*SENDER, "first", "last", F.col("lseq").alias("s_lseq"), "home")
    told = _told(p).select(
        *SENDER, F.col("from").alias("first"), F.col("upto").alias("last"), "gone"
    )
    numbers = grid([submits, sends, told], SENDER).localCheckpoint()
    here = p.small["views"].where("bank = 0").select("r", F.col("v").alias("home"), "inside")
    cell = [*SENDER, "c1", "c2"]
    had = p.small["stays"].where("ended")
    had = had.select("r", F.col("k").alias("s"), F.col("v").alias("home"))
    pieces = (
        cut(submits, numbers, SENDER)
        .drop("first", "last")
        .join(cut(sends, numbers, SENDER).drop("first", "last"), cell)
        .join(F.broadcast(had), [*SENDER, "home"])
        .join(F.broadcast(here), ["r", "home"])
        .withColumn("lost", F.array_except("names", "inside"))
        .localCheckpoint()
    )
    missing = pieces.withColumn("member", F.explode("lost"))
    said = (
        missing.join(cut(told, numbers, SENDER).select(*cell, "gone"), cell)
        .where(F.col("gone").isNull() | F.array_contains("gone", F.col("member")))
        .select(*cell, "member")
        .distinct()
    )
    case = Case(
        f"{NOT_SENT}/untold",
        F.lit(True),
        who="s",
        s="s",
        first="c1",
        last="c2",
        v="home",
        note="member",
        rows=[("s", "lseq"), ("s", "s_lseq")],
    )
    return [
        Look(pieces, {NOT_SENT: F.lit(True)}),
        Look(missing.join(said, [*cell, "member"], "left_anti"), cases=[case]),
    ]


def _reports(p: Prepared) -> list[Look]:
    """Members that are reported before the messages are sent do not deliver them, nobody does if
    no receiver is left; and each piece of a report is as its submission says."""
    reports = _told(p).localCheckpoint()
    sets = F.broadcast(p.small["sets"].select("r", "t", "masks"))
    had = F.col("had").bitwiseAND(addressed("t", "masks"))
    delivered = (
        p.cells.where("once")
        .select(*SENDER, "c1", "c2", "bank", "had", "s_lseq")
        .join(F.broadcast(reports.join(sets, ["r", "t"], "left")), SENDER)
        .where("c1 <= upto and from <= c2 and (s_lseq is null or s_lseq > told)")
    )
    bounds = {"first": F.greatest("c1", "from"), "last": F.least("c2", "upto")}
    about: dict[str, Any] = {"who": "s", "s": "s", "rows": [("s", "told")], **bounds}
    heard = Case(f"{NOT_SENT}/delivered", had != 0, other=lowest(had), **about)
    return [Look(delivered, cases=[heard]), *_judged(p, _pieces(p, reports))]


def _pieces(p: Prepared, reports: DataFrame) -> DataFrame:
    """Reports that name the lost, cut by the first submission of the messages. `s_lseq` and `home`
    are those of the first message of a piece, `so_far` who had been reported for it by then."""
    named = reports.where("gone is not null").drop("t")
    piece = [*SENDER, "told", "piece"]
    facts = F.struct("lseq", "t", "end", "gone", "rest", "at", "ended")
    pieces = (
        p.submits.select(*SENDER, "first", "last", "lseq", "t")
        .join(F.broadcast(named), SENDER)
        .where("first <= upto and from <= last")
        .withColumns({"piece": F.greatest("first", "from"), "end": F.least("last", "upto")})
        .groupBy(*piece)
        .agg(F.min(facts).alias("_"))
        .select(*piece, "_.*")
        .localCheckpoint()
    )
    at = F.broadcast(pieces.select(*piece))
    sends = p.sends.select(*SENDER, "first", "last", F.col("lseq").alias("s_lseq"), "home")
    sent = sends.join(at, SENDER).where("first <= piece and piece <= last").drop("first", "last")
    earlier = named.select(*SENDER, "from", "upto", F.col("told").alias("prior"), "gone")
    so_far = (
        earlier.join(at, SENDER)
        .where("from <= piece and piece <= upto and prior <= told")
        .groupBy(*piece)
        .agg(F.flatten(F.collect_list("gone")).alias("so_far"))
    )
    return pieces.join(sent, piece, "left").join(so_far, piece).localCheckpoint()


def _judged(p: Prepared, pieces: DataFrame) -> list[Look]:
    """Reported members were addressed, and have been missing from a view since; the number of
    those that are left is right. What was sent before the report is lost by members that are not in
    its home, what was not by those that were missing from a view between the submission and the
    end of the step that reports it."""
    meant = p.small["sets"].select("r", "t", "bare", "names")
    home = p.small["views"].where("bank = 0").select("r", F.col("v").alias("home"), "inside")
    known = (
        pieces.join(F.broadcast(meant), ["r", "t"], "left")
        .join(F.broadcast(home), ["r", "home"], "left")
        .join(F.broadcast(p.small["lived"]), SENDER, "left")
    )
    left = F.size(F.array_except("names", "so_far"))
    counts = F.concat(F.col("rest"), F.lit(" receivers are left, but there are "), left)
    member = F.col("member")
    plain = F.regexp_replace(member, r"\.\d+$", "")
    name = F.when(F.col("bare"), plain).otherwise(member)
    strange = F.col("t").isNotNull() & ~F.array_contains(F.col("names"), name)
    sent = F.coalesce(F.expr("s_lseq < told"), F.lit(False))
    there = F.coalesce(F.array_contains("inside", member), F.lit(False))
    views = F.filter(since(F.col("lived"), F.col("lseq")), lambda x: x.step <= F.col("at"))
    all_along = F.forall(views, lambda x: F.array_contains(x.here, member))
    stayed = F.col("ended") & (F.size(views) > 0) & all_along
    about: dict[str, Any] = {"who": "s", "s": "s", "first": "piece", "last": "end"}
    about["rows"] = [("s", "lseq"), ("s", "told")]
    wrong = (left != F.col("rest")) & ~F.col("bare")
    return [
        Look(known, cases=[Case(f"{NOT_SENT}/rest", wrong, note=counts, **about)]),
        Look(
            known.withColumn("member", F.explode("gone")),
            cases=[
                Case(f"{NOT_SENT}/stranger", strange, note="member", **about),
                Case(f"{NOT_SENT}/home", ~strange & sent & there, v="home", note="member", **about),
                Case(f"{NOT_SENT}/stayed", ~strange & ~sent & stayed, note="member", **about),
            ],
        ),
    ]
