"""Reports about processes of this group that run with other settings (`shared_settings`).

Every packet of such a process is refused and counted. Its HELLOs, attempts to join and claims also
name it: it is reported when it is first heard and once a minute after that. Packets are not
authenticated, so the number of processes that are reported in a minute is bounded.
"""

from __future__ import annotations

from phalanx.config import Config
from phalanx.core.effects import SettingsDiffer
from phalanx.core.ids import MemberId
from phalanx.core.wire.packets import Refusal
from phalanx.core.wire.shared_settings import differences

REPEAT_NS = 60_000_000_000
PEERS_MAX = 64


class SettingsMismatches:
    __slots__ = ("_config", "_reported_ns")

    def __init__(self, config: Config) -> None:
        self._config = config
        self._reported_ns: dict[tuple[MemberId, bytes], int] = {}
        """When a process with these settings was reported last, the latest at the end."""

    def heard(self, now: int, refusal: Refusal) -> SettingsDiffer | None:
        """A packet was refused: what to report, if it names a process that was not reported
        lately."""
        if refusal.peer is None:
            return None
        key, reported = (refusal.peer, refusal.settings), self._reported_ns
        if key in reported and now - reported[key] < REPEAT_NS:
            return None
        while reported and now - next(iter(reported.values())) >= REPEAT_NS:
            del reported[next(iter(reported))]
        if len(reported) >= PEERS_MAX:
            return None
        reported[key] = now
        return SettingsDiffer(refusal.peer, differences(self._config, refusal.settings))
