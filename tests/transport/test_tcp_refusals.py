"""What strangers and broken peers can do to a mesh: be counted, logged and closed.

In each test ada and bea are connected first. At the end their channel is still the same one, and
packets pass.
"""

from __future__ import annotations

import errno
import logging
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.certificate_authority import Authority, shared_key

from phalanx.config import Certificates, Config, SharedKey, mesh
from phalanx.core.ids import MemberId
from phalanx.transport import channel_set, tcp
from phalanx.transport.addresses import host_and_port
from phalanx.transport.channel_hello import (
    MAGIC,
    ToldPeer,
    encode_hello,
    encode_peers,
    own_hello,
)
from phalanx.transport.record_codec import (
    BEAT,
    HELLO,
    PEERS,
    encode_control,
    encode_datagrams,
)
from phalanx.transport.tcp import MeshTransport
from phalanx.transport.tls_identity import open_tls

Meshed = Callable[..., MeshTransport]
Gather = Callable[..., list[bytes]]
Until = Callable[..., None]
NOBODY = "127.0.0.1:9"


def here(*peers: str, **settings: Any) -> Config:
    given: dict[str, Any] = {"address": "127.0.0.1", "port": 0} | settings
    return mesh(*peers, **given)


class Pair:
    """ada and bea, connected, and callers that trouble ada."""

    def __init__(self, meshed: Meshed, until: Until, gathered: Gather, token: str) -> None:
        self._meshed, self._until, self._gathered = meshed, until, gathered
        self.group = f"{token} g"
        self._callers: list[socket.socket] = []

    def start(self, **settings: Any) -> MeshTransport:
        tls = settings.pop("tls", {})
        self.config = here(NOBODY, tls=tls.get("ada"), **settings)
        self.ada = self._meshed("ada", self.config)
        self.bea = self._meshed("bea", here(self.ada.address, tls=tls.get("bea"), **settings))
        self.until(lambda: self.ada.names == ["bea"] and self.bea.names == ["ada"])
        self._channels = [*self.ada._up.values(), *self.bea._up.values()]
        return self.ada

    def until(self, holds: Callable[[], bool]) -> None:
        self._until([self.ada, self.bea], holds)

    def call(self, context: ssl.SSLContext | None = None) -> socket.socket:
        """A connection to ada; with TLS after the handshake."""
        sock = socket.create_connection(host_and_port("", self.ada.address), timeout=5)
        self._callers.append(sock)
        if context is None:
            return sock
        sock.setblocking(False)
        caller = context.wrap_socket(sock, do_handshake_on_connect=False)
        self._callers.append(caller)

        def shaken() -> bool:
            try:
                caller.do_handshake()
            except ssl.SSLWantReadError:
                return False
            return True

        self.until(shaken)
        return caller

    def hello(self, name: str = "mal", config: Config | None = None, group: str = "") -> bytes:
        hello = own_hello(config or self.config, group or self.group, MemberId(name), b"m" * 8, 9)
        return encode_control(HELLO, encode_hello(hello))

    def count_drops(self, stream: bytes) -> None:
        """Send ada a stream and hang up; returns when ada has counted and closed the channel."""
        before = sum(self.ada.counts.values())
        with self.call() as caller:
            caller.sendall(stream)
        self.until(lambda: sum(self.ada.counts.values()) > before and len(self.ada._set.all) == 1)

    def refused(self, reason: str, times: int = 1) -> None:
        self.until(lambda: self.ada.counts[f"refused-{reason}"] >= times)
        assert self.ada.counts[f"refused-{reason}"] == times, dict(self.ada.counts)

    def close(self) -> None:
        """The group goes on: no channel between the two has been opened or closed."""
        for caller in self._callers:
            caller.close()
        self.until(lambda: self.ada.names == ["bea"])
        self.ada.send(time.monotonic_ns(), [b"still"])
        self.bea.send(time.monotonic_ns(), [b"here"])
        assert self._gathered(self.bea, 1) == [b"still"]
        came: list[bytes] = []
        while b"here" not in came:
            came = self._gathered(self.ada, 1)
            assert came, "nothing passes any more"
        assert [*self.ada._up.values(), *self.bea._up.values()] == self._channels


@pytest.fixture
def pair(meshed: Meshed, until: Until, gathered: Gather, token: str) -> Iterator[Pair]:
    made = Pair(meshed, until, gathered, token)
    yield made
    made.close()


# ---------------------------------------------------------------------------- hellos


def test_garbage_is_refused(pair: Pair) -> None:
    pair.start()
    pair.call().sendall(b"GET / HTTP/1.1\r\n\r\n")
    pair.refused("malformed")


def test_another_version_is_refused(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    pair.start()
    old = encode_control(HELLO, MAGIC + b"\x63\x03" + b"whatever")
    caller = pair.call()
    with caplog.at_level(logging.WARNING, "phalanx"):
        caller.sendall(old)
        pair.refused("version")
    assert "versions [99, 3] there, [1, 3] here" in caplog.text
    assert b"version" in caller.recv(1000), "the caller learns the reason"


@pytest.mark.parametrize("other", ["cluster", "group", "settings"])
def test_members_of_another_cluster_group_or_with_other_settings_are_refused(
    pair: Pair, other: str
) -> None:
    pair.start()
    config = here(NOBODY, cluster="other") if other == "cluster" else pair.config
    config = here(NOBODY, mode="hold") if other == "settings" else config
    pair.call().sendall(pair.hello(config=config, group="other" if other == "group" else ""))
    pair.refused(other)


def test_real_members_that_refuse_each_other_say_so_once_a_minute(
    pair: Pair, meshed: Meshed, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    ada = pair.start()
    with caplog.at_level(logging.WARNING, "phalanx"):
        other = meshed("cyd", here(ada.address, mode="hold"))
        until([ada, pair.bea, other], lambda: ada.counts["refused-settings"] >= 3)
    assert other.counts["rejected-settings"] >= 2
    assert other.peers == []
    lines = [record.getMessage() for record in caplog.records]
    assert len([line for line in lines if "refuses a channel" in line]) == 1
    assert len([line for line in lines if "refuses this member (settings)" in line]) == 1


def test_packets_before_the_hello_are_refused(pair: Pair) -> None:
    pair.start()
    pair.call().sendall(encode_datagrams([b"x"]))
    pair.refused("malformed")


def test_a_caller_that_says_nothing_is_closed(pair: Pair) -> None:
    ada = pair.start()
    ada._pace.limit_ns = 200_000_000
    caller = pair.call()
    pair.refused("stalled")
    assert caller.recv(1) == b""
    assert len(ada._set.all) == 1


def test_a_crowd_of_callers_from_one_host_is_held_off(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_set, "PENDING_PER_HOST_MAX", 5)
    ada = pair.start()
    for _ in range(12):
        pair.call()
    pair.refused("crowd", 7)
    assert len(ada._set.all) == 6


def test_of_too_many_callers_the_oldest_are_closed(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_set, "PENDING_MAX", 5)
    ada = pair.start()
    callers = [pair.call() for _ in range(8)]
    pair.refused("crowd", 3)
    assert len(ada._set.all) == 6
    callers[-1].sendall(b"still open")
    pair.refused("malformed")


def test_a_process_without_descriptors_accepts_again_later(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp, "CHECK_NS", 100_000_000)
    ada = pair.start()
    listener = ada._set.listener

    class Exhausted:
        fileno = listener.fileno
        getsockname = listener.getsockname

        def accept(self) -> None:
            raise OSError(errno.EMFILE, "Too many open files")

    ada._set.listener = Exhausted()  # type: ignore[assignment]
    caller = pair.call()
    pair.refused("files")
    assert select.select([ada], [], [], 0)[0] == [], "the event loop would spin"
    ada._set.listener = listener
    caller.sendall(pair.hello())
    pair.until(lambda: "mal" in ada.names)


# ---------------------------------------------------------------------------- peers that misbehave


@pytest.mark.parametrize(
    ("bytes_sent", "reason"),
    [
        (b"\xff\xff\xff\xff garbage", "malformed"),
        (b"\x05\xff\xff\xff" + b"x" * 1000, "malformed"),
        (encode_control(PEERS, b"\xff"), "malformed"),
        (encode_control(BEAT) * 1000, "flood"),
    ],
    ids=["garbage", "oversized", "report", "flood"],
)
def test_a_member_that_breaks_the_rules_is_closed_and_isolated(
    pair: Pair, bytes_sent: bytes, reason: str
) -> None:
    ada = pair.start()
    caller = pair.call()
    caller.sendall(pair.hello())
    pair.until(lambda: "mal" in ada.names)
    caller.sendall(bytes_sent)
    pair.refused(reason)
    assert ada.names == ["bea"]
    again = pair.call()
    again.sendall(pair.hello())
    pair.refused("isolated")
    assert ada.names == ["bea"]


def test_no_bytes_of_a_peer_raise(pair: Pair) -> None:
    """Streams of a member with bytes changed, left out, doubled and added, by seed."""
    ada = pair.start()
    for seed in range(80):
        ada._isolated.clear()
        dice = Random(seed)
        stream = bytearray(
            pair.hello(f"mal{seed}")
            + encode_control(PEERS, encode_peers([ToldPeer("x", "127.0.0.1", 9)]))
            + encode_datagrams([b"not of the core"])
            + encode_control(BEAT)
        )
        for _ in range(dice.randrange(4)):
            at = dice.randrange(len(stream))
            match dice.randrange(4):
                case 0:
                    stream[at] = dice.randrange(256)
                case 1:
                    del stream[at : at + dice.randrange(1, 20)]
                case 2:
                    stream[at:at] = stream[at : at + dice.randrange(1, 20)]
                case _:
                    stream[at:at] = dice.randbytes(dice.randrange(1, 20))
        pair.count_drops(bytes(stream))
    assert ada.counts["channel-down"] > 10, "no stream passed for that of a member"
    assert sum(n for reason, n in ada.counts.items() if reason.startswith("refused")) > 10


def test_a_flood_of_packets_leaves_the_others_their_share(pair: Pair, gathered: Gather) -> None:
    ada = pair.start()
    caller = pair.call()
    caller.sendall(pair.hello())
    pair.until(lambda: "mal" in ada.names)
    caller.setblocking(False)
    flood = encode_datagrams([b"f" * 50_000]) * 20
    left, taken, mine = memoryview(b""), 0, []
    pair.bea.send(time.monotonic_ns(), [b"mine"])
    for _ in range(200):
        left = left or memoryview(flood)
        with suppress(BlockingIOError):
            left = left[caller.send(left) :]
        came = ada.receive(time.monotonic_ns())
        assert sum(map(len, came)) <= 2 * 256 * 1024 + 200_000, "one turn takes a bounded share"
        taken += sum(packet[:1] == b"f" for packet in came)
        mine += [packet for packet in came if packet == b"mine"]
    assert mine == [b"mine"]
    assert taken > 20


# ---------------------------------------------------------------------------- TLS


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def context_of(tls: Certificates | None) -> ssl.SSLContext:
    """The context of a caller that accepts every server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if tls is not None:
        context.load_cert_chain(tls.certificate, tls.private_key)
    return context


@pytest.mark.parametrize("who", ["nobody", "expired", "stranger"])
def test_callers_without_a_valid_certificate_are_refused(
    pair: Pair, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture, who: str
) -> None:
    pair.start(tls={name: authority.issue(name) for name in ("ada", "bea")})
    tls = None
    if who == "expired":
        tls = authority.issue("mal", days=-1)
    elif who == "stranger":
        tls = Authority(tmp_path, "other").issue("bea")
    with caplog.at_level(logging.WARNING, "phalanx"):
        pair.call(context_of(tls))  # the caller of TLS 1.3 has finished before it is judged
        pair.refused("certificate")
    text = {
        "nobody": "it has no certificate",
        "expired": "its certificate: certificate has expired",
        "stranger": "its certificate: unable to get local issuer certificate",
    }[who]
    assert text in caplog.text


def test_a_certificate_of_another_member_is_refused(
    pair: Pair, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    pair.start(tls={name: authority.issue(name) for name in ("ada", "bea")})
    caller = pair.call(context_of(authority.issue("mal", "mal", "mal-*")))
    with caplog.at_level(logging.WARNING, "phalanx"):
        caller.sendall(pair.hello("bea"))
        pair.refused("name")
    assert "its certificate names 'mal', 'mal-*', not 'bea'" in caplog.text
    caller = pair.call(context_of(authority.issue("x", "mal-*")))
    caller.sendall(pair.hello("mal-7"))
    pair.until(lambda: "mal-7" in pair.ada.names)


def test_plain_text_at_a_port_of_tls_is_refused(pair: Pair, authority: Authority) -> None:
    pair.start(tls={name: authority.issue(name) for name in ("ada", "bea")})
    pair.call().sendall(pair.hello("mal"))
    pair.refused("tls")


def test_a_caller_that_stalls_in_the_tls_handshake_is_closed(
    pair: Pair, authority: Authority
) -> None:
    ada = pair.start(tls={name: authority.issue(name) for name in ("ada", "bea")})
    ada._pace.limit_ns = 200_000_000
    pair.call().sendall(b"\x16\x03\x01\x02\x00\x01")  # the beginning of a client hello
    pair.refused("stalled")


def test_another_shared_key_is_refused_by_both_ends(
    pair: Pair, meshed: Meshed, until: Until, tmp_path: Path
) -> None:
    key = SharedKey(shared_key(tmp_path))
    ada = pair.start(tls={"ada": key, "bea": key})
    other = SharedKey(shared_key(tmp_path, "another key of another group, as long"))
    mal = meshed("mal", here(ada.address, tls=other))
    until([ada, pair.bea, mal], lambda: mal.counts["refused-key"] >= 2)
    assert ada.counts["refused-key"] >= 1
    assert mal.peers == []
    assert ada.names == ["bea"]


# ---------------------------------------------------------------------------- a man in the middle


class Middle:
    """Accepts connections for a member and passes the bytes on to it, decrypted and encrypted again
    with credentials of its own."""

    def __init__(self, target: str, server: ssl.SSLContext, client: ssl.SSLContext) -> None:
        self._target = host_and_port("", target)
        self._server, self._client = server, client
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.1)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.failures = 0
        self.passed = b""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                sock, _ = self._listener.accept()
            except TimeoutError:
                continue
            sock.settimeout(2)
            try:
                with (
                    self._server.wrap_socket(sock, server_side=True) as victim,
                    socket.create_connection(self._target, timeout=2) as raw,
                    self._client.wrap_socket(raw) as target,
                ):
                    data = victim.recv(10_000)
                    self.passed += data
                    target.sendall(data)
                    self.passed += target.recv(10_000)
                    victim.sendall(self.passed)
            except OSError:
                self.failures += 1
            sock.close()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        self._listener.close()


@pytest.mark.parametrize("kind", ["key", "certificates"])
def test_a_man_in_the_middle_passes_nothing_on(
    pair: Pair, meshed: Meshed, until: Until, tmp_path: Path, kind: str
) -> None:
    """He stands between cyd and ada, with a key or an authority of his own."""
    if kind == "key":
        key = SharedKey(shared_key(tmp_path))
        tls: dict[str, Any] = dict.fromkeys(("ada", "bea", "cyd"), key)
        his = open_tls(SharedKey(shared_key(tmp_path, "his own key, which is long enough too")))
        server, client = his.server, his.client
    else:
        authority = Authority(tmp_path)
        tls = {name: authority.issue(name) for name in ("ada", "bea", "cyd")}
        faked = Authority(tmp_path, "his").issue("ada")
        server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), context_of(faked)
        server.load_cert_chain(faked.certificate, faked.private_key)
    server.verify_mode = client.verify_mode = ssl.CERT_NONE  # he accepts everybody
    ada = pair.start(tls=tls)
    middle = Middle(ada.address, server, client)
    try:
        cyd = meshed("cyd", here(middle.address, tls=tls["cyd"]))
        reason = "refused-key" if kind == "key" else "refused-certificate"
        until([ada, pair.bea, cyd], lambda: cyd.counts[reason] >= 2)
        assert cyd.peers == []
        assert ada.names == ["bea"]
    finally:
        middle.close()
    assert middle.failures >= 2
    assert middle.passed == b""


def test_a_man_in_the_middle_that_impersonates_a_client_is_refused_too(
    pair: Pair, tmp_path: Path
) -> None:
    key = SharedKey(shared_key(tmp_path))
    pair.start(tls={"ada": key, "bea": key})
    his = open_tls(SharedKey(shared_key(tmp_path, "his own key, which is long enough too")))
    his.client.verify_mode = ssl.CERT_NONE
    caller = pair.call(his.client)
    with suppress(OSError):
        caller.sendall(pair.hello("bea"))
    pair.refused("key")
