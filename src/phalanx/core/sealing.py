"""Making frames: the tag, what it acknowledges, and, in a change, what it announces.

In a steady view a frame says only what is new since its sender's last one. From the first
frame of a change until every member of the next view has spoken it announces its view, proposal
and whole vector, so that anybody can read it (`announcement`).
"""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.config import Config
from phalanx.core.codec import FRAGMENT_HEADER_BYTES
from phalanx.core.effects import Service
from phalanx.core.frames import KIND_OF, Announce, Frame, FrameKind, Run
from phalanx.core.framing import encode_frame
from phalanx.core.stay import Stay

Content = list[tuple[Run, Sequence[bytes]]]


def seal(
    stay: Stay,
    config: Config,
    phase: int,
    first: int,
    content: Content,
    acks: tuple[list[int], list[int]],
    announce: Announce | None,
    full: bool,
) -> Frame:
    """A frame of this member, ready to be entered and sent."""
    number = stay.dag.have[stay.rank] + 1
    members, numbers = acks
    said = None if announce is None else announce.said
    kind = KIND_OF[type(said)] if said else FrameKind.DATA if content else FrameKind.ACK
    if phase:
        members, numbers = [], []  # the announcement has them all
    payload = encode_frame(kind, phase, stay.tag, members, numbers, first, content, announce, full)
    size = config.datagram_bytes_max - FRAGMENT_HEADER_BYTES
    runs = [run for run, _ in content]
    if phase:
        have = enumerate(stay.dag.have)
        pairs = [(rank, upto) for rank, upto in have if upto and rank != stay.rank]
        members, numbers = [rank for rank, _ in pairs], [upto for _, upto in pairs]
    return Frame(
        stay.rank,
        number,
        kind,
        phase,
        stay.table,
        stay.tag,
        tuple(members),
        tuple(numbers),
        first,
        runs,
        announce,
        payload,
        size if len(payload) > size else 0,
        any(run.service >= Service.AGREED and run.completes for run in runs),
        wire=stay.rank,
        full=full,
    )
