"""Everything that the checks look at, made once: see `lives`, `views`, `messages` and `cells`."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.audit import lives, messages, views
from phalanx.pipeline.audit.cells import cells
from phalanx.pipeline.audit.lives import BANK
from phalanx.pipeline.ranges import first_wins, overlapping
from phalanx.pipeline.tables import Tables


@dataclass(slots=True)
class Prepared:
    """Frames by what they hold, each computed and stored, so that the plans of checks are short."""

    tables: Tables
    runs: DataFrame
    members: DataFrame
    vids: DataFrame
    installs: DataFrame
    views: DataFrame
    moves: DataFrame
    stays: DataFrame
    routes: DataFrame
    living: DataFrame
    """Who lives at the end of a settled run, and the view it is in."""
    sets: DataFrame
    sent: DataFrame
    """Sends as they were written."""
    sends: DataFrame
    """Sends, each message once."""
    submits: DataFrame
    lived: DataFrame
    counted: DataFrame
    """Per run, how many rows there are, and how many of whole journals."""
    resent: DataFrame
    rows: DataFrame
    """Deliveries as they were written."""
    deliveries: DataFrame
    """Deliveries, each message once."""
    repeated: DataFrame
    served: DataFrame
    cells: DataFrame
    banks: int


def prepare(tables: Tables) -> Prepared:
    runs = keep(lives.runs(tables))
    journals = keep(lives.journals_of(tables, runs))
    uses = keep(_uses(tables))
    members = keep(lives.members(journals, _named(tables, journals, uses)))
    installs = keep(views.installs(tables, members))
    moves = keep(views.moves(installs))
    stays = keep(views.stays(tables, members, installs))
    sets = keep(messages.receiver_sets(tables, members))
    sent = keep(messages.sent(tables, members, moves))
    sends, resent = once(sent, ["r", "s"])
    rows = keep(messages.delivered(tables, members, stays))
    top = members.agg(F.max("k")).first()
    banks = 1 + (top[0] or 0) // BANK if top is not None else 1
    found = keep(cells(rows, sends, sets, banks))
    deliveries = rows.withColumns({"row_first": F.col("first"), "row_last": F.col("last")})
    doubled = found.where("twice").select("r", "s").distinct()
    repeated = rows.limit(0)
    if not doubled.isEmpty():
        deliveries, repeated = _once(rows, doubled)
        found = keep(cells(deliveries, sends, sets, banks))
    served = keep(messages.served(deliveries))
    seen = keep(views.views(installs))
    return Prepared(
        tables=tables,
        runs=runs,
        members=members,
        vids=keep(_vids(tables, journals, uses, installs)),
        installs=installs,
        views=seen,
        moves=moves,
        stays=stays,
        routes=keep(views.routes(members, stays, moves, served)),
        living=keep(views.living(members, installs)),
        sets=sets,
        sent=sent,
        sends=sends,
        submits=keep(messages.submitted(tables, members)),
        lived=keep(views.lived(installs, seen)),
        counted=keep(_counted(members, sent, rows)),
        resent=resent,
        rows=rows,
        deliveries=deliveries,
        repeated=repeated,
        served=served,
        cells=found,
        banks=banks,
    )


def keep(frame: DataFrame) -> DataFrame:
    """Computed now, and stored until nobody refers to it. Its plan forgets where it came from:
    Spark analyses the whole plan of every frame that is made, cached or not."""
    return frame.localCheckpoint()


def once(rows: DataFrame, keys: list[str]) -> tuple[DataFrame, DataFrame]:
    """Rows as ranges that share no number, with the bounds of the row in `row_first` and
    `row_last`; and the rows that repeat something."""
    whole = rows.withColumns({"row_first": F.col("first"), "row_last": F.col("last")})
    bad = keep(overlapping(rows, keys))
    if bad.isEmpty():
        return whole, rows.limit(0)
    clean = whole.join(F.broadcast(bad), keys, "left_anti")
    doubtful = rows.join(F.broadcast(bad), keys, "left_semi")
    pieces = keep(first_wins(doubtful, keys, "lseq"))
    kept = pieces.groupBy(*keys, "lseq").agg(F.sum(F.expr("last - first + 1")).alias("kept"))
    lost = doubtful.join(kept, [*keys, "lseq"], "left")
    again = lost.where("coalesce(kept, 0) < last - first + 1").drop("kept")
    return keep(clean.unionByName(pieces.select(*clean.columns))), keep(again)


def _once(rows: DataFrame, doubled: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Deliveries of senders of which somebody delivered something twice, made unique."""
    doubled = F.broadcast(doubled)
    fine = rows.join(doubled, ["r", "s"], "left_anti")
    fine = fine.withColumns({"row_first": F.col("first"), "row_last": F.col("last")})
    pieces, again = once(keep(rows.join(doubled, ["r", "s"], "left_semi")), ["r", "k", "s"])
    return keep(fine.unionByName(pieces.select(*fine.columns))), again


def _counted(members: DataFrame, sent: DataFrame, rows: DataFrame) -> DataFrame:
    whole = F.broadcast(members.select("r", F.col("k").alias("s"), "torn"))
    did = (
        sent.join(whole, ["r", "s"])
        .select("r", "torn", F.lit(0).alias("delivery"))
        .unionByName(rows.select("r", "torn", F.lit(1).alias("delivery")))
    )
    return did.groupBy("r").agg(
        F.sum("delivery").alias("deliveries"),
        F.count(F.when(~F.col("torn"), 1)).alias("whole"),
    )


def _uses(tables: Tables) -> DataFrame:
    """Who delivered from whom, and in which views: all names that deliveries know."""
    return (
        tables["deliver"]
        .groupBy("journal", "sender", "sender_inc", "vid", "origin_vid")
        .agg(F.count("*").alias("rows"))
    )


def _named(tables: Tables, journals: DataFrame, uses: DataFrame) -> DataFrame:
    """Members that rows name: of views, and senders of what was delivered."""
    runs = F.broadcast(journals.select("journal", "r"))
    inside = tables["view_install"].select(
        "journal", F.explode(F.arrays_zip("members", "member_incs")).alias("m")
    )
    senders = uses.select("journal", F.col("sender").alias("node"), F.col("sender_inc").alias("inc"))
    inside = inside.select(
        "journal", F.col("m.members").alias("node"), F.col("m.member_incs").alias("inc")
    )
    named = inside.distinct().unionByName(senders.distinct())
    return named.join(runs, "journal").select("r", "node", "inc")


def _vids(
    tables: Tables, journals: DataFrame, uses: DataFrame, installs: DataFrame
) -> DataFrame:
    """The names of views, by number."""
    texts = (
        tables["view_install"]
        .select("journal", F.explode(F.concat(F.array("vid", "prev_vid"), "components")).alias("vid"))
        .unionByName(tables["send"].select("journal", "vid").distinct())
        .unionByName(tables["trans_marker"].select("journal", "vid"))
        .unionByName(uses.select("journal", F.explode(F.array("vid", "origin_vid")).alias("vid")))
        .where("vid is not null")
        .join(F.broadcast(journals.select("journal", "r")), "journal")
        .select("r", "vid")
        .distinct()
    )
    return texts.select("r", lives.view(F.col("r"), F.col("vid")).alias("v"), "vid")
