"""Settings of a group, heard by listening to real packets."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from phalanx.config import Config, local
from phalanx.core.ids import MemberId, boot_view
from phalanx.core.wire.packet_codec import VERSION, PacketCodec
from phalanx.core.wire.packets import Hello, NameClaimed, NameHeld
from phalanx.core.wire.shared_settings import shared_digest
from phalanx.transport.settings_probe import group_settings
from phalanx.transport.udp import open_udp

GROUP = f"heard-{os.getpid()}"
ADA, BOB, EVE = (MemberId(name) for name in ("ada", "bob", "eve"))
SECONDS = 0.6


def packet_of(member: MemberId, **settings: str) -> bytes:
    codec = PacketCodec("phalanx", GROUP, shared_digest(Config(**settings)))  # type: ignore[arg-type]
    return codec.encode(Hello(member, 1, boot_view([member]).id, ()))


@contextmanager
def saying(*packets: bytes) -> Iterator[None]:
    """Somebody sends these again and again."""
    transport, over = open_udp(local(), GROUP), Event()

    def send() -> None:
        while not over.wait(0.02):
            transport.send(0, list(packets))

    sender = Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        over.set()
        sender.join()
        transport.close()


def test_a_group_of_one_mind_is_well(files: Callable[[], int]) -> None:
    before = files()
    with saying(packet_of(BOB), packet_of(ADA)):
        finding = group_settings(local(), GROUP, SECONDS)
    assert (finding.check, finding.verdict) == ("settings", "ok")
    assert finding.text == "order=toto, early=False, mode=hold at ada.1, bob.1"
    assert files() == before


def test_members_that_differ_are_a_problem_with_their_names() -> None:
    with saying(packet_of(ADA), packet_of(BOB, order="all-ack"), packet_of(EVE)):
        finding = group_settings(local(), GROUP, SECONDS)
    assert finding.verdict == "problem"
    assert "order=toto, early=False, mode=hold at ada.1, eve.1" in finding.text
    assert "order=all-ack, early=False, mode=hold at bob.1" in finding.text
    assert "the same settings" in finding.remedy


def test_settings_of_another_release_are_told() -> None:
    strange = PacketCodec("phalanx", GROUP, b"what").encode(NameClaimed(BOB, 1))
    with saying(packet_of(ADA), strange):
        finding = group_settings(local(), GROUP, SECONDS)
    assert finding.verdict == "problem"
    assert "settings unknown to this release at bob.1" in finding.text


def test_a_group_that_is_not_heard_is_noted() -> None:
    older = bytes([VERSION - 1]) + packet_of(ADA)[1:]
    silent = PacketCodec("phalanx", GROUP).encode(NameHeld(ADA, 1))
    with saying(older, silent):
        finding = group_settings(local(), GROUP, SECONDS)
    assert finding.verdict == "note"
    assert "packets were of another protocol version" in finding.text
    finding = group_settings(local(), f"{GROUP}-nobody", 0.05)
    assert finding.text == f"no member of group '{GROUP}-nobody' was heard in 0.05 s"


def test_a_port_that_cannot_be_had_is_noted() -> None:
    finding = group_settings(local(address="10.255.255.1"), GROUP, SECONDS)
    assert finding.verdict == "note"
    assert finding.text.startswith("not checked: ")
