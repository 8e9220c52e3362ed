"""What checks say, in one shape: rows that count how often a property was asked, and rows that
each show one way in which it was broken.

A check names what it found by its kind, `property/way`. Until the end members are ranks and
views are numbers; only what is shown is put into words, by the sentence of its kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Case:
    """One way to break a property: when, and what is said of it. `rows` are pairs of rank and row
    number; a pair of which one is null is left out."""

    kind: str
    when: Column
    who: Given = None
    other: Given = None
    s: Given = None
    first: Given = None
    last: Given = None
    v: Given = None
    w: Given = None
    note: Given = None
    rows: Sequence[Shown] = ()

    def told(self) -> Column:
        assert self.kind in SENTENCES, self.kind
        pairs = [F.struct(column(k).alias("k"), column(n).alias("lseq")) for k, n in self.rows]
        shown = F.filter(
            F.array(*pairs).cast(ROWS), lambda row: row.k.isNotNull() & row.lseq.isNotNull()
        )
        said: dict[str, Given] = {
            "property": F.lit(self.kind.partition("/")[0]),
            "kind": F.lit(self.kind),
            "rows": shown,
        }
        said |= {name: getattr(self, name) for name in SAID}
        fields = [column(said.get(n)).cast(t).alias(n) for n, t in SCHEMA.items() if n != "r"]
        return F.when(self.when, F.struct(*fields))


SAID = ("who", "other", "s", "first", "last", "v", "w", "note")


def found(frame: DataFrame, *cases: Case) -> DataFrame:
    """The rows of a frame that are cases of violations, as findings: one look at each row,
    whatever it may be a case of."""
    if len(cases) == 1:
        told = frame.where(cases[0].when).select("r", cases[0].told().alias("_case"))
    else:
        told = frame.select(
            "r",
            F.explode(F.array_compact(F.array(*[case.told() for case in cases]))).alias("_case"),
        )
    return told.select("r", "_case.*").select(*SCHEMA)


def asked(frame: DataFrame, times: Mapping[str, Column]) -> DataFrame:
    """How often properties were put to the test, by run: the sum of a number, or how often a
    condition holds."""
    sums = [
        F.struct(
            F.lit(name).alias("property"),
            F.coalesce(F.sum(often.cast("long")), F.lit(0).cast("long")).alias("checked"),
        )
        for name, often in times.items()
    ]
    counted = frame.groupBy("r").agg(F.array(*sums).alias("_asked"))
    each = counted.select("r", F.inline("_asked"))
    known = {"r", "property", "checked"}
    return each.select(
        *[(F.col(n) if n in known else F.lit(None)).cast(t).alias(n) for n, t in SCHEMA.items()]
    )


def summed(*all_times: Mapping[str, Column]) -> dict[str, Column]:
    """Several ways to ask of the same rows, as one."""
    out: dict[str, Column] = {}
    for times in all_times:
        for name, often in times.items():
            count = F.coalesce(often.cast("long"), F.lit(0))
            out[name] = out[name] + count if name in out else count
    return out


def column(given: Given) -> Column:
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


def told(found: DataFrame, lexicon: DataFrame) -> DataFrame:
    """Findings in words: the published frame. The first member that is named comes first."""
    known = found.join(F.broadcast(lexicon), "r")

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
