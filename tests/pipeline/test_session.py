"""Where the work runs: what is missing or wrong is one line, before anything waits."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import cast

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from phalanx.errors import PipelineError
from phalanx.pipeline import class_archive as archive
from phalanx.pipeline import connect_channel, session
from phalanx.pipeline import session_shutdown as ending
from phalanx.pipeline.master_url import is_near, reach
from phalanx.pipeline.package_zip import PACKAGE, packed


def test_without_java_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PipelineError, match=r"java: .*apt-get install openjdk-17-jre-headless"):
        session.session()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PipelineError, match=f"JAVA_HOME: there is no Java in {tmp_path}"):
        session.session()


def test_without_pyspark_the_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from phalanx.pipeline.session import session\n"
        "session()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert "pyspark: the pipeline needs pyspark; pip install 'phalanx[spark]'" in done.stderr


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("spark://", "'' is not HOST:PORT"),
        ("sc://host:many", "'host:many' is not HOST:PORT"),
        ("sc://host:²", "'host:²' is not HOST:PORT"),
        ("sc://..:1", "nobody answers"),
        (f"sc://{'a' * 70}:1", "nobody answers"),
        ("laptop", "not the URL of a master; give local"),
    ],
)
def test_a_url_that_cannot_be_is_named(url: str, problem: str) -> None:
    with pytest.raises(PipelineError, match=problem):
        reach(url)


@pytest.mark.parametrize("kind", ["sc", "spark"])
def test_where_nobody_answers_it_is_said_at_once(kind: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"{kind}://127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(PipelineError, match=f"{url}: nobody answers"):
        session.session(url)


def test_an_address_in_brackets_is_one() -> None:
    assert is_near("sc://[::1]")
    assert is_near("spark://[::1]:7077")


def test_connect_without_what_it_needs_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect", None)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(PipelineError, match=r"pip install 'phalanx\[spark-connect\]'"),
    ):
        session.session(f"sc://127.0.0.1:{server.getsockname()[1]}")


def test_a_server_of_another_kind_is_no_connect_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes connections and says nothing; pyspark would try for ten minutes."""
    monkeypatch.setattr(connect_channel, "READY_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"sc://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(PipelineError, match=r"no Spark Connect server answers within"):
            session.session(url)
    with pytest.raises(PipelineError, match="not the URL of a Connect server"):
        connect_channel.await_server("sc://host/;use_ssl")


def test_one_of_several_masters_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as master:
        reach(f"spark://127.0.0.1:1,127.0.0.1:{master.getsockname()[1]}")


def test_only_what_runs_here_is_near() -> None:
    assert is_near("local[*,4]")
    assert is_near("spark://127.0.0.1:7077")
    assert not is_near("spark://127.0.0.1:7077,far.example:7077")


def test_the_heap_is_what_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def heap(memory: str | None = None) -> str | None:
        return session._conf("local[1]", "test", False, memory).get("spark.driver.memory")

    monkeypatch.delenv(session.MEMORY, raising=False)
    plain = heap()
    assert plain is not None
    assert 1024 <= int(plain.removesuffix("m")) <= 4096
    monkeypatch.setenv(session.MEMORY, "2g")
    assert heap() == "2g"
    assert heap("3g") == "3g"


def test_the_package_that_is_sent_holds_every_module_and_is_named_by_its_content(
    tmp_path: Path,
) -> None:
    path = packed(tmp_path)
    with zipfile.ZipFile(path) as sent:
        names = sent.namelist()
    assert "phalanx/pipeline/ingest_task.py" in names
    assert len(names) == len(list(PACKAGE.rglob("*.py")))
    again = tmp_path / "again"
    again.mkdir()
    assert packed(again).name == path.name
    assert packed(again).read_bytes() == path.read_bytes()


def test_an_archive_is_made_by_the_first_session_and_used_by_later_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(archive.OFF, "off")
    assert archive.options() == []
    monkeypatch.delenv(archive.OFF)
    (made,) = archive.options()
    name, _, fresh = made.partition("=")
    assert name == "-XX:ArchiveClassesAtExit"
    assert archive.use_options() == []
    Path(fresh).write_bytes(b"\0" * 4096)  # Java writes the head last
    assert archive.options() == [], "one is enough"
    Path(fresh).write_bytes(archive.MAGIC + b"\0" * 4092)
    path = archive.place()
    assert path is not None
    assert archive.options() == archive.use_options() == [f"-XX:SharedArchiveFile={path}"]
    assert archive.make() == path
    assert list(path.parent.iterdir()) == [path]


def test_an_archive_that_nobody_completes_is_deleted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(archive.OFF, raising=False)
    (made,) = archive.options()
    fresh = Path(made.partition("=")[2])
    fresh.write_bytes(b"\0")
    os.utime(fresh, (1.0, 1.0))
    assert archive.options() == [made]
    assert not fresh.exists()


def test_a_session_is_set_up_with_nothing_to_configure(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    assert spark.sparkContext.master == session.LOCAL
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert session.session() is spark


def test_who_asks_for_a_session_later_does_not_change_it(spark: SparkSession) -> None:
    quickly = {key: quick for key, (_, quick) in session.PLANNING.items()}
    assert session.session() is spark
    assert {key: spark.conf.get(key) for key in quickly} == quickly


class Java:
    """A session whose Java ends when the test says so."""

    def __init__(self) -> None:
        self.proc = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def end(self) -> None:
        self.proc.communicate()

    def stop(self) -> None:
        if self.proc.poll() is not None:
            raise ConnectionRefusedError
        self.end()


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch) -> Java:
    made = Java()
    monkeypatch.setattr(SparkContext, "_gateway", made)
    return made


def test_java_that_ends_at_work_is_one_line(java: Java) -> None:
    def work() -> None:
        with ending.stopped(cast(SparkSession, java)):
            java.end()
            raise ConnectionResetError

    with pytest.raises(PipelineError, match="java: Spark ended while it was at work"):
        work()


def test_what_went_wrong_while_java_lives_is_told_as_it_is(java: Java) -> None:
    with pytest.raises(ValueError, match="mine"), ending.stopped(cast(SparkSession, java)):
        raise ValueError("mine")
    assert java.proc.poll() is not None, "the session was stopped"
