"""Members of the view that one member does not hear, or that have gone another way (rule M19).

They are not waited for, their messages are not read, and the next commit leaves them out: until
then they are named in every message, so that whoever reads it isolates them too.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from phalanx.service.entries import (
    COORDINATOR_FAILURE,
    PHYSICAL_FAILURE,
    PHYSICAL_REQUEST,
    ChangeId,
    SetChange,
)
from phalanx.service.values import Gid

REMOVAL = 1 << 61
"""The number of every removal; those of other changes lie below."""
RENEWAL = 1 << 60
"""The number of every change that is begun only to leave a base."""


class Isolation(msgspec.Struct, frozen=True):
    """`coordinators`: those that failed while a commit of theirs was awaited."""

    servers: tuple[Gid, ...] = ()
    coordinators: tuple[Gid, ...] = ()

    def with_servers(self, new: Sequence[Gid]) -> Isolation:
        return replace(self, servers=(*self.servers, *new))

    def with_coordinator(self, failed: Gid) -> Isolation:
        return replace(self, coordinators=(*self.coordinators, failed))

    def within(self, view: Sequence[Gid]) -> Isolation:
        """On a new state: whoever has been left out is no concern any more."""
        return Isolation(
            tuple(m for m in self.servers if m in view),
            tuple(m for m in self.coordinators if m in view),
        )

    def new_among(self, servers: Sequence[Gid], me: Gid, view: Sequence[Gid]) -> tuple[Gid, ...]:
        """Members of the view that are not isolated yet."""
        barred = {me, *self.servers}
        return tuple(s for s in dict.fromkeys(servers) if s in view and s not in barred)

    def removal(self, me: Gid) -> SetChange | None:
        """The change that leaves them out: every commit does that. Failed coordinators go first
        (rule M12)."""
        if not self.servers:
            return None
        failed = any(server in self.servers for server in self.coordinators)
        priority = COORDINATOR_FAILURE if failed else PHYSICAL_FAILURE
        return SetChange(ChangeId(me, REMOVAL), priority)


def renewal(me: Gid) -> SetChange:
    """A change without entries. Whoever has acknowledged a union that is not decided takes part in
    no other on that base: the next one is free again."""
    return SetChange(ChangeId(me, RENEWAL), PHYSICAL_REQUEST)
