"""Making frames: the tag, what it acknowledges, and, in a change, what it announces.

In a steady view a frame says only what is new since its sender's last one. From the first
frame of a change until every member of the next view has spoken it announces its view, proposal
and whole vector, so that anybody can read it (`announcement`).
"""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.config import Config
from phalanx.core.effects import Service
from phalanx.core.member.view_state import ViewState
from phalanx.core.wire.frame_codec import encode_frame
from phalanx.core.wire.frames import KIND_OF, Announce, Frame, FrameKind, MessageRun
from phalanx.core.wire.packet_codec import FRAGMENT_HEADER_BYTES

Content = list[tuple[MessageRun, Sequence[bytes]]]


def build_frame(
    view_state: ViewState,
    config: Config,
    phase: int,
    first: int,
    content: Content,
    acks: tuple[list[int], list[int]],
    announce: Announce | None,
    full: bool,
) -> Frame:
    """A frame of this member, ready to be entered and sent (rule F-7)."""
    number = view_state.dag.have[view_state.rank] + 1
    members, numbers = acks
    said = None if announce is None else announce.said
    kind = KIND_OF[type(said)] if said else FrameKind.DATA if content else FrameKind.ACK
    if phase:
        members, numbers = [], []  # the announcement has them all
    payload = encode_frame(
        kind, phase, view_state.tag, members, numbers, first, content, announce, full
    )
    size = config.datagram_bytes_max - FRAGMENT_HEADER_BYTES
    runs = [run for run, _ in content]
    if phase:
        have = enumerate(view_state.dag.have)
        pairs = [(rank, upto) for rank, upto in have if upto and rank != view_state.rank]
        members, numbers = [rank for rank, _ in pairs], [upto for _, upto in pairs]
    return Frame(
        view_state.rank,
        number,
        kind,
        phase,
        view_state.table,
        view_state.tag,
        tuple(members),
        tuple(numbers),
        first,
        runs,
        announce,
        payload,
        size if len(payload) > size else 0,
        any(run.service >= Service.AGREED and run.completes for run in runs),
        wire=view_state.rank,
        full=full,
    )
