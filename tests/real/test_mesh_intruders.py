"""A group over TLS goes on while callers of every bad kind trouble one of its members.

Three processes form a group. Callers come to the port of one of them: with no certificate, an
expired one, one of another authority, another member's; of another version, cluster or group; with
garbage; half-open and stalled; members of the authority that flood, fall silent or read nothing.
Each is counted, logged, written to the journal and closed, and the view stays the same.
"""

from __future__ import annotations

import os
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.certificate_authority import Authority, shared_key
from tests.real.mesh_members import Mesh, checked, leave, network, talk, views

from phalanx.config import Certificates, Config, SharedKey, mesh
from phalanx.core.ids import MemberId
from phalanx.harness.controller import MemberProcess
from phalanx.journal import reader
from phalanx.journal import schema as ev
from phalanx.transport.addresses import host_and_port
from phalanx.transport.channel_hello import MAGIC, encode_hello, own_hello, packet_prefixes
from phalanx.transport.record_codec import BEAT, HELLO, encode_control, encode_datagrams
from phalanx.transport.tls_identity import open_tls

GROUP = f"mesh-{os.getpid()}"
WAIT_SECONDS = 20.0


class Intruders:
    """Callers of one member."""

    def __init__(self, target: MemberProcess, undo: ExitStack) -> None:
        self.target = target
        self._undo = undo

    def call(self, tls: Certificates | None = None) -> ssl.SSLSocket:
        """A connection over TLS, with this certificate or none. It accepts every server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if tls is not None:
            context.load_cert_chain(tls.certificate, tls.private_key)
        return self.call_with(context)

    def call_with(self, context: ssl.SSLContext) -> ssl.SSLSocket:
        return self._undo.enter_context(context.wrap_socket(self.connect()))

    def connect(self) -> socket.socket:
        """A connection without TLS."""
        address = host_and_port("", self.target.address)
        return self._undo.enter_context(socket.create_connection(address, timeout=5))

    def refused(self, *reasons: str, times: int = 1) -> None:
        """Wait until the member has counted each of these."""
        end = time.monotonic() + WAIT_SECONDS
        for reason in reasons:
            while (counts := network(self.target)).get(reason, 0) < times:
                assert time.monotonic() < end, (reason, counts)
                time.sleep(0.02)


def hello(name: str, config: Config, group: str = GROUP) -> bytes:
    record = encode_hello(own_hello(config, group, MemberId(name), os.urandom(8), 9))
    return encode_control(HELLO, record)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def group_of_three(authority: Authority, tmp_path: Path) -> Iterator[Mesh]:
    yield from checked(tmp_path, authority.issue)


def test_no_bad_caller_disturbs_a_group(
    group_of_three: Mesh, authority: Authority, tmp_path: Path
) -> None:
    members = group_of_three.start_all(3)
    talk(members)
    before = views(members)
    ada = members[0]
    ours = authority.issue("mal", "mal-*")
    config = mesh("127.0.0.1:9")
    with ExitStack() as undo:
        at = Intruders(ada, undo)
        # Half-open ones: each is given up after seconds, which pass while the others come.
        at.connect().sendall(b"\x16\x03\x01\x02\x00\x01")  # the beginning of a TLS handshake
        at.call(ours)  # says no hello
        silent = at.call(ours)
        silent.sendall(hello("mal-silent", config))
        slow = at.call(ours)
        slow.sendall(hello("mal-slow", config))
        _come_without_a_right(at, authority, tmp_path, config, ours)
        _break_the_rules(at, config, ours)
        talk(members)
        _flood_with_packets(at, config, ours, members)
        _send_packets_that_mean_nothing(at, config, ours)
        _read_nothing(slow, members)
        at.refused("queue-full", "silent")
        at.refused("refused-stalled", times=2)
    talk(members)
    assert views(members) == before, "an intruder has changed the view"
    counts = network(ada)
    leave(members)
    _is_on_record(group_of_three, tmp_path, counts)


@pytest.fixture
def group_with_a_key(tmp_path: Path) -> Iterator[Mesh]:
    key = SharedKey(shared_key(tmp_path))
    yield from checked(tmp_path, lambda name: key)


def test_no_caller_without_the_key_disturbs_a_group(group_with_a_key: Mesh, tmp_path: Path) -> None:
    members = group_with_a_key.start_all(3)
    before = views(members)
    theirs = open_tls(SharedKey(shared_key(tmp_path, "another key, which is long enough too")))
    theirs.client.verify_mode = ssl.CERT_NONE  # they accept every server
    record = hello("bea", mesh("127.0.0.1:9"))
    with ExitStack() as undo:
        at = Intruders(members[0], undo)
        with suppress(OSError):
            at.call_with(theirs.client).sendall(record)
        at.refused("refused-key")
        with suppress(OSError):
            at.call().sendall(record)
        at.refused("refused-certificate")
        at.connect().sendall(record)  # not encrypted
        at.refused("refused-tls")
        talk(members)
    assert views(members) == before
    leave(members)


def _come_without_a_right(
    at: Intruders, authority: Authority, folder: Path, config: Config, ours: Certificates
) -> None:
    """Callers that have no business in the group."""
    expired = authority.issue("mal", days=-1)
    foreign = Authority(folder, "other").issue("bea")
    for tls in (expired, None, foreign):
        caller = at.call(tls)
        with suppress(OSError):
            caller.sendall(hello("bea", config))
    at.refused("refused-certificate", times=3)
    old = encode_control(HELLO, MAGIC + b"\x63\x03" + b"whatever")
    elsewhere = mesh("127.0.0.1:9", cluster="other")
    for record, reason in (
        (hello("bea", config), "name"),
        (old, "version"),
        (hello("mal-1", elsewhere), "cluster"),
        (hello("mal-1", config, "another group"), "group"),
        (hello("mal-1", mesh("127.0.0.1:9", mode="hold")), "settings"),
        (b"GET / HTTP/1.1\r\n\r\n", "malformed"),
    ):
        at.call(ours).sendall(record)
        at.refused(f"refused-{reason}")
    at.connect().sendall(hello("mal-1", config))  # not encrypted
    at.refused("refused-tls")


def _break_the_rules(at: Intruders, config: Config, ours: Certificates) -> None:
    """Members with a valid certificate that send garbage, or floods of control records."""
    for name, stream, reason in (
        ("mal-2", b"\xff\xff\xff\xff garbage", "refused-malformed"),
        ("mal-3", encode_control(BEAT) * 1000, "refused-flood"),
    ):
        before = network(at.target).get(reason, 0)
        caller = at.call(ours)
        caller.sendall(hello(name, config))
        assert caller.recv(1), "it is admitted"
        with suppress(OSError):
            caller.sendall(stream)
        at.refused(reason, times=before + 1)
        again = at.call(ours)
        with suppress(OSError):
            again.sendall(hello(name, config))
    at.refused("refused-isolated", times=2)


def _flood_with_packets(
    at: Intruders, config: Config, ours: Certificates, members: list[MemberProcess]
) -> None:
    """A caller sends packets that look like those of the group, but are damaged, as fast as it can,
    while the members talk."""
    caller = at.call(ours)
    caller.sendall(hello("mal-4", config))
    prefix = packet_prefixes(config, GROUP)[0]
    flood = encode_datagrams([prefix + os.urandom(1200)] * 50)
    sent, end = 0, time.monotonic() + 1.0
    caller.settimeout(0.05)
    while time.monotonic() < end:
        with suppress(TimeoutError, OSError):
            caller.sendall(flood)
            sent += 50
    assert sent, "nothing of the flood was sent"
    talk(members)
    assert at.target.report()["refused"]["checksum"] >= 50, "damaged packets are counted"


def _send_packets_that_mean_nothing(at: Intruders, config: Config, ours: Certificates) -> None:
    """A member with a valid certificate sends packets of no member."""
    before = network(at.target)["refused-malformed"]
    caller = at.call(ours)
    caller.sendall(hello("mal-5", config) + encode_datagrams([os.urandom(1200)] * 50))
    at.refused("refused-malformed", times=before + 1)
    again = at.call(ours)
    again.sendall(hello("mal-5", config))
    at.refused("refused-isolated", times=3)


def _read_nothing(slow: ssl.SSLSocket, members: list[MemberProcess]) -> None:
    """One caller has read nothing since it was admitted: more is sent than its queue holds. It
    shows that it is alive, so that it is not closed for silence before."""
    marks = [len(member.events) for member in members]
    for member in members:
        member.do("flood", seconds=2, size=4000, service="causal")
    end = time.monotonic() + 2
    while time.monotonic() < end:
        with suppress(OSError):
            slow.sendall(encode_control(BEAT))
        time.sleep(0.2)
    for member, mark in zip(members, marks, strict=True):
        member.wait(lambda e: e["event"] == "sent", 30, mark, "the flood is over")


def _is_on_record(group: Mesh, folder: Path, counts: dict[str, int]) -> None:
    """The journal of the member has a row for each kind of refusal, and its log a line."""
    journals: dict[Any, Any] = dict(reader.read_all([group.journals]).journals)
    rows = [row for rows in journals.values() for row in rows if isinstance(row, ev.ChannelReport)]
    refused = {row.reason for row in rows if row.op == "REFUSED" and row.member == "ada"}
    expected = {reason.partition("-")[2] for reason in counts if reason.startswith("refused-")}
    assert refused == expected - {"hello"}, "each reason has a row"
    assert {"certificate", "name", "version", "cluster", "group", "tls", "malformed"} <= refused
    assert {"flood", "isolated", "stalled", "settings"} <= refused
    down = {row.peer: row.reason for row in rows if row.op == "DOWN" and row.member == "ada"}
    assert "nothing received" in (down["mal-silent"] or "")
    log = (folder / "errors-ada").read_text()
    for text in (
        "certificate has expired",
        "versions [99, 3] there",
        "it is a member of another cluster",
        "mal-slow at 127.0.0.1:9 reads too slowly",
        "no hello within 5",
    ):
        assert text in log, text
