"""Mutants of the reports to an application: receipts, lost receivers, views."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from phalanx.core.broadcast.dag import Dag
from phalanx.core.broadcast.flow_control import FlowControlWindow
from phalanx.core.broadcast.outbox import LostReceivers, Outbox
from phalanx.core.delivery.delivery_reports import DeliveryReports
from phalanx.core.delivery.receipts import ReceiptLedger
from phalanx.core.effects import Effect, MergedComponent, MessageRange, Transitional, ViewInstalled
from phalanx.core.ids import MemberId, ViewId
from phalanx.core.member import view_change, view_state
from phalanx.core.member.view_change import ViewChange
from phalanx.core.member.view_state import ViewState
from phalanx.core.membership import carryover, reconciliation
from phalanx.core.membership.instructions import InstallView
from phalanx.core.membership.protocol import MembershipProtocol
from phalanx.core.membership.reconciliation import DeliveryProgress, Reached, merge_report
from phalanx.core.wire.frames import DeliveredVector, Frame
from phalanx.sim.mutants.mutant import Mutant

# ------------------------------------------------------------------ receipts


def ordered_when_sent(self: ReceiptLedger, frame: Frame, tag: bytes) -> bool:
    return self._belongs(frame, tag)


def not_in_phase_1(self: ReceiptLedger, frame: Frame) -> None:
    if frame.phase == 0:
        _SENT(self, frame)


def named_by_nobody(
    self: ReceiptLedger,
    view: ViewId,
    tag: bytes,
    stable: int,
    together: tuple[MemberId, ...],
    out: list[Effect],
) -> None:
    """At the end of a view everything counts as being at all of its members."""
    _CLOSE(self, view, tag, 1 << 62, together, out)


def stable_when_ordered(
    self: ReceiptLedger, view: ViewId, tag: bytes, stable: int, out: list[Effect]
) -> None:
    upto = [frame.number for frame in self._unstable if self._has_place(frame, tag)]
    _ADVANCE(self, view, tag, max([stable, *upto]), out)


def delivered_when_stable(self: DeliveryReports, dag: Dag) -> bool:
    return True


def delivered_when_the_view_ends(
    self: DeliveryReports, view: ViewId, upto: int, together: tuple[MemberId, ...]
) -> None:
    """Members count as moved on before they have spoken in the next view."""
    _END(self, view, upto, together)
    self.all_spoke()


_END = DeliveryReports.close
_SENT, _CLOSE, _ADVANCE = ReceiptLedger.sent, ReceiptLedger.close, ReceiptLedger.advance

# ------------------------------------------------------------------ receivers


def nobody_is_lost(frame: Frame, ranked: dict[MemberId, int], out: list[Effect]) -> None:
    pass


def readdressed_in_silence(self: Outbox, ranks: dict[int, int]) -> list[LostReceivers]:
    _READDRESS(self, ranks)
    return []


def by_name_alone(
    frame: Frame,
    members: tuple[MemberId, ...],
    vector: dict[MemberId, int],
    origin: carryover.ViewOrigin,
    ranks: dict[MemberId, int],
) -> None:
    """A carried message goes to any process with the name of a receiver."""
    _ADOPT(frame, members, vector, origin, ranks)
    for run in frame.runs:
        if run.names is not None:
            names = {member.name for member in run.names}
            run.to = tuple(sorted(rank for m, rank in ranks.items() if m.name in names))


_READDRESS = Outbox.readdress
_ADOPT = carryover.adopt

# ------------------------------------------------------------------ views


def swapped(
    self: ViewChange, now: int, install: InstallView, inputs: Any, out: list[Effect]
) -> None:
    begun = len(out)
    _INSTALL(self, now, install, inputs, out)
    for at in range(begun, len(out)):
        effect = out[at]
        if isinstance(effect, ViewInstalled):
            joined, left = effect.left, effect.joined
            out[at] = msgspec.structs.replace(effect, joined=joined, left=left)


def all_on_the_marker(
    self: ViewState, cut: list[int], together: tuple[MemberId, ...], out: list[Effect]
) -> None:
    begun = len(out)
    _STAY_CLOSE(self, cut, together, out)
    for at in range(begun, len(out)):
        effect = out[at]
        if isinstance(effect, Transitional):
            out[at] = msgspec.structs.replace(effect, members=self.view.members)


def first_instead_of_last(install: InstallView) -> tuple[MergedComponent, ...]:
    """Of what one side alone delivered, only the first message is named."""
    return tuple(
        msgspec.structs.replace(
            side,
            alone=tuple(MessageRange(some.sender, some.first, some.first) for some in side.alone),
        )
        for side in merge_report(install)
    )


def nobody_is_met(self: DeliveryProgress, install: InstallView) -> None:
    """A sender's messages from before it was met count as if they had been missed."""


def from_the_first(said: DeliveredVector) -> Iterator[tuple[MemberId, Reached]]:
    """A member delivered all messages up to the last, whenever it met the sender."""
    for member, reached in _DECODED(said):
        yield member, msgspec.structs.replace(reached, first=1)


_DECODED = reconciliation._decoded
_INSTALL = ViewChange._install
_STAY_CLOSE = ViewState.close

# ------------------------------------------------------------------ ends and bounds


def gone_at_once(self: MembershipProtocol) -> bool:
    return self.leaving


def never_full(self: FlowControlWindow, in_flight: int, own: int) -> bool:
    return True


MUTANTS: dict[str, Mutant] = {
    "ordered-when-sent": Mutant(
        "D-12: report an agreed message as ordered before its place is known",
        ((ReceiptLedger, "_has_place", ordered_when_sent),),
        "membership",
    ),
    "no-receipts-in-flow": Mutant(
        "D-14: give no receipt for messages that are sent during a change",
        ((ReceiptLedger, "sent", not_in_phase_1),),
        "storm",
    ),
    "stable-at-the-end": Mutant(
        "D-14: report what a view delivers at its end as being at all of its members",
        ((ReceiptLedger, "close", named_by_nobody),),
        "membership",
    ),
    "delivered-when-stable": Mutant(
        "D-15: report messages as delivered by all when all have them",
        ((DeliveryReports, "_is_delivered", delivered_when_stable),),
        "membership",
    ),
    "delivered-when-the-view-ends": Mutant(
        "D-15: report messages as delivered by members that have not spoken in the next view",
        ((DeliveryReports, "close", delivered_when_the_view_ends),),
        "membership",
    ),
    "stable-when-ordered": Mutant(
        "D-13: report a message as stable when its place is known",
        ((ReceiptLedger, "advance", stable_when_ordered),),
        "membership",
    ),
    "not-sent-never": Mutant(
        "D-16: do not report receivers that are gone",
        (
            (view_change, "lost_receivers", nobody_is_lost),
            (Outbox, "readdress", readdressed_in_silence),
        ),
        "membership",
    ),
    "carried-in-silence": Mutant(
        "D-16: do not report receivers that are gone when a message is carried into the next view",
        ((view_change, "lost_receivers", nobody_is_lost),),
        "storm",
    ),
    "receivers-by-name": Mutant(
        "D-19: deliver a carried message to the next process of a receiver's name",
        ((view_state, "adopt", by_name_alone),),
        "membership",
    ),
    "joined-and-left-swapped": Mutant(
        "D-18: tell the members that joined as those that left, and the other way round",
        ((ViewChange, "_install", swapped),),
        "membership",
    ),
    "marker-names-all": Mutant(
        "D-10: name all members of the view on the transitional marker",
        ((ViewState, "close", all_on_the_marker),),
        "membership",
    ),
    "first-instead-of-last": Mutant(
        "D-17: name of what one side alone delivered only the first message",
        ((view_change, "merge_report", first_instead_of_last),),
        "membership",
    ),
    "nobody-is-met": Mutant(
        "D-17: forget what a sender had sent before it was met, and what a merge has reported",
        ((DeliveryProgress, "merged", nobody_is_met),),
        "membership",
    ),
    "alone-from-the-first": Mutant(
        "D-17: name what a sender sent before it was met as delivered",
        ((reconciliation, "_decoded", from_the_first),),
        "membership",
    ),
    "leaver-goes-at-once": Mutant(
        "LEAVE: leave without waiting until the others know",
        ((MembershipProtocol, "has_left", property(gone_at_once)),),
        "membership",
    ),
    "no-window-limit": Mutant(
        "W-2: send whatever is in flight",
        ((FlowControlWindow, "is_open", never_full),),
        "fixed",
    ),
}
