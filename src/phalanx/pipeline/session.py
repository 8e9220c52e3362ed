"""Where the work runs: in this process, on a cluster, or behind Spark Connect.

`session()` alone is Spark on the cores of this machine, with nothing to configure. A master URL
(`spark://host:7077`) is a cluster, `sc://host:15002` a Connect server. The caller stops it.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from phalanx.errors import PipelineError

LOCAL = "local[*,4]"
"""All cores; a task may fail three times, as on a cluster."""
PYSPARK = "pip install 'phalanx[spark]'"
JAVA = "install a Java runtime, on Debian: apt-get install openjdk-17-jre-headless"

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""What may be set at any time, also through Connect."""
STATIC = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",
}


def session(master: str | None = None, name: str = "phalanx", quick: bool = False):  # type: ignore[no-untyped-def]
    """A Spark session. `quick`: starts sooner and runs long work slower. PipelineError without
    pyspark, without Java, or where nobody answers."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise PipelineError("pyspark", "the pipeline needs pyspark", PYSPARK) from error
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master is not None and master.startswith("sc://"):
        built = SparkSession.builder.remote(master)
    else:
        _need_java()
        built = SparkSession.builder.master(master or LOCAL).appName(name)
        for key, value in STATIC.items():
            built = built.config(key, value)
        cores = os.cpu_count() or 2
        built = built.config("spark.sql.shuffle.partitions", str(2 * cores))
        if quick:
            options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
            built = built.config("spark.driver.extraJavaOptions", options)
    for key, value in SETTINGS.items():
        built = built.config(key, value)
    return built.getOrCreate()


def _need_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if home is not None and (Path(home) / "bin" / "java").exists():
        return
    if shutil.which("java") is None:
        raise PipelineError("java", "Spark needs Java and there is none", JAVA)
