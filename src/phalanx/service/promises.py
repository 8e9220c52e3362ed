"""What one member has promised on its last state; on disk before an answer leaves (rules M2, R1).

An acknowledgement is not taken back: a member that gives it up for a change that goes first has
told the first coordinator nothing, and both may commit with it. So a coordinator may leave out a
member only with the promise of all others that they read no message of that member any more; it
asks for it anew, in another round, when it leaves out one more. Then of two commits on one base
either one holds nobody that takes the other, or its coordinator has given way to the other.

A union is decided by members of another component, which cannot be isolated. It is acknowledged
only by members that have acknowledged nothing else on their base. They give that up by taking part
in an ordinary change, and take no union on that base afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from phalanx.service.coordination import goes_before, key
from phalanx.service.entries import SetChange
from phalanx.service.messages import Commit, Initiate
from phalanx.service.values import Gid, Number, Servers, Vid


class AckedChange(msgspec.Struct, frozen=True, array_like=True):
    """The change that a member has acknowledged, and its coordinator."""

    change: SetChange
    coordinator: Gid
    other: Vid | None = None
    """For a union: the state of the other component."""


class Promises(msgspec.Struct, frozen=True, array_like=True):
    """`acked` is waited for. `round` counts those that this member has coordinated in its life, so
    that an answer belongs to one of them. `apart`: whom it has isolated when it last acknowledged
    an ordinary change on this base; None if it has acknowledged none."""

    acked: AckedChange | None = None
    round: Number = 0
    apart: Servers | None = None

    def may_acknowledge(
        self, asked: Initiate, sender: Gid, me: Gid, view: Sequence[Gid], isolated: Sequence[Gid]
    ) -> bool:
        """Whether the answer to an Initiate is `acked`; it is `busy` otherwise. `isolated`: those
        of this member and of the sender."""
        acked, change = self.acked, asked.change
        if asked.other is not None and self.apart is not None:
            return False
        if acked is None or (acked.change.id == change.id and acked.coordinator == sender):
            return True
        if acked.coordinator in isolated:
            return True
        if acked.other is not None and acked.coordinator != me:
            return False  # its coordinator may not hear of this change
        return goes_before(key(change, sender, view), key(acked.change, acked.coordinator, view))

    def acknowledged(self, acked: AckedChange, isolated: Servers) -> Promises:
        """After the answer to another member's change."""
        apart = self.apart if acked.other is not None else isolated
        return replace(self, acked=acked, apart=apart)

    def begun(self, acked: AckedChange, isolated: Servers) -> Promises:
        """After the beginning of a round of this member's own."""
        return replace(self.acknowledged(acked, isolated), round=self.round + 1)

    def expecting(self, acked: AckedChange | None) -> Promises:
        """Another change is waited for, or none; what was promised stays."""
        return replace(self, acked=acked)

    def on_next_state(self) -> Promises:
        return Promises(round=self.round)

    def take(self, commit: Commit) -> bool:
        """Whether this member may apply a commit on its base."""
        return self.apart is None or len(commit.bases) == 1

    def leave_out(self, isolated: Sequence[Gid]) -> bool:
        """Whether the change that is waited for leaves all of these out."""
        apart = self.apart or ()
        waits = self.acked is not None and self.acked.coordinator not in isolated
        return waits and all(server in apart for server in isolated)
