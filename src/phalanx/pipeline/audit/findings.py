"""What checks ask of rows, in one shape, and what they say.

A check is a `Look` at a frame: how often its rows put properties to the test, and the cases in
which they break one, each named by its kind, `property/way`. All looks are counted first, which is
one number a row and case; most often nothing is found, and that is all. Only kinds that were found
are looked up, with the rows that show them. Until the end members are ranks and views are numbers;
what is shown is put into words by the sentence of its kind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.audit.messages import WITNESS
from phalanx.pipeline.audit.sentences import SENTENCES

ROWS = "array<struct<k: int, lseq: bigint>>"
SCHEMA = {
    "r": "bigint",
    "property": "string",
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
    "members",
    "view",
    "sender",
    "sender_incarnation",
    "first",
    "last",
    "text",
    "rows",
)


def property_of(kind: str) -> str:
    return kind.partition("/")[0]


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
            "property": F.lit(property_of(self.kind)),
            "kind": F.lit(self.kind),
            "rows": shown,
        }
        said |= {name: getattr(self, name) for name in SAID}
        fields = [column(said.get(n)).cast(t).alias(n) for n, t in SCHEMA.items() if n != "r"]
        return F.when(self.when, F.struct(*fields))


SAID = ("who", "other", "s", "first", "last", "v", "w", "note")


@dataclass(frozen=True, slots=True)
class Look:
    """A frame, how often its rows put properties to the test (a number, or a condition), and the
    cases of violations among them."""

    frame: DataFrame
    times: Mapping[str, Column] = field(default_factory=dict)
    cases: Sequence[Case] = ()

    def at(self, properties: Collection[str]) -> Look:
        """What it asks of these properties."""
        return replace(
            self,
            times={name: often for name, often in self.times.items() if name in properties},
            cases=[case for case in self.cases if property_of(case.kind) in properties],
        )

    def into(self, kinds: Collection[str]) -> Look:
        """What shows these kinds of violations."""
        return replace(self, times={}, cases=[c for c in self.cases if c.kind in kinds])

    def counted(self) -> DataFrame:
        """By run: how often each property was asked, and each kind found."""
        numbers = dict(self.times) | {case.kind: case.when for case in self.cases}
        sums = [
            F.struct(F.lit(name).alias("name"), F.sum(number.cast("long")).alias("times"))
            for name, number in numbers.items()
        ]
        return self.frame.groupBy("r").agg(F.array(*sums).alias("_")).select("r", F.inline("_"))

    def found(self) -> DataFrame:
        """Its cases, one look at each row, whatever it may be a case of."""
        frame = self.frame
        if len(self.cases) == 1:
            told = frame.where(self.cases[0].when).select("r", self.cases[0].told().alias("_case"))
        else:
            cases = F.array_compact(F.array(*[case.told() for case in self.cases]))
            told = frame.select("r", F.explode(cases).alias("_case"))
        return told.select("r", "_case.*").select(*SCHEMA)


def counted(looks: Iterable[Look]) -> DataFrame:
    """What all of them count: run, name of a property or kind, times, where it is not zero."""
    frames = [look.counted() for look in looks if look.times or look.cases]
    return reduce(DataFrame.unionByName, frames).where("times > 0")


def found(looks: Iterable[Look]) -> DataFrame | None:
    """What all of them find."""
    frames = [look.found() for look in looks if look.cases]
    return reduce(DataFrame.unionByName, frames) if frames else None


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
            F.element_at("people", row.k).member.alias("member"),
            F.element_at("people", row.k).incarnation.alias("incarnation"),
            row.lseq.alias("lseq"),
        ),
    )
    involved = F.array(who("who").member, who("other").member, who("s").member)
    return known.select(
        "r",
        "kind",
        "property",
        "cluster",
        "run",
        "group",
        F.array_compact(F.array_distinct(F.concat(involved, rows.member))).alias("members"),
        F.element_at("names", F.col("v")).alias("view"),
        who("s").member.alias("sender"),
        who("s").incarnation.alias("sender_incarnation"),
        "first",
        "last",
        text.alias("text"),
        rows.alias("rows"),
    )
