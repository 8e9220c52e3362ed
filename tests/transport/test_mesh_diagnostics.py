"""The checks of `phalanx doctor --profile mesh`."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic_ns
from typing import Any

import pytest
from tests.certificate_authority import Authority, shared_key

from phalanx.config import SharedKey, Tls, mesh
from phalanx.core.ids import MemberId
from phalanx.transport import mesh_diagnostics as module
from phalanx.transport.addresses import SocketAddress
from phalanx.transport.diagnostics import Diagnosis
from phalanx.transport.mesh_diagnostics import mesh_findings
from phalanx.transport.open_mesh import open_mesh


def findings(*peers: str, name: str | None = None, **settings: Any) -> dict[str, list[Diagnosis]]:
    out: dict[str, list[Diagnosis]] = {}
    given: dict[str, Any] = {"address": "127.0.0.1", "port": 0} | settings
    for finding in mesh_findings(mesh(*peers, **given), name, answer):
        out.setdefault(finding.check, []).append(finding)
    return out


def answer(host: str, port: int) -> list[SocketAddress]:
    if host == "gone.example":
        raise OSError("no such name")
    return [("127.0.0.1", port)] if host == "127.0.0.1" else [("127.0.0.1", 9), ("127.0.0.2", 9)]


class RunningMember:
    """A transport that runs in a thread until it is closed."""

    def __init__(self, tls: Tls | None) -> None:
        config = mesh("127.0.0.1:9", address="127.0.0.1", port=0, tls=tls)
        self._transport = open_mesh(config, "doctored", MemberId("ada"))
        self.address = self._transport.address
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(0.005):
            self._transport.receive(monotonic_ns())
            self._transport.expire(monotonic_ns())

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        self._transport.close()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def member(authority: Authority) -> Iterator[RunningMember]:
    running = RunningMember(authority.issue("ada"))
    yield running
    running.close()


def test_a_sound_mesh_has_no_problems(member: RunningMember, authority: Authority) -> None:
    found = findings(member.address, name="bea", tls=authority.issue("bea"))
    (encryption,) = found["encryption"]
    assert encryption.verdict == "warning"  # two days are few
    assert "names 'bea' and is valid for 2 days" in encryption.text
    assert found["port"][0].verdict == "ok"
    (peer,) = found["peer"]
    assert peer.verdict == "ok"
    assert "answers, TLSv1.3 TLS_AES_256_GCM_SHA384" in peer.text
    assert "name" not in found
    long = findings(member.address, tls=authority.issue("bea", days=90))
    assert long["encryption"][0].verdict == "ok"


def test_a_name_that_is_not_in_the_certificate_is_a_problem(authority: Authority) -> None:
    found = findings("127.0.0.1:9", name="cyd", tls=authority.issue("bea"))
    assert found["name"][0].verdict == "problem"


def test_an_expired_certificate_is_a_problem_and_nobody_is_called(authority: Authority) -> None:
    found = findings("127.0.0.1:9", tls=authority.issue("bea", days=-1))
    assert found["encryption"][0].verdict == "problem"
    assert "certificate has expired" in found["encryption"][0].text
    assert "peer" not in found


def test_a_peer_with_other_credentials_is_a_problem(member: RunningMember, tmp_path: Path) -> None:
    found = findings(member.address, tls=Authority(tmp_path, "other").issue("bea"))
    assert found["peer"][0].verdict == "problem"
    assert "its certificate: " in found["peer"][0].text
    found = findings(member.address, tls=SharedKey(shared_key(tmp_path)))
    assert "another shared key" in found["peer"][0].text


def test_names_are_resolved_and_their_addresses_called() -> None:
    found = findings("members.example:9", "gone.example:9")
    assert [(f.verdict, f.text) for f in found["peers"]] == [
        ("ok", "'members.example' is 127.0.0.1, 127.0.0.2"),
        ("problem", "'gone.example': no such name"),
    ]
    assert [f.text for f in found["peer"]] == [
        "127.0.0.1:9: Connection refused",
        "127.0.0.2:9: Connection refused",
    ]
    assert found["encryption"][0].verdict == "warning"


def test_a_silent_peer_and_a_silent_name_service_are_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "CALL_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        peer = f"127.0.0.1:{silent.getsockname()[1]}"
        found = findings(peer, tls=SharedKey(shared_key(tmp_path)))
    assert found["peer"][0].text == f"{peer}: no answer"
    monkeypatch.setattr(module, "LOOKUP_SECONDS", 0.1)
    asked = threading.Event()
    config = mesh("slow.example:9", address="127.0.0.1", port=0)

    def slow(host: str, port: int) -> list[SocketAddress]:
        if host == "slow.example":
            asked.wait(5)
        return [("127.0.0.1", port)]

    texts = [finding.text for finding in mesh_findings(config, lookup=slow)]
    asked.set()
    assert "'slow.example': no answer of the name service in 0 s" in texts


def test_a_port_in_use_is_a_warning() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = findings("127.0.0.1:9", port=port)
    assert found["port"][0].verdict == "warning"
    assert "another program uses this TCP port" in found["port"][0].text


def test_a_network_without_encryption_is_a_problem_beyond_loopback() -> None:
    found = findings("192.0.2.1:9", address="0.0.0.0", port=0, peers=("127.0.0.1:9",))
    assert found["port"][0].verdict == "problem"
    assert "insecure=True" in found["port"][0].remedy
