"""Components, proposals and frames as packets name them: true ones, and ones that could be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from phalanx.core.ids import MemberId, ViewId, view_digest
from phalanx.core.wire.frame_codec import encode_frame, encode_tag
from phalanx.core.wire.frames import (
    KIND_OF,
    Announce,
    Component,
    ControlMessage,
    FrameKind,
    MessageRun,
    ProposalBody,
)
from phalanx.core.wire.packet_codec import PacketCodec
from phalanx.core.wire.packets import Fragment

PIECE_BYTES = 1400


def ranked(members: Iterable[MemberId]) -> tuple[MemberId, ...]:
    return tuple(sorted(set(members)))


def made_up(
    members: Iterable[MemberId], joins: int = 1, removals: int = 0, context: bytes = b"context8"
) -> Component:
    """A component that could be: its name follows from its members."""
    names = ranked(members)
    return Component(ViewId(joins, removals, view_digest(context, names)), names, context)


def body(components: Sequence[Component], left_out: Sequence[tuple[int, int]] = ()) -> bytes:
    """A proposal on the wire, whether it can be one or not."""
    return msgspec.msgpack.encode(ProposalBody(tuple(components), tuple(left_out)))


def forged(
    codec: PacketCodec,
    sender: MemberId,
    number: int,
    where: Component,
    proposal: bytes,
    said: ControlMessage | None = None,
    **more: object,
) -> list[bytes]:
    """The packets of a frame that a member sends from a component; by default one that could be.
    `more` overrides fields of the announcement, the phase, the runs and the table."""
    index = where.members.index(sender)
    fields: dict[str, object] = {
        "proposal": proposal,
        "vector": tuple(number if m == sender else 0 for m in where.members),
        "issued": number,
        "start": number,
        "closings": (),
        "openings": (),
        "said": said,
    }
    fields |= {name: value for name, value in more.items() if name in fields}
    runs: Sequence[tuple[MessageRun, Sequence[bytes]]] = more.get("runs", ())  # type: ignore[assignment]
    kind = KIND_OF[type(said)] if said is not None else FrameKind.DATA if runs else FrameKind.ACK
    phase, table = more.get("phase", 1), more.get("table", where.view.digest)
    assert isinstance(phase, int)
    assert isinstance(table, bytes)
    announce = Announce(**fields)  # type: ignore[arg-type]
    payload = encode_frame(kind, phase, encode_tag(where.view), [], [], 1, runs, announce)
    cuts = [payload[at : at + PIECE_BYTES] for at in range(0, len(payload), PIECE_BYTES)]
    return [
        codec.encode_fragment(Fragment(cut, table, index, index, number, i, len(cuts), 0))
        for i, cut in enumerate(cuts)
    ]
