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
vids     the names of views
lexicon  per run, all names by number
said     what the checks of views say
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
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
    LAST,
    Chronicle,
    Fate,
    Install,
    Journal,
    Marker,
    Member,
    Receivers,
    Sent,
    Use,
)
from phalanx.pipeline.audit.membership import membership
from phalanx.pipeline.audit.saying import Says
from phalanx.pipeline.audit.settling import settling
from phalanx.pipeline.tables import Tables

KINDS: dict[str, type[msgspec.Struct]] = {
    kind.__name__: kind for kind in (Journal, Fate, Install, Marker, Use, Sent, Receivers)
}
SPELL = "struct<begin: bigint, until: bigint, mark: bigint>"
TABLES = {
    "runs": "r bigint, cluster string, run string, `group` string, settled boolean, mode string,"
    " senders int, size bigint, ranks map<string, int>",
    "people": "r bigint, k int, node string, inc bigint, label string, bank int, bit bigint,"
    " journal string, torn boolean, stopped boolean, alive boolean, whole boolean, settled boolean,"
    " named boolean, twice boolean, mode string, sent_last bigint,"
    f" all_spells array<struct<v: bigint, spell: {SPELL}>>",
    "stays": f"r bigint, k int, v bigint, spells array<{SPELL}>, marker_lseq bigint,"
    " marker_pos bigint, next bigint, compared boolean",
    "views": "r bigint, v bigint, bank int, inside array<string>, ranks array<int>,"
    " installed bigint, duty bigint, absent bigint",
    "ways": "r bigint, v bigint, w bigint, bank int, along bigint, together bigint, ordered bigint",
    "climbs": "r bigint, v bigint, w bigint, bank int, bit bigint, k int, highest bigint",
    "owed": "r bigint, s int, bank int, home bigint, closed boolean, `all` bigint, live bigint",
    "lived": "r bigint, s int,"
    " lived array<struct<lseq: bigint, step: bigint, here: array<string>>>",
    "sets": "r bigint, t bigint, bare boolean, names array<string>, ks array<int>,"
    " masks map<int, bigint>",
    "lexicon": "r bigint, cluster string, run string, `group` string,"
    " people map<int, struct<node: string, inc: bigint, label: string>>, names map<bigint, string>",
    "vids": "r bigint, v bigint, vid string",
    "said": "r bigint, property string, checked bigint, kind string, who int, other int, s int,"
    " first bigint, last bigint, v bigint, w bigint, note string,"
    " rows array<struct<k: int, lseq: bigint>>",
}
"""Of what comes out."""


# ---------------------------------------------------------------------------- in


def number(r: Column, vid: Column) -> Column:
    """The number of a view; null for none."""
    return F.when(vid.isNotNull(), F.xxhash64(r, vid))


def label(node: Column, inc: Column) -> Column:
    """The member as people write it, `ada.2`."""
    return F.concat(node, F.lit("."), inc.cast("string"))


def labels(nodes: str, incs: str) -> Column:
    return F.zip_with(F.col(nodes), F.col(incs), label)


def receivers() -> Column:
    """A number for a set of receivers; null is the whole view."""
    return F.when(F.col("to").isNotNull(), F.xxhash64("r", "to", "to_incs"))


def _rows(tables: Tables) -> Iterator[tuple[str, DataFrame]]:
    """The rows that tell of lives and views, with the columns that their kinds have."""
    r = F.xxhash64("cluster", "run", "group")
    who = ("node", "inc", "lseq")

    def of(name: str) -> DataFrame:
        return tables[name].withColumn("r", r)

    def v(name: str) -> Column:
        return number(F.col("r"), F.col(name))

    yield "Journal", of("journals").where("rows > 0")
    yield "Fate", of("life").select("r", *who, "sim_ns", "op")
    yield "Fate", of("topology").select("r", *who, "sim_ns", "component")
    steps = of("ctx_step").select(
        "r", *who, "sim_ns", F.col("action").alias("op"), "stage", "context"
    )
    yield "Fate", steps
    installs = of("view_install").select(
        "r",
        *who,
        "step",
        "sim_ns",
        "vid",
        v("vid").alias("v"),
        "joins",
        "removals",
        labels("members", "member_incs").alias("inside"),
        labels("trans", "trans_incs").alias("trans"),
        "context",
        "cause",
        F.transform("components", lambda vid: number(F.col("r"), vid)).alias("components"),
        "prev_vid",
        v("prev_vid").alias("prev"),
    )
    yield "Install", installs
    yield "Marker", of("trans_marker").select("r", *who, "vid", v("vid").alias("v"), "at_pos")
    by_view = tables["send"].groupBy("cluster", "run", "group", "node", "inc", "vid")
    sent = by_view.agg(F.count("*").alias("rows"), F.max("last").alias("last")).withColumn("r", r)
    yield "Sent", sent.withColumn("v", v("vid"))
    to = [
        of(name).where("to is not null").select("r", "to", "to_incs")
        for name in ("submit", "send", "deliver")
    ]
    sets = reduce(DataFrame.unionByName, to).distinct()
    yield "Receivers", sets.withColumn("t", receivers())
    ordered = F.col("service").isin("AGREED", "SAFE")
    nonbasic = F.col("service") != "BASIC"
    uses = (
        tables["deliver"]
        .groupBy(
            "cluster", "run", "group", "node", "inc", "sender", "sender_inc", "vid", "origin_vid"
        )
        .agg(
            F.count("*").alias("rows"),
            F.count(F.when(nonbasic, 1)).alias("others"),
            F.count(F.when(ordered, 1)).alias("ordered"),
            F.count(F.when(nonbasic, F.col("batch"))).alias("batched"),
            F.max(F.when(ordered, F.col("pos"))).alias("highest"),
        )
        .withColumn("r", r)
    )
    yield "Use", uses.withColumns({"v": v("vid"), "o": v("origin_vid")})


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
        found[view["r"]]["names"].append((view["v"], view["vid"]))
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


def tables_of(run: Chronicle) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of the small tables of one run."""
    one = run.journals[0] if run.journals else None
    if one is None:
        return
    yield (
        "runs",
        {
            "cluster": one.cluster,
            "run": one.run,
            "group": one.group,
            "settled": run.settled,
            "mode": run.mode,
            "senders": len(run.members),
            "size": sum(m.delivered for m in run.known),
            "ranks": [(m.label, m.k) for m in run.members],
        },
    )
    yield from _people(run)
    yield from _stays(run)
    for v, vid in run.vids.items():
        yield "vids", {"v": v, "vid": vid}
    yield from _ways(run)
    yield from _views(run)
    yield from _owed(run)
    yield from _sets(run)
    says = Says()
    membership(run, says)
    settling(run, says)
    _counts(run, says)
    for name, times in says.times.items():
        yield "said", {"property": name, "checked": times}
    for found in says.findings:
        yield "said", found


def _people(run: Chronicle) -> Iterator[tuple[str, dict[str, Any]]]:
    named = {name for view in run.views.values() for name in view.inside}
    lives = [(journal.node, journal.inc) for journal in run.journals]
    for m in run.members:
        known = m.journal is not None
        yield (
            "people",
            {
                "k": m.k,
                "node": m.node,
                "inc": m.inc,
                "label": m.label,
                "bank": m.bank,
                "bit": m.bit,
                "journal": m.journal.journal if m.journal else None,
                "torn": m.torn,
                "stopped": m.stop is not None,
                "alive": known and run.alive(m),
                "whole": run.whole(m),
                "settled": run.settled,
                "mode": run.mode,
                "sent_last": m.sent_last,
                "named": m.label in named,
                "twice": lives.count((m.node, m.inc)) > 1,
                "all_spells": [{"v": v, "spell": spell} for v, spell in _spells(m)],
            },
        )
        here = [
            {"lseq": row.lseq, "step": row.step, "here": sorted(run.views[row.v].inside)}
            for row in m.installs
        ]
        if known:
            yield "lived", {"s": m.k, "lived": here}


def _spells(m: Member) -> Iterator[tuple[int, dict[str, int | None]]]:
    ends = [row.lseq for row in m.installs[1:]] + [LAST]
    for row, until in zip(m.installs, ends, strict=False):
        mark = next((at for at in m.marks if row.lseq < at < until), None)
        yield row.v, {"begin": row.lseq, "until": until, "mark": mark}


def _stays(run: Chronicle) -> Iterator[tuple[str, dict[str, Any]]]:
    compared = {(m.k, route.v) for route in run.routes for m in route.members}
    for m in run.known:
        spells: defaultdict[int, list[Any]] = defaultdict(list)
        for v, spell in _spells(m):
            spells[v].append(spell)
        for v in dict.fromkeys([*spells, *m.markers, *m.uses]):
            marker, at = m.markers.get(v), m.next.get(v)
            yield (
                "stays",
                {
                    "k": m.k,
                    "v": v,
                    "spells": spells.get(v, []),
                    "marker_lseq": marker.lseq if marker else None,
                    "marker_pos": marker.at_pos if marker else None,
                    "next": None if at is None else m.installs[at].v,
                    "compared": (m.k, v) in compared,
                },
            )


def _masks(members: Iterable[Member]) -> dict[int, int]:
    masks: defaultdict[int, int] = defaultdict(int)
    for m in members:
        masks[m.bank] |= m.bit
    return masks


def _ways(run: Chronicle) -> Iterator[tuple[str, dict[str, Any]]]:
    """`together`: whole journals that moved on, if there are at least two; `ordered`: whole
    journals with ordered messages in the view."""
    for route in run.routes:
        whole = [m for m in route.members if not m.torn]
        climbers = [m for m in whole if route.v in m.uses and m.uses[route.v].ordered]
        moved = whole if route.w is not None and len(whole) > 1 else []
        along, together, ordered = _masks(route.members), _masks(moved), _masks(climbers)
        where = {"v": route.v, "w": route.w}
        for bank, mask in along.items():
            yield (
                "ways",
                where
                | {"bank": bank, "along": mask}
                | {"together": together.get(bank, 0), "ordered": ordered.get(bank, 0)},
            )
        for m in climbers:
            highest = m.uses[route.v].highest
            yield "climbs", where | {"bank": m.bank, "bit": m.bit, "k": m.k, "highest": highest}


def _views(run: Chronicle) -> Iterator[tuple[str, dict[str, Any]]]:
    """`duty`: who must deliver in a view what is safe in it; `absent`: who is in it without ever
    having installed it, though all that it did is known."""
    installed: defaultdict[int, list[Member]] = defaultdict(list)
    for m in run.known:
        for v in m.installed:
            installed[v].append(m)
    for view in run.views.values():
        inside = [m for m in run.known if m.label in view.inside and not m.torn]
        there = installed[view.v]
        absent = [m for m in inside if m not in there and run.whole(m)]
        duty = [
            m
            for m in inside
            if m in there and (view.v in m.next or (m in run.living and m.end == view.v))
        ]
        masks = [_masks(who) for who in (there, duty, absent)]
        named = sorted(view.inside)
        ranks = [run.by_label[name].k for name in named]
        for bank in _banks(run):
            i, d, a = (mask.get(bank, 0) for mask in masks)
            facts = {"v": view.v, "bank": bank, "inside": named, "ranks": ranks}
            yield "views", facts | {"installed": i, "duty": d, "absent": a}


def _banks(run: Chronicle) -> range:
    return range(1 + max((m.bank for m in run.members), default=0))


def _owed(run: Chronicle) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is owed to the messages of a sender in a view. `closed`: it left the view. In the one
    that a living sender ended in: all that have a whole journal, and those of them that live,
    ended in the view too and can be reached."""
    for s in run.known:
        lasting = s in run.living and s.end is not None
        every, near = _due(run, s) if lasting else ({}, {})
        for home in {*s.next, *([s.end] if lasting else [])}:
            last = lasting and home == s.end
            for bank in _banks(run):
                facts = {"s": s.k, "bank": bank, "home": home}
                facts["closed"] = home in s.next and not s.torn
                facts["all"] = every.get(bank, 0) if last else 0
                yield "owed", facts | {"live": near.get(bank, 0) if last else 0}


def _due(run: Chronicle, s: Member) -> tuple[dict[int, int], dict[int, int]]:
    assert s.end is not None
    view = run.views[s.end]
    inside = [m for m in run.known if m.label in view.inside and not m.torn]
    reach = None if s.reach is None else s.reach.component
    live = [
        m
        for m in inside
        if m in run.living and m.end == s.end and (reach is None or m.node in reach)
    ]
    return _masks(inside), _masks(live)


def _sets(run: Chronicle) -> Iterator[tuple[str, dict[str, Any]]]:
    for found in run.receivers:
        meant = [m for m in run.known if found.means(m)]
        facts = {"t": found.t, "bare": found.to_incs is None, "names": found.names}
        yield "sets", facts | {"ks": [m.k for m in meant], "masks": list(_masks(meant).items())}


def _counts(run: Chronicle, says: Says) -> None:
    """How often is asked what Spark asks of rows and routes."""
    says.asked("no-duplication", sum(m.delivered for m in run.known))
    says.asked("initial-view", sum(m.delivered + m.sent for m in run.known if not m.torn))
    for route in run.routes:
        whole = [m for m in route.members if not m.torn]
        if route.w is not None and len(whole) > 1:
            says.asked("virtual-synchrony", len(whole))
        uses = [m.uses[route.v] for m in route.members if route.v in m.uses]
        says.asked("running-prefix", sum(use.ordered for use in uses))
        says.asked("toto-refinement", sum(use.batched for use in uses))
        if route.w is not None:
            size = sum(use.ordered > 0 for use in uses)
            says.asked("weak-total-order", size * (size - 1) // 2)


# ---------------------------------------------------------------------------- with messages


def coded(frame: DataFrame, small: Small) -> DataFrame:
    """Rows with the run and the rank of the member that wrote them, instead of their names."""
    own = small["people"].where("journal is not null")
    own = own.select("journal", "r", "k", "bank", "bit", "torn", "settled", "all_spells")
    bare = frame.drop("cluster", "run", "group", "node", "inc", "profile", "t_ns")
    return bare.join(F.broadcast(own), "journal")


def spell_of(lseq: Column) -> Column:
    """The spell in `spells` that a row lies in, null if in none."""
    here = F.filter("spells", lambda s: (lseq > s.begin) & (lseq < s.until))
    return F.get(here, F.lit(0))


def elsewhere(lseq: Column) -> Column:
    """The view and spell that a row lies in, whatever it says; null before the first."""
    here = F.filter("all_spells", lambda x: (lseq > x.spell.begin) & (lseq < x.spell.until))
    return F.get(here, F.lit(0))
