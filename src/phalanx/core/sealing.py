"""Making frames: the tag, what it acknowledges, and, in a change, what it refers to.

In a steady view a frame says only what is new since its sender's last one. From the first
frame of a change until every member of the next view has spoken it announces components,
table and whole vector, so that anybody can read it (`announced`).
"""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.config import Config
from phalanx.core.codec import FRAGMENT_HEADER_BYTES
from phalanx.core.effects import Service
from phalanx.core.frames import KIND_OF, Announce, Component, Frame, FrameKind, Run, Said
from phalanx.core.framing import encode_frame
from phalanx.core.ids import MemberId, table_digest
from phalanx.core.membership.contexts import Reach, ranked, united
from phalanx.core.stay import Stay

Content = list[tuple[Run, Sequence[bytes]]]


def announcement(
    stay: Stay, components: tuple[Component, ...], phase: int, said: Said | None
) -> tuple[Announce, tuple[MemberId, ...]]:
    """What this member's next frame announces, and the table it uses."""
    view = Component(stay.view.id, stay.view.members, stay.view.context)
    here = None if view in components else view
    table = stay.view.members if components == (view,) else ranked(united(components))
    domain, number = stay.domain, stay.dag.have[stay.rank] + 1
    vector, floors = [], []
    for member in table:
        slot = domain.slot_of.get(member)
        have = 0 if slot is None else domain.dag.have[slot]
        if slot == stay.rank:
            have = number
        floor = have
        if phase:
            if slot is not None and slot < stay.dag.n:
                floor = domain.floors.get(member, have)
            else:
                floor = domain.floor_of(member, components)
        vector.append(have)
        floors.append(floor)
    context = stay.view.context
    return Announce(components, context, tuple(vector), tuple(floors), said, here), table


def reach_of(announce: Announce, table: tuple[MemberId, ...]) -> Reach:
    return dict(zip(table, announce.vector, strict=True))


def seal(
    stay: Stay,
    config: Config,
    phase: int,
    first: int,
    content: Content,
    acks: tuple[list[int], list[int]],
    announced: tuple[Announce, tuple[MemberId, ...]] | None,
    full: bool,
) -> Frame:
    """A frame of this member, ready to be entered and sent."""
    number = stay.dag.have[stay.rank] + 1
    announce, table, wire, digest = None, stay.view.members, stay.rank, stay.table
    members, numbers = acks
    if announced is not None:
        announce, table = announced
        if table != stay.view.members:
            wire, digest = table.index(stay.me), table_digest(table)
            content = [(_readdressed(run, stay, table), bodies) for run, bodies in content]
    said = None if announce is None else announce.said
    kind = KIND_OF[type(said)] if said else FrameKind.DATA if content else FrameKind.ACK
    if phase:
        members, numbers = [], []  # the announcement has them all
    payload = encode_frame(kind, phase, stay.tag, members, numbers, first, content, announce, full)
    size = config.datagram_bytes_max - FRAGMENT_HEADER_BYTES
    runs = [run for run, _ in content]
    if phase:
        have = enumerate(stay.dag.have)
        pairs = [(slot, upto) for slot, upto in have if upto and slot != stay.rank]
        members, numbers = [slot for slot, _ in pairs], [upto for _, upto in pairs]
    return Frame(
        stay.rank,
        number,
        kind,
        phase,
        digest,
        stay.tag,
        tuple(members),
        tuple(numbers),
        first,
        runs,
        announce,
        payload,
        size if len(payload) > size else 0,
        any(run.service >= Service.AGREED and run.completes for run in runs),
        wire=wire,
        full=full,
    )


def _readdressed(run: Run, stay: Stay, table: tuple[MemberId, ...]) -> Run:
    """The run with its receivers as indices of another table than the view's."""
    if run.to is not None:
        run.to = tuple(sorted(table.index(stay.view.members[rank]) for rank in run.to))
    return run
