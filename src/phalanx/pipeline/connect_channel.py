"""Check that a Spark Connect server answers, and bound the wait for one that is gone.

pyspark repeats a call to a server that does not answer for ten minutes, with nothing on the
terminal. A server of another kind, or one that has died, should cost seconds and one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from pyspark.errors import PySparkException
from pyspark.sql.connect.client.core import DefaultChannelBuilder
from pyspark.sql.connect.client.retries import DefaultPolicy

from phalanx.errors import PipelineError

READY_SECONDS = 20.0
RETRIES, PAUSE_MS_MAX = 10, 8_000
"""A call is repeated for about a minute: a server that has ended does not know the session."""
REMEDY = "check the address, the token, and that a Spark Connect server 4.3 runs there"


def await_server(master: str) -> None:
    """PipelineError if no Connect server answers at the URL."""
    try:
        channel = DefaultChannelBuilder(master).toChannel()
    except PySparkException as error:
        problem = f"not the URL of a Connect server ({_first_line(error)})"
        raise PipelineError(master, problem, "give sc://HOST:PORT") from error
    try:
        grpc.channel_ready_future(channel).result(timeout=READY_SECONDS)
    except grpc.FutureTimeoutError as error:
        problem = f"no Spark Connect server answers within {READY_SECONDS:.0f} s"
        raise PipelineError(master, problem, REMEDY) from error
    finally:
        channel.close()


@contextmanager
def refused(master: str) -> Iterator[None]:
    """PipelineError if the server refuses the session or what is sent to it."""
    try:
        yield
    except (PySparkException, grpc.RpcError) as error:
        problem = f"the server refuses the session ({_first_line(error)})"
        raise PipelineError(master, problem, REMEDY) from error


def bound_retries(spark: Any) -> None:
    """Of all calls of a Connect session."""
    policy = DefaultPolicy(max_retries=RETRIES, max_backoff=PAUSE_MS_MAX)
    spark.client.set_retry_policies([policy])


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
