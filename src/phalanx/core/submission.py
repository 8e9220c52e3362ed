"""The check of a submission, written once for both places that need it.

The runtime checks in the caller's thread, so that the error reaches the caller. The core checks
again when the submission leaves the queue, because the view may have changed in between and because
the simulator uses the core without the runtime.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from phalanx.core.ids import MemberId
from phalanx.errors import MessageTooLarge, NoReceiver, NotBytes, UnknownMember


def check_submission(
    bodies: Sequence[bytes],
    to: Collection[MemberId] | None,
    members: Collection[MemberId],
    message_bytes_max: int,
) -> list[int]:
    """Return the lengths of the bodies. Raises NotBytes, MessageTooLarge, NoReceiver if `to` is
    empty, and UnknownMember if `to` names a member outside `members`, the current view."""
    others = set(map(type, bodies)) - {bytes}
    if others:
        raise NotBytes(min(kind.__name__ for kind in others))
    lengths = list(map(len, bodies))
    longest = max(lengths, default=0)
    if longest > message_bytes_max:
        raise MessageTooLarge(longest, message_bytes_max)
    if to is not None:
        if not to:
            raise NoReceiver
        for member in to:
            if member not in members:
                raise UnknownMember(str(member), tuple(map(str, members)))
    return lengths
