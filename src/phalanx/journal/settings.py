"""Settings of a journal: contents, segment sizes, retention and flushing.

One frozen struct, checked before a file is opened. Times are nanoseconds, sizes bytes; 0 as a
retention limit means no limit.
"""

from __future__ import annotations

import msgspec

from phalanx.errors import ConfigurationError

MS = 1_000_000
HOUR = 3_600_000 * MS


class JournalSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of one member's journal. `checked` finds what cannot work."""

    bodies: bool = False
    """Keep the bodies of delivered messages too, in blocks of their own."""
    body_bytes_max: int = 1 << 20
    """Bodies larger than this are left out."""
    digests: bool = False
    """Keep a CRC-32 of what was delivered in each `deliver` row; reads every body once more."""
    segment_bytes: int = 64 << 20
    """A segment that has grown to this is sealed and the next one begun."""
    segment_ns: int = HOUR
    """... and so is one that is this old and holds anything."""
    keep_bytes: int = 0
    """The oldest segments of the folder are deleted while all of them together are larger."""
    keep_ns: int = 0
    """Segments that nobody wrote to for this long are deleted."""
    flush_ns: int = 100 * MS
    """Rows are written at the latest this long after they were made: what a crash may cost."""
    queue_rows_max: int = 65_536
    """Rows that wait for the disk. What comes beyond is lost, and the journal says so."""


_RANGES = {
    "body_bytes_max": (1, 1 << 24),
    "segment_bytes": (4096, 1 << 31),
    "segment_ns": (MS, 1 << 62),
    "keep_bytes": (0, 1 << 62),
    "keep_ns": (0, 1 << 62),
    "flush_ns": (MS, 60_000 * MS),
    "queue_rows_max": (1, 1 << 24),
}
_DEFAULTS = JournalSettings()


def checked(settings: JournalSettings) -> JournalSettings:
    """The same settings, or ConfigurationError naming the field and the remedy."""
    for field, value in msgspec.structs.asdict(settings).items():
        wanted = type(getattr(_DEFAULTS, field))
        if type(value) is not wanted:
            raise ConfigurationError(field, value, f"must be of type {wanted.__name__}")
    for field, (low, high) in _RANGES.items():
        value = getattr(settings, field)
        if not low <= value <= high:
            raise ConfigurationError(field, value, f"must lie in {low}..{high}")
    return settings
