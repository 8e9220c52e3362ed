"""From one view to the next: what is delivered where (PROTOCOLS B.7, B.5, B.6 items 4 to 8).

A frame belongs to a view by its tag. View w delivers the frames tagged (w, 0), all of which its
survivors put under what closed it, and the frames *carried* into it: phase-1 frames of its
members from the views before. A frame of phase 1 is carried into view u if its sender is in u
and either it was sent in the view that its sender came from, or nothing that closed u
follows it.

A view that ends before it could begin, because a further change was already under way when
it was installed, is in *transit*: nothing is delivered in it before it closes, for the next
view may carry the same frames on.

What u carries from below its closing frames is the same set at all who install it: it leaves
first, as one batch, in an order that any of them can compute. What lies above enters the DAG of u
as if it had been sent there.
"""

from __future__ import annotations

import msgspec

from phalanx.core.announced import table_of
from phalanx.core.frames import Component, Frame
from phalanx.core.ids import MemberId, View, ViewId
from phalanx.core.membership.contexts import Reach, covers, epoch


class Carried(msgspec.Struct, frozen=True):
    """A phase-1 frame with messages, by names that outlast a view."""

    sender: MemberId
    number: int
    view: ViewId
    reach: Reach
    table: tuple[MemberId, ...]
    frame: Frame


class Border(msgspec.Struct, frozen=True):
    """How a view began: where its members came from, and the past of what closed the last."""

    view: View
    origins: dict[MemberId, Component]
    closing: Reach

    def carries(self, item: Carried) -> bool:
        return self.carries_on(item.view, item.sender, item.number)

    def carries_on(self, view: ViewId, sender: MemberId, number: int) -> bool:
        """carried(m; u, og, cl) of PROTOCOLS B.7."""
        where = self.origins.get(sender)
        if where is None or not epoch(view) < epoch(self.view.id):
            return False
        if epoch(view) >= epoch(where.view):
            return True
        return not covers(self.closing, sender, number)


def carried_from(frame: Frame, sender: MemberId, view: ViewId) -> Carried:
    announce = frame.control
    assert announce is not None
    table = table_of(announce)
    reach = dict(zip(table, announce.vector, strict=True))
    return Carried(sender, frame.number, view, reach, table, frame)


def in_order(items: list[Carried]) -> list[Carried]:
    """A linear order that respects what follows what, the same for the same items."""
    rest = sorted(items, key=lambda item: (item.sender, item.number))
    out: list[Carried] = []
    while rest:
        for item in rest:
            if not any(
                covers(item.reach, other.sender, other.number)
                for other in rest
                if other is not item
            ):
                break
        else:  # only vectors that are no vectors go round in a circle
            item = rest[0]
        rest.remove(item)
        out.append(item)
    return out


def settle_in(item: Carried, view: View, ranks: dict[MemberId, int]) -> Frame:
    """The frame with the ranks of the view that delivers it."""
    frame = item.frame
    frame.sender = ranks[item.sender]
    frame.vector = [item.reach.get(member, 0) for member in view.members]
    readdress(frame, item.table, ranks)
    return frame


def readdress(frame: Frame, table: tuple[MemberId, ...], ranks: dict[MemberId, int]) -> None:
    """Receivers as ranks of the view, where the frame's indices refer to another table."""
    for run in frame.runs:
        if run.to is not None:
            if run.names is None:
                run.names = tuple(table[i] for i in run.to if i < len(table))
            present = [ranks[member] for member in run.names if member in ranks]
            run.to = tuple(sorted(present))
