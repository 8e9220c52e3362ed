"""The mesh on real sockets: members find each other, break apart and find each other again."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.certificate_authority import Authority, shared_key

from phalanx.config import Config, SharedKey, Tls, mesh
from phalanx.core.ids import MemberId
from phalanx.errors import ConfigurationError, NetworkError
from phalanx.transport import channel_set, tcp
from phalanx.transport import resolver as names
from phalanx.transport.addresses import SocketAddress, host_and_port
from phalanx.transport.channel import ChannelBroke
from phalanx.transport.open_mesh import open_mesh
from phalanx.transport.open_transport import open_transport
from phalanx.transport.tcp import MeshTransport

Meshed = Callable[..., MeshTransport]
Gather = Callable[..., list[bytes]]
Until = Callable[..., None]

NOBODY = "127.0.0.1:9"
PACKETS = [bytes([i % 200]) * 1200 for i in range(150)] + [b"x" * 65_507, b"", b"tail"]


def here(*peers: str, **settings: Any) -> Config:
    given: dict[str, Any] = {"address": "127.0.0.1", "port": 0} | settings
    return mesh(*peers, **given)


def know(*links: MeshTransport) -> Callable[[], bool]:
    """Every one of them has a channel to every other, and no second one is under way."""
    return lambda: all(
        len(t.peers) == len(links) - 1 and len(t._set.all) == len(t.peers) for t in links
    )


def down(*links: MeshTransport) -> Callable[[], bool]:
    return lambda: all(not transport.peers for transport in links)


def port_of(transport: MeshTransport) -> int:
    return host_and_port("", transport.address)[1]


@pytest.fixture(params=["plain", "key", "certificates"])
def tls_of(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Tls | None]:
    """The credentials of a member, of each kind."""
    if request.param == "certificates":
        return Authority(tmp_path).issue
    file = shared_key(tmp_path)
    return lambda name: SharedKey(file) if request.param == "key" else None


# ---------------------------------------------------------------------------- channels


def test_three_members_that_know_one_address_reach_each_other(
    meshed: Meshed, until: Until, gathered: Gather, tls_of: Callable[[str], Tls | None]
) -> None:
    ada = meshed("ada", here(NOBODY, tls=tls_of("ada")))
    bea = meshed("bea", here(ada.address, tls=tls_of("bea")))
    cyd = meshed("cyd", here(ada.address, tls=tls_of("cyd")))
    until([ada, bea, cyd], know(ada, bea, cyd))
    assert sorted(cyd.peers) == sorted([ada.address, bea.address])
    assert cyd.names == ["ada", "bea"]
    cyd.send(time.monotonic_ns(), PACKETS)
    assert gathered(ada, len(PACKETS)) == PACKETS
    assert gathered(bea, len(PACKETS)) == PACKETS
    assert gathered(cyd) == []


def test_large_packets_right_behind_the_hello_arrive(
    meshed: Meshed, until: Until, gathered: Gather, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ada accepts bea and sends at once; bea reads the hello and the packets in one piece."""
    ada = meshed("ada", here(NOBODY))
    bea = meshed("bea", here(ada.address))
    until([bea], lambda: any(c.state == "greeting" for c in bea._set.all.values()))
    until([ada], lambda: ada.names == ["bea"])
    ada.send(time.monotonic_ns(), [b"x" * 60_000, b"y"])
    assert gathered(bea, 2) == [b"x" * 60_000, b"y"]
    assert bea.counts["refused-malformed"] == 0


def test_members_meet_by_ipv6_too(meshed: Meshed, until: Until, gathered: Gather) -> None:
    try:
        ada = meshed("ada", mesh("[::1]:9", address="::1", port=0))
    except OSError:
        pytest.skip("no IPv6 on this machine")
    bea = meshed("bea", mesh(ada.address, port=0))
    cyd = meshed("cyd", mesh(ada.address, port=0))
    until([ada, bea, cyd], know(ada, bea, cyd))
    assert bea.address.startswith("[::1]:")
    bea.send(time.monotonic_ns(), [b"x"])
    assert gathered(cyd, 1) == [b"x"]


def test_members_that_call_each_other_at_once_keep_one_channel(
    meshed: Meshed, until: Until, gathered: Gather
) -> None:
    ada = meshed("ada", here(NOBODY))
    port = port_of(ada)
    ada.close()
    bea = meshed("bea", here(f"127.0.0.1:{port}"))
    ada = meshed("ada", here(bea.address, port=port))
    until([ada, bea], know(ada, bea))
    bea.send(time.monotonic_ns(), [b"x"])
    assert gathered(ada, 1) == [b"x"]
    assert gathered(bea) == []
    assert ada.counts["channel-up"] - ada.counts["channel-down"] == 1


def test_a_mesh_of_six_settles_however_channels_break(meshed: Meshed, until: Until) -> None:
    """All members start at once and know all addresses, so that every pair calls both ways; then
    channels break at random. Each time one channel for each pair is left."""
    ports = []
    for _ in range(6):
        with socket.create_server(("127.0.0.1", 0)) as free:
            ports.append(free.getsockname()[1])
    peers = [f"127.0.0.1:{port}" for port in ports]
    members = [meshed(f"m{i}", here(*peers, port=port)) for i, port in enumerate(ports)]
    dice = Random(7)
    for _ in range(6):
        until(members, know(*members))
        for _ in range(dice.randrange(1, 8)):
            member = dice.choice(members)
            now = time.monotonic_ns()
            for channel in dice.sample(list(member._set.all.values()), 1):
                member._drop(now, channel, ChannelBroke("closed", "the test broke it"))
    until(members, know(*members))
    for member in members:
        assert member.counts["refused-malformed"] == 0


def test_a_member_does_not_call_itself(meshed: Meshed, until: Until, gathered: Gather) -> None:
    ada = meshed("ada", here(NOBODY))
    port = port_of(ada)
    ada.close()
    own = (f"127.0.0.1:{port}", f"localhost:{port}")
    ada = meshed("ada", here(*own, port=port))
    bea = meshed("bea", here(f"127.0.0.1:{port}"))
    until([ada, bea], know(ada, bea))
    assert ada.peers == [bea.address]
    assert ada.counts["self"] == 0


def test_a_member_that_reaches_itself_by_a_detour_notices(meshed: Meshed, until: Until) -> None:
    ada = meshed("ada", here("detour:7117"), lookup=lambda host, port: [("127.0.0.1", 9)])
    address: SocketAddress = ("127.0.0.1", port_of(ada))
    ada._own.clear()  # as behind a translated address
    ada._resolver.found = (address,)
    until([ada], lambda: ada.counts["self"] == 2)  # both ends
    assert ada.peers == []


def test_a_member_that_restarts_at_its_address_is_called_again(
    meshed: Meshed, until: Until, gathered: Gather
) -> None:
    ada = meshed("ada", here(NOBODY))
    bea = meshed("bea", here(ada.address))
    until([ada, bea], know(ada, bea))
    port = port_of(bea)
    bea.close()
    until([ada], down(ada))
    bea = meshed("bea", here(NOBODY, port=port))
    until([ada, bea], know(ada, bea))
    ada.send(time.monotonic_ns(), [b"x"])
    assert gathered(bea, 1) == [b"x"]


def test_the_last_packets_of_a_member_that_leaves_arrive(
    meshed: Meshed, until: Until, gathered: Gather
) -> None:
    ada = meshed("ada", here(NOBODY))
    bea = meshed("bea", here(ada.address))
    until([ada, bea], know(ada, bea))
    last = PACKETS[:20]
    bea.send(time.monotonic_ns(), last)
    bea.close()
    ada.send(time.monotonic_ns(), [b"into the void"])
    ada.send(time.monotonic_ns(), [b"into the void"])
    assert gathered(ada, len(last)) == last
    until([ada], down(ada))


def test_a_peer_that_reads_nothing_delays_nobody_and_gets_the_rest_later(
    meshed: Meshed, until: Until, gathered: Gather, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_set, "QUEUE_BYTES_MAX", 1 << 20)
    ada = meshed("ada", here(NOBODY))
    bea = meshed("bea", here(ada.address))
    cyd = meshed("cyd", here(ada.address))
    until([ada, bea, cyd], know(ada, bea, cyd))
    packets = [b"x" * 60_000] * 10
    rounds = 0
    while not ada.counts["queue-full"]:  # cyd reads nothing
        rounds += 1
        assert rounds < 200, "the queue has no bound"
        ada.send(time.monotonic_ns(), packets)
        assert gathered(bea, len(packets)) == packets
    slow = next(c for c in ada._up.values() if c.peer is not None and c.peer.name == "cyd")
    assert slow.queue.size <= (1 << 20) + 600_040
    lost = ada.counts["queue-full"]
    sent, came = rounds * len(packets), 0
    while came < sent - lost:
        came += len(gathered(cyd, 1))
        gathered(ada)
    assert came == sent - lost
    ada.send(time.monotonic_ns(), [b"after"])
    assert gathered(cyd, 1) == [b"after"]


def run_ahead(now: int, ms: int, *links: MeshTransport) -> int:
    """Run the timers of these members for some time that does not pass. Returns the new time."""
    for _ in range(ms // 50):
        now += 50_000_000
        for transport in links:
            transport.receive(now)
            transport.expire(now)
    return now


def test_a_silent_connection_is_closed_and_opened_again(meshed: Meshed, until: Until) -> None:
    ada = meshed("ada", here(NOBODY))
    bea = meshed("bea", here(ada.address))
    until([ada, bea], know(ada, bea))
    now = run_ahead(time.monotonic_ns(), 3_000, ada)  # bea does not run
    assert ada.counts["silent"] == 0
    now = run_ahead(now, 600, ada)
    assert ada.counts["silent"] == 1
    assert ada.peers == []
    bound = time.monotonic() + 10  # a call and its answer need time of the machine as well
    while not know(ada, bea)() and time.monotonic() < bound:
        now = run_ahead(now, 50, ada, bea)
    assert know(ada, bea)()


@pytest.fixture
def unanswered() -> Iterator[str]:
    """An address at which connections are neither accepted nor refused."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, ExitStack() as undo:
        address = server.getsockname()
        for _ in range(4):  # they fill the queue of the listener
            waiting = undo.enter_context(socket.socket())
            waiting.setblocking(False)
            with suppress(BlockingIOError):
                waiting.connect(address)
        yield f"127.0.0.1:{address[1]}"


def test_a_call_that_nobody_answers_is_begun_anew(meshed: Meshed, unanswered: str) -> None:
    ada = meshed("ada", here(unanswered))
    now = run_ahead(time.monotonic_ns(), 900, ada)
    assert ada.counts["unreached"] == 0
    now = run_ahead(now, 300, ada)
    assert ada.counts["unreached"] == 1
    run_ahead(now, 10_000, ada)
    assert 5 <= ada.counts["unreached"] <= 10, "every one to two seconds"


def test_calls_begin_anew_when_a_fault_has_ended(
    meshed: Meshed, until: Until, unanswered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp, "CONNECT_NS", 60_000_000_000)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ada = meshed("ada", here(unanswered, f"127.0.0.1:{port}"))
    until([ada], lambda: ada.counts["unreached"] >= 4)  # bea is not there yet
    calls = [c for c in ada._set.all.values() if c.state == "connecting" and c.dialed]
    first = next(c for c in calls if c.dialed != ("127.0.0.1", port))
    bea = meshed("bea", here(NOBODY, port=port))
    until([ada, bea], lambda: ada.names == ["bea"])
    until([ada, bea], lambda: first not in ada._set.all.values())
    until([ada, bea], lambda: any(c.dialed == first.dialed for c in ada._set.all.values()))


def test_beats_keep_a_quiet_connection_open(meshed: Meshed, until: Until) -> None:
    ada = meshed("ada", here(NOBODY))
    bea = meshed("bea", here(ada.address))
    until([ada, bea], know(ada, bea))
    run_ahead(time.monotonic_ns(), 20_000, ada, bea)
    assert ada.counts["silent"] == bea.counts["silent"] == 0
    assert ada.counts["channel-down"] == bea.counts["channel-down"] == 0


# ---------------------------------------------------------------------------- names that move


def test_the_members_of_a_headless_service_find_each_other(
    meshed: Meshed, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One name, many addresses, and other ones after members have moved."""
    monkeypatch.setattr(names, "AGAIN_SECONDS", 0.05)
    service: list[SocketAddress] = []

    def answer(host: str, port: int) -> list[SocketAddress]:
        assert (host, port) == ("orders.default.svc.cluster.local", 7117)
        if not service:
            raise OSError("no such name")
        return list(service)

    def start(name: str, address: str) -> MeshTransport:
        service.append((address, 7117))
        config = mesh("orders.default.svc.cluster.local:7117", address=address, insecure=True)
        return meshed(name, config, lookup=answer)

    members = [start(name, f"127.9.0.{i + 1}") for i, name in enumerate(["ada", "bea", "cyd"])]
    until(members, know(*members))
    service.remove(("127.9.0.1", 7117))
    members.pop(0).close()
    members.append(start("dov", "127.9.0.4"))
    until(members, know(*members))


# ---------------------------------------------------------------------------- faults on demand


def test_a_cut_closes_the_channel_and_a_heal_opens_it(
    meshed: Meshed, until: Until, gathered: Gather
) -> None:
    ada = meshed("ada", here(NOBODY))
    bea = meshed("bea", here(ada.address))
    cyd = meshed("cyd", here(ada.address))
    everybody = [ada, bea, cyd]
    until(everybody, know(*everybody))
    ada.faults.cut(bea.address)
    until(everybody, lambda: ada.peers == [cyd.address] and bea.peers == [cyd.address])
    bea.send(time.monotonic_ns(), [b"x"])
    assert gathered(cyd, 1) == [b"x"]
    assert gathered(ada) == []
    ada.faults.heal()
    until(everybody, know(*everybody))
    bea.send(time.monotonic_ns(), [b"y"])
    assert gathered(ada, 1) == [b"y"]
    found = [(e.op, e.reason) for e in ada.channel_events if e.peer == "bea"]
    assert found[0] == ("UP", None)
    assert ("DOWN", "fault injection") in found
    assert found[-1] == ("UP", None)
    assert {e.address for e in ada.channel_events} == {bea.address, cyd.address}


def test_refusals_are_events_of_both_ends_and_are_bounded(meshed: Meshed, until: Until) -> None:
    """Anybody who reaches the port can be refused as often as he likes."""
    ada = meshed("ada", here(NOBODY))
    eve = meshed("eve", here(ada.address, cluster="another"))
    until([ada, eve], lambda: ada.counts["refused-cluster"] >= 2)
    assert [(e.op, e.reason) for e in ada.channel_events] == [("REFUSED", "cluster")]
    assert [(e.op, e.reason) for e in eve.channel_events] == [("REJECTED", "cluster")]


def test_a_cut_in_one_direction_drops_packets_and_keeps_the_channel(
    meshed: Meshed, until: Until, gathered: Gather
) -> None:
    ada = meshed("ada", here(NOBODY))
    bea = meshed("bea", here(ada.address))
    until([ada, bea], know(ada, bea))
    ada.faults.cut_from(bea.address)
    bea.send(time.monotonic_ns(), [b"x"])
    assert gathered(ada) == []
    assert ada.faults.counts["cut"] == 1
    ada.send(time.monotonic_ns(), [b"y"])
    assert gathered(bea, 1) == [b"y"]


def test_losses_and_delays_apply_to_packets(meshed: Meshed, until: Until, gathered: Gather) -> None:
    ada = meshed("ada", here(NOBODY))
    bea = meshed("bea", here(ada.address))
    until([ada, bea], know(ada, bea))
    bea.faults.lose(0.5, seed=1)
    ada.send(time.monotonic_ns(), [b"x"] * 200)
    until([ada, bea], lambda: bea.faults.counts["lost"] > 0)
    assert 60 < bea.faults.counts["lost"] < 140
    bea.faults.heal()
    gathered(bea)
    bea.faults.delay(50_000_000)
    began = time.monotonic()
    ada.send(time.monotonic_ns(), [b"late"])
    assert gathered(bea, 1) == [b"late"]
    assert time.monotonic() - began >= 0.05


# ---------------------------------------------------------------------------- mistakes when opening


@pytest.mark.parametrize(
    ("settings", "field", "problem"),
    [
        ({"address": "0.0.0.0"}, "tls", "insecure=True"),
        ({"address": "", "peers": ("192.0.2.1:7117",)}, "tls", "insecure=True"),
        ({"peers": ("[::1]:7117",)}, "peers", "one version"),
        ({"address": "239.1.1.1"}, "address", "local address"),
        ({"peers": ("nonsense",)}, "peers", "host:port"),
    ],
)
def test_a_mistake_is_found_before_anything_is_open(
    files: Callable[[], int], settings: dict[str, Any], field: str, problem: str
) -> None:
    before = files()
    with pytest.raises(ConfigurationError, match=problem) as caught:
        open_mesh(here(NOBODY, **settings), "g", MemberId("ada"))
    assert caught.value.field == field
    assert files() == before


def test_plain_tcp_stays_on_loopback_unless_it_is_allowed(meshed: Meshed) -> None:
    config = mesh(NOBODY, port=0)
    assert meshed("ada", config).address.startswith("127.0.0.1:")
    config = mesh(NOBODY, port=0, insecure=True)
    open_one = meshed("bea", config)
    assert open_one._set.listener.getsockname()[0] == "0.0.0.0"


def test_a_port_in_use_is_reported(meshed: Meshed) -> None:
    ada = meshed("ada", here(NOBODY))
    with pytest.raises(NetworkError, match="another program uses this TCP port"):
        meshed("bea", here(NOBODY, port=port_of(ada)))


def test_a_mesh_is_opened_by_its_configuration(token: str, files: Callable[[], int]) -> None:
    before = files()
    transport = open_transport(here(NOBODY), token, me=MemberId("ada"))
    assert isinstance(transport, MeshTransport)
    transport.close()
    transport.close()
    assert transport.fileno() == -1
    assert files() == before


# ---------------------------------------------------------------------------- certificates


def test_a_replaced_certificate_is_used_without_a_restart(
    meshed: Meshed, until: Until, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp, "CHECK_NS", 20_000_000)
    authority = Authority(tmp_path)
    tls = authority.issue("ada")
    ada = meshed("ada", here(NOBODY, tls=tls))
    first = ada._tls
    Path(tls.certificate).write_text("damaged")
    until([ada], lambda: ada._tls is not None and not ada._tls.is_current())
    end = time.monotonic() + 0.1
    until([ada], lambda: time.monotonic() > end)
    assert ada._tls is first, "a damaged certificate replaces none"
    other = authority.issue("ada")
    Path(tls.private_key).write_bytes(Path(other.private_key).read_bytes())
    Path(tls.certificate).write_bytes(Path(other.certificate).read_bytes())
    until([ada], lambda: ada.counts["tls-reloaded"] == 1)
    bea = meshed("bea", here(ada.address, tls=authority.issue("bea")))
    until([ada, bea], know(ada, bea))


def test_only_tls_1_3_is_spoken(meshed: Meshed, until: Until, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    ada = meshed("ada", here(NOBODY, tls=authority.issue("ada")))
    bea = authority.issue("bea")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_cert_chain(bea.certificate, bea.private_key)
    context.load_verify_locations(bea.authority)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(("127.0.0.1", port_of(ada))) as raw:
        raw.setblocking(False)
        caller = context.wrap_socket(raw, do_handshake_on_connect=False)
        with pytest.raises(ssl.SSLWantReadError):
            caller.do_handshake()
        until([ada], lambda: ada.counts["refused-tls"] == 1)
        caller.close()
