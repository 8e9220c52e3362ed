"""What checks say, in one shape: rows that count how often a property was asked, and rows that
each show one way in which it was broken.

A check names what it found by its kind, `property/way`. Until the end members are ranks and
views are numbers; only what is shown is put into words, by the sentence of its kind.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.audit.messages import WITNESS
from phalanx.pipeline.audit.sentences import SENTENCES

ROWS = "array<struct<k: int, lseq: bigint>>"
SCHEMA = {
    "r": "bigint",
    "property": "string",
    "checked": "bigint",
    "kind": "string",
    "who": "int",
    "other": "int",
    "s": "int",
    "first": "bigint",
    "last": "bigint",
    "v": "bigint",
    "w": "bigint",
    "note": "string",
    "rows": ROWS,
}
"""`who` did it, `other` is involved, the messages are first..last of `s`, `v` and `w` are views."""

PUBLISHED = (
    "property",
    "cluster",
    "run",
    "group",
    "nodes",
    "vid",
    "sender",
    "sender_inc",
    "first",
    "last",
    "text",
    "rows",
)

Given = Column | str | None
Shown = tuple[str | Column, str | Column]


def finding(
    frame: DataFrame,
    kind: str,
    *,
    rows: Sequence[Shown] = (),
    note: Column | None = None,
    **given: Given,
) -> DataFrame:
    """A frame of violations as findings of one kind. `rows` are pairs of rank and row number; a
    pair of which one is null is left out."""
    assert kind in SENTENCES, kind
    shown = F.filter(
        F.array(*[F.struct(_column(k).alias("k"), _column(n).alias("lseq")) for k, n in rows]).cast(
            ROWS
        ),
        lambda row: row.k.isNotNull() & row.lseq.isNotNull(),
    )
    given |= {"kind": F.lit(kind), "property": F.lit(kind.partition("/")[0])}
    given |= {"note": note, "rows": shown, "r": "r"}
    return frame.select(*[_column(given.get(n)).cast(t).alias(n) for n, t in SCHEMA.items()])


def asked(frame: DataFrame, name: str, times: Column | None = None) -> DataFrame:
    """How often a property was put to the test, by run: once a row, or as often as `times`."""
    count = F.count(F.lit(1)) if times is None else F.coalesce(F.sum(times), F.lit(0))
    counted = frame.groupBy("r").agg(count.cast("long").alias("checked"))
    given: dict[str, Given] = {"r": "r", "checked": "checked", "property": F.lit(name)}
    return counted.select(*[_column(given.get(n)).cast(t).alias(n) for n, t in SCHEMA.items()])


def _column(given: Given) -> Column:
    if given is None:
        return F.lit(None)
    return F.col(given) if isinstance(given, str) else given


def witness(name: str = "witness") -> Shown:
    """The row that a witness is."""
    seen = F.col(name)
    return (F.floor(seen / WITNESS).cast("int"), seen % WITNESS)


def lowest(mask: Column, bank: str = "bank", size: int = 62) -> Column:
    """The first member of a mask that is not empty."""
    bit = mask.bitwiseAND(-mask)
    return (F.col(bank) * size + F.round(F.log2(bit.cast("double"))).cast("int")).cast("int")


# ---------------------------------------------------------------------------- in words


def told(found: DataFrame, runs: DataFrame, members: DataFrame, vids: DataFrame) -> DataFrame:
    """Findings in words: the published frame. The first member that is named comes first."""
    people = members.groupBy("r").agg(
        F.map_from_entries(F.collect_list(F.struct("k", F.struct("node", "inc", "label")))).alias(
            "people"
        )
    )
    names = vids.groupBy("r").agg(
        F.map_from_entries(F.collect_list(F.struct("v", "vid"))).alias("names")
    )
    known = (
        found.join(F.broadcast(runs.select("r", "cluster", "run", "group")), "r")
        .join(F.broadcast(people), "r")
        .join(F.broadcast(names), "r", "left")
    )

    def who(k: str) -> Column:
        return F.element_at("people", F.col(k))

    what = F.concat(
        who("s").label,
        F.lit("#"),
        F.col("first").cast("string"),
        F.when(F.col("last") > F.col("first"), F.concat(F.lit(".."), F.col("last"))).otherwise(""),
    )
    words = {
        "{who}": who("who").label,
        "{other}": who("other").label,
        "{what}": what,
        "{v}": F.coalesce(F.element_at("names", F.col("v")), F.lit("no view")),
        "{w}": F.coalesce(F.element_at("names", F.col("w")), F.lit("no view")),
        "{note}": F.col("note"),
    }
    text: Column = F.element_at(
        F.create_map(*[F.lit(x) for pair in SENTENCES.items() for x in pair]), F.col("kind")
    )
    for word, meaning in words.items():
        text = F.replace(text, F.lit(word), F.coalesce(meaning, F.lit("nobody")))
    rows = F.transform(
        "rows",
        lambda row: F.struct(
            F.element_at("people", row.k).node.alias("node"),
            F.element_at("people", row.k).inc.alias("inc"),
            row.lseq.alias("lseq"),
        ),
    )
    involved = F.array(who("who").node, who("other").node, who("s").node)
    return known.select(
        "r",
        "kind",
        "property",
        "cluster",
        "run",
        "group",
        F.array_compact(F.array_distinct(F.concat(involved, rows.node))).alias("nodes"),
        F.element_at("names", F.col("v")).alias("vid"),
        who("s").node.alias("sender"),
        who("s").inc.alias("sender_inc"),
        "first",
        "last",
        text.alias("text"),
        rows.alias("rows"),
    )
