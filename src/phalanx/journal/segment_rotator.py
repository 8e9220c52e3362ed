"""Write rows to successive segments, and survive outages of the disk.

Everything here runs on the journal's own thread. After a failure there is a pause; the rows of that
time are lost and counted. After a full disk the same segment is tried again; after any other error
the segment is left as it is and the next one is started.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from phalanx.journal.blocks import Bodies, bodies_block, rows_block
from phalanx.journal.columns import ROWS_MAX
from phalanx.journal.journal_header import NO_ROOM, refused, remedy
from phalanx.journal.retention import tidy
from phalanx.journal.schema import Event, Gap, Row
from phalanx.journal.segment import Header
from phalanx.journal.segment_file import SegmentFile
from phalanx.journal.settings import JournalSettings

RETRY_NS = 1_000_000_000
BODIES_BLOCK_BYTES = 4 << 20


class LostRows(NamedTuple):
    """Rows that are in no block: their range and why."""

    first: int
    last: int
    reason: str

    def row(self, like: Event) -> Gap:
        """The row that tells of them, where the last of them would stand."""
        columns = {f: getattr(like, f) for f in Row.__struct_fields__}
        columns |= {"lseq": self.last, "first": self.first, "last": self.last}
        return Gap(**columns, reason=self.reason)


def widened(lost: LostRows | None, rows: Sequence[Event], reason: str) -> LostRows:
    """What was lost, and these rows. The first reason stays."""
    head, last = rows[0], rows[-1].lseq
    if lost is not None:
        return LostRows(lost.first, last, lost.reason)
    return LostRows(head.first if isinstance(head, Gap) else head.lseq, last, reason)


class SegmentRotator:
    """`tell` gets one line at the beginning of each outage."""

    def __init__(
        self,
        directory: Path,
        header: Header,
        settings: JournalSettings,
        tell: Callable[[str], None],
    ) -> None:
        self.directory = directory
        self.rows_lost = 0
        self.bodies_lost = 0
        self._settings = settings
        self._tell = tell
        self._next = header
        self._file: SegmentFile | None = None
        self._born_ns = 0
        self._lost: LostRows | None = None
        self._last: Event | None = None
        self._outage = False
        self._retry_ns = 0
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._open()
        except OSError as error:
            raise refused(directory, error) from error

    @property
    def path(self) -> Path | None:
        file = self._file
        return None if file is None else file.path

    def seconds_left(self) -> float | None:
        """Until the segment is too old; None if it has nothing in it."""
        if self._file is None or not self._file.rows:
            return None
        return max(0.0, (self._born_ns + self._settings.segment_ns - time.monotonic_ns()) / 1e9)

    def keep(self, rows: Sequence[Event], at_once: bool = False) -> None:
        """Writes the rows in one block, or loses them. `at_once`: there is no later."""
        for at in range(0, len(rows), ROWS_MAX - 1):
            self._keep(rows[at : at + ROWS_MAX - 1], at_once)

    def keep_bodies(self, bodies: Sequence[Bodies]) -> None:
        """Bodies are no evidence: what cannot be written is counted, and leaves no row."""
        some: list[Bodies] = []
        size = 0
        for i, item in enumerate(bodies, 1):
            some.append(item)
            size += len(item.payload)
            if size >= BODIES_BLOCK_BYTES or i == len(bodies):
                file = None if self._outage else self._file
                if file is None or not self._attempt(file, bodies_block(some), ()):
                    self.bodies_lost += sum(len(b.lengths) for b in some)
                some, size = [], 0

    def turn_if_old(self) -> None:
        """Seals the segment and begins the next one if it is large or old enough."""
        file = self._file
        if file is None or not file.rows:
            return
        old = time.monotonic_ns() - self._born_ns >= self._settings.segment_ns
        if file.size < self._settings.segment_bytes and not old:
            return
        try:
            self._file = None
            file.seal()
            self._open()
        except OSError as error:
            self._trouble(error)
        self.tidy()

    def tidy(self) -> None:
        """Deletes what the settings say is no longer to be kept."""
        keep_bytes, keep_ns = self._settings.keep_bytes, self._settings.keep_ns
        if keep_bytes or keep_ns:
            with suppress(OSError):
                tidy(self.directory, keep_bytes, keep_ns)

    def close(self) -> None:
        if self._lost is not None and self._last is not None:
            self._keep([], at_once=True)
        file, self._file = self._file, None
        if file is not None:
            try:
                file.seal()
            except OSError as error:
                self._trouble(error)

    # ------------------------------------------------------------------ one block

    def _keep(self, rows: Sequence[Event], at_once: bool) -> None:
        if self._outage and not at_once and time.monotonic_ns() < self._retry_ns:
            self._lose(rows, "")
            return
        batch = list(rows)
        if self._lost is not None:
            like = rows[0] if rows else self._last
            assert like is not None
            batch.insert(0, self._lost.row(like))
        try:
            block = rows_block(batch)
        except (TypeError, ValueError, OverflowError) as error:  # no row of the schema
            self._trouble(OSError(0, f"a row cannot be written ({error})"), rows)
            self._retry_ns = 0
            return
        if self._file is None:
            try:
                self._open()
            except OSError as error:
                self._trouble(error, rows)
                return
        assert self._file is not None
        if self._attempt(self._file, block, batch, rows):
            self._lost, self._outage = None, False
            self.turn_if_old()

    def _attempt(
        self,
        file: SegmentFile,
        block: bytes,
        batch: Sequence[Event],
        rows: Sequence[Event] = (),
    ) -> bool:
        try:
            file.append(block, batch)
        except OSError as error:
            if error.errno not in NO_ROOM:
                self._file = None
                file.abandon()
            self._trouble(error, rows, file.path)
            return False
        return True

    def _open(self) -> None:
        now = time.monotonic_ns()
        header = msgspec.structs.replace(self._next, wall_ns=time.time_ns(), mono_ns=now)
        self._file = SegmentFile(self.directory, header)
        self._born_ns = now
        self._next = msgspec.structs.replace(header, number=header.number + 1)

    # ------------------------------------------------------------------ outages

    def _trouble(
        self, error: OSError, rows: Sequence[Event] = (), path: Path | None = None
    ) -> None:
        problem = error.strerror or str(error)
        if not self._outage:
            place = path or error.filename or self.directory
            self._tell(
                f"{place}: {problem}: the journal loses rows while it lasts; {remedy(error)}"
            )
        self._outage = True
        self._retry_ns = time.monotonic_ns() + RETRY_NS
        if rows:
            self._lose(rows, problem)

    def _lose(self, rows: Sequence[Event], reason: str) -> None:
        self._lost = widened(self._lost, rows, reason)
        self._last = rows[-1]
        self.rows_lost += len(rows)
