"""What is delivered was sent, to me, once, and arrives as it left. Its share of basic."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.audit.findings import asked, finding, lowest, witness
from phalanx.pipeline.audit.messages import BASIC, SERVICES, addressed, service
from phalanx.pipeline.audit.messages import receivers as receivers_of
from phalanx.pipeline.audit.prepare import Prepared
from phalanx.pipeline.audit.views import coded
from phalanx.pipeline.ranges import cut, grid

SENDER = ["r", "s"]


def integrity(p: Prepared) -> list[DataFrame]:
    """And its share of `basic`."""
    parts = _parts(p)
    judged = parts.where("judged and head")
    basic = F.col("service") == BASIC
    return [
        asked(judged, "integrity", F.col("n")),
        asked(judged.where(basic), "basic", F.col("n")),
        *_outsiders(parts),
        *_faults(p, parts.where("judged and not outside")),
        *_as_accepted(p),
        *_bodies(p),
    ]


def _parts(p: Prepared) -> DataFrame:
    """Cells that somebody delivered, and whether they can be judged: what was sent behind the end
    of a journal that just ends cannot. `outside`: the sender is not in the view of the delivery,
    or, if there is no journal of it, not in that of the sending."""
    own = p.members.select("r", F.col("k").alias("s"), "label", "known", "torn", "whole")
    ends = p.sends.groupBy("r", "s").agg(F.max("last").alias("sent_last"))
    inside = p.views.select("r", "v", F.col("inside").alias("here"))
    origin = p.views.select("r", F.col("v").alias("o"), F.col("inside").alias("there"))
    rows = (
        p.cells.where("n > 0")
        .join(F.broadcast(own), SENDER)
        .join(F.broadcast(ends), SENDER, "left")
        .join(F.broadcast(inside), ["r", "v"], "left")
        .join(F.broadcast(origin), ["r", "o"], "left")
        .join(F.broadcast(_sets(p, "t", "row")), ["r", "t"], "left")
        .join(F.broadcast(_sets(p, "s_t", "sent")), ["r", "s_t"], "left")
    )
    told = F.array_contains("here", F.col("label"))
    sent_in = F.array_contains("there", F.col("label"))
    not_here = ~F.coalesce(told, F.lit(True))
    not_there = ~F.col("known") & ~F.coalesce(sent_in, F.lit(True))
    sent_all = (
        F.col("known")
        & ~F.col("torn")
        & (F.col("whole") | F.coalesce(F.col("c1") <= F.col("sent_last"), F.lit(False)))
    )
    judged = F.col("s_lseq").isNotNull() | not_here | not_there | sent_all
    return rows.withColumns(
        {"outside": not_here | not_there, "not_here": not_here, "judged": judged}
    )


def _sets(p: Prepared, t: str, prefix: str) -> DataFrame:
    return p.sets.select(
        "r",
        F.col("t").alias(t),
        *[F.col(name).alias(f"{prefix}_{name}") for name in ("bare", "names", "masks")],
    )


def _outsiders(parts: DataFrame) -> list[DataFrame]:
    where = F.when(F.col("not_here"), F.col("v")).otherwise(F.col("o"))
    return _found(parts.where("outside"), "outsider", w=where)


def _found(bad: DataFrame, way: str, **given: Column | str | None) -> list[DataFrame]:
    """Findings of integrity, and of basic where the messages are."""
    k, lseq = witness()
    given = {"who": k, "s": "s", "first": "c1", "last": "c2", "v": "v"} | given
    note = given.pop("note", None)
    assert note is None or isinstance(note, Column)
    rows = [("s", "s_lseq"), (k, lseq)]
    basic = bad.where(F.col("service") == BASIC)
    return [
        finding(bad, f"integrity/{way}", rows=rows, note=note, **given),
        finding(basic, f"basic/{way}", rows=rows, note=note, **given),
    ]


def _faults(p: Prepared, parts: DataFrame) -> list[DataFrame]:
    sent = parts.where("s_lseq is not null")
    meant = addressed("s_t", "sent_masks")
    stranger = F.col("mask").bitwiseAND(F.bitwise_not(meant))
    shown = sent.where("s_t is not null").where(stranger != 0)
    reader = lowest(stranger)
    others = sent.where("not (t <=> s_t)").where(F.col("mask").bitwiseAND(meant) != 0)
    name = F.array(*[F.lit(s) for s in SERVICES])
    as_sent = F.concat(
        F.get(name, F.col("service")), F.lit(", it was sent as "), F.get(name, F.col("s_service"))
    )
    frames = F.concat(
        F.col("frame").cast("string"),
        F.lit(", it left in frame "),
        F.col("s_frame").cast("string"),
    )
    to = F.concat(_to("row"), F.lit(", it was sent to "), _to("sent"))
    return [
        *_found(parts.where("s_lseq is null"), "unsent"),
        *_found(shown, "stranger", who=reader, note=_to("sent")),
        *_found(others.where(~_same_receivers()), "receivers", note=to),
        *_found(sent.where("service != s_service"), "service", note=as_sent),
        *_found(sent.where("frame != s_frame"), "frame", note=frames),
        *_found(sent.where("o != s_v"), "origin", v="o", w="s_v"),
        *_found(sent.where("own_step < s_step or ns < s_ns"), "early"),
    ]


def _to(prefix: str) -> Column:
    names = F.col(f"{prefix}_names")
    return F.when(names.isNull(), "all").otherwise(F.concat_ws(", ", names))


def _same_receivers() -> Column:
    """A carried message may name those of its receivers alone that are in the next view."""
    named, meant = F.col("row_names"), F.col("sent_names")
    one_is_all = F.col("t").isNull() | F.col("s_t").isNull()
    bare = F.col("row_bare") | F.col("sent_bare")
    nodes = [
        F.array_sort(
            F.when(F.col(f"{prefix}_bare"), F.col(f"{prefix}_names")).otherwise(
                F.transform(f"{prefix}_names", lambda name: F.regexp_replace(name, r"\.\d+$", ""))
            )
        )
        for prefix in ("row", "sent")
    ]
    present = F.filter(meant, lambda name: F.array_contains("here", name))
    carried = (
        F.when(F.col("here").isNull(), F.size(F.array_except(named, meant)) == 0)
        .otherwise((F.col("v") != F.col("s_v")) & (named == present))
    )
    return (
        F.when(one_is_all, F.col("t").eqNullSafe(F.col("s_t")))
        .when(bare, nodes[0] == nodes[1])
        .otherwise((named == meant) | carried)
    )


def _as_accepted(p: Prepared) -> list[DataFrame]:
    """A message leaves for whom it was accepted for, less those who left its sender's view. A torn
    journal may lack the view that they left."""
    submits = submitted(p).where("not torn")
    sends = p.sends.select(*SENDER, "first", "last", F.col("lseq").alias("s_lseq"), F.col("t").alias("s_t"))
    numbers = grid([submits, sends], SENDER)
    both = cut(submits, numbers, SENDER).drop("first", "last").join(
        cut(sends, numbers, SENDER).drop("first", "last"), [*SENDER, "c1", "c2"]
    )
    unequal = both.where("t is not null or s_t is not null")
    views = (
        p.installs.join(p.views.select("r", "v", F.col("inside").alias("here")), ["r", "v"])
        .groupBy("r", F.col("k").alias("s"))
        .agg(F.array_sort(F.collect_list(F.struct("lseq", "here"))).alias("views"))
    )
    known = (
        unequal.join(F.broadcast(_sets(p, "t", "row")), ["r", "t"], "left")
        .join(F.broadcast(_sets(p, "s_t", "sent")), ["r", "s_t"], "left")
        .join(F.broadcast(views), SENDER, "left")
    )
    note = F.concat(_to("row"), F.lit(" and sent to "), _to("sent"))
    return [
        asked(both, "integrity"),
        finding(
            known.where(~_for_the_same()),
            "integrity/accepted",
            who="s",
            s="s",
            first="c1",
            last="c2",
            note=note,
            rows=[("s", "lseq"), ("s", "s_lseq")],
        ),
    ]


def submitted(p: Prepared) -> DataFrame:
    """What was accepted, by sender."""
    rows = coded(p.tables["submit"], p.members)
    return rows.select(
        "r", F.col("k").alias("s"), "first", "last", "lseq", "step", "torn", receivers_of().alias("t")
    )


def _for_the_same() -> Column:
    meant, named = F.col("row_names"), F.col("sent_names")
    before = F.filter("views", lambda x: x.lseq < F.col("s_lseq"))
    begun = F.size(F.filter(before, lambda x: x.lseq < F.col("lseq")))
    during = F.slice(before, F.greatest(begun, F.lit(1)), F.lit(1 << 30))
    during = F.coalesce(during, F.array().cast("array<struct<lseq: bigint, here: array<string>>>"))
    stayed = F.filter(
        meant, lambda m: F.forall(during, lambda x: F.array_contains(x.here, m))
    )
    subset = F.size(F.array_except(named, meant)) == 0
    nodes = [
        F.transform(x, lambda name: F.regexp_replace(name, r"\.\d+$", "")) for x in (named, meant)
    ]
    bare = F.col("row_bare") | F.col("sent_bare")
    return (
        F.when(F.col("t").isNull() | F.col("s_t").isNull(), F.lit(False))
        .when(bare, F.size(F.array_except(nodes[0], nodes[1])) == 0)
        .otherwise(subset & (F.size(F.array_except(stayed, named)) == 0))
    )


def _bodies(p: Prepared) -> list[DataFrame]:
    """Members that got the same range got the same bodies, where bodies were summed up."""
    summed = p.rows.where("digest is not null")
    one = F.struct("k", "lseq")
    alike = summed.groupBy("r", "s", "first", "last").agg(
        F.count("*").alias("n"),
        F.min_by(one, "digest").alias("a"),
        F.max_by(one, "digest").alias("b"),
        (F.min("digest") != F.max("digest")).alias("differs"),
    )
    return [
        asked(alike, "integrity", F.col("n")),
        finding(
            alike.where("differs"),
            "integrity/bodies",
            who="a.k",
            other="b.k",
            s="s",
            first="first",
            last="last",
            rows=[("a.k", "a.lseq"), ("b.k", "b.lseq")],
        ),
    ]


def no_duplication(p: Prepared) -> list[DataFrame]:
    """Once in a whole life, whatever the view; and sent once."""
    given = {"s": "s", "first": "first", "last": "last", "v": "v"}
    shown = [("k", "lseq")]
    basic = p.repeated.where(F.col("service") == BASIC)
    return [
        asked(p.rows, "no-duplication"),
        finding(p.repeated, "no-duplication/again", who="k", rows=shown, **given),
        finding(basic, "basic/again", who="k", rows=shown, **given),
        finding(p.resent, "no-duplication/resent", who="s", rows=[("s", "lseq")], **given),
    ]
