"""Joining: with whom, for how long, and when the membership has settled, on both api."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from typing import Any

import pytest

import phalanx
from phalanx.errors import (
    AlreadyJoined,
    ConfigurationError,
    MemberClosed,
    NameInUse,
    TimedOut,
)
from phalanx.runtime.settlement import PERIODS

SECONDS = 20.0
HELLO_SECONDS = phalanx.local().hello_ns / 1e9


def test_join_waits_for_members(api: Any, group_name: str) -> None:
    async def scene() -> None:
        conditions: list[Any] = [2, "ada", ["ada", "bea"], lambda view: len(view.members) == 2]
        async with api.joined(group_name, "ada") as (ada,):
            for members in conditions:
                async with api.joined(group_name, "bea", members=members, timeout=SECONDS) as (
                    bea,
                ):
                    assert bea.view.members == (ada.me, bea.me)
                await api.call(ada.wait_for, gone="bea", timeout=SECONDS)

    api.run(scene())


def test_a_join_that_times_out_has_left_and_gives_its_name_back(api: Any, group_name: str) -> None:
    async def scene() -> None:
        async with api.joined(group_name, "ada") as (ada,):
            with pytest.raises(TimedOut, match=r"members = 3: not within 0\.6 s"):
                await api.join(group_name, name="bea", members=3, timeout=0.6)
            await api.call(ada.wait_for, gone="bea", timeout=0.5)
            async with api.joined(group_name, "bea", members=2, timeout=SECONDS):
                pass

    api.run(scene())


def test_a_function_that_raises_ends_the_join_and_the_member_leaves(
    api: Any, group_name: str
) -> None:
    def broken(view: phalanx.View) -> bool:
        raise ZeroDivisionError

    async def scene() -> None:
        with pytest.raises(ZeroDivisionError):
            await api.join(group_name, name="ada", members=broken)
        async with api.joined(group_name, "ada"):
            with pytest.raises(NameInUse):
                await api.join(group_name, name="ada", members=1, timeout=SECONDS)

    api.run(scene())


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"members": 0}, "members = 0"),
        ({"members": ""}, "members = ''"),
        ({"members": 2, "timeout": -1}, "timeout = -1"),
        ({"timeout": "5"}, "timeout = '5'"),
    ],
)
def test_what_cannot_be_waited_for_is_refused_before_joining(
    api: Any, group_name: str, given: dict[str, Any], text: str
) -> None:
    async def scene() -> None:
        with pytest.raises(ConfigurationError, match=text):
            await api.join(group_name, **given)

    api.run(scene())


def test_a_settled_member_has_found_the_group_that_runs(api: Any, group_name: str) -> None:
    async def scene() -> None:
        async with api.joined(group_name, "ada", "bea") as (ada, bea):
            await api.call(ada.wait_for, 2, SECONDS)
            async with api.joined(group_name, "cyd") as (cyd,):
                view = await api.call(cyd.settled, SECONDS)
                assert view.members == (ada.me, bea.me, cyd.me)
                assert await api.call(cyd.settled, 5) is view, "it stays settled"

    api.run(scene())


def test_a_member_alone_settles_after_its_time_and_not_before(api: Any, group_name: str) -> None:
    async def scene() -> None:
        began = time.monotonic()
        async with api.joined(group_name, "ada") as (ada,):
            with pytest.raises(TimedOut, match=r"a settled membership: not within 0\.2 s"):
                await api.call(ada.settled, 0.2)
            view = await api.call(ada.settled, SECONDS)
            took = time.monotonic() - began
            assert view.members == (ada.me,)
            assert took >= PERIODS * HELLO_SECONDS
            assert not ada._runner.watchers

    api.run(scene())


def test_a_change_begins_the_time_anew(api: Any, group_name: str) -> None:
    async def scene() -> None:
        async with api.joined(group_name, "ada") as (ada,):
            await api.call(ada.settled, SECONDS)
            before = time.monotonic()
            async with api.joined(group_name, "bea") as (bea,):
                await api.call(ada.wait_for, 2, SECONDS)
                waits = [api.call(member.settled, SECONDS) for member in (ada, bea)]
                views = await asyncio.gather(*waits)
                assert time.monotonic() - before >= PERIODS * HELLO_SECONDS
                assert [view.members for view in views] == [(ada.me, bea.me)] * 2

    api.run(scene())


def test_who_has_left_does_not_settle(api: Any, group_name: str) -> None:
    async def scene() -> None:
        async with api.joined(group_name, "ada") as (ada,):
            waiting = asyncio.ensure_future(api.call(ada.settled, SECONDS))
            await asyncio.sleep(0)
            await api.call(ada.leave)
            with pytest.raises(MemberClosed):
                await waiting
            with pytest.raises(MemberClosed):
                await api.call(ada.settled, SECONDS)
            with pytest.raises(ConfigurationError, match="timeout = -1"):
                await api.call(ada.settled, -1)

    api.run(scene())


# ---------------------------------------------------------------------------- as a coroutine

LOCAL = phalanx.local()


@pytest.mark.parametrize(
    "start",
    [
        lambda joining: joining,
        asyncio.create_task,
        asyncio.ensure_future,
        lambda joining: asyncio.wait_for(joining, SECONDS),
        asyncio.shield,
    ],
    ids=["await", "create_task", "ensure_future", "wait_for", "shield"],
)
def test_a_join_is_a_coroutine(group_name: str, start: Callable[[Any], Any]) -> None:
    async def scene() -> None:
        group = await start(phalanx.join(group_name, name="ada", config=LOCAL))
        assert group.me.name == "ada"
        await group.leave()

    asyncio.run(asyncio.wait_for(scene(), 60))


def test_joins_are_gathered_and_run(group_name: str) -> None:
    async def scene() -> None:
        joins = [phalanx.join(group_name, name=name, config=LOCAL) for name in ("ada", "bea")]
        groups = await asyncio.gather(*joins)
        assert [group.me.name for group in groups] == ["ada", "bea"]
        for group in groups:
            await group.leave()

    asyncio.run(asyncio.wait_for(scene(), 60))
    group = asyncio.run(phalanx.join(group_name, name="ada", config=LOCAL))
    asyncio.run(group.leave())


def test_a_task_that_joins_can_be_cancelled_before_and_after_it_began(group_name: str) -> None:
    async def scene() -> None:
        for turns in (0, 1, 2):
            task = asyncio.create_task(phalanx.join(group_name, name="ada", config=LOCAL))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(asyncio.wait_for(scene(), 60))


def test_a_join_is_used_once(group_name: str) -> None:
    async def enter(joining: Any) -> None:
        async with joining:
            pass

    async def scene() -> None:
        for first in (True, False):
            joining = phalanx.join(group_name, name="ada", config=LOCAL)
            if first:
                group = await joining
                await group.leave()
            else:
                await enter(joining)
            with pytest.raises(AlreadyJoined, match=f"join.'{group_name}'. was awaited"):
                await joining
            with pytest.raises(AlreadyJoined):
                await enter(joining)
            with pytest.raises(AlreadyJoined):
                await asyncio.create_task(joining)

    asyncio.run(asyncio.wait_for(scene(), 60))


def test_a_join_that_nobody_awaits_warns(group_name: str) -> None:
    def forget() -> None:
        phalanx.join(group_name, config=LOCAL)
        gc.collect()

    with pytest.warns(RuntimeWarning, match="never awaited"):
        forget()
    closed = phalanx.join(group_name, config=LOCAL)
    closed.close()
    del closed
    gc.collect()


def test_a_group_of_either_face_that_is_dropped_gives_its_name_back(
    api: Any, group_name: str
) -> None:
    def join_and_drop() -> None:
        phalanx.blocking.join(group_name, name="ada", config=LOCAL)

    async def drop() -> None:
        if api.kind == "asyncio":
            await phalanx.join(group_name, name="ada", config=LOCAL)
        else:
            await asyncio.to_thread(join_and_drop)
        gc.collect()

    async def scene() -> None:
        with pytest.warns(ResourceWarning, match="dropped without leave"):
            await drop()
        end = time.monotonic() + SECONDS
        while True:
            try:
                member = await api.join(group_name, name="ada")
                break
            except NameInUse:  # it is still leaving
                assert time.monotonic() < end
        await api.call(member.leave)

    api.run(scene())
