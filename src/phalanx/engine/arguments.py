"""Checks of the arguments that an application gives to a group.

Every value is checked in the caller's thread, before anything is queued: a mistake raises a
`PhalanxError` that names the argument and the remedy, and never reaches the engine's thread.
Iterables are read once, so that generators work.
"""

from __future__ import annotations

import threading

from phalanx.errors import ConfigurationError


def checked_timeout(timeout: object, field: str = "timeout") -> float | None:
    """Seconds to wait, or None for no limit: infinity and more than a lock can wait are none."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise ConfigurationError(
            field, timeout, "must be a number of seconds, or None for no limit"
        )
    if not timeout >= 0:  # also for NaN
        raise ConfigurationError(field, timeout, "must be 0 or more, or None for no limit")
    return None if timeout >= threading.TIMEOUT_MAX else float(timeout)
