"""Clients over TCP: with the key they get in, without it they do not, and nobody else suffers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.certificate_authority import Authority, shared_key

from phalanx.config import SharedKey, Tls
from phalanx.errors import ConfigurationError, NetworkError
from phalanx.mserver.asyncio_client import connect
from phalanx.mserver.interface_process import ClientPlaces
from phalanx.service.calls.call_errors import Unavailable

if TYPE_CHECKING:
    from tests.mserver.conftest import Host, Scenario

    Run = Callable[[Scenario], None]


def free_tcp_place() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


async def listen(host: Host, tls: Tls | None) -> str:
    """Start the host again with a TCP socket."""
    await host.stop()
    place = free_tcp_place()
    host.places = ClientPlaces(Path(host.place), tcp=place, tls=tls)
    await host.start()
    return place


def test_a_client_with_the_shared_key_gets_in_and_others_do_not(
    on_a_host: Run, tmp_path: Path
) -> None:
    key = SharedKey(shared_key(tmp_path))
    other = SharedKey(shared_key(tmp_path, "another key, which is long enough"))

    async def scenario(host: Host) -> None:
        place = await listen(host, key)
        async with await connect(place, tls=key) as client:
            assert (await client.join_group("orders"))["member"] == "h/1"
            for tls in (other, None):
                with pytest.raises(Unavailable):
                    await connect(place, tls=tls, timeout=0.5)
            assert (await client.get_list("orders"))["members"] == ["h/1"]

    on_a_host(scenario)


def test_certificates_of_another_authority_are_refused(on_a_host: Run, tmp_path: Path) -> None:
    authority, foreign = Authority(tmp_path), Authority(tmp_path, "foreign")

    async def scenario(host: Host) -> None:
        place = await listen(host, authority.issue("host", "host"))
        async with await connect(place, tls=authority.issue("client", "client")) as client:
            assert await client.get_list("orders")
            with pytest.raises(Unavailable, match=r"(?i)certificate"):
                await connect(place, tls=foreign.issue("client", "client"), timeout=0.5)

    on_a_host(scenario)


def test_plain_tcp_on_the_loopback_interface_works(on_a_host: Run) -> None:
    async def scenario(host: Host) -> None:
        place = await listen(host, None)
        async with await connect(place) as client:
            assert await client.get_list("orders")

    on_a_host(scenario)


def test_a_key_that_cannot_be_read_is_refused_at_the_start(on_a_host: Run) -> None:
    async def scenario(host: Host) -> None:
        with pytest.raises(NetworkError, match=r"none\.key cannot be read"):
            await connect(host.place, tls=SharedKey("none.key"))

    on_a_host(scenario)


def test_a_place_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match="interface = 'nowhere'"):
        asyncio.run(connect("nowhere"))
