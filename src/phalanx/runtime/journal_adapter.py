"""The journal of a running member: the rows of each step, and readings of the wall clock."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from phalanx.config import Config
from phalanx.core.effects import Deliver, Effect
from phalanx.core.ids import MemberId
from phalanx.journal.journal_header import BODIES_KEPT, boot_id
from phalanx.journal.recorder import Recorder
from phalanx.journal.settings import JournalSettings
from phalanx.journal.writer import Journal
from phalanx.transport.base import ChannelEvent

log = logging.getLogger("phalanx")

CLOCK_CHECK_NS = 1_000_000_000
CLOCK_EVERY_NS = 10 * CLOCK_CHECK_NS
CLOCK_STEP_NS = 1_000_000
"""A reading is written once the wall clock has been set, or has drifted, by more than this."""


class JournalAdapter:
    def __init__(self, recorder: Recorder, journal: Journal) -> None:
        self._recorder = recorder
        self._journal = journal
        self._bodies = journal.settings.bodies
        self._boot_id = boot_id()
        self._check_ns = 0
        self._written_ns = 0
        self._offset_ns = 0
        self._links: Callable[[], Sequence[Effect]] = tuple
        self._closer: threading.Thread | None = None

    def start(self, now: int, links: Callable[[], Sequence[Effect]]) -> None:
        """Write the first row. `links` returns the link statistics of the view."""
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
        if now >= self._check_ns:
            self._check_ns = now + CLOCK_CHECK_NS
            moved = abs(time.time_ns() - now - self._offset_ns) > CLOCK_STEP_NS
            if moved or now >= self._written_ns + CLOCK_EVERY_NS:
                self._clock(now)
                self._count(now)

    def queue(
        self, now: int, accepted: int, submitted: int, refused: int, reason: str | None = None
    ) -> None:
        """Write the counts of the submission queue: the core refused messages that had been
        accepted, or the member stops."""
        row = self._recorder.queue(now, accepted, submitted, refused, reason)
        self._journal.write([row])

    def channels(self, now: int, events: deque[ChannelEvent]) -> None:
        """Take the events of channels, and write them."""
        while events:
            op, address, peer, reason = events.popleft()
            self._journal.write([self._recorder.channel(now, op, address, peer, reason)])

    def stop(self, now: int, reason: str, sound: bool) -> None:
        """Write the last rows. They may still be on their way to the disk until the journal is
        closed. The core of a member that failed (not `sound`) is not asked for link statistics."""
        if sound:
            self._count(now)
        self._journal.write([self._recorder.stop(now, reason=reason)])

    def close(self) -> None:
        """Close the journal. Waits for the disk."""
        self._journal.close()

    def close_in_background(self) -> None:
        """Close the journal in a thread: a slow disk must not delay other groups of the process."""
        self._closer = threading.Thread(target=self.close, name="phalanx-close", daemon=True)
        self._closer.start()

    def wait_closed(self, seconds: float) -> None:
        """Wait until `close_in_background` is done."""
        if self._closer is not None:
            self._closer.join(seconds)

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
        self._written_ns, self._offset_ns = now, wall - now
        self._journal.write([self._recorder.clock(now, wall, self._boot_id)])


def open_journal(
    folder: Path, group: str, member: MemberId, config: Config, settings: JournalSettings
) -> JournalAdapter:
    """Open the journal of a member. Raises JournalError or ConfigurationError if it cannot be
    written. Its header holds the settings, `stretch_clock` included, and whether the journal keeps
    bodies."""
    journal = Journal(
        folder,
        cluster=config.cluster,
        group=group,
        member=member,
        config=msgspec.structs.asdict(config) | {BODIES_KEPT: settings.bodies},
        settings=settings,
        on_problem=lambda line: log.warning("group %r: %s: %s", group, member, line),
    )
    return JournalAdapter(
        Recorder(config.cluster, group, member, digests=settings.digests), journal
    )
