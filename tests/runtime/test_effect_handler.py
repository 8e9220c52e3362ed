"""Effects of the core become packets, events and receipts."""

from __future__ import annotations

from tests.runtime.idle_transport import IdleTransport

import phalanx
from phalanx.core import effects as fx
from phalanx.core.ids import MemberId, boot_view
from phalanx.runtime import events
from phalanx.runtime.effect_handler import EffectHandler
from phalanx.runtime.event_buffer import EventBuffer
from phalanx.runtime.event_log import EventLog
from phalanx.runtime.receipt_tracker import PendingReceipt, ReceiptTracker, State

ADA, BEA = MemberId("ada"), MemberId("bea")
VIEW = boot_view([ADA, BEA])


class Made:
    def __init__(self) -> None:
        config = phalanx.lan()
        self.transport, self.buffer = IdleTransport(), EventBuffer(config)
        self.receipts = ReceiptTracker()
        view = events.View(id=VIEW.id, members=VIEW.members)
        log = EventLog("g", ADA, config)
        self.handler = EffectHandler(view, self.transport, self.buffer, self.receipts, log)


def test_packets_go_to_the_transport_and_are_no_event() -> None:
    made = Made()
    assert not made.handler.handle(0, [fx.Transmit([b"a", b"b"]), fx.Transmit([b"c"])])
    assert made.transport.sent == [b"a", b"b", b"c"]
    assert made.buffer.take() == []


def test_a_view_is_an_event_and_the_installed_view() -> None:
    made = Made()
    alone = boot_view([ADA])
    effect = fx.ViewInstalled(alone, VIEW.id, (ADA,), "removal", (), (BEA,))
    assert made.handler.handle(0, [effect])
    assert made.handler.view.members == (ADA,)
    assert made.buffer.take() == [made.handler.view]


def test_receipts_of_a_running_view_name_all_its_members() -> None:
    made = Made()
    receipt = PendingReceipt(2, VIEW.members)
    made.receipts.accepted(receipt, 1)
    assert not made.handler.handle(0, [fx.Ordered(2, VIEW.id), fx.Stable(2, VIEW.id, None)])
    assert receipt.outcome(State.STABLE).members == VIEW.members
    assert not receipt.outcome(State.STABLE).transitional


def test_refused_packets_are_counted_by_reason_and_the_end_is_kept() -> None:
    made = Made()
    effects: list[fx.Effect] = [fx.Refused("short", 2), fx.Refused("short", 1), fx.Stopped("left")]
    assert not made.handler.handle(0, effects)
    assert made.handler.refused == {"short": 3}
    assert made.handler.stop_reason == "left"
