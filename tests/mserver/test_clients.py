"""Clients of an interface: calls, notices, restarts of the interface, and clients that die."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from phalanx.mserver.asyncio_client import ServiceClient, connect
from phalanx.mserver.blocking_client import BlockingServiceClient, connect_blocking
from phalanx.mserver.client_messages import (
    BadFrame,
    CallReply,
    ClientHello,
    ClientRefused,
    MemberNotice,
    frame_of,
    to_client,
)
from phalanx.mserver.interface_process import ClientPlaces
from phalanx.service.calls.call_errors import BadArgument, Denied, Unavailable
from phalanx.service.calls.call_table import CALLS

if TYPE_CHECKING:
    from tests.mserver.conftest import Host, Scenario

    Run = Callable[[Scenario], None]


async def take(notices: AsyncIterator[MemberNotice], count: int) -> list[MemberNotice]:
    async with asyncio.timeout(10):
        return [await anext(notices) for _ in range(count)]


def views(notices: list[MemberNotice], member: str) -> list[str]:
    return [notice.vid or notice.kind for notice in notices if notice.member == member]


def test_a_client_joins_and_follows_the_views_of_its_member(on_a_host: Run) -> None:
    async def scenario(host: Host) -> None:
        async with await connect(host.place) as one, await connect(host.place) as two:
            assert one.interface == "h"
            joined = await one.join_group("orders", properties={"tier": 1})
            assert (joined["member"], joined["uid"]) == ("h/1", "u")
            notices = one.notices()
            [first] = await take(notices, 1)
            assert (first.member, first.kind, first.members) == ("h/1", "view", ("h/1",))
            other = await two.join_group("orders")
            assert other["member"] == "h/2"
            [second] = await take(notices, 1)
            assert second.members == ("h/1", "h/2")
            assert second.previous == first.vid
            assert (await one.get_list("orders"))["members"] == ["h/1", "h/2"]
            await two.leave_group("orders", member="h/2")
            assert (await take(notices, 1))[0].members == ("h/1",)
            kinds = [notice.kind for notice in await take(two.notices(), 2)]
            assert kinds == ["view", "excluded"]

    on_a_host(scenario)


def test_errors_of_a_call_are_exceptions(on_a_host: Run) -> None:
    async def scenario(host: Host) -> None:
        async with await connect(host.place) as client:
            with pytest.raises(Denied, match=r"denied\(split\)"):
                await client.split_group("orders", "a", "b")
            with pytest.raises(BadArgument, match="child_2"):
                await client.call("split_group", {"group": "orders", "child_1": "a"})
            with pytest.raises(TypeError, match="child_2"):
                await client.split_group("orders", "a")
            with pytest.raises(Unavailable):
                await client.get_view("silent", timeout=0.1)
            assert await client.get_list("orders")

    on_a_host(scenario)


def test_the_interface_checks_calls_as_well(on_a_host: Run) -> None:
    async def scenario(host: Host) -> None:
        async with await connect(host.place) as client:
            message = client._state.call("get_view", {"wrong": 1}, 1000)
            answer: asyncio.Future[CallReply] = asyncio.get_running_loop().create_future()
            client._answers[message.number] = answer
            client._send(message)
            assert (await answer).error == "bad-argument"
            assert host.machine.seen == []

    on_a_host(scenario)


def test_a_restart_of_the_interface_loses_and_repeats_no_view(on_a_host: Run) -> None:
    """One client joins ever more members while the interface restarts; another follows all of its
    own views and sees each exactly once, in order."""

    async def scenario(host: Host) -> None:
        async with await connect(host.place) as watcher, await connect(host.place) as joiner:
            await watcher.join_group("orders")
            for _ in range(4):
                await joiner.join_group("orders")
                await host.stop()
                calls = [asyncio.create_task(joiner.join_group("orders")) for _ in range(2)]
                await asyncio.sleep(0.02)
                await host.start()
                await asyncio.gather(*calls)
            notices = await take(watcher.notices(), 13)
            assert [notice.number for notice in notices] == list(range(1, 14))
            assert [len(notice.members) for notice in notices] == list(range(1, 14))
            for before, after in itertools.pairwise(notices):
                assert after.previous == before.vid

    on_a_host(scenario)


def test_a_call_that_is_repeated_after_a_restart_is_carried_out_once(on_a_host: Run) -> None:
    async def scenario(host: Host) -> None:
        async with await connect(host.place) as client:
            await client.join_group("orders")
            message = client._state.call("join_group", {"name": "orders"}, 5000)
            answer: asyncio.Future[CallReply] = asyncio.get_running_loop().create_future()
            client._answers[message.number] = answer
            client._send(message)
            while len(host.machine.seen) < 2:
                await asyncio.sleep(0.01)
            # The interface has carried it out; its answer is lost with the connection.
            client._answers[message.number] = asyncio.get_running_loop().create_future()
            client._state._open[message.number] = message
            await host.stop()
            await host.start()
            reply = await client._answers[message.number]
            assert reply.result["member"] == "h/2"
            assert len((await client.get_list("orders"))["members"]) == 2

    on_a_host(scenario)


def test_a_client_that_dies_leaves_all_its_groups(on_a_host: Run) -> None:
    async def scenario(host: Host) -> None:
        host.process.server._grace_seconds = 0.2
        async with await connect(host.place) as witness:
            dying = await connect(host.place)
            await dying.join_group("orders")
            await dying.join_group("orders")
            assert (await witness.get_list("orders"))["members"] == ["h/1", "h/2"]
            dying._task.cancel()  # as if its process were killed: no goodbye
            while (await witness.get_list("orders"))["members"]:
                await asyncio.sleep(0.05)
            assert host.process.server._outbox.members == {}
            await dying.close()

    on_a_host(scenario)


def test_a_client_that_does_not_come_back_after_a_restart_leaves(on_a_host: Run) -> None:
    async def scenario(host: Host) -> None:
        dying = await connect(host.place)
        await dying.join_group("orders")
        await host.stop()
        dying._task.cancel()
        host.places = ClientPlaces(Path(host.place), grace_seconds=0.2)
        await host.start()
        async with await connect(host.place) as witness:
            assert (await witness.get_list("orders"))["members"] == ["h/1"]
            while (await witness.get_list("orders"))["members"]:
                await asyncio.sleep(0.05)
        await dying.close()

    on_a_host(scenario)


@pytest.mark.parametrize(
    ("data", "counted"),
    [
        (b"\xff" * 40, "bad-frame"),
        (b"GET / HTTP/1.1\r\n\r\n", "bad-frame"),
        (frame_of(ClientHello(99, "a" * 32)), "bad-frame"),
        (frame_of(ClientHello(1, "a/b/c/d/e/f")), "bad-frame"),
        (frame_of(CallReply(1)), "bad-frame"),
    ],
)
def test_a_bad_client_is_refused_and_counted_and_others_go_on(
    data: bytes, counted: str, on_a_host: Run
) -> None:
    async def scenario(host: Host) -> None:
        async with await connect(host.place) as client:
            reader, writer = await asyncio.open_unix_connection(host.place)
            writer.write(data)
            answer = await reader.read()
            assert isinstance(to_client(answer[4:]), ClientRefused)
            writer.close()
            await writer.wait_closed()
            assert host.process.counts[counted] == 1
            assert await client.get_list("orders")
            assert host.process.counts[counted] == 1

    on_a_host(scenario)


def test_a_client_of_a_closed_interface_gets_unavailable(on_a_host: Run) -> None:
    async def scenario(host: Host) -> None:
        with pytest.raises(Unavailable, match=r"none\.sock"):
            await connect(host.place.replace("mi.sock", "none.sock"), timeout=0.2)
        async with await connect(host.place) as client:
            await host.stop()
            with pytest.raises(Unavailable):
                await client.get_view("orders", timeout=0.2)

    on_a_host(scenario)


def test_the_blocking_client_does_the_same(on_a_host: Run) -> None:
    found: list[Any] = []

    def program(place: str) -> None:
        with connect_blocking(place) as client:
            joined = client.join_group("orders", timeout=5)
            notices = [notice.kind for notice in client.notices(timeout=0.3)]
            try:
                client.delete_group("orders")
            except Denied as error:
                found.extend([client.interface, joined["member"], notices, error.detail])
        client.close()

    async def scenario(host: Host) -> None:
        thread = threading.Thread(target=program, args=(host.place,))
        thread.start()
        while thread.is_alive():
            await asyncio.sleep(0.01)

    on_a_host(scenario)
    assert found == ["h", "h/1", ["view"], "delete"]


@pytest.mark.parametrize("client", [ServiceClient, BlockingServiceClient])
def test_clients_have_a_method_for_each_call_of_the_table(client: type[object]) -> None:
    for spec in CALLS.values():
        method = getattr(client, spec.name)
        parameters = list(inspect.signature(method).parameters)
        assert parameters == ["self", *(a.name for a in spec.arguments), "timeout"]
        assert method.__doc__.startswith(spec.meaning)


def test_a_frame_that_is_no_message_is_refused_by_the_client() -> None:
    with pytest.raises(BadFrame):
        to_client(b"\x91\xa3xyz")
