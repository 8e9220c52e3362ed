"""One Spark for all tests of the pipeline that need one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from phalanx.pipeline.session import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark in this process, on the cores of this machine. Starts sooner, runs long work slower."""
    found = session(quick=True)
    yield found
    found.stop()
