"""A segment that is being written: the only place where a journal writes to the disk.

A file gets its name when its header is on disk, so no crash of a process leaves half a header.
Blocks are written at the offset where the last good one ended: the rest of a failed write is
truncated or overwritten. The file is locked while it is open, so that retention does not delete it;
the system releases the lock of a process that was killed.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from phalanx.journal.schema import Event
from phalanx.journal.segment import Footer, Header, file_name, footer_bytes, header_bytes


class SegmentFile:
    """Every method may raise OSError; what was appended before stays readable."""

    def __init__(self, directory: Path, header: Header) -> None:
        self.path = directory / file_name(
            header.group, header.member, header.incarnation, header.number
        )
        if self.path.exists():  # another process of this name, or a lost incarnation
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self.path))
        self.size = 0
        self.rows = 0
        self._crc = 0
        self._lseq = (0, 0)
        self._time = (0, 0)
        fresh = self.path.with_suffix(".tmp")
        self._fd = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            with suppress(OSError):  # where there are no locks, nobody deletes anything either
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._write(header_bytes(header))
            os.fsync(self._fd)
            fresh.rename(self.path)
        except BaseException:
            os.close(self._fd)
            with suppress(OSError):
                fresh.unlink()
            raise
        with suppress(OSError):
            _sync_folder(directory)

    def append(self, block: bytes, rows: Sequence[Event]) -> None:
        """A block, and the rows in it for the footer to count."""
        if os.fstat(self._fd).st_nlink == 0:  # what is written to a deleted file nobody reads
            raise FileNotFoundError(errno.ENOENT, "the file was deleted", str(self.path))
        self._write(block)
        if rows:
            first = self._lseq[0] or rows[0].lseq
            begin = self._time[0] if self.rows else rows[0].t_ns
            self.rows += len(rows)
            self._lseq = (first, rows[-1].lseq)
            self._time = (begin, rows[-1].t_ns)

    def seal(self) -> None:
        """Writes the footer and sees everything to the disk. The file is closed in any case."""
        (first, last), (begin, end) = self._lseq, self._time
        footer = Footer(
            rows=self.rows, first=first, last=last, begin_ns=begin, end_ns=end, crc=self._crc
        )
        try:
            self._write(footer_bytes(footer))
            os.ftruncate(self._fd, self.size)
            os.fsync(self._fd)
        finally:
            os.close(self._fd)

    def abandon(self) -> None:
        """Leaves the file as it is, without a footer; removes it if there is nothing in it."""
        with suppress(OSError):
            os.ftruncate(self._fd, self.size)
        with suppress(OSError):
            os.close(self._fd)
        if not self.rows:
            with suppress(OSError):
                self.path.unlink()

    def _write(self, data: bytes) -> None:
        done = 0
        try:
            while done < len(data):
                done += os.pwrite(self._fd, data[done:], self.size + done)
        except OSError:
            with suppress(OSError):  # readers skip what is left; the next block covers it
                os.ftruncate(self._fd, self.size)
            raise
        self.size += len(data)
        self._crc = crc32(data, self._crc)


def _sync_folder(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
