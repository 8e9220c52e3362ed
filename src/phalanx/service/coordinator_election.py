"""The election after a coordinator's failure (rules M7 to M10).

A member that has waited too long for a commit reports its status with the change to all, and all
answer with theirs; one that has the commit answers with the commit, which ends the election. When
all members that are not isolated have answered, the most senior of them initiates the change again,
in three phases: an election that commits at once, without asking again, diverges (S3 Claim 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from phalanx.service.entries import SetChange
from phalanx.service.values import Gid

Status = Literal["unaware", "acked"]


class CoordinatorElection(msgspec.Struct, frozen=True):
    """An election in progress. `status` is this member's own; `answered`: who has reported its
    status, this member included."""

    change: SetChange
    failed: Gid
    status: Status
    answered: frozenset[Gid]
    tries: int = 0

    def missing(self, view: Sequence[Gid], isolated: Sequence[Gid]) -> tuple[Gid, ...]:
        return tuple(m for m in view if m not in self.answered and m not in isolated)

    def winner(self, view: Sequence[Gid], isolated: Sequence[Gid]) -> Gid:
        """The most senior member that has answered; this one has."""
        return next(m for m in view if m in self.answered and m not in isolated)
