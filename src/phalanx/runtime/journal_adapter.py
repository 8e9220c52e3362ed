"""A member's journal as the engine keeps it: rows of each step, and what the wall clock says."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from phalanx.config import Config
from phalanx.core.effects import Deliver, Effect
from phalanx.core.ids import MemberId
from phalanx.journal.recorder import Recorder
from phalanx.journal.settings import JournalSettings
from phalanx.journal.writer import Journal

log = logging.getLogger("phalanx")

CLOCK_LOOK_NS = 1_000_000_000
CLOCK_EVERY_NS = 10 * CLOCK_LOOK_NS
CLOCK_STEP_NS = 1_000_000
"""By so much the wall clock was set, or drifted, since it was last written down."""


class JournalAdapter:
    def __init__(self, recorder: Recorder, journal: Journal) -> None:
        self._recorder = recorder
        self._journal = journal
        self._bodies = journal.settings.bodies
        self._boot_id = boot_id()
        self._look_at = 0
        self._written_at = 0
        self._offset = 0
        self._links: Callable[[], Sequence[Effect]] = tuple

    def start(self, now: int, links: Callable[[], Sequence[Effect]]) -> None:
        """The first row. `links` tells what happened on the links of the view."""
        self._links = links
        self._journal.write([self._recorder.start(now)])
        self._clock(now)

    def record(self, now: int, effects: Sequence[Effect]) -> None:
        rows = self._recorder.record(now, effects)
        if rows:
            self._journal.write(rows)
        if self._bodies:
            for effect in effects:
                if type(effect) is Deliver:
                    self._write_bodies(effect)
        if now >= self._look_at:
            self._look_at = now + CLOCK_LOOK_NS
            moved = abs(time.time_ns() - now - self._offset) > CLOCK_STEP_NS
            if moved or now >= self._written_at + CLOCK_EVERY_NS:
                self._clock(now)
                self._count(now)

    def queue(
        self, now: int, accepted: int, submitted: int, refused: int, reason: str | None = None
    ) -> None:
        """Accepted messages were refused after all, or the member ends."""
        row = self._recorder.queue(now, accepted, submitted, refused, reason)
        self._journal.write([row])

    def stop(self, now: int, reason: str, sound: bool) -> None:
        """The last rows. They may still be on their way to the disk until `close` returns. A
        member that is not sound is not asked for its links."""
        if sound:
            self._count(now)
        self._journal.write([self._recorder.stop(now, reason=reason)])

    def close(self) -> None:
        """Wait for the disk."""
        self._journal.close()

    def _write_bodies(self, effect: Deliver) -> None:
        lengths = tuple(effect.lengths)
        payload = effect.payload[effect.offset : effect.offset + sum(lengths)]
        self._journal.write_bodies(effect.sender, effect.first, lengths, payload)

    def _count(self, now: int) -> None:
        rows = self._recorder.record(now, self._links())
        if rows:
            self._journal.write(rows)

    def _clock(self, now: int) -> None:
        wall = time.time_ns()
        self._written_at, self._offset = now, wall - now
        self._journal.write([self._recorder.clock(now, wall, self._boot_id)])


def open_journal(
    folder: Path, group: str, member: MemberId, config: Config, settings: JournalSettings
) -> JournalAdapter:
    """JournalError or ConfigurationError if the journal cannot be kept."""
    journal = Journal(
        folder,
        cluster=config.cluster,
        group=group,
        member=member,
        config=msgspec.structs.asdict(config),
        settings=settings,
        on_problem=lambda line: log.warning("group %r: %s: %s", group, member, line),
    )
    return JournalAdapter(
        Recorder(config.cluster, group, member, digests=settings.digests), journal
    )


def boot_id() -> str:
    """Names this boot of the machine: clocks that only grow may be compared within one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"
