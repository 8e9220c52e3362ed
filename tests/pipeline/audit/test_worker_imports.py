"""What a worker imports while it runs kernels: neither Spark nor pandas, although pandas is there
and pyarrow would import it for most conversions."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.pipeline.audit.situations import kept
from tests.pipeline.audit.test_plan_audit import written

from phalanx.journal.arrow_schema import arrow
from phalanx.pipeline.audit.part_reader import GroupFiles
from phalanx.pipeline.audit.plan_audit import _files, _here
from phalanx.pipeline.group_plan import by_group, plan_groups
from phalanx.pipeline.ingest import ingest

LOADED = "print([name for name in ('pyspark', 'pandas') if name in sys.modules])"
WHOLE = f"""
import sys
from pathlib import Path
import pyarrow as pa
from phalanx.pipeline.audit.judge import judge_group
from phalanx.pipeline.engine import kernel_worker

batches = list(pa.ipc.open_stream(Path(sys.argv[1]).read_bytes()))
(found,) = kernel_worker([Path(sys.argv[2]).read_bytes()], judge_group)(iter(batches))
assert found.column(3)[0].as_py() is None, found
{LOADED}
"""
IN_PARTS = f"""
import sys
from pathlib import Path
import pyarrow as pa
from phalanx.pipeline.audit.judge import judge_large_group
from phalanx.pipeline.audit.large_group import run_large_task
from phalanx.pipeline.audit.part_reader import GroupFiles
from phalanx.pipeline.engine import encoded_worker
from phalanx.pipeline.without_pandas import without_pandas
import msgspec

without_pandas()

def run_tasks(shared, tasks):
    rows = pa.record_batch([range(len(tasks)), list(tasks)], names=["task", "plan"])
    for batch in encoded_worker(run_large_task, shared)(iter([rows])):
        assert batch.column(3)[0].as_py() is None, batch
        yield batch.column(2)[0].as_py()

group = msgspec.msgpack.decode(Path(sys.argv[1]).read_bytes(), type=GroupFiles)
run = judge_large_group(group, run_tasks, part_rows=20)
assert not run.violated
{LOADED}
"""


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("worker") / "journals"
    return written([run for run in kept() if run.name == "calm"], folder)


def worker(code: str, *arguments: Path) -> str:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_pandas_is_there_to_be_imported() -> None:
    assert importlib.util.find_spec("pandas")
    code = f"import sys, pyarrow; pyarrow.array([1]); {LOADED}"
    assert worker(code) == "['pandas']\n", "pyarrow does not: this module has no purpose"


@pytest.mark.parametrize("place", ["raw", "lake"])
def test_a_worker_that_judges_whole_groups_imports_little(
    journals: Path, place: str, tmp_path: Path
) -> None:
    if place == "lake":
        ingest([journals], tmp_path / "lake")
    pa = arrow()
    rows, task = tmp_path / "rows", tmp_path / "task"
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([pa.array([0])], names=["id"])
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    rows.write_bytes(sink.getvalue())
    plan = plan_groups([journals if place == "raw" else tmp_path / "lake"])
    task.write_bytes(msgspec.msgpack.encode(plan))
    assert worker(WHOLE, rows, task) == "[]\n"


def test_a_worker_that_judges_parts_imports_little(journals: Path, tmp_path: Path) -> None:
    ((key, task),) = by_group(plan_groups([journals])).items()
    with _files(key, task, _here) as group:
        assert isinstance(group, GroupFiles)
        (tmp_path / "group").write_bytes(msgspec.msgpack.encode(group))
        assert worker(IN_PARTS, tmp_path / "group") == "[]\n"
