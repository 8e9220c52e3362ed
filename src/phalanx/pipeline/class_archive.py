"""An archive of Java classes that halves the start-up time of Spark.

    python -m phalanx.pipeline.class_archive

creates it, once for each version of Java and pyspark: it starts Spark, runs a few small jobs, and
Java writes the classes that it loaded to the archive. Sessions use the archive if it exists. Java
ignores an archive that does not fit.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from phalanx.errors import PipelineError

MAKING = "PHALANX_SPARK_ARCHIVING"
SECONDS_MAX = 300.0


def options() -> list[str]:
    """Options for Java: use the archive, or make it."""
    if making := os.environ.get(MAKING):
        return [f"-XX:ArchiveClassesAtExit={making}"]
    path = place()
    return [f"-XX:SharedArchiveFile={path}"] if path is not None and path.is_file() else []


def place() -> Path | None:
    """Where the archive for this Java and this pyspark lies; None without either."""
    java = _java()
    spec = find_spec("pyspark")
    if java is None or spec is None or spec.origin is None:
        return None
    try:
        spark = version("pyspark")
    except PackageNotFoundError:
        return None
    key = blake2b(f"{java}\0{java.stat().st_mtime_ns}\0{spec.origin}".encode(), digest_size=6)
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(cache) / "phalanx" / f"spark-{spark}-{key.hexdigest()}.jsa"


def make() -> Path:
    """Makes it, or returns the one there is. PipelineError if Java makes none."""
    path = place()
    if path is None:
        raise PipelineError("java", "there is no Java, or no pyspark", "install both first")
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        fresh = Path(folder) / path.name
        environment = os.environ | {MAKING: str(fresh)}
        command = [sys.executable, "-m", "phalanx.pipeline.class_archive", "--rehearse"]
        subprocess.run(command, env=environment, check=False, timeout=SECONDS_MAX)
        size = -1
        end = time.monotonic() + 60.0
        # Java writes it when the session has gone: it is complete when it grows no more.
        while time.monotonic() < end and not (fresh.is_file() and fresh.stat().st_size == size):
            size = fresh.stat().st_size if fresh.is_file() else -1
            time.sleep(2.0)
        if not fresh.is_file():
            raise PipelineError(str(path), "Java made no archive", "Spark starts without it too")
        fresh.rename(path)
    return path


def rehearse() -> None:
    """A little of everything that the pipeline does."""
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    from phalanx.pipeline.session import session

    spark = session(quick=True)
    try:
        with tempfile.TemporaryDirectory() as folder:
            numbers = spark.range(0, 1000, 1, 2).withColumn("k", F.col("id") % 7)
            numbers.mapInArrow(lambda batches: batches, "id long, k long").write.parquet(
                f"{folder}/t"
            )
            read = spark.read.parquet(f"{folder}/t")
            window = Window.partitionBy("k").orderBy("id")
            ranked = read.withColumn("high", F.max("id").over(window))
            joined = ranked.join(F.broadcast(read.select("id")), "id").join(read.distinct(), "id")
            made = joined.groupBy(ranked["k"]).agg(F.count("*"), F.collect_list("high"))
            made.orderBy("k").toPandas()
            spark.createDataFrame([(1, ["a"])], "n long, names array<string>").collect()
    finally:
        spark.stop()


def _java() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    path = Path(found).resolve() if found else None
    return path if path is not None and path.is_file() else None


if __name__ == "__main__":
    if "--rehearse" in sys.argv:
        rehearse()
    else:
        print(make())
