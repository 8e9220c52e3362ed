"""Drives one machine of the service: an mserver or an interface.

The driver owns the parts and the order in which they run. A step of the machine returns effects.
All inputs that are there are steps of one batch: the durable records of the whole batch are written
in one transaction before any of its messages leaves. A write that fails ends the process: what it
would say next could be forgotten. The next start goes on from the last write.

Messages of strangers, damaged messages and messages under the name of a server from another address
are counted and dropped; none of them reaches the machine.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from phalanx.core.ids import MemberId
from phalanx.mserver.datagram_link import DatagramLink
from phalanx.mserver.durable_rows import DurableRows
from phalanx.mserver.peer_sessions import Address
from phalanx.mserver.record_store import RecordStore
from phalanx.mserver.service_journal import ServiceJournal
from phalanx.service.effects import (
    Ignored,
    Multicast,
    Persist,
    Send,
    ServiceEffect,
    SetForgotten,
    SetRecord,
)
from phalanx.service.inputs import CallSubmitted, InterfaceInput, MessageReceived, TimerDue
from phalanx.service.message_codec import MessageCodec
from phalanx.service.messages import ServiceEnvelope, ServiceMessage

INTERFACES_MAX = 4096
"""Addresses of interfaces that are remembered."""

ROWS_NS = 20_000_000
"""After which rows that nothing waits for are written, if no step has written before."""


class ServiceMachine(Protocol):
    """What the driver needs of a machine. Each takes messages and time; an interface calls too."""

    def step(self, now: int, given: Any) -> Sequence[ServiceEffect]: ...

    def steps(self, now: int, given: Any) -> Sequence[ServiceEffect]: ...

    def deadline(self) -> int | None: ...


MoreRecords = Callable[[Sequence[ServiceEffect]], Mapping[str, bytes | None]]
"""Records of the driver's owner that belong in one write with those of the step."""
TakeEffect = Callable[[ServiceEffect], None]


class ServiceProcess:
    """One machine with its socket and its records, on an asyncio loop."""

    def __init__(
        self,
        me: MemberId,
        machine: ServiceMachine,
        records: RecordStore,
        rows: DurableRows,
        link: DatagramLink,
        codec: MessageCodec,
        servers: Mapping[str, Address],
        *,
        listeners: Mapping[str, Sequence[str]] | None = None,
        more_records: MoreRecords = lambda effects: {},
        take_effect: TakeEffect = lambda effect: None,
        journal: ServiceJournal | None = None,
    ) -> None:
        self.me = me
        self.machine = machine
        self.counts: Counter[str] = Counter()
        self._records = records
        self._rows = rows
        self._link = link
        self._codec = codec
        self._servers = servers
        self._listeners = listeners or {}
        """The servers that a multicast to a set goes to, a copy to each."""
        self._interfaces: dict[str, Address] = {}
        self._more_records = more_records
        self._take_effect = take_effect
        self._journal = journal
        self._timer: asyncio.TimerHandle | None = None
        self._armed_ns: int | None = None
        self._writing = False
        self._inputs: list[InterfaceInput] = []
        """Given since the last batch."""
        self._late: dict[str, bytes | None] = {}
        """Rows for the next write."""
        self._late_timer: asyncio.TimerHandle | None = None
        self._collected: tuple[bytes, str, list[str]] | None = None
        """A message, its set and the names it is for, before it is sent."""
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Completes with the error that ended the process."""

    # ------------------------------------------------------------------ life

    def start(self, effects: Sequence[ServiceEffect] = ()) -> None:
        """Begin: carry out the effects of the machine's start, listen and set the timer."""
        self._guarded(lambda: self.perform(effects))
        for receiver in self._link.receivers():
            asyncio.get_running_loop().add_reader(receiver, self._readable)
        self._arm()

    def stop(self) -> None:
        """Stop at once, as a crash would. The caller closes link and records."""
        if not self.failed.done():
            self.failed.cancel()
        if self._link.fileno() < 0:
            return
        loop = asyncio.get_running_loop()
        for receiver in self._link.receivers():
            loop.remove_reader(receiver)
        if self._writing:
            loop.remove_writer(self._link.fileno())
        if self._timer is not None:
            self._timer.cancel()
        if self._late_timer is not None:
            self._late_timer.cancel()

    @property
    def has_failed(self) -> bool:
        """Whether an error has ended the process: machine and records may differ."""
        return self.failed.done() and not self.failed.cancelled()

    def feed(self, given: InterfaceInput) -> None:
        """Give the machine an input soon, together with others that come meanwhile."""
        if not self._inputs:
            asyncio.get_running_loop().call_soon(self._fed)
        self._inputs.append(given)

    def write(self, rows: Mapping[str, bytes | None]) -> None:
        """Make rows durable soon. Nothing may depend on when."""
        self._late.update(rows)
        if self._late_timer is None:
            loop = asyncio.get_running_loop()
            self._late_timer = loop.call_later(ROWS_NS / 1e9, self._write_late_due)

    # ------------------------------------------------------------------ effects

    def perform(self, effects: Sequence[ServiceEffect]) -> None:
        """Write all records of a batch, then carry out the other effects in their order."""
        if not effects:
            return
        changes: dict[str, bytes | None] = {}
        last = _last_of_each_set(effects)
        for at, effect in enumerate(effects):
            if isinstance(effect, Persist) and last.get(at, True):
                changes.update(self._rows.rows(effect.record))
        changes.update(self._more_records(effects))
        if changes:
            self._write({**self._late, **changes})
        if self._journal is not None:
            self._journal.record(effects)
        for effect in effects:
            match effect:
                case Send(to, message):
                    self._collect(to.name, message)
                    continue
                case Multicast(name, message):
                    self._send_collected()
                    others = [s for s in self._listeners.get(name, ()) if s != self.me.name]
                    data = self._codec.encode(ServiceEnvelope(self.me, message))
                    if data is not None:
                        self._send_all(data, others, name, anybody=True)
                case Ignored(reason, _):
                    self.counts[f"ignored-{reason}"] += 1
                case Persist():
                    pass
                case _:
                    self._send_collected()
                    self._take_effect(effect)
        self._send_collected()
        self._watch_writable()

    def _write(self, changes: Mapping[str, bytes | None]) -> None:
        self._late = {}
        self._records.write(changes)
        self.counts["writes"] += 1
        self.counts["rows"] += len(changes)

    def _write_late(self) -> None:
        if self._late:
            self._write(self._late)

    def _write_late_due(self) -> None:
        self._late_timer = None
        self._guarded(self._write_late)

    def _collect(self, name: str, message: ServiceMessage) -> None:
        """Equal messages that follow each other are sent together, to use multicast."""
        data = self._codec.encode(ServiceEnvelope(self.me, message))
        if data is None:
            return
        if self._collected is not None:
            if self._collected[0] != data or name in self._collected[2]:
                self._send_collected()
        if self._collected is None:
            self._collected = (data, getattr(message, "set", ""), [name])
        else:
            self._collected[2].append(name)

    def _send_collected(self) -> None:
        if self._collected is not None:
            data, set_name, names = self._collected
            self._collected = None
            self._send_all(data, names, set_name)

    def _send_all(
        self, data: bytes, names: Sequence[str], set_name: str, *, anybody: bool = False
    ) -> None:
        to: dict[str, Address] = {}
        for name in names:
            address = self._servers.get(name) or self._interfaces.get(name)
            if address is None:
                self.counts["no-address"] += 1
            else:
                to[name] = address
        self.counts["sent"] += len(to)
        if len(to) == 1 and not anybody:
            [(name, address)] = to.items()
            self._link.send(data, address, name)
        elif to:
            self._link.send_all(data, to, set_name, anybody=anybody)

    def _watch_writable(self) -> None:
        if self._link.has_waiting and not self._writing:
            self._writing = True
            asyncio.get_running_loop().add_writer(self._link.fileno(), self._writable)

    # ------------------------------------------------------------------ events

    def _readable(self) -> None:
        self._guarded(self._receive)
        self._arm()

    def _receive(self) -> None:
        """One batch of all packets that are there."""
        now = time.monotonic_ns()
        given: list[MessageReceived] = []
        for source, data in self._link.receive(now):
            envelope = self._codec.decode(data)
            if envelope is not None and self._is_from(envelope.sender, source):
                self.counts["received"] += 1
                given.append(MessageReceived(envelope.sender, envelope.message))
        if given:
            self.perform(self.machine.steps(now, given))
        self._watch_writable()

    def _fed(self) -> None:
        self._guarded(self._take_inputs)
        self._arm()

    def _take_inputs(self) -> None:
        """One batch of all inputs that are there."""
        given, self._inputs = self._inputs, []
        if self._journal is not None:
            for each in given:
                if isinstance(each, CallSubmitted):
                    self._journal.submitted(each.call)
        self.perform(self.machine.steps(time.monotonic_ns(), given))

    def _is_from(self, sender: MemberId, source: Address) -> bool:
        """Whether the sender has this address, and is not this process, which hears what it sends
        by multicast. Servers have theirs in the configuration; the latest
        address of an interface is remembered."""
        if sender.name == self.me.name:
            self.counts["own"] += 1
            return False
        expected = self._servers.get(sender.name)
        if expected is not None:
            if expected != source:
                self.counts["foreign-address"] += 1
            return expected == source
        self._interfaces.pop(sender.name, None)
        if len(self._interfaces) >= INTERFACES_MAX:
            del self._interfaces[next(iter(self._interfaces))]
        self._interfaces[sender.name] = source
        return True

    def _writable(self) -> None:
        self._link.flush()
        if not self._link.has_waiting:
            self._writing = False
            asyncio.get_running_loop().remove_writer(self._link.fileno())

    def _timer_due(self) -> None:
        self._timer = self._armed_ns = None
        # Packets first: one of them may be the answer whose absence the timer would report.
        self._guarded(self._receive)
        due = self.machine.deadline()
        if due is not None and due <= time.monotonic_ns():
            self._guarded(lambda: self.perform(self._due()))
        self._arm()

    def _due(self) -> Sequence[ServiceEffect]:
        return self.machine.step(time.monotonic_ns(), TimerDue())

    def _arm(self) -> None:
        """Set the timer again if the deadline has moved."""
        due = None if self.failed.done() else self.machine.deadline()
        if due == self._armed_ns and (self._timer is None) == (due is None):
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._armed_ns = due
        if due is not None:
            wait_ns = max(0, due - time.monotonic_ns())
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(wait_ns / 1e9, self._timer_due)

    def _guarded(self, action: Callable[[], None]) -> None:
        """Do it; any error ends the process, since records and machine may differ afterwards."""
        if self.failed.done():
            return
        try:
            action()
        except Exception as error:
            self.failed.set_exception(error)


def _last_of_each_set(effects: Sequence[ServiceEffect]) -> dict[int, bool]:
    """For each record of a set among the effects whether it is the last one of that set: the others
    need not be written."""
    out: dict[int, bool] = {}
    later: set[str] = set()
    for at in range(len(effects) - 1, -1, -1):
        effect = effects[at]
        if isinstance(effect, Persist) and isinstance(effect.record, SetRecord | SetForgotten):
            record = effect.record
            name = record.state.set if isinstance(record, SetRecord) else record.set
            out[at] = name not in later or isinstance(record, SetForgotten)
            later.add(name)
    return out
