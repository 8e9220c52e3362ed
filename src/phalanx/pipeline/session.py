"""The Spark session: on this machine, on a cluster, or through Spark Connect.

`session()` alone is Spark on the cores of this machine, with nothing to configure. A master URL
(`spark://host:7077`) is a cluster, `sc://host:15002` a Connect server. The caller stops it.

The output of Spark and Java goes to a log of the session and not to the terminal;
PHALANX_SPARK_LOG names a file to keep it in. PHALANX_SPARK_MEMORY is the heap (`4g`). This package
is sent to workers on other machines; its dependencies (msgspec, pyarrow) must be installed there.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from phalanx.errors import PipelineError
from phalanx.pipeline import class_archive as archive
from phalanx.pipeline.master_url import is_near, reach
from phalanx.pipeline.package_zip import ship

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

LOCAL = "local[*,4]"
"""All cores; a task may fail three times, as on a cluster."""
PYSPARK = "pip install 'phalanx[spark]'"
CONNECT = "pip install 'phalanx[spark-connect]'"
JAVA = "install a Java runtime, on Debian: apt-get install openjdk-17-jre-headless"
MEMORY = "PHALANX_SPARK_MEMORY"
LOG = "PHALANX_SPARK_LOG"
MEMORY_MAX = 4 << 30
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Up to so many files are looked up here, and not by a job of their own.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "2000",
}
"""What may be set at any time, also through Connect."""
PLANNING = {
    "spark.sql.codegen.wholeStage": ("true", "false"),
    "spark.sql.codegen.factoryMode": ("FALLBACK", "NO_CODEGEN"),
    "spark.sql.constraintPropagation.enabled": ("true", "false"),
}
"""Whether queries become Java programs and filters are deduced from others, which pays off with
many rows; or quickly."""
STATIC = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.catalogImplementation": "in-memory",
    # Every table that is sent to the tasks takes a page at least, and an audit sends dozens.
    "spark.buffer.pageSize": "2m",
    # Where in our code each column was made: three more calls for every call.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
NEAR = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def session(
    master: str | None = None,
    name: str = "phalanx",
    quick: bool = False,
    memory: str | None = None,
) -> SparkSession:
    """A Spark session; the one that is running, if there is one. `quick`: starts sooner and runs
    long work slower. PipelineError without pyspark, without Java, or where nobody answers."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise PipelineError("pyspark", "the pipeline needs pyspark", PYSPARK) from error
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    master = master or LOCAL
    reach(master)
    if master.startswith("sc://"):
        return _connected(master, quick)
    _need_java()
    _start(_conf(master, name, quick, memory))
    made = _configured(SparkSession.builder, SETTINGS)
    if not master.startswith("local["):
        ship(made)
    from phalanx.pipeline.source import register  # it needs pyspark to be imported

    register(made)
    return made


def _connected(master: str, quick: bool) -> SparkSession:
    """A session of a Connect server. PipelineError if there is none, or if it refuses."""
    from pyspark.sql import SparkSession

    _need_connect(master)
    from phalanx.pipeline.connect_channel import await_server, bound_retries, refused
    from phalanx.pipeline.source import register

    await_server(master)
    with refused(master):
        made = _configured(SparkSession.builder.remote(master), SETTINGS | _planning(quick))
        bound_retries(made)
        ship(made)
        register(made)
    return made


def _configured(builder: Any, settings: Mapping[str, str]) -> SparkSession:
    for key, value in settings.items():
        builder = builder.config(key, value)
    made: SparkSession = builder.getOrCreate()
    return made


def _planning(quick: bool) -> dict[str, str]:
    return {key: choice[quick] for key, choice in PLANNING.items()}


def _conf(master: str, name: str, quick: bool, memory: str | None) -> SparkConf:
    from pyspark import SparkConf

    conf = SparkConf().setMaster(master).setAppName(name)
    given = memory or os.environ.get(MEMORY)
    settings = STATIC | _planning(quick)
    if is_near(master):
        settings |= NEAR
    if master.startswith("local"):
        settings["spark.sql.shuffle.partitions"] = "1" if quick else str(2 * (os.cpu_count() or 2))
    else:
        if given is not None:
            settings["spark.executor.memory"] = given
        if quick:
            settings["spark.executor.extraJavaOptions"] = " ".join(QUICK)
            settings["spark.sql.shuffle.partitions"] = "2"
    settings["spark.driver.memory"] = given or f"{_memory() >> 20}m"
    quiet = Path(__file__).with_name("log4j2.properties").as_uri()
    options = [f"-Dlog4j2.configurationFile={quiet}", *(QUICK if quick else ()), *archive.options()]
    quoted = [f'"{option}"' if " " in option else option for option in options]
    settings["spark.driver.extraJavaOptions"] = " ".join(quoted)
    for key, value in settings.items():
        conf.set(key, value)
    return conf


def _start(conf: SparkConf) -> None:
    """Starts Spark, if it is not running, and Java, if that is not: with what both print in a file
    of their own."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    if SparkContext._active_spark_context is not None:
        return
    with _log() as log:
        try:
            gateway = SparkContext._gateway
            if gateway is None:
                streams = {"stdout": log, "stderr": log}
                gateway = launch_gateway(conf, streams)  # type: ignore[no-untyped-call]
            SparkContext(conf=conf, gateway=gateway)
        except (Py4JError, PySparkException, OSError, RuntimeError) as error:
            problem = f"Spark does not start ({_reason(error, log)})"
            raise PipelineError(conf.get("spark.master") or "", problem, _REMEDY) from error


_REMEDY = f"check the URL, the version of Java (17 or later) and {MEMORY}"


def _log() -> IO[bytes]:
    """Where Java prints to; without a name it is gone with the last process that has it open."""
    name = os.environ.get(LOG)
    try:
        return Path(name).open("ab+") if name else tempfile.TemporaryFile()
    except OSError as error:
        problem = f"cannot be written ({error.strerror or error})"
        raise PipelineError(name or tempfile.gettempdir(), problem, f"set {LOG}") from error


def _reason(error: Exception, log: IO[bytes]) -> str:
    """The line that says most."""
    cause: Any = getattr(error, "java_exception", None)
    if cause is not None:
        return str(cause).splitlines()[0]
    log.seek(0)
    said = log.read().decode(errors="replace").splitlines()
    found = [line.strip() for line in said if "rror" in line or "xception" in line]
    return (found or [str(error)])[0]


def _memory() -> int:
    """Half of what the machine has, and no more than audits of any size need."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return MEMORY_MAX
    return max(1 << 30, min(MEMORY_MAX, total // 2))


def _need_connect(master: str) -> None:
    try:
        from pyspark.sql.connect import session as session
    except ImportError as error:
        problem = f"Spark Connect needs more than pyspark ({str(error).splitlines()[0]})"
        raise PipelineError(master, problem, CONNECT) from error


def _need_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if home:
        if not (Path(home) / "bin" / "java").exists():
            raise PipelineError("JAVA_HOME", f"there is no Java in {home}", JAVA)
    elif shutil.which("java") is None:
        raise PipelineError("java", "Spark needs Java and there is none", JAVA)
