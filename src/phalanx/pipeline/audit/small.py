"""The way to the chronicles of all runs and back: rows of few tables in, small tables out.

Rows travel as JSON between Spark and Python: they are few, and of many shapes. What comes out is
taken to the driver, so that everything that is joined with messages is a local table there: Spark
needs no job to send it to the tasks.

people   everybody that a run names: rank, mask, fate
stays    per member and view: when it was there, its marker, whether it is compared with others
views    per view and bank: who is in it, installed it, must deliver in it, is absent from it
ways     per route and bank, the masks of who went it
climbs   per route and member, the highest position that it delivered
owed     per sender, view and bank: who must get what was sent in it
lived    per member the views that it installed
sets     sets of receivers
closing  per receipt at the end of a view and bank: the members of which it speaks
sides    reports of merged views of their components: the first one of each view
proposed per report, the members that come along, and the row with which each proposed the view
vids     the names of views
lexicon  per run, all names by number
said     what the checks of views say
settings settings that must be equal and differ: the members with each value
mixed    the views whose members differ in one of them
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from phalanx.pipeline.audit.chronicle import (
    Chronicle,
    Fate,
    Install,
    JournalRecord,
    Marker,
    Receivers,
    SentRange,
    Use,
)
from phalanx.pipeline.audit.outline import tables_of
from phalanx.pipeline.audit.report_rows import (
    Closing,
    LastStep,
    Lost,
    QueueCounts,
    Receipts,
    Side,
    Submitted,
)
from phalanx.pipeline.schemas import EVENTS
from phalanx.pipeline.tables import Tables

KINDS: dict[str, type[msgspec.Struct]] = {
    kind.__name__: kind
    for kind in (
        *(JournalRecord, Fate, Install, Marker, Use, SentRange, Receivers),
        *(Side, Closing, Receipts, QueueCounts, Submitted, LastStep, Lost),
    )
}
SPELL = "struct<begin: bigint, until: bigint, mark: bigint>"
LOST_RECEIVERS = {"members": "to", "member_incarnations": "to_incarnations"}
"""Columns of `not_sent` that name receivers, and those of the other tables."""
TABLES = {
    "runs": "r bigint, cluster string, run string, `group` string, settled boolean, mode string,"
    " senders int, size bigint, ranks map<string, int>",
    "people": "r bigint, k int, member string, incarnation bigint, label string, bank int,"
    " bit bigint, journal string, torn boolean, stopped boolean, alive boolean, whole boolean,"
    " settled boolean,"
    " named boolean, twice boolean, mode string, sent_last bigint, tells boolean,"
    " last_step bigint,"
    f" all_spells array<struct<v: bigint, spell: {SPELL}>>",
    "stays": f"r bigint, k int, v bigint, spells array<{SPELL}>, marker_lseq bigint,"
    " marker_pos bigint, next bigint, compared boolean, ended boolean",
    "views": "r bigint, v bigint, bank int, inside array<string>, ranks array<int>,"
    " installed bigint, duty bigint, absent bigint",
    "ways": "r bigint, v bigint, w bigint, bank int, along bigint, together bigint, ordered bigint",
    "climbs": "r bigint, v bigint, w bigint, bank int, bit bigint, k int, highest bigint",
    "owed": "r bigint, s int, bank int, home bigint, closed boolean, `all` bigint, live bigint",
    "lived": "r bigint, s int,"
    " lived array<struct<lseq: bigint, step: bigint, here: array<string>>>",
    "sets": "r bigint, t bigint, bare boolean, names array<string>, ks array<int>,"
    " masks map<int, bigint>",
    "closing": "r bigint, s int, lseq bigint, bank int, promised bigint",
    "sides": "r bigint, v bigint, w bigint, `by` int, side bigint, complete boolean,"
    " said map<int, bigint>",
    "proposed": "r bigint, `by` int, side bigint, k int, proposal bigint",
    "lexicon": "r bigint, cluster string, run string, `group` string,"
    " people map<int, struct<member: string, incarnation: bigint, label: string>>,"
    " names map<bigint, string>",
    "vids": "r bigint, v bigint, view string",
    "settings": "r bigint, name string, value string, members array<string>",
    "mixed": "r bigint, view string",
    "said": "r bigint, property string, checked bigint, kind string, who int, other int, s int,"
    " first bigint, last bigint, v bigint, w bigint, note string,"
    " rows array<struct<k: int, lseq: bigint>>",
}
"""Of what comes out."""


# ---------------------------------------------------------------------------- in


def number(r: Column, view: Column) -> Column:
    """The number of a view; null for none."""
    return F.when(view.isNotNull(), F.xxhash64(r, view))


def label(member: Column, incarnation: Column) -> Column:
    """The member as people write it, `ada.2`."""
    return F.concat(member, F.lit("."), incarnation.cast("string"))


def labels(members: str, incarnations: str) -> Column:
    return F.zip_with(F.col(members), F.col(incarnations), label)


def receivers() -> Column:
    """A number for a set of receivers; null is the whole view."""
    return F.when(F.col("to").isNotNull(), F.xxhash64("r", "to", "to_incarnations"))


def _rows(tables: Tables) -> Iterator[tuple[str, DataFrame]]:
    """The rows that tell of lives and views, with the columns that their kinds have."""
    r = F.xxhash64("cluster", "run", "group")
    who = ("member", "incarnation", "lseq")

    def of(name: str) -> DataFrame:
        return tables[name].withColumn("r", r)

    def v(name: str) -> Column:
        return number(F.col("r"), F.col(name))

    yield "JournalRecord", of("journals").where("rows > 0")
    yield "Fate", of("life").select("r", *who, "sim_ns", "op", "reason")
    yield "Fate", of("topology").select("r", *who, "sim_ns", "component")
    steps = of("view_change_step").select(
        "r", *who, "sim_ns", F.col("action").alias("op"), "stage", "context"
    )
    yield "Fate", steps
    installs = of("view_installed").select(
        "r",
        *who,
        "step",
        "sim_ns",
        "view",
        v("view").alias("v"),
        "joins",
        "removals",
        labels("members", "member_incarnations").alias("inside"),
        labels("transitional", "transitional_incarnations").alias("transitional"),
        "context",
        "cause",
        "components",
        "previous",
        v("previous").alias("prev"),
        labels("joined", "joined_incarnations").alias("joined"),
        labels("left", "left_incarnations").alias("left"),
    )
    yield "Install", installs
    members = labels("members", "member_incarnations").alias("members")
    place = (*who, "view", v("view").alias("v"))
    yield "Marker", of("transitional").select("r", *place, "pos", members)
    by_view = tables["sent"].groupBy("cluster", "run", "group", "member", "incarnation", "view")
    sent = by_view.agg(
        F.count("*").alias("rows"),
        F.max("last").alias("last"),
        F.max_by("lseq", "last").alias("lseq"),
    )
    yield "SentRange", sent.withColumn("r", r).withColumn("v", v("view"))
    to = [
        of(name).where("to is not null").select("r", "to", "to_incarnations")
        for name in ("accepted", "sent", "deliver")
    ]
    lost = of("not_sent").where("members is not null").select("r", *LOST_RECEIVERS.keys())
    to.append(lost.withColumnsRenamed(LOST_RECEIVERS))
    sets = reduce(DataFrame.unionByName, to).distinct()
    yield "Receivers", sets.withColumn("t", receivers())
    ordered = F.col("service").isin("AGREED", "SAFE")
    nonbasic = F.col("service") != "BASIC"
    delivered = ("sender", "sender_incarnation", "view", "origin")
    uses = (
        tables["deliver"]
        .groupBy(*("cluster", "run", "group", "member", "incarnation"), *delivered)
        .agg(
            F.count("*").alias("rows"),
            F.count(F.when(nonbasic, 1)).alias("others"),
            F.count(F.when(ordered, 1)).alias("ordered"),
            F.count(F.when(nonbasic, F.col("batch"))).alias("batched"),
            F.max(F.when(ordered, F.col("pos"))).alias("highest"),
        )
        .withColumn("r", r)
    )
    yield "Use", uses.withColumns({"v": v("view"), "o": v("origin")})
    yield from _told(tables)


def _told(tables: Tables) -> Iterator[tuple[str, DataFrame]]:
    """The rows of what applications are told beside their messages and views."""
    r = F.xxhash64("cluster", "run", "group")
    who = ("member", "incarnation", "lseq")

    def of(name: str) -> DataFrame:
        return tables[name].withColumn("r", r)

    def v(name: str) -> Column:
        return number(F.col("r"), F.col(name))

    members = labels("members", "member_incarnations").alias("members")
    place = (*who, "view", v("view").alias("v"))
    sides = of("merged_component").select(
        "r",
        *place,
        "component",
        v("component").alias("w"),
        members,
        labels("delivered", "delivered_incarnations").alias("delivered"),
        "delivered_upto",
        labels("alone", "alone_incarnations").alias("alone"),
        "alone_first",
        "alone_last",
    )
    yield "Side", sides
    yield "QueueCounts", of("queue").select("r", *who, "accepted", "submitted", "refused", "reason")
    ends = F.broadcast(
        tables["view_installed"].select("journal", "step", F.lit(True).alias("ends"))
    )
    last = _last_steps(tables)
    yield "LastStep", last.withColumn("r", r).drop("journal")
    cut_off = F.broadcast(last.select("journal", "step", F.lit(True).alias("cut_off")))
    closing = of("stable").where("sender = member and sender_incarnation = incarnation")
    closing = closing.join(ends, ["journal", "step"], "left")
    closing = closing.join(cut_off, ["journal", "step"], "left")
    closing = closing.where("members is not null or ends or cut_off")
    yield "Closing", closing.select("r", *place, "step", members).distinct()

    member = ("cluster", "run", "group", "member", "incarnation")

    def by_member(name: str, *sums: Column) -> DataFrame:
        return tables[name].groupBy(*member).agg(*sums)

    rows = F.count("*").alias("rows")
    for what in ("stable", "ordered", "all_delivered"):
        receipts = by_member(what, rows, F.max("upto").alias("upto"))
        yield "Receipts", receipts.withColumns({"r": r, "what": F.lit(what)})
    count = F.sum(F.expr("last - first + 1")).alias("count")
    queues = tables["queue"].groupBy("journal").agg(F.collect_list("lseq").alias("_queues"))
    before = F.size(F.filter("_queues", lambda at: at < F.col("lseq")))
    after = F.when(F.col("_queues").isNull(), 0).otherwise(before).alias("after")
    submits = tables["accepted"].join(F.broadcast(queues), "journal", "left")
    yield "Submitted", submits.groupBy(*member, after).agg(count).withColumn("r", r)
    yield "Lost", by_member("not_sent", rows).withColumn("r", r)


def _last_steps(tables: Tables) -> DataFrame:
    """The step of the last row of each journal without a STOP."""
    who = ("journal", "cluster", "run", "group", "member", "incarnation")
    rows = [tables[name].select(*who, "lseq", "step") for name in EVENTS]
    ends = tables["journals"].where("stopped = 0 and rows > 0")
    ends = F.broadcast(ends.select("journal", F.col("last").alias("lseq")))
    return reduce(DataFrame.unionByName, rows).join(ends, ["journal", "lseq"]).drop("lseq")


class Small:
    """Small tables by name, as local tables, and the rows of some of them."""

    def __init__(self, tables: Tables, out: dict[str, list[dict[str, Any]]]) -> None:
        self.rows = out
        self._spark = tables.spark
        self._frames: dict[str, DataFrame] = {}

    def __getitem__(self, name: str) -> DataFrame:
        if name not in self._frames:
            import pyarrow as pa

            kind = StructType.fromDDL(TABLES[name])
            assert isinstance(kind, StructType)
            schema = to_arrow_schema(kind)
            for field in schema:
                if pa.types.is_map(field.type):  # JSON made lists of the pairs
                    for row in self.rows[name]:
                        row[field.name] = [tuple(pair) for pair in row[field.name]]
            rows = pa.Table.from_pylist(self.rows[name], schema=schema)
            self._frames[name] = self._spark.createDataFrame(rows)
        return self._frames[name]


def chronicles(tables: Tables) -> Small:
    """Of all runs in the tables."""
    rows = [
        frame.select(
            "r", F.lit(kind).alias("kind"), F.to_json(F.struct(*frame.columns)).alias("row")
        )
        for kind, frame in _rows(tables)
    ]
    told = reduce(DataFrame.unionByName, rows).repartition("r").sortWithinPartitions("r")
    out: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    for row in told.mapInArrow(_tell, "name string, row string").collect():
        out[row.name].append(msgspec.json.decode(row.row))
    out["lexicon"] = _lexicon(out)
    return Small(tables, out)


def _lexicon(out: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Per run, the names of members by rank and of views by number."""
    found: dict[int, dict[str, Any]] = {
        run["r"]: run | {"people": [], "names": []} for run in out["runs"]
    }
    for m in out["people"]:
        found[m["r"]]["people"].append((m["k"], m))
    for view in out["vids"]:
        found[view["r"]]["names"].append((view["v"], view["view"]))
    return list(found.values())


# ---------------------------------------------------------------------------- in the worker


def _tell(stream: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    encode = msgspec.json.Encoder().encode
    for r, rows in groupby(_each(stream), key=itemgetter(0)):
        run = Chronicle(r, (row for _, row in rows))
        names, texts = [], []
        for name, found in tables_of(run):
            names.append(name)
            texts.append(encode({"r": r} | found).decode())
        yield pa.RecordBatch.from_arrays([pa.array(names), pa.array(texts)], names=["name", "row"])


def _each(stream: Iterator[Any]) -> Iterator[tuple[int, Any]]:
    decoders = {name: msgspec.json.Decoder(kind) for name, kind in KINDS.items()}
    for batch in stream:
        columns = (column.to_pylist() for column in batch.columns)
        for r, kind, row in zip(*columns, strict=True):
            yield r, decoders[kind].decode(row)


# ---------------------------------------------------------------------------- with messages


def coded(frame: DataFrame, small: Small) -> DataFrame:
    """Rows with the run and the rank of the member that wrote them, instead of their names."""
    own = small["people"].where("journal is not null")
    own = own.select("journal", "r", "k", "bank", "bit", "torn", "settled", "all_spells")
    bare = frame.drop("cluster", "run", "group", "member", "incarnation", "profile", "t_ns")
    return bare.join(F.broadcast(own), "journal")


def spell_of(lseq: Column) -> Column:
    """The spell in `spells` that a row lies in, null if in none."""
    here = F.filter("spells", lambda s: (lseq > s.begin) & (lseq < s.until))
    return F.get(here, F.lit(0))


def elsewhere(lseq: Column) -> Column:
    """The view and spell that a row lies in, whatever it says; null before the first."""
    here = F.filter("all_spells", lambda x: (lseq > x.spell.begin) & (lseq < x.spell.until))
    return F.get(here, F.lit(0))
