"""Whatever holds journals becomes the same tables."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from tests.journal.folder import keep
from tests.sim.tale import odyssey

from phalanx.journal.events import TABLES
from phalanx.journal.reader import read_all
from phalanx.pipeline.opening import open_tables


def test_a_folder_of_journals_opens_with_every_row(spark: SparkSession, tmp_path: Path) -> None:
    keep(tmp_path, odyssey().rows)
    written = read_all([tmp_path]).rows
    with open_tables(spark, [tmp_path]) as tables:
        assert sum(tables[name].count() for name in TABLES) == len(written)
        assert tables["journals"].count() == 5
