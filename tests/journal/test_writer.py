"""The journal as a member uses it: nothing accepted is lost without a word, nothing blocks."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.journal import journal_folder as made
from tests.journal.journal_folder import journal, row, rows, until

from phalanx.core.ids import MemberId
from phalanx.errors import ConfigurationError, JournalError
from phalanx.journal import jsonl as eventfile
from phalanx.journal import reader, segment_rotator
from phalanx.journal import schema as ev
from phalanx.journal.blocks import Bodies
from phalanx.journal.segment_file import SegmentFile
from phalanx.journal.settings import JournalSettings, checked


def threads() -> int:
    return sum(t.name == "phalanx-journal" for t in threading.enumerate())


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def gaps(found: list[ev.Event]) -> list[tuple[int, int]]:
    return [(r.first, r.last) for r in found if isinstance(r, ev.Gap)]


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    before = threads(), open_files()
    yield
    assert (threads(), open_files()) == before


# ---------------------------------------------------------------------------- all is well


def test_everything_accepted_is_there_after_close(tmp_path: Path) -> None:
    written = journal(tmp_path / "new" / "folder", flush_ns=60_000 * made.MS)
    written.write(rows(1, 10))
    written.write([])
    for n in range(11, 200):
        written.write([row(n)])
    written.close()
    written.close()
    written.write([row(200)])
    (segment,) = reader.read_all([tmp_path]).segments
    assert reader.read_all([tmp_path]).rows == rows(1, 199)
    assert segment.footer is not None
    assert (segment.footer.rows, segment.footer.first, segment.footer.last) == (199, 1, 199)
    assert segment.header.config == {"mode": "hold"}
    assert segment.header.journal == written.id
    assert written.rows_lost == 0


def test_rows_are_on_disk_soon_without_close(tmp_path: Path) -> None:
    written = journal(tmp_path)
    written.write(rows(1, 3))
    until(lambda: reader.read_all([tmp_path]).rows == rows(1, 3))
    assert not reader.read_all([tmp_path]).segments[0].sealed
    time.sleep(0.02)  # idle by now
    written.write(rows(4, 4))
    until(lambda: reader.read_all([tmp_path]).rows == rows(1, 4))
    written.close()


def test_many_rows_do_not_wait_for_the_time_to_flush(tmp_path: Path) -> None:
    written = journal(tmp_path, flush_ns=60_000 * made.MS)
    for n in range(0, 8192, 64):
        written.write(rows(n + 1, n + 64))
    until(lambda: len(reader.read_all([tmp_path]).rows) >= 4096)
    written.close()
    assert reader.read_all([tmp_path]).rows == rows(1, 8192)


def test_a_large_segment_is_sealed_and_the_next_begun(tmp_path: Path) -> None:
    written = journal(tmp_path, segment_bytes=4096)
    for n in range(60):
        written.write([row(n * 50 + i, view=os.urandom(40).hex()) for i in range(1, 51)])
        time.sleep(0.001)
    written.close()
    reading = reader.read_all([tmp_path])
    assert [r.lseq for r in reading.rows] == list(range(1, 3001))
    assert len(reading.segments) > 2
    assert all(s.sealed for s in reading.segments)
    assert [s.header.number for s in reading.segments] == list(range(1, len(reading.segments) + 1))


def test_an_old_segment_is_sealed_even_if_nothing_comes(tmp_path: Path) -> None:
    written = journal(tmp_path, segment_ns=30 * made.MS)
    written.write(rows(1, 2))
    until(lambda: len(list(tmp_path.glob("*.phj"))) == 2)
    time.sleep(0.1)
    assert len(list(tmp_path.glob("*.phj"))) == 2, "an empty segment does not grow old"
    written.close()


def test_bodies_are_kept_only_where_asked(tmp_path: Path) -> None:
    for name, asked in (("ada", True), ("bea", False)):
        written = journal(tmp_path / name, name, bodies=asked)
        written.write_bodies(MemberId("cyd", 2), 7, [3, 0, 2], b"abcde")
        written.close()
    (path,) = (tmp_path / "ada").iterdir()
    (kept,) = reader.read(path, bodies=True).bodies
    assert kept == Bodies("cyd", 2, 7, (3, 0, 2), b"abcde")
    assert list(kept) == [b"abc", b"", b"de"]
    assert reader.read(path).bodies == []
    (path,) = (tmp_path / "bea").iterdir()
    assert reader.read(path, bodies=True).bodies == []


def test_a_forked_child_writes_nothing(tmp_path: Path) -> None:
    code = """
        import os, sys
        from tests.journal.journal_folder import journal, rows
        written = journal(sys.argv[1])
        written.write(rows(1, 5))
        if os.fork() == 0:
            written.write(rows(6, 9))
            written.close()
            os._exit(0)
        os.wait()
        written.write(rows(6, 6))
        written.close()
    """
    run_python(code, tmp_path)
    assert reader.read_all([tmp_path]).rows == rows(1, 6)


def test_a_killed_process_leaves_a_journal_that_just_ends(tmp_path: Path) -> None:
    code = """
        import os, signal, sys, time
        from tests.journal.journal_folder import journal, row
        written = journal(sys.argv[1])
        for n in range(1, 500):
            written.write([row(n)])
            time.sleep(0.0005)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    run_python(code, tmp_path, -signal.SIGKILL)
    (segment,) = reader.read_all([tmp_path]).segments
    assert not segment.sealed
    assert segment.corrupt == 0
    assert segment.count > 100
    assert reader.read_all([tmp_path]).rows == rows(1, segment.count)


def run_python(code: str, folder: Path, expected: int = 0) -> str:
    command = [sys.executable, "-c", textwrap.dedent(code), str(folder)]
    source = Path(reader.__file__).parents[2]
    root = Path(__file__).parents[2]
    env = os.environ | {"PYTHONPATH": f"{source}:{root}"}
    done = subprocess.run(
        command, env=env, cwd=root, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == expected, done.stderr
    return done.stdout


# ---------------------------------------------------------------------------- it cannot begin


def test_a_journal_that_cannot_be_opened_says_where_and_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for place in (file, file / "below", Path("/proc/nothing")):
        with pytest.raises(JournalError, match="cannot be written") as caught:
            journal(place)
        assert str(place) in str(caught.value) or str(file) in str(caught.value)
        assert caught.value.remedy
        assert "\n" not in str(caught.value)


def test_a_journal_is_never_written_over(tmp_path: Path) -> None:
    journal(tmp_path).close()
    with pytest.raises(JournalError, match=r"File exists.*new incarnation"):
        journal(tmp_path)
    journal(tmp_path, incarnation=2).close()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("segment_bytes", 10),
        ("flush_ns", 0),
        ("keep_bytes", -1),
        ("queue_rows_max", 0),
        ("bodies", 1),
        ("keep_ns", 1.5),
    ],
)
def test_settings_that_cannot_work_are_named(field: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"{field} = ") as caught:
        journal(tmp_path, **{field: value})
    assert caught.value.field == field
    assert checked(JournalSettings()) == JournalSettings()


# ---------------------------------------------------------------------------- trouble


class Disk:
    """Fails on demand, having written a part, as a full disk does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error = 0
        self._pwrite = os.pwrite
        monkeypatch.setattr(os, "pwrite", self.pwrite)
        monkeypatch.setattr(segment_rotator, "RETRY_NS", 5 * made.MS)

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        if self.error:
            self._pwrite(fd, data[: len(data) // 2], offset)
            raise OSError(self.error, os.strerror(self.error))
        return self._pwrite(fd, data, offset)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_an_outage_is_told_once_and_leaves_a_gap_row(
    tmp_path: Path, disk: Disk, error: int
) -> None:
    told: list[str] = []
    written = journal(tmp_path, on_problem=told.append)
    written.write(rows(1, 10))
    until(lambda: reader.read_all([tmp_path]).rows)
    disk.error = error
    n = 10
    while len(told) < 1 or n < 60:
        n += 1
        written.write([row(n)])
        time.sleep(0.001)
        assert n < 10_000
    until(lambda: written.rows_lost)
    disk.error = 0
    while len(reader.read_all([tmp_path]).rows) < 12:
        n += 1
        written.write([row(n)])
        time.sleep(0.001)
        assert n < 10_000
    written.close()
    found = reader.read_all([tmp_path]).rows
    ((first, last),) = gaps(found)
    assert first == 11
    assert [r.lseq for r in found] == [*range(1, 11), *range(last, n + 1)]
    assert isinstance(found[10], ev.Gap)
    assert found[10].reason == os.strerror(error)
    assert eventfile.damage(found) == []
    assert written.rows_lost == last - first + 1
    (line,) = told
    assert os.strerror(error) in line
    assert str(tmp_path) in line
    assert "\n" not in line
    assert all(not s.problems for s in reader.read_all([tmp_path]).segments)


def test_a_second_outage_is_told_again(tmp_path: Path, disk: Disk) -> None:
    told: list[str] = []
    written = journal(tmp_path, on_problem=told.append)
    n = 0
    for _ in range(2):
        seen = len(told)
        disk.error = errno.EIO
        while len(told) == seen:
            n += 1
            written.write([row(n)])
            time.sleep(0.001)
        disk.error = 0
        kept = len(reader_rows(tmp_path))
        while len(reader_rows(tmp_path)) == kept:
            n += 1
            written.write([row(n)])
            time.sleep(0.001)
    written.close()
    assert len(told) == 2
    assert len(gaps(reader_rows(tmp_path))) == 2


def reader_rows(folder: Path) -> list[ev.Event]:
    return reader.read_all([folder]).rows if list(folder.glob("*.phj")) else []


def test_close_during_an_outage_ends_in_time_and_quietly(tmp_path: Path, disk: Disk) -> None:
    written = journal(tmp_path)
    written.write(rows(1, 3))
    until(lambda: reader.read_all([tmp_path]).rows)
    disk.error = errno.ENOSPC
    written.write(rows(4, 5))
    written.close()
    written.close()
    assert reader.read_all([tmp_path]).rows == rows(1, 3)
    assert written.rows_lost == 2


def test_an_outage_that_ends_with_close_is_told_by_the_last_row(tmp_path: Path, disk: Disk) -> None:
    told: list[str] = []
    written = journal(tmp_path, on_problem=told.append)
    written.write(rows(1, 3))
    until(lambda: reader.read_all([tmp_path]).rows)
    disk.error = errno.ENOSPC
    written.write(rows(4, 5))
    until(lambda: told)
    disk.error = 0
    written.close()
    found = reader.read_all([tmp_path]).rows
    assert gaps(found) == [(4, 5)]
    assert reader.read_all([tmp_path]).segments[0].sealed


def test_a_queue_that_is_full_loses_rows_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = threading.Event()
    append = SegmentFile.append

    def slow(self: SegmentFile, block: bytes, batch: Any) -> None:
        assert free.wait(10)
        append(self, block, batch)

    monkeypatch.setattr(SegmentFile, "append", slow)
    told: list[str] = []
    written = journal(tmp_path, queue_rows_max=10, on_problem=told.append)
    for n in range(1, 101):
        before = time.perf_counter()
        written.write([row(n)])
        assert time.perf_counter() - before < 1
    free.set()
    until(lambda: reader.read_all([tmp_path]).rows)
    written.write([row(101)])
    written.close()
    found = reader.read_all([tmp_path]).rows
    ((first, last),) = gaps(found)
    assert last == 100
    assert [r.lseq for r in found] == [*range(1, first), 100, 101]
    assert written.rows_lost == last - first + 1
    (line,) = told
    assert "queue_rows_max = 10" in line


def test_a_listener_that_fails_does_not_end_the_journal(tmp_path: Path, disk: Disk) -> None:
    def listener(line: str) -> None:
        raise RuntimeError(line)

    written = journal(tmp_path, on_problem=listener)
    disk.error = errno.EIO
    written.write(rows(1, 2))
    until(lambda: written.rows_lost)
    disk.error = 0
    written.close()
    assert gaps(reader.read_all([tmp_path]).rows) == [(1, 2)]


def test_a_row_that_cannot_be_written_costs_its_block_only(tmp_path: Path) -> None:
    told: list[str] = []
    written = journal(tmp_path, on_problem=told.append)
    written.write([row(1, upto=1 << 80)])
    until(lambda: told)
    written.write(rows(2, 3))
    written.close()
    assert gaps(reader.read_all([tmp_path]).rows) == [(1, 1)]
    assert reader.read_all([tmp_path]).rows[1:] == rows(2, 3)


def test_a_bug_ends_the_journal_with_a_word_and_not_the_member(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a bug")

    monkeypatch.setattr(segment_rotator.SegmentRotator, "keep", fail)
    told: list[str] = []
    written = journal(tmp_path, on_problem=told.append)
    written.write(rows(1, 2))
    until(lambda: told)
    written.write(rows(3, 4))
    written.close()
    assert "AssertionError('a bug')" in told[0]


def test_a_deleted_folder_is_an_outage_until_it_is_back(tmp_path: Path, disk: Disk) -> None:
    told: list[str] = []
    folder = tmp_path / "x"
    written = journal(folder, on_problem=told.append)
    written.write(rows(1, 3))
    until(lambda: reader.read_all([folder]).rows)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    written.write(rows(4, 4))
    until(lambda: told)
    assert "make the folder again" in told[0]
    folder.mkdir()
    n = 4
    while not reader_rows(folder):
        n += 1
        written.write([row(n)])
        time.sleep(0.002)
        assert n < 5000
    written.close()
    assert gaps(reader_rows(folder))[0][0] == 4
    assert len(told) == 1


def test_bodies_that_cannot_be_written_are_counted(tmp_path: Path, disk: Disk) -> None:
    written = journal(tmp_path, bodies=True)
    disk.error = errno.ENOSPC
    written.write_bodies(MemberId("bea"), 1, [1, 1], b"ab")
    until(lambda: written.bodies_lost)
    disk.error = 0
    written.close()
    assert written.bodies_lost == 2


# ---------------------------------------------------------------------------- real disks


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    if subprocess.run(command, capture_output=True, timeout=20, check=False).returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], timeout=20, check=True)


def test_a_disk_that_is_full_and_free_again(small_disk: Path) -> None:
    told: list[str] = []
    written = journal(small_disk, on_problem=told.append)
    ballast = small_disk / "ballast"
    n = 0
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    end = time.monotonic() + 20
    while not told:
        n += 1
        written.write([row(n, view=os.urandom(200).hex())])
        time.sleep(0.001)
        assert time.monotonic() < end
    ballast.unlink()
    before = len(reader_rows(small_disk))
    while len(reader_rows(small_disk)) == before:
        n += 1
        written.write([row(n)])
        time.sleep(0.01)
        assert time.monotonic() < end
    written.close()
    found = reader_rows(small_disk)
    assert len(gaps(found)) == 1
    assert eventfile.damage(found) == []
    assert found[-1].lseq == n
    assert len(told) == 1
    assert "No space left on device" in told[0]


def test_a_limit_on_file_sizes_is_an_outage_that_a_new_segment_ends(tmp_path: Path) -> None:
    code = """
        import os, resource, sys, time
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        from phalanx.journal import segment_rotator
        from tests.journal.journal_folder import journal, row
        segment_rotator.RETRY_NS = 5_000_000
        told = []
        written = journal(sys.argv[1], on_problem=told.append)
        for n in range(1, 351):
            written.write([row(n, view=os.urandom(100).hex())])
            time.sleep(0.001)
        written.close()
        print(len(told), told[0])
    """
    said = run_python(code, tmp_path)
    reading = reader.read_all([tmp_path])
    assert "File too large" in said
    assert "lower segment_bytes" in said
    assert int(said.split()[0]) == len(gaps(reading.rows)) > 0
    assert len(reading.segments) > 1
    assert eventfile.damage(reading.rows) == []
