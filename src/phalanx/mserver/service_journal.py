"""The journal of a running mserver or interface: what it did, as rows (docs/journal.md).

Rows are made after the records of a batch are on disk, so that a journal never says more than the
process would remember. Nothing depends on them: a journal that cannot be written loses rows, and
says so when it can be written again.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from phalanx.core.ids import MemberId
from phalanx.journal.journal_header import boot_id
from phalanx.journal.schema import Event
from phalanx.journal.service_recorder import ServiceRecorder, configured_sets
from phalanx.journal.service_schema import SERVICE_GROUP
from phalanx.journal.settings import JournalSettings
from phalanx.journal.writer import Journal
from phalanx.mserver.open_records import OpenRecords
from phalanx.mserver.service_config import ServiceConfig
from phalanx.service.effects import DurableRecord, HeldMembership, InterfaceRecord, ServiceEffect
from phalanx.service.group_messages import GroupCall
from phalanx.service.set_tree import SetTree
from phalanx.service.values import SetState

log = logging.getLogger("phalanx")

CHECK_NS = 1_000_000_000
"""Between two looks at the wall clock and at the counts of refused messages."""
CLOCK_NS = 10 * CHECK_NS
CLOCK_STEP_NS = 1_000_000
"""A reading of the wall clock is written once it has moved by more than this."""
TRAFFIC = frozenset({"sent", "received", "writes", "rows", "unsent"})
"""Counts that are not of refused messages."""

Counts = Callable[[], Mapping[str, int]]


class ServiceJournal:
    """One life of one process. JournalError if the folder cannot be written to."""

    def __init__(
        self,
        folder: Path,
        cluster: str,
        process: MemberId,
        life: int,
        settings: JournalSettings | None = None,
    ) -> None:
        self._process = process
        self._journal = Journal(
            folder,
            cluster=cluster,
            group=SERVICE_GROUP,
            member=MemberId(process.name, life),
            config={},
            settings=JournalSettings() if settings is None else settings,
            on_problem=lambda line: log.warning("%s: %s", process, line),
        )
        digests = self._journal.settings.digests
        self._recorder = ServiceRecorder(cluster, process.name, life, digests)
        self._boot_id = boot_id()
        self._counts: Counts = dict
        self._written: Counter[str] = Counter()
        """Counts of refused messages that are in rows."""
        self._check_ns = self._clock_ns = self._offset_ns = 0

    def start(
        self,
        kind: Literal["SERVER", "INTERFACE"],
        tree: SetTree,
        records: Iterable[DurableRecord],
        counts: Counts,
    ) -> None:
        """Write the first rows. `counts` gives what has been refused so far, by reason."""
        self._counts = counts
        now = time.monotonic_ns()
        configured = configured_sets(tree, self._process.name)
        self._write(self._recorder.start(now, self._process, kind, configured, records))
        self._clock(now)

    def record(self, effects: Sequence[ServiceEffect]) -> None:
        """Write what a batch has brought about."""
        now = time.monotonic_ns()
        self._write(self._recorder.record(now, effects))
        if now >= self._check_ns:
            self._check(now)

    def submitted(self, call: GroupCall) -> None:
        self._write(self._recorder.submitted(time.monotonic_ns(), call))

    def call_refused(self, call: str, error: str) -> None:
        self._write(self._recorder.call_refused(time.monotonic_ns(), call, error))

    def stop_server(
        self, states: Iterable[tuple[SetState, bool]], asking: Iterable[str], failed: bool
    ) -> None:
        """Write the last rows of a server and close the journal. Waits for the disk."""
        now = time.monotonic_ns()
        self._check(now)
        if failed:
            states, asking = (), ()  # its machine and its records may differ
        self._write(self._recorder.stop_server(now, states, asking, reason=_reason(failed)))
        self._journal.close()

    def stop_interface(
        self,
        record: InterfaceRecord,
        path: Sequence[str],
        members: Iterable[HeldMembership],
        failed: bool,
    ) -> None:
        """The same of an interface."""
        now = time.monotonic_ns()
        self._check(now)
        members = () if failed else members
        rows = self._recorder.stop_interface(now, record, path, members, reason=_reason(failed))
        self._write(rows)
        self._journal.close()

    # ------------------------------------------------------------------ now and then

    def _check(self, now: int) -> None:
        self._check_ns = now + CHECK_NS
        counts = {why: n for why, n in self._counts().items() if why not in TRAFFIC}
        new = {why: n - self._written[why] for why, n in counts.items() if n > self._written[why]}
        if new:
            self._written.update(new)
            self._write(self._recorder.refused(now, new))
        moved = abs(time.time_ns() - now - self._offset_ns) > CLOCK_STEP_NS
        if moved or now >= self._clock_ns + CLOCK_NS:
            self._clock(now)

    def _clock(self, now: int) -> None:
        wall = time.time_ns()
        self._clock_ns, self._offset_ns = now, wall - now
        self._write(self._recorder.clock(now, wall, self._boot_id))

    def _write(self, rows: list[Event]) -> None:
        if rows:
            self._journal.write(rows)


def open_service_journal(
    config: ServiceConfig, opened: OpenRecords, folder: Path | None
) -> ServiceJournal | None:
    """The journal of the process that has these records; none without a folder."""
    if folder is None:
        return None
    return ServiceJournal(folder, config.cluster, opened.me, opened.life)


def _reason(failed: bool) -> str:
    return "failed" if failed else "ended"
