"""Records through kills and full disks, with real processes.

The writer prints the number of a write when it has returned. Whatever happens then, the database
has that write or a later one, whole.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from phalanx.mserver.durable_rows import DurableRows
from phalanx.mserver.record_store import SqliteRecords
from phalanx.service.effects import SetRecord

WRITER = """
import resource, sys
from pathlib import Path
from phalanx.errors import StateError
from phalanx.mserver.record_store import SqliteRecords
limit = int(sys.argv[2])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    store = SqliteRecords(Path(sys.argv[1]), {"name": "m1"})
    number = int(store.load().get("first", b"0"))
    while True:
        number += 1
        body = b"%d" % number
        store.write({"first": body, "filler": body * 2000, "last": body})
        print(number, flush=True)
except StateError as error:
    print(error, file=sys.stderr)
    sys.exit(2)
"""

SET_WRITER = """
import resource, sys
from pathlib import Path
from phalanx.core.ids import MemberId
from phalanx.errors import StateError
from phalanx.mserver import set_rows
from phalanx.mserver.durable_rows import DurableRows
from phalanx.mserver.record_store import SqliteRecords
from phalanx.service.commit_chain import CommitChain
from phalanx.service.effects import SetRecord
from phalanx.service.entries import ChangeId, FreeName, RegisterName
from phalanx.service.messages import Commit
from phalanx.service.set_state import founded, vid_after
set_rows.LOG_BYTES_MIN = 2000
limit = int(sys.argv[2])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
me = MemberId("m1", 1)
try:
    store = SqliteRecords(Path(sys.argv[1]), {"name": "m1"})
    rows = DurableRows(store.load())
    if rows.records:
        record = rows.records[0]
        chain = CommitChain(record.state, record.stable, record.commits)
    else:
        first = founded("s", (me,), me)
        chain = CommitChain(first, first)
        store.write(rows.rows(SetRecord(first, first, ())))
    while True:
        number = chain.vid.number
        entries = (RegisterName(f"n{number + 1}", "u" * 200), FreeName(f"n{number}"))
        id_ = ChangeId(me, number)
        vid = vid_after((chain.vid,), id_, entries, (me,))
        chain = chain.followed_by(Commit("s", (chain.vid,), id_, entries, (me,), vid))
        chain = CommitChain(chain.state, chain.state, chain.commits)
        store.write(rows.rows(SetRecord(chain.state, chain.stable, chain.commits)))
        print(chain.vid.number, flush=True)
except StateError as error:
    print(error, file=sys.stderr)
    sys.exit(2)
"""
"""Writes the record of a set as a base and commits, with a new base every few commits."""


def start(path: Path, limit: int = 0, program: str = WRITER) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, str(path), str(limit)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def check(path: Path, acknowledged: int) -> int:
    """The number that the database has, which is whole and not before the acknowledged one."""
    store = SqliteRecords(path, {"name": "m1"})
    records = store.load()
    store.close()
    number = int(records.get("first", b"0"))
    assert acknowledged <= number <= acknowledged + 1
    if number:
        body = b"%d" % number
        assert records == {"first": body, "filler": body * 2000, "last": body}
    return number


def check_set(path: Path, acknowledged: int) -> int:
    """The same of a set: the state that the rows lead to is whole."""
    store = SqliteRecords(path, {"name": "m1"})
    records = DurableRows(store.load()).records
    store.close()
    if not records:
        assert acknowledged == 0
        return 0
    [record] = records
    assert isinstance(record, SetRecord)
    number = record.state.vid.number
    assert acknowledged <= number <= acknowledged + 1
    assert record.state.names == ({f"n{number}": "u" * 200} if number > 1 else {})
    assert record.stable == record.state
    return number


KINDS = pytest.mark.parametrize(
    ("program", "check"), [(WRITER, check), (SET_WRITER, check_set)], ids=["rows", "set"]
)


@KINDS
def test_a_kill_at_any_moment_loses_nothing_acknowledged(
    program: str, check: Callable[[Path, int], int], tmp_path: Path
) -> None:
    path = tmp_path / "m1.db"
    draw = random.Random(7)
    number = 0
    for _ in range(8):
        writer = start(path, program=program)
        assert writer.stdout is not None
        try:
            first = writer.stdout.readline()
            time.sleep(draw.random() * 0.1)
            writer.send_signal(signal.SIGKILL)
            rest, complaint = writer.communicate(timeout=30)
        finally:
            writer.kill()
        assert complaint == ""
        lines = (first + rest).splitlines()
        number = check(path, int(lines[-1]))
    assert number > 8


@KINDS
@pytest.mark.parametrize("limit", [40_000, 200_000])
def test_a_full_disk_stops_the_writer_with_one_line_and_corrupts_nothing(
    limit: int, program: str, check: Callable[[Path, int], int], tmp_path: Path
) -> None:
    path = tmp_path / "m1.db"
    writer = start(path, limit, program)
    out, complaint = writer.communicate(timeout=60)
    assert writer.returncode == 2
    assert complaint.count("\n") == 1
    assert str(path) in complaint
    assert "make room on the disk" in complaint
    acknowledged = int(out.splitlines()[-1]) if out else 0
    check(path, acknowledged)
    again = start(path, program=program)
    assert again.stdout is not None
    try:
        assert int(again.stdout.readline()) > acknowledged
    finally:
        again.kill()
        again.communicate(timeout=30)


def test_a_store_accepts_nothing_after_a_failed_write(tmp_path: Path) -> None:
    program = WRITER.replace(
        "    print(error, file=sys.stderr)\n",
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))\n"
        "    try:\n"
        "        store.write({'small': b''})\n"
        "    except StateError as second:\n"
        "        print(second, file=sys.stderr)\n",
    ).replace("(limit, limit)", "(limit, resource.RLIM_INFINITY)")
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "m1.db"), "200000"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "an earlier write failed" in done.stderr
