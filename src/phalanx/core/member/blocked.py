"""Who keeps a member from sending: the members that its messages wait for, and why.

Messages wait for a member that is `unread` (its application is behind with reading and its frames
say so), `unacknowledged` (the window is closed, and it has not acknowledged the oldest frames in
it) or `unanswered` (a view change holds messages back, and it has not issued the current proposal).
"""

from __future__ import annotations

from typing import Literal

from phalanx.core.ids import MemberId
from phalanx.core.member.view_state import ViewState
from phalanx.core.membership.protocol import MembershipProtocol

Wait = Literal["unread", "unacknowledged", "unanswered"]


def unanswered(protocol: MembershipProtocol) -> dict[MemberId, Wait]:
    """The members whose answer to the current proposal is not here."""
    entries = protocol.current.view.members
    frames = protocol.closings()
    missing = (m for m, frame in zip(entries, frames, strict=True) if not frame)
    return {member: "unanswered" for member in missing if member != protocol.me}


def unread(view_state: ViewState, backlog: int) -> dict[MemberId, Wait]:
    """The members whose applications are behind with reading. One that is over full itself waits
    for nobody else."""
    if backlog > 1:
        return {view_state.me: "unread"}
    members = zip(view_state.view.members, view_state.full, strict=True)
    return {member: "unread" for member, full in members if full and member != view_state.me}


def unacknowledged(view_state: ViewState) -> dict[MemberId, Wait]:
    """The members that hold up stability: of some sender they have acknowledged the fewest frames
    of all, and more are here."""
    dag = view_state.dag
    behind = [s for s in range(dag.n) if dag.stable[s] < dag.have[s]]
    return {
        member: "unacknowledged"
        for rank, member in enumerate(view_state.view.members)
        if rank != view_state.rank and any(dag.latest[rank][s] == dag.stable[s] for s in behind)
    }
