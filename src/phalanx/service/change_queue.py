"""The changes that one member wants and that are not decided yet (rule C2).

A change that another commit interrupts stays queued if it holds on the new state, and is begun
again; all others are dropped, and whoever wanted them makes them anew.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from phalanx.service.coordination import holds_on_any_base, key
from phalanx.service.entries import ChangeId, SetChange
from phalanx.service.set_state import view_after
from phalanx.service.values import Gid


class ChangeQueue(msgspec.Struct, frozen=True):
    changes: tuple[SetChange, ...] = ()

    def with_change(self, change: SetChange) -> ChangeQueue:
        return ChangeQueue((*self.changes, change))

    def first(self, me: Gid, view: Sequence[Gid], removal: SetChange | None) -> SetChange | None:
        """What this member would begin now."""
        mine = [*self.changes, *([removal] if removal is not None else [])]
        return min(mine, key=lambda change: key(change, me, view), default=None)

    def after(self, committed: ChangeId, view: Sequence[Gid]) -> tuple[ChangeQueue, list[ChangeId]]:
        """The queue on a new state, and what was dropped."""
        left = [change for change in self.changes if change.id != committed]
        kept = [change for change in left if still_wanted(change, view)]
        dropped = [change.id for change in left if change not in kept]
        return ChangeQueue(tuple(kept)), dropped


def still_wanted(change: SetChange, view: Sequence[Gid]) -> bool:
    """Whether a change that was interrupted stays queued, now that the view is this."""
    return holds_on_any_base(change) and view_after(view, change.entries) != tuple(view)
