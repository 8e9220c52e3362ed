"""Spark for the tests of the pipeline: in this process, and as real daemons beside it.

Each starts when the first test asks for it, once. A process has either a session of its own or one
through Connect: tests of `cluster` and `connect` start other processes and give them the URL.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.daemons import Standalone, connect_server, standalone

from phalanx.pipeline.session import session

DAEMONS = {"machines", "cluster", "connect"}
JUDGED = {"good", "bad", "judged", "runs", "traces"}
"""What one process plays and audits once for many tests (`audit/conftest.py`)."""


@pytest.hookimpl(tryfirst=True)  # xdist reads the marks in the same hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What needs Spark is marked so. With `--dist loadgroup` the tests of a group are run by one
    process: those that need daemons, those that need Spark in their process, which starts it once,
    and those that share an audit."""
    spread = hasattr(config, "workerinput")  # only in a process that xdist started
    for item in items:
        asked = set(getattr(item, "fixturenames", ()))
        given = getattr(item, "callspec", None)
        asked |= {given.params["place"]} if given and "place" in given.params else set()
        group = "daemons" if asked & DAEMONS else "spark" if "spark" in asked else None
        if group is not None:
            item.add_marker(pytest.mark.spark)
        elif asked & JUDGED and item.path.parent.name == "audit":
            group = "audit"
        if spread and group is not None:
            item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark in this process, on the cores of this machine. Starts sooner, runs long work slower."""
    found = session(quick=True, memory="2g")
    yield found
    found.stop()


@pytest.fixture(scope="session")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A real standalone cluster: a master and two workers. Who kills a worker replaces it."""
    with standalone(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="session")
def cluster(machines: Standalone) -> str:
    """The URL of that cluster."""
    return machines.url


@pytest.fixture(scope="session")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a real Connect server."""
    with connect_server(tmp_path_factory.mktemp("connect")) as (url, _):
        yield url
