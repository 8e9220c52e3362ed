"""The asyncio face, on real sockets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

import phalanx
from phalanx.errors import (
    ConfigurationError,
    EventsUnread,
    IncarnationUsed,
    JournalError,
    MemberClosed,
    MessageTooLarge,
    NameInUse,
    NoReceiver,
    NotBytes,
    PhalanxError,
    StateError,
    TimedOut,
    UnknownMember,
)

LOCAL = phalanx.local()
SECONDS = 20.0


def play(scene: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scene, 60))


async def messages(group: phalanx.Group, count: int) -> list[phalanx.Message]:
    out = []
    async for event in group:
        if isinstance(event, phalanx.Message):
            out.append(event)
            if len(out) == count:
                return out
    raise AssertionError("the group ended")


def test_two_members_find_each_other_and_deliver_in_one_order(group_name: str) -> None:
    async def scene() -> None:
        async with (
            phalanx.join(group_name, name="ada", config=LOCAL) as ada,
            phalanx.join(group_name, name="bob", config=LOCAL) as bob,
        ):
            view = await ada.wait_for(2, SECONDS)
            assert [m.name for m in view.members] == ["ada", "bob"]
            await bob.wait_for(["ada", "bob"], SECONDS)
            for i in range(50):
                await ada.send(b"a%d" % i)
                await bob.send(b"b%d" % i)
            seen = [await messages(g, 100) for g in (ada, bob)]
            assert [m.body for m in seen[0]] == [m.body for m in seen[1]]
            assert [m.position for m in seen[0]] == list(range(100))

    play(scene())


@pytest.mark.parametrize("service", phalanx.Service)
def test_every_service_delivers_to_the_sender_and_the_other(
    group_name: str, service: phalanx.Service
) -> None:
    async def scene() -> None:
        async with (
            phalanx.join(group_name, name="ada", config=LOCAL) as ada,
            phalanx.join(group_name, name="bob", config=LOCAL) as bob,
        ):
            await ada.wait_for(2, SECONDS)
            receipt = await ada.send(b"hello", service)
            await receipt.ordered()
            await receipt.stable()
            assert receipt.numbers == (1, 1)
            for group in (ada, bob):
                (message,) = await messages(group, 1)
                assert (message.sender, message.body, message.service) == (
                    ada.me,
                    b"hello",
                    service,
                )

    play(scene())


def test_views_tell_who_came_and_who_went(group_name: str) -> None:
    async def scene() -> None:
        async with phalanx.join(group_name, name="ada", config=LOCAL) as ada:
            async with phalanx.join(group_name, name="bob", config=LOCAL) as bob:
                await ada.wait_for(2, SECONDS)
                bob_id = bob.me
            views = []
            async for event in ada:
                if isinstance(event, phalanx.View):
                    views.append(event)
                    if len(views) == 3:
                        break
            assert [[m.name for m in v.members] for v in views] == [
                ["ada"],
                ["ada", "bob"],
                ["ada"],
            ]
            assert views[1].joined == (bob_id,)
            assert isinstance(views[1], phalanx.Merged)
            assert {side.members for side in views[1].sides} == {(ada.me,), (bob_id,)}
            assert views[2].left == (bob_id,)
            assert views[2].transitional == (ada.me,)

    play(scene())


def test_a_message_for_some_is_not_seen_by_others(group_name: str) -> None:
    async def scene() -> None:
        async with (
            phalanx.join(group_name, name="ada", config=LOCAL) as ada,
            phalanx.join(group_name, name="bob", config=LOCAL) as bob,
            phalanx.join(group_name, name="eve", config=LOCAL) as eve,
        ):
            for group in (ada, bob, eve):
                await group.wait_for(3, SECONDS)
            await ada.send(b"secret", to=["bob"])
            await ada.send(b"public")
            assert [m.body for m in await messages(bob, 2)] == [b"secret", b"public"]
            assert [m.body for m in await messages(eve, 1)] == [b"public"]

    play(scene())


def test_batches_give_what_iterating_gives(group_name: str) -> None:
    async def scene() -> None:
        bodies = [b"%d" % i for i in range(5000)]
        async with phalanx.join(group_name, name="ada", config=LOCAL) as ada:
            await ada.send_many(bodies)
            seen: list[bytes] = []
            async for batch in ada.batches():
                assert len(batch) == len(list(batch))
                seen += batch.bodies()
                if len(seen) == len(bodies):
                    break
            assert seen == bodies

    play(scene())


def test_breaking_out_of_an_iteration_loses_nothing(group_name: str) -> None:
    async def scene() -> None:
        async with phalanx.join(group_name, name="ada", config=LOCAL) as ada:
            await (await ada.send_many([b"1", b"2", b"3", b"4"])).stable()
            seen = [m.body for m in await messages(ada, 1)]
            seen += [m.body for m in await messages(ada, 2)]
            async for batch in ada.batches():
                seen += batch.bodies()
                break
            assert seen == [b"1", b"2", b"3", b"4"]

    play(scene())


def test_the_iteration_ends_when_the_member_has_left_and_all_is_read(group_name: str) -> None:
    async def scene() -> None:
        ada = await phalanx.join(group_name, name="ada", config=LOCAL)
        await ada.send(b"last words")
        await ada.leave()
        await ada.leave()
        assert [e.body for e in [e async for e in ada] if isinstance(e, phalanx.Message)] == [
            b"last words"
        ]
        with pytest.raises(MemberClosed):
            await ada.send(b"too late")

    play(scene())


def test_a_cancelled_task_leaves_its_group(group_name: str) -> None:
    async def member(joined: asyncio.Event) -> None:
        async with phalanx.join(group_name, name="bob", config=LOCAL):
            joined.set()
            await asyncio.sleep(3600)

    async def scene() -> None:
        async with phalanx.join(group_name, name="ada", config=LOCAL) as ada:
            joined = asyncio.Event()
            task = asyncio.create_task(member(joined))
            await joined.wait()
            await ada.wait_for(2, SECONDS)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            began = time.monotonic()
            while len(ada.view.members) > 1:
                assert time.monotonic() - began < 0.8, "it was a failure, not a farewell"
                await asyncio.sleep(0.005)

    play(scene())


def test_a_blocked_event_loop_does_not_hurt_membership(group_name: str) -> None:
    async def scene() -> None:
        async with (
            phalanx.join(group_name, name="ada", config=LOCAL) as ada,
            phalanx.join(group_name, name="bob", config=LOCAL) as bob,
        ):
            await ada.wait_for(2, SECONDS)
            await bob.wait_for(2, SECONDS)
            view = ada.view
            time.sleep(2.5)
            assert ada.view is view
            total = 0
            end = time.monotonic() + 2.5
            while time.monotonic() < end:  # and so is computing
                total += 1
            assert ada.view is view

    play(scene())


def test_several_groups_in_one_process_do_not_mix(group_name: str) -> None:
    async def scene() -> None:
        async with (
            phalanx.join(group_name + "x", name="ada", config=LOCAL) as x,
            phalanx.join(group_name + "y", name="ada", config=LOCAL) as y,
            phalanx.join(group_name + "x", name="bob", config=LOCAL) as bob,
        ):
            await x.wait_for(2, SECONDS)
            await bob.send(b"to x")
            await y.send(b"to y")
            assert [m.body for m in await messages(x, 1)] == [b"to x"]
            assert [m.body for m in await messages(y, 1)] == [b"to y"]
            assert len(y.view.members) == 1

    play(scene())


def test_clusters_on_one_address_do_not_mix(group_name: str) -> None:
    async def scene() -> None:
        one = phalanx.local(cluster="one", address="239.195.7.7")
        two = phalanx.local(cluster="two", address="239.195.7.7")
        async with (
            phalanx.join(group_name, name="ada", config=one) as ada,
            phalanx.join(group_name, name="bob", config=two),
            phalanx.join(group_name, name="eve", config=one),
        ):
            view = await ada.wait_for(2, SECONDS)
            assert [m.name for m in view.members] == ["ada", "eve"]
            assert ada.refused.get("cluster", 0) > 0

    play(scene())


def test_a_second_process_with_a_name_that_lives_is_refused(group_name: str) -> None:
    async def scene() -> None:
        async with phalanx.join(group_name, name="ada", config=LOCAL) as ada:
            with pytest.raises(NameInUse, match="another live process"):
                await phalanx.join(group_name, name="ada", config=LOCAL)
            await (await ada.send(b"still here")).stable()

    play(scene())


def test_a_member_that_comes_back_under_its_name_is_a_new_incarnation(
    group_name: str, tmp_path: Path
) -> None:
    async def scene() -> None:
        lives = []
        for _ in range(2):
            async with phalanx.join(
                group_name, name="ada", config=LOCAL, state=tmp_path / "state"
            ) as ada:
                lives.append(ada.me)
        assert [life.name for life in lives] == ["ada", "ada"]
        assert lives[0].incarnation < lives[1].incarnation

    play(scene())


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"body": "text"}, NotBytes, "give bytes"),
        ({"body": b"x" * 2000}, MessageTooLarge, "message_bytes_max = 1000"),
        ({"body": b"x", "to": ["nobody"]}, UnknownMember, "'nobody' is not in the view"),
        ({"body": b"x", "to": []}, NoReceiver, "name at least one"),
    ],
)
def test_a_message_that_cannot_be_sent_is_refused_at_once(
    group_name: str, given: dict[str, Any], error: type[PhalanxError], text: str
) -> None:
    async def scene() -> None:
        config = phalanx.local(message_bytes_max=1000)
        async with phalanx.join(group_name, name="ada", config=config) as ada:
            with pytest.raises(error, match=text):
                await ada.send(given["body"], to=given.get("to"))
            receipt = await ada.send(b"fine")
            await receipt.stable()
            assert receipt.numbers == (1, 1)

    play(scene())


def test_waiting_for_members_that_do_not_come_times_out(group_name: str) -> None:
    async def scene() -> None:
        async with phalanx.join(group_name, name="ada", config=LOCAL) as ada:
            with pytest.raises(TimedOut, match="members = 2"):
                await ada.wait_for(2, timeout=0.05)
            with pytest.raises(TimeoutError):
                await ada.wait_for(["bob"], timeout=0.05)

    play(scene())


def test_a_member_that_only_sends_is_told_to_read(group_name: str) -> None:
    async def flood(ada: phalanx.Group) -> None:
        for _ in range(1000):
            await ada.send(b"x" * 10_000)
            await asyncio.sleep(0)

    async def scene() -> None:
        config = phalanx.local(buffer_bytes_max=64 << 10)
        async with phalanx.join(group_name, name="ada", config=config) as ada:
            with pytest.raises(EventsUnread, match="read the group's events"):
                await flood(ada)
            reader = asyncio.create_task(_read_all(ada))
            while True:
                try:
                    await (await ada.send(b"again")).stable()
                    break
                except EventsUnread:
                    await asyncio.sleep(0.001)
            reader.cancel()

    async def _read_all(ada: phalanx.Group) -> None:
        async for _ in ada.batches():
            pass

    play(scene())


def test_a_slow_reader_holds_the_sender_up_and_loses_nothing(group_name: str) -> None:
    async def scene() -> None:
        slow = phalanx.local(buffer_bytes_max=256 << 10)
        async with (
            phalanx.join(group_name, name="ada", config=LOCAL) as ada,
            phalanx.join(group_name, name="bob", config=slow) as bob,
        ):
            await ada.wait_for(2, SECONDS)
            await bob.wait_for(2, SECONDS)
            total, size = 400, 10_000

            async def speak() -> None:
                for i in range(total):
                    await ada.send(b"%d" % i + b"." * size)

            async def listen() -> None:
                async for batch in ada.batches():
                    if batch.bodies() and batch.bodies()[-1].startswith(b"%d." % (total - 1)):
                        return

            speaker, listener = asyncio.create_task(speak()), asyncio.create_task(listen())
            done, _ = await asyncio.wait({speaker, listener}, timeout=1.0)
            assert not done, "4 MB went out though bob reads nothing"
            assert bob._runner.buffer.waiting_bytes < 4 << 20
            seen = [m.body for m in await messages(bob, total)]
            assert [body.partition(b".")[0] for body in seen] == [b"%d" % i for i in range(total)]
            await asyncio.wait_for(asyncio.gather(speaker, listener), SECONDS)

    play(scene())


def test_a_reader_that_may_lose_is_told_how_much(group_name: str) -> None:
    async def scene() -> None:
        lossy = phalanx.local(buffer_bytes_max=128 << 10, slow="lose")
        async with (
            phalanx.join(group_name, name="ada", config=LOCAL) as ada,
            phalanx.join(group_name, name="bob", config=lossy) as bob,
        ):
            await ada.wait_for(2, SECONDS)
            await bob.wait_for(2, SECONDS)
            receipt = None
            for i in range(200):
                receipt = await ada.send(b"%d" % i + b"." * 10_000)
            assert receipt is not None
            await receipt.stable()
            await (await bob.send(b"end")).stable()
            got = lost = 0
            while got + lost < 200:
                event = await anext(bob)
                if isinstance(event, phalanx.Message):
                    got += 1
                elif isinstance(event, phalanx.EventsLost):
                    lost += event.count
            assert got
            assert lost

    play(scene())


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"group": ""}, ConfigurationError, "group = ''"),
        ({"name": "a\nb"}, ConfigurationError, "name ="),
        ({"config": "lan"}, ConfigurationError, "config = 'lan'"),
        ({"config": phalanx.lan(interface="nope0")}, PhalanxError, "interface = 'nope0'"),
        ({"config": phalanx.lan(address="10.0.0.1")}, PhalanxError, "address = '10.0.0.1'"),
        ({"state": "/proc/nope"}, StateError, "state ="),
        ({"journal": "/proc/nope"}, JournalError, "/proc/nope"),
    ],
)
def test_what_cannot_be_joined_raises_one_line_and_leaves_nothing(
    group_name: str, given: dict[str, Any], error: type[PhalanxError], text: str
) -> None:
    async def scene() -> None:
        whole: dict[str, Any] = {"group": group_name, "name": "ada", "config": LOCAL} | given
        with pytest.raises(error) as raised:
            await phalanx.join(whole.pop("group"), **whole)
        assert text in str(raised.value)
        assert "\n" not in str(raised.value)

    play(scene())


def test_joining_can_be_cancelled(group_name: str) -> None:
    async def scene() -> None:
        task = asyncio.create_task(_joined(group_name))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def _joined(name: str) -> phalanx.Group:
        return await phalanx.join(name, name="ada", config=LOCAL)

    play(scene())


def test_a_cut_member_goes_on_alone_and_merges_when_it_heals(group_name: str) -> None:
    async def scene() -> None:
        async with (
            phalanx.join(group_name, name="ada", config=LOCAL) as ada,
            phalanx.join(group_name, name="bob", config=LOCAL) as bob,
        ):
            for group in (ada, bob):
                await group.wait_for(2, SECONDS)
            ada.faults.cut(bob.address)
            bob.faults.cut(ada.address)
            while len(ada.view.members) > 1 or len(bob.view.members) > 1:
                await asyncio.sleep(0.01)
            await (await ada.send(b"alone")).stable()
            ada.faults.heal()
            bob.faults.heal()
            for group in (ada, bob):
                await group.wait_for(2, SECONDS)
            merged = None
            async for event in bob:
                if isinstance(event, phalanx.Merged):
                    merged = event
                    if len(event.members) == 2 and event.id.joins > 1:
                        break
            assert merged is not None
            (mine,) = [side for side in merged.sides if ada.me in side.members]
            assert dict(mine.delivered)[ada.me] == 1
            assert phalanx.MessageRange(ada.me, 1, 1) in mine.alone

    play(scene())


def test_datagrams_of_ipv6_fit_an_ethernet_frame(group_name: str) -> None:
    async def scene() -> None:
        config = phalanx.lan(address="ff02::7:7117", interface="lo")
        try:
            ada = await phalanx.join(group_name, name="ada", config=config)
        except PhalanxError as error:
            pytest.skip(f"no IPv6 multicast on the loopback interface: {error}")
        assert ada.config.datagram_bytes_max == 1452
        await (await ada.send(b"x" * 5000)).stable()
        await ada.leave()

    play(scene())


def test_members_whose_order_differs_refuse_each_other_by_name(
    group_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        other = phalanx.local(order="all-ack")
        async with (
            phalanx.join(group_name, name="ada", config=LOCAL) as ada,
            phalanx.join(group_name, name="bob", config=other) as bob,
            phalanx.join(group_name, name="eve", config=LOCAL),
        ):
            view = await ada.wait_for(2, SECONDS)
            assert [m.name for m in view.members] == ["ada", "eve"]
            with pytest.raises(TimedOut):
                await bob.wait_for(2, 1.5)
            assert ada.refused["settings"] > 0
            assert bob.refused["settings"] > 0
            lines = [r.getMessage() for r in caplog.records]
            found = [line for line in lines if "settings differ" in line]
            differ = "whose settings differ (order is "
            assert any(t.startswith(f"{group_name}/ada: refuses bob, {differ}") for t in found)
            assert any(t.startswith(f"{group_name}/bob: refuses ada, {differ}") for t in found)
            assert len(found) <= 4, "once for each pair"

    with caplog.at_level("WARNING", "phalanx"):
        play(scene())


def test_a_member_whose_state_directory_was_lost_joins_again(
    group_name: str, tmp_path: Path
) -> None:
    """The others have met its first life, and ignore what was in a view with them."""

    async def scene() -> None:
        async with phalanx.join(group_name, name="bob", config=LOCAL) as bob:
            lives = []
            for state in (tmp_path / "one", tmp_path / "two"):
                async with phalanx.join(group_name, name="ada", config=LOCAL, state=state) as ada:
                    view = await bob.wait_for(["ada", "bob"], 5)
                    assert ada.me in view.members
                    lives.append(ada.me)
                while len(bob.view.members) > 1:
                    await asyncio.sleep(0.01)
            assert lives[0] < lives[1]

    play(scene())


def test_a_member_whose_clock_repeats_itself_takes_a_later_incarnation(
    group_name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a state directory, and with a clock that starts at the same time at each boot."""
    boot_ms = 1_800_000_000_000
    monkeypatch.setattr("phalanx.runtime.identity.time.time_ns", lambda: boot_ms * 1_000_000)

    async def scene() -> None:
        config = phalanx.local()
        async with phalanx.join(group_name, name="bob", config=config) as bob:
            for life in range(3):
                async with phalanx.join(group_name, name="ada", config=config) as ada:
                    assert ada.me == phalanx.MemberId("ada", boot_ms + life)
                    view = await bob.wait_for(["ada", "bob"], 5)
                    assert ada.me in view.members
                while len(bob.view.members) > 1:
                    await asyncio.sleep(0.01)

    with caplog.at_level("WARNING", "phalanx"):
        play(scene())
    assert f"incarnation {boot_ms} in group" in caplog.text


def test_a_member_that_is_always_told_that_its_incarnation_was_used_gives_up(
    group_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phalanx.core.membership.members_met.MembersMet.__contains__", _yes)

    async def scene() -> None:
        async with phalanx.join(group_name, name="bob", config=LOCAL):
            with pytest.raises(IncarnationUsed, match=r"'ada'.*join again"):
                await phalanx.join(group_name, name="ada", config=LOCAL)

    play(scene())


def _yes(*given: object) -> bool:
    return True
