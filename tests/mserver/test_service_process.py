"""The driver of a machine: what is on disk before a message leaves, and what never gets in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from phalanx.core.ids import MemberId
from phalanx.errors import ConfigurationError, StateError
from phalanx.mserver.datagram_link import DatagramLink
from phalanx.mserver.durable_rows import DurableRows
from phalanx.mserver.fragment_codec import fragments_of
from phalanx.mserver.interface_process import ClientPlaces
from phalanx.mserver.record_store import MemoryRecords
from phalanx.mserver.service_process import ServiceProcess
from phalanx.service.effects import (
    Ignored,
    InterfaceRecord,
    Multicast,
    Persist,
    Send,
    ServiceEffect,
    SetForgotten,
)
from phalanx.service.group_messages import HomeChosen
from phalanx.service.inputs import InterfaceInput, MessageReceived, TimerDue
from phalanx.service.message_codec import MessageCodec
from phalanx.service.messages import ServiceEnvelope

ME, PEER = MemberId("a", 1), MemberId("b", 1)
HELLO = HomeChosen("h", 7)


def record(seq: int) -> InterfaceRecord:
    return InterfaceRecord("h", seq, PEER.name)


def packed(cluster: str, sender: MemberId) -> bytes:
    data = MessageCodec(cluster).encode(ServiceEnvelope(sender, HELLO))
    assert data is not None
    return data


class Scripted:
    """Answers each input with the next effects of a script."""

    def __init__(self, script: list[list[ServiceEffect]]) -> None:
        self.script = script
        self.given: list[InterfaceInput] = []
        self.due: int | None = None

    def steps(self, now: int, given: Sequence[InterfaceInput]) -> Sequence[ServiceEffect]:
        return [effect for each in given for effect in self.step(now, each)]

    def step(self, now: int, given: InterfaceInput) -> Sequence[ServiceEffect]:
        self.given.append(given)
        if isinstance(given, TimerDue):
            self.due = None
        return self.script.pop(0) if self.script else []

    def deadline(self) -> int | None:
        return self.due


class WatchedRecords(MemoryRecords):
    """Notes what the peer had got when a write was made, or fails instead."""

    def __init__(self, peer: DatagramLink) -> None:
        super().__init__()
        self._peer = peer
        self.fails = False
        self.writes: list[tuple[tuple[str, ...], int]] = []

    def write(self, changes: Mapping[str, bytes | None]) -> None:
        time.sleep(0.02)  # a message that had left would have arrived
        self.writes.append((tuple(changes), len(self._peer.receive(0))))
        if self.fails:
            raise StateError("db", "disk I/O error", "make room")
        super().write(changes)


class Pair:
    """A driver with a scripted machine, and the socket of its peer."""

    def __init__(self, script: list[list[ServiceEffect]]) -> None:
        self.link, self.peer = DatagramLink("127.0.0.1:0"), DatagramLink("127.0.0.1:0")
        self.codec = MessageCodec("test")
        self.machine = Scripted(script)
        self.records = WatchedRecords(self.peer)
        servers = {"b": self.peer.local}
        self.process = ServiceProcess(
            ME,
            self.machine,
            self.records,
            DurableRows({}),
            self.link,
            self.codec,
            servers,
            listeners={"s": ("a", "b", "unresolved")},
        )

    def tell(self, data: bytes, source: DatagramLink | None = None) -> None:
        (source or self.peer).send(data, self.link.local)

    def message(self, sender: MemberId = PEER) -> bytes:
        return packed("test", sender)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.005)

    def close(self) -> None:
        self.process.stop()
        self.link.close()
        self.peer.close()


async def arrived(link: DatagramLink, count: int) -> list[bytes]:
    got: list[bytes] = []
    async with asyncio.timeout(10):
        while len(got) < count:
            await asyncio.sleep(0.005)
            got += [body for _, body in link.receive(0)]
    return got


def run(
    script: list[list[ServiceEffect]], scenario: Callable[[Pair], Coroutine[Any, Any, None]]
) -> None:
    async def whole() -> None:
        pair = Pair(script)
        try:
            await scenario(pair)
        finally:
            pair.close()

    asyncio.run(whole())


def test_all_records_of_a_step_are_written_at_once_before_any_message_leaves() -> None:
    step: list[ServiceEffect] = [
        Send(PEER, HELLO),
        Persist(record(1)),
        Send(PEER, HELLO),
        Persist(SetForgotten("old")),
        Persist(record(2)),
    ]

    async def scenario(pair: Pair) -> None:
        pair.process.start()
        pair.process.feed(TimerDue())
        got = await arrived(pair.peer, 2)
        assert pair.records.writes == [(("interface", "set/old"), 0)]
        assert DurableRows(pair.records.load()).records == [record(2)]
        assert pair.codec.decode(got[0]) == ServiceEnvelope(ME, HELLO)

    run([step], scenario)


def test_a_write_that_fails_ends_the_process_before_anything_is_sent() -> None:
    async def scenario(pair: Pair) -> None:
        pair.records.fails = True
        pair.process.start([Send(PEER, HELLO), Persist(record(1))])
        with pytest.raises(StateError, match="disk I/O error"):
            await pair.process.failed
        pair.tell(pair.message())
        pair.process.feed(TimerDue())
        await asyncio.sleep(0.05)
        assert pair.peer.receive(0) == []
        assert pair.machine.given == []

    run([], scenario)


def test_messages_reach_the_machine_and_bad_ones_are_counted() -> None:
    async def scenario(pair: Pair) -> None:
        pair.process.start()
        stranger = DatagramLink("127.0.0.1:0")
        try:
            pair.tell(b"junk")
            pair.tell(pair.message()[:-1] + b"\x00")
            pair.tell(packed("other", PEER))
            pair.tell(pair.message(), source=stranger)  # b's name from another address
            pair.tell(pair.message(MemberId("host", 1)), source=stranger)
            pair.tell(pair.message())
            await pair.until(lambda: len(pair.machine.given) == 2)
        finally:
            stranger.close()
        senders = [g.sender for g in pair.machine.given if isinstance(g, MessageReceived)]
        assert senders == [MemberId("host", 1), PEER]
        assert pair.process.counts["foreign-address"] == 1
        assert pair.codec.refused == {"short": 1, "damaged": 1, "cluster": 1}

    run([], scenario)


def test_an_interface_is_answered_at_the_address_that_it_used_last() -> None:
    host = MemberId("host", 1)

    async def scenario(pair: Pair) -> None:
        pair.process.start([Send(host, HELLO)])
        assert pair.process.counts["no-address"] == 1
        stranger = DatagramLink("127.0.0.1:0")
        try:
            pair.tell(pair.message(host), source=stranger)
            assert len(await arrived(stranger, 1)) == 1
        finally:
            stranger.close()

    run([[Send(host, HELLO), Ignored("old", PEER)]], scenario)


def test_a_multicast_goes_to_every_other_server_that_listens() -> None:
    async def scenario(pair: Pair) -> None:
        pair.process.start([Multicast("s", HELLO), Multicast("other", HELLO)])
        [data] = await arrived(pair.peer, 1)
        assert pair.codec.decode(data) == ServiceEnvelope(ME, HELLO)
        await asyncio.sleep(0.05)
        assert pair.peer.receive(0) == []
        assert pair.link.receive(0) == []
        assert pair.process.counts == {"sent": 1, "no-address": 1}

    run([], scenario)


def test_the_timer_follows_the_deadline_of_the_machine() -> None:
    async def scenario(pair: Pair) -> None:
        begun = time.monotonic_ns()
        pair.machine.due = begun + 80_000_000
        pair.process.start()
        await pair.until(lambda: pair.machine.given)
        assert pair.machine.given == [TimerDue()]
        assert time.monotonic_ns() - begun >= 80_000_000

    run([], scenario)


def test_an_error_of_the_machine_ends_the_process() -> None:
    async def scenario(pair: Pair) -> None:
        def broken(now: int, given: InterfaceInput) -> Sequence[ServiceEffect]:
            raise AssertionError("a bug")

        pair.process.start()
        pair.machine.step = broken  # type: ignore[method-assign]
        pair.tell(pair.message())
        with pytest.raises(AssertionError, match="a bug"):
            await pair.process.failed

    run([], scenario)


def test_records_come_back_from_their_rows() -> None:
    rows = MemoryRecords()
    rows.write({**DurableRows({}).rows(record(3)), "notices/h/1": b"other"})
    assert DurableRows(rows.load()).records == [record(3)]
    with pytest.raises(ValueError, match="of another version"):
        DurableRows({"set/x": b"\x91\xa3new"})


def test_packets_of_nobody_do_no_harm() -> None:
    async def scenario(pair: Pair) -> None:
        pair.process.start()
        for packet in fragments_of(b"x" * 5000, 1)[:2]:
            pair.peer._socket.sendto(packet, pair.link.local)
        pair.peer._socket.sendto(b"\x00" * 1400, pair.link.local)
        pair.tell(pair.message())
        await pair.until(lambda: pair.machine.given)
        assert pair.link.counts["foreign"] == 1

    run([], scenario)


@pytest.mark.parametrize(
    ("place", "insecure", "refused"),
    [
        ("127.0.0.1:7000", False, False),
        ("[::1]:7000", False, False),
        ("localhost:7000", False, False),
        ("0.0.0.0:7000", False, True),
        ("10.0.0.1:7000", False, True),
        ("example:7000", False, True),
        ("10.0.0.1:7000", True, False),
        ("", False, False),
    ],
)
def test_plain_tcp_beyond_this_machine_must_be_asked_for(
    place: str, insecure: bool, refused: bool
) -> None:
    places = ClientPlaces(Path("mi.sock"), tcp=place, insecure=insecure)
    if refused:
        with pytest.raises(ConfigurationError, match="--insecure"):
            places.check()
    else:
        places.check()
