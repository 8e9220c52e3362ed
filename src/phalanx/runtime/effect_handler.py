"""The effects of the core, carried out in order: packets go to the transport, events to the buffer,
progress to the receipts.

Everything the application can observe of the core passes through here, in the order in which the
core returned it. The journal and the log get the same effects from the runner.
"""

from __future__ import annotations

from phalanx.core import effects as fx
from phalanx.runtime import events
from phalanx.runtime.event_buffer import EventBuffer
from phalanx.runtime.event_log import EventLog
from phalanx.runtime.receipt_tracker import ReceiptTracker
from phalanx.runtime.view_feed import ViewFeeds
from phalanx.transport.base import Transport

MEMBER_BYTES = 64
"""The size of a member in a view or marker, as counted by the buffer."""


class EffectHandler:
    """Belongs to the event loop's thread; other threads may read its attributes."""

    def __init__(
        self,
        view: events.View,
        transport: Transport,
        buffer: EventBuffer,
        receipts: ReceiptTracker,
        log: EventLog,
    ) -> None:
        self.view = view
        """The installed view. The application may not have read the event yet."""
        self.feeds = ViewFeeds()
        self.refused: dict[str, int] = {}
        """The number of packets dropped as invalid, by reason."""
        self.stop_reason = ""
        """Why the core has stopped, once it has."""
        self._transport = transport
        self._buffer = buffer
        self._receipts = receipts
        self._log = log

    def handle(self, now: int, effects: list[fx.Effect]) -> bool:
        """Carry out the effects of one step. Returns whether the application has new events to
        read; the caller wakes it once the journal has the rows of the step."""
        put = False
        # The four kinds that come with every frame are tested first, by type: a `match` costs more
        # (bench/bench_core.py).
        for effect in effects:
            if type(effect) is fx.Transmit:
                self._transport.send(now, effect.packets)
            elif type(effect) is fx.Deliver:
                self._buffer.put(events.Messages(effect), len(effect.payload))
                put = True
            elif type(effect) is fx.Ordered:
                self._receipts.ordered(effect.upto, effect.view)
            elif type(effect) is fx.Stable:
                ended = effect.members is not None
                members = self.view.members if effect.members is None else effect.members
                self._receipts.stable(effect.upto, effect.view, members, ended)
            elif type(effect) is not fx.Accepted and type(effect) is not fx.Sent:
                self._log.effect(now, effect)
                put = self._handle_rare(effect, effects) or put
        return put

    def _handle_rare(self, effect: fx.Effect, step: list[fx.Effect]) -> bool:
        """Effects that do not come with every message. Returns whether this put an event."""
        match effect:
            case fx.ViewInstalled():
                self.view = events.view_of(effect, fx.roles_among(step, effect))
                self.feeds.put(self.view)
                self._buffer.put(self.view, MEMBER_BYTES * len(self.view.members))
            case fx.Transitional():
                marker = events.Transitional(view=effect.view, members=effect.members)
                self._buffer.put(marker, MEMBER_BYTES * len(effect.members))
            case fx.NotSent(first, last, members, rest, sent):
                self._receipts.not_sent(first, last, members, rest)
                self._buffer.put(events.NotSent(first, last, members, rest, sent), 0)
            case fx.AllDelivered(upto, view, members):
                here = self.view.members if members is None else members
                self._receipts.delivered(upto, view, here)
                return False
            case fx.Refused(reason, count):
                self.refused[reason] = self.refused.get(reason, 0) + count
                return False
            case fx.Stopped(reason):
                self.stop_reason = reason
                return False
            case _:
                return False
        return True
