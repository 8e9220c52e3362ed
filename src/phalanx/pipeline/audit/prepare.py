"""Everything that the checks look at, made once: see `lives`, `views`, `messages` and `cells`."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.audit import lives, messages, views
from phalanx.pipeline.audit.cells import cells
from phalanx.pipeline.audit.lives import BANK
from phalanx.pipeline.tables import Tables

HERE = StorageLevel.MEMORY_AND_DISK


@dataclass(slots=True)
class Prepared:
    """Frames by what they hold. `kept` are those that are stored until `forget`."""

    tables: Tables
    runs: DataFrame
    members: DataFrame
    vids: DataFrame
    installs: DataFrame
    views: DataFrame
    moves: DataFrame
    stays: DataFrame
    routes: DataFrame
    sets: DataFrame
    sends: DataFrame
    resent: DataFrame
    rows: DataFrame
    """Deliveries as they were written."""
    deliveries: DataFrame
    """Deliveries, each message once."""
    repeated: DataFrame
    served: DataFrame
    cells: DataFrame
    banks: int
    kept: list[DataFrame]

    def forget(self) -> None:
        for frame in self.kept:
            frame.unpersist()


def prepare(tables: Tables) -> Prepared:
    kept: list[DataFrame] = []

    def keep(frame: DataFrame) -> DataFrame:
        kept.append(frame.persist(HERE))
        return kept[-1]

    runs = keep(lives.runs(tables))
    journals = keep(lives.journals_of(tables, runs))
    uses = keep(_uses(tables))
    members = keep(lives.members(journals, _named(tables, journals, uses)))
    installs = keep(views.installs(tables, members))
    moves = keep(views.moves(installs))
    stays = keep(views.stays(tables, members, installs))
    sets = keep(messages.receiver_sets(tables, members))
    sends, resent = messages.sends(tables, members, moves)
    sends = keep(sends)
    rows = keep(messages.delivered(tables, members))
    top = members.agg(F.max("k")).first()
    banks = 1 + (top[0] or 0) // BANK if top is not None else 1
    found = keep(cells(rows, sends, banks))
    deliveries = rows.withColumns({"row_first": F.col("first"), "row_last": F.col("last")})
    doubled = found.where("twice").select("r", "s").distinct()
    repeated = rows.limit(0).withColumn("earlier", F.lit(None).cast("long"))
    if not doubled.isEmpty():
        deliveries, repeated = _once(rows, doubled)
        deliveries, repeated = keep(deliveries), keep(repeated)
        found = keep(cells(deliveries, sends, banks))
    served = keep(messages.served(deliveries))
    return Prepared(
        tables=tables,
        runs=runs,
        members=members,
        vids=keep(_vids(tables, journals, uses, installs)),
        installs=installs,
        views=keep(views.views(installs)),
        moves=moves,
        stays=stays,
        routes=keep(views.routes(members, stays, moves, served)),
        sets=sets,
        sends=sends,
        resent=resent,
        rows=rows,
        deliveries=deliveries,
        repeated=repeated,
        served=served,
        cells=found,
        banks=banks,
        kept=kept,
    )


def _once(rows: DataFrame, doubled: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Deliveries of senders of which somebody delivered something twice, made unique."""
    keys = ["r", "k", "s"]
    doubled = F.broadcast(doubled)
    fine = rows.join(doubled, ["r", "s"], "left_anti")
    fine = fine.withColumns({"row_first": F.col("first"), "row_last": F.col("last")})
    pieces, again = messages.once(rows.join(doubled, ["r", "s"], "left_semi"), keys)
    return fine.unionByName(pieces.select(*fine.columns)), again


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
