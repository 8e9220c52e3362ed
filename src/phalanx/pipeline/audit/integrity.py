"""What is delivered was sent, to me, once, and arrives as it left. Its share of basic."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.audit.findings import Case, Look, lowest, witness
from phalanx.pipeline.audit.messages import BASIC, SERVICES
from phalanx.pipeline.audit.prepare import Prepared
from phalanx.pipeline.ranges import cut, grid

SENDER = ["r", "s"]


def times() -> dict[str, Column]:
    """How often cells put it to the test."""
    often = F.when(_judged() & F.col("head"), F.col("n"))
    basic = F.col("service") == BASIC
    return {"integrity": often, "basic": F.when(basic, often)}


def cases() -> list[Case]:
    """Of cells; also its share of `basic`."""
    return [*_cases("integrity", F.lit(True)), *_cases("basic", F.col("service") == BASIC)]


def _outside() -> Column:
    """The view of the delivery, or, if there is no journal of the sender, that of the sending, if
    the sender is not in it."""
    not_here, not_there = (~F.coalesce(name, F.lit(True)) for name in ("in_v", "in_o"))
    return F.when(not_here, F.col("v")).when(~F.col("s_known") & not_there, F.col("o"))


def _judged() -> Column:
    """Somebody delivered it, and it can be judged: what was sent behind the end of a journal that
    just ends cannot."""
    before_end = F.col("s_whole") | (F.col("c1") <= F.col("s_sent_last"))
    sent_all = F.col("s_known") & ~F.col("s_torn") & before_end
    known = F.col("s_lseq").isNotNull() | _outside().isNotNull() | sent_all
    return (F.col("n") > 0) & known


def _given() -> dict[str, Any]:
    seen = witness()
    rows = [("s", "s_lseq"), seen]
    return {"who": seen[0], "s": "s", "first": "c1", "last": "c2", "v": "v", "rows": rows}


def _cases(name: str, apply: Column) -> list[Case]:
    given = _given()
    outside = _outside()
    fair = apply & _judged() & outside.isNull()
    sent = fair & F.col("s_lseq").isNotNull()
    stranger = F.col("mask").bitwiseAND(F.bitwise_not(F.col("s_meant")))
    known = F.array(*[F.lit(word) for word in SERVICES])
    service = [F.get(known, F.col(word)) for word in ("service", "s_service")]
    frames = [F.col(word).cast("string") for word in ("frame", "s_frame")]
    early = (F.col("own_step") < F.col("s_step")) | (F.col("ns") < F.col("s_ns"))
    return [
        Case(
            f"{name}/outsider",
            apply & (F.col("n") > 0) & outside.isNotNull(),
            w=outside,
            **given,
        ),
        Case(f"{name}/unsent", fair & F.col("s_lseq").isNull(), **given),
        Case(f"{name}/stranger", sent & (stranger != 0), **given | {"who": lowest(stranger)}),
        Case(
            f"{name}/service",
            sent & (F.col("service") != F.col("s_service")),
            note=F.concat(service[0], F.lit(", it was sent as "), service[1]),
            **given,
        ),
        Case(
            f"{name}/frame",
            sent & (F.col("frame") != F.col("s_frame")),
            note=F.concat(frames[0], F.lit(", it left in frame "), frames[1]),
            **given,
        ),
        Case(
            f"{name}/origin",
            sent & (F.col("o") != F.col("s_v")),
            w="s_v",
            **given | {"v": "o"},
        ),
        Case(f"{name}/early", sent & F.coalesce(early, F.lit(False)), **given),
    ]


# ---------------------------------------------------------------------------- receivers


def receivers(p: Prepared) -> list[Look]:
    """Those whom messages are for stay the same, from the submission to the delivery."""
    return [*_delivered(p), *_as_accepted(p)] if p.small.rows["sets"] else []


def _sets(p: Prepared, t: str, prefix: str) -> DataFrame:
    names = [F.col(name).alias(f"{prefix}_{name}") for name in ("bare", "names")]
    return F.broadcast(p.small["sets"].select("r", F.col("t").alias(t), *names))


def _to(prefix: str) -> Column:
    names = F.col(f"{prefix}_names")
    return F.when(names.isNull(), "all").otherwise(F.concat_ws(", ", names))


def _nodes(prefix: str) -> Column:
    """Names without incarnations, as rows of before had them."""
    names = F.col(f"{prefix}_names")
    stripped = F.transform(names, lambda name: F.regexp_replace(name, r"\.\d+$", ""))
    return F.array_sort(F.when(F.col(f"{prefix}_bare"), names).otherwise(stripped))


def _delivered(p: Prepared) -> list[Look]:
    """A delivery names the receivers that the sending named. A carried message may name those of
    them alone that are in the next view."""
    meant = F.col("mask").bitwiseAND(F.col("s_meant")) != 0
    here = p.small["views"].where("bank = 0").select("r", "v", F.col("inside").alias("here"))
    rows = (
        p.cells.where("n > 0 and s_lseq is not null and not (t <=> s_t)")
        .where(meant)
        .join(_sets(p, "t", "row"), ["r", "t"], "left")
        .join(_sets(p, "s_t", "sent"), ["r", "s_t"], "left")
        .join(F.broadcast(here), ["r", "v"], "left")
    )
    named, known = F.col("row_names"), F.col("sent_names")
    present = F.filter(known, lambda name: F.array_contains("here", name))
    carried = F.when(F.col("here").isNull(), F.size(F.array_except(named, known)) == 0).otherwise(
        (F.col("v") != F.col("s_v")) & (named == present)
    )
    same = (
        F.when(F.col("t").isNull() | F.col("s_t").isNull(), F.lit(False))
        .when(F.col("row_bare") | F.col("sent_bare"), _nodes("row") == _nodes("sent"))
        .otherwise((named == known) | carried)
    )
    given = _given() | {"note": F.concat(_to("row"), F.lit(", it was sent to "), _to("sent"))}
    basic = F.col("service") == BASIC
    return [
        Look(
            rows,
            cases=[
                Case("integrity/receivers", ~same, **given),
                Case("basic/receivers", ~same & basic, **given),
            ],
        )
    ]


def _as_accepted(p: Prepared) -> list[Look]:
    """A message leaves for whom it was accepted for, less those who left its sender's view. A torn
    journal may lack the view that they left."""
    submits = p.submits.where("not torn")
    sends = p.sends.select(
        *SENDER, "first", "last", F.col("lseq").alias("s_lseq"), F.col("t").alias("s_t")
    )
    numbers = grid([submits, sends], SENDER).localCheckpoint()
    both = (
        cut(submits, numbers, SENDER)
        .drop("first", "last")
        .join(cut(sends, numbers, SENDER).drop("first", "last"), [*SENDER, "c1", "c2"])
    )
    known = (
        both.where("t is not null or s_t is not null")
        .join(_sets(p, "t", "row"), ["r", "t"], "left")
        .join(_sets(p, "s_t", "sent"), ["r", "s_t"], "left")
        .join(F.broadcast(p.small["lived"]), SENDER, "left")
    )
    meant, named = F.col("row_names"), F.col("sent_names")
    before = F.filter("lived", lambda x: x.lseq < F.col("s_lseq"))
    stayed = F.filter(
        meant,
        lambda m: F.forall(since(before, F.col("lseq")), lambda x: F.array_contains(x.here, m)),
    )
    subset = F.size(F.array_except(named, meant)) == 0
    stay = F.size(F.array_except(stayed, named)) == 0
    same = (
        F.when(F.col("t").isNull() | F.col("s_t").isNull(), F.lit(False))
        .when(
            F.col("row_bare") | F.col("sent_bare"),
            F.size(F.array_except(_nodes("sent"), _nodes("row"))) == 0,
        )
        .otherwise(subset & stay)
    )
    return [
        Look(
            known,
            cases=[
                Case(
                    "integrity/accepted",
                    ~same,
                    who="s",
                    s="s",
                    first="c1",
                    last="c2",
                    note=F.concat(_to("row"), F.lit(" and sent to "), _to("sent")),
                    rows=[("s", "lseq"), ("s", "s_lseq")],
                )
            ],
        ),
    ]


def since(lived: Column, lseq: Column) -> Column:
    """The views of a member from the one that row `lseq` was written in."""
    begun = F.size(F.filter(lived, lambda x: x.lseq < lseq))
    none = F.array().cast("array<struct<lseq: bigint, step: bigint, here: array<string>>>")
    return F.coalesce(F.slice(lived, F.greatest(begun, F.lit(1)), F.lit(1 << 30)), none)


# ---------------------------------------------------------------------------- once, and whole


def bodies(p: Prepared) -> list[Look]:
    """Members that got the same range got the same bodies, and those that were submitted as such,
    where bodies were summed up."""
    none = F.lit(None).cast("long")
    got = p.rows.where("digest is not null").select(
        "r", "s", "first", "last", "k", "lseq", "digest", none.alias("given"), none.alias("origin")
    )
    given = p.submits.where("digest is not null").select(
        *("r", "s", "first", "last"),
        *(none.alias(name) for name in ("k", "lseq", "digest")),
        F.col("digest").alias("given"),
        F.col("lseq").alias("origin"),
    )
    one, least, most = F.struct("k", "lseq"), F.min("digest"), F.max("digest")
    alike = (
        got.unionByName(given)
        .groupBy("r", "s", "first", "last")
        .agg(
            F.count("digest").alias("n"),
            F.min_by(one, "digest").alias("a"),
            F.max_by(one, "digest").alias("b"),
            least.alias("least"),
            most.alias("most"),
            F.max("given").alias("given"),
            F.max("origin").alias("origin"),
        )
        .withColumn("wrong", F.when(F.expr("least != given"), F.col("a")).otherwise(F.col("b")))
    )
    about: dict[str, Any] = {"s": "s", "first": "first", "last": "last"}
    altered = Case(
        "integrity/altered",
        F.expr("least != given or most != given"),
        who="wrong.k",
        rows=[("wrong.k", "wrong.lseq"), ("s", "origin")],
        **about,
    )
    apart = Case(
        "integrity/bodies",
        F.expr("given is null and least != most"),
        who="a.k",
        other="b.k",
        rows=[("a.k", "a.lseq"), ("b.k", "b.lseq")],
        **about,
    )
    return [Look(alike, {"integrity": F.col("n")}, [altered, apart])]


def again() -> list[Case]:
    """Of deliveries that repeat something: once in a whole life, whatever the view."""
    given: dict[str, Any] = {"who": "k", "s": "s", "first": "first", "last": "last", "v": "v"}
    given |= {"rows": [("k", "lseq")]}
    basic = F.col("service") == BASIC
    return [
        Case("no-duplication/again", F.lit(True), **given),
        Case("basic/again", basic, **given),
    ]


def resent() -> Case:
    """Of sends that repeat something."""
    return Case(
        "no-duplication/resent",
        F.lit(True),
        who="s",
        s="s",
        first="first",
        last="last",
        v="v",
        rows=[("s", "lseq")],
    )
