"""The time-outs of the service, integer nanoseconds."""

from __future__ import annotations

import msgspec

MILLISECOND = 1_000_000


class ServiceTimes(msgspec.Struct, frozen=True, kw_only=True):
    """All servers of a cluster should run with the same times; nothing breaks if they differ."""

    monitor_ns: int = 200 * MILLISECOND
    """Between two questions to the ring successor."""
    reply_ns: int = 150 * MILLISECOND
    """Until a question is repeated."""
    reply_retries: int = 3
    """Repetitions without an answer until a member is isolated."""
    ack_ns: int = 150 * MILLISECOND
    ack_retries: int = 3
    commit_wait_ns: int = 600 * MILLISECOND
    """After the last sign of a coordinator until its change is taken over."""
    poll_ns: int = 250 * MILLISECOND
    mi_retries: int = 3
    rehome_ns: int = 800 * MILLISECOND
    grace_ns: int = 1_500 * MILLISECOND
    announce_ns: int = 500 * MILLISECOND
    pin_ttl_ns: int = 5_000 * MILLISECOND
    call_retry_ns: int = 300 * MILLISECOND
    tombstone_ns: int = 600_000 * MILLISECOND
    """For which the record of a group that has ended is kept."""
    send_wait_ns: int = 500 * MILLISECOND
    """For which `send_msg` waits for members that do not answer."""
    call_timeout_ns: int = 10_000 * MILLISECOND
