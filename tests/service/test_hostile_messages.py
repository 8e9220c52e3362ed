"""Forged and replayed messages about groups: no machine raises, and what is dropped is counted."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import msgspec
import pytest
from tests.sim.service.calm_service import TREE, CalmService

from phalanx.core.ids import MemberId
from phalanx.service.effects import Ignored
from phalanx.service.group_messages import (
    ChooseHome,
    GroupCall,
    GroupMessage,
    HeldGroup,
    Query,
    QueryReply,
    Resolved,
    Served,
    Tell,
)
from phalanx.service.inputs import MessageReceived
from phalanx.service.message_codec import MessageCodec
from phalanx.service.messages import ServiceEnvelope, ServiceMessage
from phalanx.sim.service.group_rest import last_states
from phalanx.sim.service.service_world import ServiceWorld
from phalanx.sim.service.simulated_hosts import Host

FORGED = MemberId("m0"), MemberId("a0"), MemberId("t0"), MemberId("c0"), MemberId("nobody")


def a_busy_service() -> CalmService:
    service = CalmService()
    service.call("create", "m0", "orders", properties={"scope": "M0"})
    service.call("create", "m0", "wide", properties={"scope": "T"})
    for interface in ("m0", "m1", "m2"):
        service.join(interface, "orders")
    service.join("m3", "wide")
    service.call("send", "m0", "orders", body="aGk=")
    return service


class Recorder:
    """The messages about groups that one service sends, each with where it went."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[str, MemberId, GroupMessage]] = []
        send = ServiceWorld._send

        def recorded(world: ServiceWorld, host: Host, to: str, message: ServiceMessage) -> None:
            if isinstance(message, GroupMessage) and to in world.hosts:
                self.seen.append((to, host.gid, message))
            send(world, host, to, message)

        monkeypatch.setattr(ServiceWorld, "_send", recorded)


def changed(value: Any, rng: Random) -> Any:
    """A value of the same type, or another one, in its place."""
    if isinstance(value, bool) or value is None:
        return rng.choice((None, True, False, "m0/1"))
    if isinstance(value, int):
        return rng.choice((0, 1, value + 1, (1 << 62) - 1))
    if isinstance(value, str):
        return rng.choice(("", "T", "L0", "m0/1", "m9/9", "~", "u1-", "x" * 256, value + "~"))
    if isinstance(value, bytes):
        return rng.choice((b"", bytes(8), value[::-1]))
    if isinstance(value, list):
        return rng.choice((value[:-1], value + value[-1:], value[::-1]))
    return value


def mutated(value: Any, rng: Random) -> Any:
    """The value with one part of it changed."""
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        return [mutated(v, rng) if i == at else v for i, v in enumerate(value)]
    if isinstance(value, dict) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        items = [
            (changed(k, rng) if rng.random() < 0.3 else k, mutated(v, rng)) if i == at else (k, v)
            for i, (k, v) in enumerate(value.items())
        ]
        return dict(items)
    return changed(value, rng)


@pytest.mark.parametrize("seed", range(3))
def test_no_message_that_can_be_decoded_stops_a_machine(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(monkeypatch)
    service = a_busy_service()
    rng, codec = Random(seed), MessageCodec("c")
    decode = msgspec.msgpack.Decoder(ServiceEnvelope).decode
    counts: Counter[str] = Counter()
    for to, sender, message in rng.sample(recorder.seen, 250):
        plain = msgspec.msgpack.decode(msgspec.msgpack.encode(message))
        for _ in range(rng.choice((1, 1, 3))):
            plain = mutated(plain, rng)
        raw = msgspec.msgpack.encode([[sender.name, sender.incarnation], plain])
        try:
            forged = decode(raw)
        except msgspec.MsgspecError:
            counts["malformed"] += 1
            continue
        data = codec.encode(forged)
        assert data is not None
        assert codec.decode(data) == forged
        host = service.world.hosts[to if rng.random() < 0.8 else rng.choice(("p0", "m1"))]
        assert host.machine is not None
        sent_by = sender if rng.random() < 0.7 else rng.choice(FORGED)
        done = host.machine.step(service.world.now, MessageReceived(sent_by, forged.message))
        counts.update(effect.reason for effect in done if isinstance(effect, Ignored))
        counts["stepped"] += 1
        service.run(0.01)
    assert counts["stepped"] > 50
    assert counts["unknown-sender"] > 0
    service.world.checks.violations.clear()  # a forged path may lead a member astray
    service.world.group_checks.violations.clear()
    service.world.run_until(service.world.now + 2_000_000_000)


@pytest.mark.parametrize(
    ("sender", "message", "reason"),
    [
        ("nobody", ChooseHome("L0", "nobody", 9), "unknown-sender"),
        ("nobody", Tell("L0", b"lineage1", 1), "unknown-sender"),
        ("m1", ChooseHome("L0", "m0", 9), "not-of-sender"),
        ("m1", QueryReply(1, Served("m0")), "not-of-sender"),
        ("m1", GroupCall("c/1", "delete", "m0", "orders"), "not-of-sender"),
        ("m1", Tell("L0", b"lineage1", 1), "not-of-sender"),
        ("a1", GroupCall("c/1", "delete", "m0", "orders"), "unknown-place"),
        ("a1", Tell("L0", b"lineage1", 1, served=(Served("m99"),)), "unknown-place"),
    ],
)
def test_a_forged_message_is_counted_and_changes_nothing(
    sender: str, message: GroupMessage, reason: str
) -> None:
    service = CalmService()
    server = service.world.servers["p0"].machine
    assert server is not None
    before = last_states(service.world)
    done = server.step(service.world.now, MessageReceived(MemberId(sender), message))
    assert done == [Ignored(reason, MemberId(sender))]
    service.run(1)
    assert last_states(service.world) == before


def test_an_interface_hears_only_the_servers_of_its_set() -> None:
    service = a_busy_service()
    interface = service.world.interfaces["m0"].machine
    assert interface is not None
    path, home = interface.home.path, interface.record
    for message in (Query("m0", 99, path), Resolved(MemberId("m0"), None)):  # type: ignore[arg-type]
        done = interface.step(service.world.now, MessageReceived(MemberId("c0"), message))
        assert done == [Ignored("unknown-sender", MemberId("c0"))]
    assert interface.record == home


def test_replayed_messages_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(monkeypatch)
    service = a_busy_service()
    service.run(1)
    replayed = [each for each in recorder.seen if not isinstance(each[2], HeldGroup)]
    before = {n: s.groups for n, s in last_states(service.world).items()}
    notices = service.world.counts["Notify"]
    for to, sender, message in replayed:
        host = service.world.hosts[to]
        assert host.machine is not None
        host_done = host.machine.step(service.world.now, MessageReceived(sender, message))
        service.world._carry_out(host, host_done)
    service.run(3)
    assert {n: s.groups for n, s in last_states(service.world).items()} == before
    assert service.world.counts["Notify"] == notices


def test_an_interface_that_is_not_configured_lies_below_no_set() -> None:
    assert not TREE.spans("T", "m99")
    assert TREE.child_towards("T", "m99") is None
    assert not TREE.is_at_or_above("T", "nowhere")
