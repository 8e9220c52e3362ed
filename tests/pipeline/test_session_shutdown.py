"""How commands end that Spark did not let end well: one line, and the right exit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from phalanx.errors import PipelineError
from phalanx.pipeline.session_shutdown import stopped
from phalanx.pipeline.spark_errors import explained

DAMAGED = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file {}.  SQLSTATE: KD001"


class Session:
    stops = 0

    def stop(self) -> None:
        self.stops += 1


def test_what_spark_makes_of_an_interrupt_is_one_again() -> None:
    session: Any = Session()

    def cancelled() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise Py4JError("cancelled")

    def told() -> None:
        try:
            cancelled()
        except Py4JError as error:
            raise PipelineError("seeds 0:9", "workers could not play them", "again") from error

    with pytest.raises(KeyboardInterrupt), stopped(session):
        told()
    assert session.stops == 1


def test_another_error_stays_what_it_is() -> None:
    session: Any = Session()
    with pytest.raises(ZeroDivisionError), stopped(session):
        raise ZeroDivisionError
    assert session.stops == 1


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///lake/bronze/deliver/a-0.parquet", "/lake/bronze/deliver/a-0.parquet"),
        ("file:///a%20b/%5Bx%5D/c.parquet", "/a b/[x]/c.parquet"),
        ("hdfs://head:9000/lake/c.parquet", "hdfs://head:9000/lake/c.parquet"),
    ],
)
def test_a_file_that_spark_cannot_read_is_named(url: str, path: str) -> None:
    found = pytest.raises(PipelineError, match="cannot be read as Parquet; restore it")
    with found as caught, explained():
        raise PySparkException(DAMAGED.format(url))
    assert str(caught.value).startswith(f"{path}: ")


def test_what_is_not_about_a_file_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="out of luck"), explained():
        raise PySparkException(f"out of luck in {tmp_path}")
