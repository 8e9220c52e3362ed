"""Names of peers, with a stand-in for the name service."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from time import monotonic

import pytest

from phalanx.transport import resolver as module
from phalanx.transport.addresses import SocketAddress
from phalanx.transport.resolver import Resolver, literal, look_up


def eventually(holds: Callable[[], bool]) -> bool:
    end = monotonic() + 5
    pause = Event()
    while not holds() and monotonic() < end:
        pause.wait(0.005)
    return holds()


def test_names_are_looked_up_again_and_follow_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.01)
    service: dict[str, list[SocketAddress]] = {"m": [("10.0.0.1", 7), ("10.0.0.2", 7)]}
    names = Resolver([("m", 7)], lambda host, port: service[host])
    assert names.wait(5)
    assert names.found == (("10.0.0.1", 7), ("10.0.0.2", 7))
    service["m"] = [("10.0.0.3", 7)]
    assert eventually(lambda: names.found == (("10.0.0.3", 7),))
    names.close()


def test_a_name_that_fails_keeps_what_it_had_and_is_soon_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(module, "SOON_SECONDS", 0.01)
    service: dict[str, list[SocketAddress]] = {"m": [("10.0.0.1", 7)]}

    def lookup(host: str, port: int) -> list[SocketAddress]:
        if host not in service:
            raise OSError("no such name")
        return service[host]

    names = Resolver([("m", 7), ("n", 7)], lookup)
    assert names.wait(5)
    assert names.found == (("10.0.0.1", 7),)
    del service["m"]
    before = names.failures
    assert eventually(lambda: names.failures > before + 3)
    assert names.found == (("10.0.0.1", 7),)
    service["n"] = [("10.0.0.9", 7)]
    assert eventually(lambda: names.found == (("10.0.0.1", 7), ("10.0.0.9", 7)))
    names.close()


def test_without_names_there_is_nothing_to_wait_for() -> None:
    assert Resolver([]).wait(0)


def test_addresses_need_no_service() -> None:
    assert literal("10.0.0.1")
    assert literal("fe80::1%lo")
    assert not literal("a.example")
    assert look_up("127.0.0.1", 7) == [("127.0.0.1", 7)]


@pytest.mark.parametrize("host", ["a" * 300, "\ud800"])
def test_what_is_no_name_is_an_error_of_the_system(host: str) -> None:
    with pytest.raises(OSError):  # noqa: PT011
        look_up(host, 7)
