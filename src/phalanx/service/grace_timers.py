"""Since when something has been the case without interruption: members unserved (rule G2), carriers
gone (rule G5), groups without owner (rule G10)."""

from __future__ import annotations

from phalanx.core.deadline import NEVER

Key = tuple[str, ...]


class GraceTimers:
    """Each key is begun by `waited` and ended by `clear`. A key that nobody asks about for longer
    than a grace begins anew."""

    def __init__(self, grace_ns: int) -> None:
        self._grace_ns = grace_ns
        self._since: dict[Key, tuple[int, int]] = {}
        """When it began, and when it was asked about last."""

    def waited(self, now: int, key: Key, graces: int = 1) -> bool:
        """Whether the case of `key` has lasted for the grace."""
        began, asked = self._since.get(key, (now, now))
        if asked < now - self._grace_ns:
            began = now
        self._since[key] = (began, now)
        return now - began >= graces * self._grace_ns

    def clear(self, key: Key) -> None:
        self._since.pop(key, None)

    def expire(self, now: int) -> None:
        """Drop keys that nobody asks about any more."""
        old = now - 4 * self._grace_ns
        for key in [k for k, (_, asked) in self._since.items() if asked < old]:
            del self._since[key]

    def deadline(self, now: int) -> int:
        """When the next grace ends."""
        ends = [began + self._grace_ns for began, _ in self._since.values()]
        return min((end for end in ends if end > now), default=NEVER)
