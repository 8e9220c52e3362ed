"""What Spark at some URL makes of journals: run as a program, prints one JSON object.

python -m tests.pipeline.census URL JOURNALS LAKE
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from phalanx.pipeline import ingest as ingesting
from phalanx.pipeline.campaign.code_version import code_version
from phalanx.pipeline.campaign.scheduler import play_wave
from phalanx.pipeline.campaign.seed_task import Campaign
from phalanx.pipeline.open_tables import open_tables
from phalanx.pipeline.session import session

SEEDS = Campaign("fixed", 2, 2)


def main(url: str, journals: str, lake: str) -> None:
    ingesting.SMALL_BYTES = 0  # so that workers do it
    ingesting.TASK_BYTES = 1 << 12
    spark = session(url, quick=True)
    try:
        with open_tables(spark, [journals], lake=Path(lake)) as tables:
            views = [row.view for row in tables["view_installed"].select("view").collect()]
            latest = tables["deliver"].selectExpr("sum(last - first + 1) as n").collect()
        raw = spark.read.format("phalanx").option("table", "deliver").load(journals)
        found = raw.where("member = 'a'").count()
        told = {"views": sorted(views), "delivered": latest[0].n, "raw": found}
        wave = play_wave(spark, SEEDS, code_version(), 0, 4, 2).to_pylist()
        told |= {"seeds": sorted([row["seed"], row["digest"]] for row in wave)}
        print(json.dumps(told))
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
