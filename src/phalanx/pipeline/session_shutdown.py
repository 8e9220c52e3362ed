"""Stop the Spark session a command started, tolerating a JVM that has already died."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from phalanx.errors import PipelineError
from phalanx.pipeline.session import LOG, MEMORY, session

SECONDS_MAX = 5.0
"""So long a process may take to end whose connections are closed."""


@contextmanager
def one_session(master: str | None, *, quick: bool) -> Iterator[SparkSession]:
    """A Spark session that is stopped in the end; or the one that this process has, which stays."""
    mine = SparkSession.getActiveSession() is None
    spark = session(master, quick=quick)
    with stopped(spark) if mine else nullcontext():
        yield spark


@contextmanager
def stopped(spark: SparkSession) -> Iterator[SparkSession]:
    """Stops the session in the end. PipelineError if Java ended while it was needed. What Spark
    makes of an interrupt is one again."""
    _hush()
    try:
        yield spark
    except Exception as error:
        if _is_interrupt(error):
            raise KeyboardInterrupt from error
        if _is_gone(error):
            problem = "Spark ended while it was at work (killed, or out of memory)"
            remedy = f"run it again, with more {MEMORY} if it was that; {LOG}=FILE keeps its words"
            raise PipelineError("java", problem, remedy) from error
        raise
    finally:
        with suppress(Exception):  # of what is gone nothing can be stopped
            spark.stop()


def _is_interrupt(error: BaseException | None) -> bool:
    """It was raised while another error was handled, and that one began with an interrupt."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def _is_gone(error: Exception) -> bool:
    """Java ran beside this process and does no more."""
    java: Any = getattr(SparkContext._gateway, "proc", None)
    if java is None:
        return False
    if isinstance(error, OSError | EOFError | Py4JError):
        with suppress(subprocess.TimeoutExpired):
            java.wait(SECONDS_MAX)
    return java.poll() is not None


def _hush() -> None:
    """What libraries would print of it: one line is enough."""
    logging.getLogger().addHandler(logging.NullHandler())
    server: Any = getattr(SparkContext, "_active_spark_context", None)
    server = getattr(server, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None
