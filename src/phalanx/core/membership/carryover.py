"""What crosses from one view to the next (rule Cut of docs/protocol/membership.md).

A view delivers the frames that were sent in it in phase 0, and those that were *carried* into it:
the frames of phase 1 that each of its members sent in the view that it came from, after the start
that its closing frame names. Carried frames enter the DAG of the new view below everything that
is sent there. A frame of phase 1 has one sender and one view, and a member comes from one view, so
no frame is carried into two views that one member installs.
"""

from __future__ import annotations

import msgspec

from phalanx.core.ids import MemberId, View, ViewId
from phalanx.core.membership.instructions import InstallView
from phalanx.core.roles import Roles
from phalanx.core.wire.frame_codec import decode_tag
from phalanx.core.wire.frames import Frame


class ViewOrigin(msgspec.Struct, frozen=True):
    """A view and where its members came from. All dicts are empty for a boot view."""

    view: View
    entries: dict[MemberId, ViewId] = {}
    starts: dict[MemberId, int] = {}
    """Per member, the frame after which its frames of phase 1 are carried into the view."""
    closings: dict[MemberId, int] = {}
    """Per member, the frame with which it issued the view."""
    roles: Roles = ()

    def carries(self, frame: Frame, sender: MemberId) -> bool:
        """Whether a frame with a tag of another view belongs here (rule Cut)."""
        came_from = self.entries.get(sender)
        return (
            came_from is not None
            and frame.phase == 1
            and frame.number > self.starts[sender]
            and decode_tag(frame.tag) == came_from
        )


def origin_of(install: InstallView) -> ViewOrigin:
    issues = install.issues
    return ViewOrigin(
        install.view,
        install.proposal.entries,
        {member: issue.start for member, issue in issues.items()},
        {member: issue.number for member, issue in issues.items()},
        install.proposal.roles,
    )


def adopt(
    frame: Frame,
    members: tuple[MemberId, ...],
    vector: dict[MemberId, int],
    origin: ViewOrigin,
    ranks: dict[MemberId, int],
) -> None:
    """Give a carried frame the ranks of the view that it is carried into. It was sent in a view of
    `members`; of what it follows there, only frames of members that came the same way count
    (rule D-19)."""
    sender = members[frame.wire]
    came_from = origin.entries[sender]
    acks = sorted(
        (ranks[member], number)
        for member, number in vector.items()
        if number and member != sender and origin.entries.get(member) == came_from
    )
    frame.sender = ranks[sender]
    frame.ack_members = tuple(rank for rank, _ in acks)
    frame.ack_numbers = tuple(number for _, number in acks)
    for run in frame.runs:
        if run.to is not None:
            if run.names is None:
                run.names = tuple(members[index] for index in run.to)
            run.to = tuple(sorted(ranks[m] for m in run.names if m in ranks))
