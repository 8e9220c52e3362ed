"""Invariants between the parts of a member, for tests: what must hold after every step.

Each part keeps its own state consistent; these are the places where two parts must agree. A failed
assertion is a bug of ours. No step runs these checks by itself.
"""

from __future__ import annotations

from operator import ge

from phalanx.core.broadcast.frame_store import FrameStore
from phalanx.core.broadcast.reliable import ReliableBroadcast
from phalanx.core.ids import MemberId
from phalanx.core.member.control_plane import ControlPlane
from phalanx.core.member.sender import Sender
from phalanx.core.member.view_state import ViewState
from phalanx.core.membership.protocol import MembershipProtocol


def check_invariants(
    me: MemberId,
    state: ViewState,
    protocol: MembershipProtocol,
    sender: Sender,
    control_plane: ControlPlane,
) -> None:
    """Raise AssertionError if two parts of a member disagree."""
    _check_view(me, state, protocol, control_plane)
    _check_sender(sender, protocol)
    broadcast = state.broadcast
    assert not broadcast.has_deferred, "deferred frames are handled in the step they arrive in"
    assert all(map(ge, broadcast.heard, broadcast.dag.have)), "what is here is known to exist"


def check_frames(state: ViewState) -> None:
    """Raise AssertionError if the parts that hold frames disagree. Takes time for each frame."""
    assert state.ranked == {member: rank for rank, member in enumerate(state.view.members)}
    _check_store(state.broadcast.store, state.rank)
    _check_missing(state.broadcast)


def _check_view(
    me: MemberId, state: ViewState, protocol: MembershipProtocol, control_plane: ControlPlane
) -> None:
    members = state.view.members
    assert protocol.view == state.view, "the protocol and the member are in one view"
    assert protocol.base.view == state.view.id, "proposals start from the view that is installed"
    assert members[state.rank] == me, "a member is in its view"
    assert state.dag.n == len(members) == len(control_plane.detector.heard_ns)
    assert all(proposal.entries.get(me) == state.view.id for proposal in protocol.issued), (
        "a member counts itself in what it proposes"
    )
    assert state.broadcast.steady == (protocol.phase == 0), "frames are deferred during a change"
    assert bool(state.issued) == bool(protocol.issued), "each proposal was sent in a frame"
    if not state.awaiting_first_frames:
        assert len(members) == 1 or state.dag.all_spoke, "a view is complete when all have spoken"


def _check_sender(sender: Sender, protocol: MembershipProtocol) -> None:
    outbox, receipts = sender.outbox, sender.receipts
    assert outbox.following - 1 + outbox.messages == sender.accepted, "every message is counted"
    assert receipts.settled_upto <= receipts.stable_upto <= outbox.following - 1, (
        "only messages that were sent have receipts"
    )
    if protocol.leaving:
        assert sender.silenced, "nothing is sent after LEAVE"
        assert sender.closed, "nothing is accepted by a member that leaves"


def _check_store(store: FrameStore, rank: int) -> None:
    dag = store.dag
    kept = [frame for frames in dag.frames for frame in frames.values() if frame.runs]
    assert store.bytes == sum(len(frame.payload) for frame in kept), "the window is exact"
    assert store.own_bytes == sum(len(f.payload) for f in kept if f.sender == rank)
    waiting = store.all_waiting()
    assert store.waiting_bytes == sum(len(frame.payload) for frame in waiting)
    assert all(frame.number > dag.have[frame.sender] for frame in waiting), "nothing waits twice"
    for sender, frames in enumerate(dag.frames):
        numbers = range(store.dropped[sender] + 1, dag.have[sender] + 1)
        assert len(frames) == len(numbers), "all frames are kept that are not dropped"
        assert all(number in numbers for number in frames)


def _check_missing(broadcast: ReliableBroadcast) -> None:
    dag, store = broadcast.dag, broadcast.store
    for slot, number in broadcast.retransmission.missing:
        assert number > dag.have[slot], "nobody asks for a frame that is in the DAG"
        assert number not in store.waiting[slot], "nor for one that waits"
