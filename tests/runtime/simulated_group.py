"""Members of one group on a virtual network and clock: runner, queue, core and receipts as in a
process, without sockets and threads. Every run is the same."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

import phalanx
from phalanx.core import effects as fx
from phalanx.core.ids import MemberId
from phalanx.runtime import member_runner
from phalanx.runtime.events import Event, Message, NotSent
from phalanx.runtime.identity import Identity
from phalanx.runtime.member_runner import MemberRunner
from phalanx.runtime.receipt_tracker import Outcome, PendingReceipt, State
from phalanx.transport.base import ChannelEvent
from phalanx.transport.fault_injection import FaultInjector

MS = 1_000_000
PATIENCE_MS = 20_000


class SimulatedTransport:
    """Packets to and from the other members, each with the name of its sender."""

    def __init__(self, send: Callable[[list[bytes]], None]) -> None:
        self.address = "nowhere:0"
        self.receive_bytes = 1 << 20
        self.faults = FaultInjector()
        self.counts: Counter[str] = Counter()
        self.channel_events: deque[ChannelEvent] = deque()
        self.inbox: list[tuple[str, bytes]] = []
        self._send = send

    def fileno(self) -> int:
        return -1

    def receive(self, now: int) -> list[bytes]:
        packets, self.inbox = [packet for _, packet in self.inbox], []
        return packets

    def send(self, now: int, packets: list[bytes]) -> None:
        self._send(packets)

    def deadline(self) -> int | None:
        return None

    def expire(self, now: int) -> list[bytes]:
        return []

    def close(self) -> None:
        self.inbox = []


class SimulatedMember(MemberRunner):
    """A member that keeps its effects and its events."""

    def __init__(
        self, name: str, config: phalanx.Config, transport: SimulatedTransport, entropy: int
    ) -> None:
        super().__init__("g", Identity(MemberId(name)), config, transport, None, entropy)
        self.inbound = transport
        self.effects: list[fx.Effect] = []
        self._events: list[Event] = []

    def _perform(self, now: int, effects: list[fx.Effect]) -> None:
        self.effects += effects
        super()._perform(now, effects)
        self.member.validate()

    @property
    def events(self) -> list[Event]:
        """All events so far."""
        self._events += phalanx.Batch(self.buffer.take())
        return self._events

    @property
    def messages(self) -> list[Message]:
        return [event for event in self.events if isinstance(event, Message)]

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    @property
    def not_sent(self) -> list[NotSent]:
        return [event for event in self.events if isinstance(event, NotSent)]

    @property
    def proposes(self) -> bool:
        """Whether it has proposed the next view and not installed it."""
        steps = [e for e in self.effects if isinstance(e, fx.ViewChangeStep | fx.ViewInstalled)]
        last = steps[-1]
        return isinstance(last, fx.ViewChangeStep) and last.action in ("FA", "COMMIT")


def ids(*members: SimulatedMember) -> tuple[MemberId, ...]:
    """As a view or an outcome names these members."""
    return tuple(sorted(member.me for member in members))


class SimulatedReceipt:
    """The calls of a receipt; each lets the group run until the receipt has an answer."""

    def __init__(
        self, group: SimulatedGroup, sender: SimulatedMember, pending: PendingReceipt
    ) -> None:
        self._group = group
        self._sender = sender
        self._pending = pending

    @property
    def state(self) -> State:
        return self._pending.state

    @property
    def failed(self) -> bool:
        return self._pending.error is not None

    def ordered(self) -> Outcome:
        return self._reach(State.ORDERED, True)

    def stable(self, allow_missing: bool = False) -> Outcome:
        return self._reach(State.STABLE, allow_missing)

    def delivered(self, allow_missing: bool = False) -> Outcome:
        self.ask_for_delivery()
        return self._reach(State.DELIVERED, allow_missing)

    def ask_for_delivery(self) -> None:
        if not self.failed:
            self._reach(State.STABLE, True)
            self._sender.report_delivery(self._group.now, self._pending)

    def _reach(self, state: State, allow_missing: bool) -> Outcome:
        self._group.until(lambda: self.state >= state or self.failed)
        return self._pending.checked(state, allow_missing)


class SimulatedGroup:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        self.now = 1_000 * MS
        self.settings = settings
        self.members: dict[str, SimulatedMember] = {}
        self._cut: set[tuple[str, str]] = set()
        self._held: dict[tuple[str, str], list[bytes]] = {}
        clock = SimpleNamespace(monotonic_ns=lambda: self.now)
        monkeypatch.setattr(member_runner, "time", clock)

    def join(self, *names: str) -> list[SimulatedMember]:
        """Start these members, and run until they are in one view and have spoken in it."""
        joined = [self.start(name) for name in names]
        self.until(lambda: all(m.view.members == ids(*joined) for m in joined))
        self.run(1_000)
        return joined

    def start(self, name: str, isolated: bool = False) -> SimulatedMember:
        transport = SimulatedTransport(lambda packets: self._carry(name, packets))
        config = phalanx.lan(**self.settings)
        member = SimulatedMember(name, config, transport, 1 + len(self.members))
        self.members[name] = member
        if isolated:
            self.isolate(member)
        member.start(self.now)
        return member

    # -------------------------------------------------------------- messages

    def send(
        self,
        sender: SimulatedMember,
        body: bytes,
        service: phalanx.Service = phalanx.AGREED,
        to: Sequence[SimulatedMember] | None = None,
    ) -> SimulatedReceipt:
        receivers = None if to is None else [member.me for member in to]
        pending = sender.submit([body], service, receivers)
        sender.push(self.now)
        return SimulatedReceipt(self, sender, pending)

    # -------------------------------------------------------------- the network

    def cut(self, senders: Sequence[SimulatedMember], receivers: Sequence[SimulatedMember]) -> None:
        """Packets of these senders to these receivers are lost, from the next one on."""
        self._cut |= {(a.me.name, b.me.name) for a in senders for b in receivers if a is not b}

    def isolate(self, *members: SimulatedMember) -> None:
        """These members and the others no longer hear each other."""
        others = [other for other in self.members.values() if other not in members]
        self.cut(members, others)
        self.cut(others, members)

    def hold(self, sender: SimulatedMember, receiver: SimulatedMember) -> None:
        """Packets on this link wait for `heal`, also those that have arrived and are unread."""
        link = sender.me.name, receiver.me.name
        inbox = receiver.inbound.inbox
        self._held[link] = [packet for name, packet in inbox if name == link[0]]
        receiver.inbound.inbox = [item for item in inbox if item[0] != link[0]]

    def heal(self) -> None:
        self._cut.clear()
        held, self._held = self._held, {}
        for (sender, receiver), packets in held.items():
            self.members[receiver].inbound.inbox += [(sender, packet) for packet in packets]

    def _carry(self, sender: str, packets: list[bytes]) -> None:
        for name, member in self.members.items():
            link = sender, name
            if name == sender or link in self._cut or member.stopped:
                continue
            if link in self._held:
                self._held[link] += packets
            else:
                member.inbound.inbox += [(sender, packet) for packet in packets]

    # -------------------------------------------------------------- time

    def run(self, ms: int) -> None:
        end = self.now + ms * MS
        while self._turn(end):
            pass
        self.now = end

    def until(self, condition: Callable[[], bool], ms: int = PATIENCE_MS) -> None:
        """Run until the condition holds, and no further: one turn of one member at a time."""
        end = self.now + ms * MS
        while not condition():
            assert self._turn(end), f"not within {ms} ms"

    def _turn(self, end: int) -> bool:
        alive = [member for member in self.members.values() if not member.stopped]
        reader = next((member for member in alive if member.inbound.inbox), None)
        if reader is not None:
            reader.turn(self.now, ready=True)
            return True
        if not alive:
            return False
        first = min(alive, key=lambda member: member.deadline())
        if first.deadline() > end:
            return False
        self.now = max(self.now, first.deadline())
        first.turn(self.now, ready=False)
        return True
