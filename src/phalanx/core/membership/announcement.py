"""Announcements: what a frame of a change says to members that do not know its sender's view.

From the first frame of a change until all members of the next view have spoken in it, frames
carry an `Announce`: the sender's view and proposal and its whole vector time. Here one is built,
checked and read. A check refuses what nobody can have sent: an announcement that contradicts the
frame or itself. It cannot refuse lies that could be true: frames are not authenticated.
"""

from __future__ import annotations

from phalanx.core.ids import NUMBER_MAX, MemberId
from phalanx.core.membership.proposals import Proposal, read_proposal
from phalanx.core.membership.statements import Statement
from phalanx.core.wire.frame_codec import decode_tag
from phalanx.core.wire.frames import Announce, Component, Frame, LeaveAnnounced, Propose

ANNOUNCED_MAX = NUMBER_MAX // 2
"""The greatest number of an announced frame. Numbers of a view go on from those of such frames, and
no view lasts for as many frames again."""


def component_of_frame(frame: Frame) -> Component | None:
    """The view that an announced frame was sent in; None if it does not say."""
    if frame.control is None:
        return None
    proposal = read_proposal(frame.control.proposal)
    return None if proposal is None else proposal.components.get(decode_tag(frame.tag))


def sender_of(frame: Frame) -> MemberId | None:
    """Who sent an announced frame; None if it contradicts itself."""
    component = component_of_frame(frame)
    if component is None or frame.wire >= len(component.members):
        return None
    sender = component.members[frame.wire]
    if component.view.digest != frame.table or not _is_possible(frame, component, sender):
        return None
    return sender


def _is_possible(frame: Frame, component: Component, sender: MemberId) -> bool:
    """Whether an announced frame is consistent with itself (rule M-2)."""
    announce = frame.control
    assert announce is not None
    size = len(component.members)
    if frame.phase > 1 or len(announce.vector) != size or frame.number > ANNOUNCED_MAX:
        return False
    if announce.openings and len(announce.openings) != size:
        return False
    if announce.vector[frame.wire] != frame.number:
        return False
    if any(run.to and run.to[-1] >= size for run in frame.runs):
        return False
    if frame.ack_members and frame.ack_members[-1] >= size:
        return False
    proposal = read_proposal(announce.proposal)
    assert proposal is not None
    if frame.phase == 0:
        alone = len(proposal.components) == 1 and not proposal.left_out
        return alone and not (announce.said or announce.issued or announce.closings)
    if proposal.entries.get(sender) != component.view:
        return False
    if announce.closings and len(announce.closings) != len(proposal.entries):
        return False
    match announce.said:
        case Propose(delivered):
            if announce.issued != frame.number:
                return False
            if not delivered.is_possible:
                return False
        case LeaveAnnounced():
            if announce.issued >= frame.number:
                return False
        case None:
            if not 0 < announce.issued < frame.number:
                return False
    return announce.start <= announce.issued


def statement_of(frame: Frame, sender: MemberId) -> Statement:
    """What a checked frame says of its sender's place in the protocol."""
    announce, component = frame.control, component_of_frame(frame)
    assert announce is not None
    assert component is not None
    said, proposal = announce.said, read_proposal(announce.proposal)
    assert proposal is not None
    closings = dict(zip(proposal.view.members, announce.closings, strict=False))
    return Statement(
        member=sender,
        number=frame.number,
        component=component,
        proposal=proposal if announce.issued else None,
        issued=announce.issued,
        start=announce.start,
        delivered=said.delivered if isinstance(said, Propose) else None,
        closings=closings,
        openings=dict(zip(component.members, announce.openings, strict=False)),
        leaves=isinstance(said, LeaveAnnounced),
    )


def vector_of(frame: Frame) -> dict[MemberId, int]:
    """The vector time of a checked announced frame, by name."""
    announce, component = frame.control, component_of_frame(frame)
    assert announce is not None
    assert component is not None
    return dict(zip(component.members, announce.vector, strict=True))


def announce(
    proposal: Proposal,
    vector: tuple[int, ...],
    issued: int,
    start: int,
    closings: tuple[int, ...],
    openings: tuple[int, ...],
    said: Propose | LeaveAnnounced | None,
) -> Announce:
    return Announce(proposal.encoded, vector, issued, start, closings, openings, said)
