"""Joining: with whom, for how long, and when the membership has settled, on both faces."""

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


def test_join_waits_for_members(faces: Any, group_name: str) -> None:
    async def scene() -> None:
        conditions: list[Any] = [2, "ada", ["ada", "bea"], lambda view: len(view.members) == 2]
        async with faces.joined(group_name, "ada") as (ada,):
            for members in conditions:
                async with faces.joined(group_name, "bea", members=members, timeout=SECONDS) as (
                    bea,
                ):
                    assert bea.view.members == (ada.me, bea.me)
                await faces.call(ada.wait_for, gone="bea", timeout=SECONDS)

    faces.play(scene())


def test_a_join_that_times_out_has_left_and_gives_its_name_back(
    faces: Any, group_name: str
) -> None:
    async def scene() -> None:
        async with faces.joined(group_name, "ada") as (ada,):
            with pytest.raises(TimedOut, match=r"members = 3: not within 0\.6 s"):
                await faces.join(group_name, name="bea", members=3, timeout=0.6)
            await faces.call(ada.wait_for, gone="bea", timeout=0.5)
            async with faces.joined(group_name, "bea", members=2, timeout=SECONDS):
                pass

    faces.play(scene())


def test_a_function_that_raises_ends_the_join_and_the_member_leaves(
    faces: Any, group_name: str
) -> None:
    def broken(view: phalanx.View) -> bool:
        raise ZeroDivisionError

    async def scene() -> None:
        with pytest.raises(ZeroDivisionError):
            await faces.join(group_name, name="ada", members=broken)
        async with faces.joined(group_name, "ada"):
            with pytest.raises(NameInUse):
                await faces.join(group_name, name="ada", members=1, timeout=SECONDS)

    faces.play(scene())


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
    faces: Any, group_name: str, given: dict[str, Any], text: str
) -> None:
    async def scene() -> None:
        with pytest.raises(ConfigurationError, match=text):
            await faces.join(group_name, **given)

    faces.play(scene())


def test_a_settled_member_has_found_the_group_that_runs(faces: Any, group_name: str) -> None:
    async def scene() -> None:
        async with faces.joined(group_name, "ada", "bea") as (ada, bea):
            await faces.call(ada.wait_for, 2, SECONDS)
            async with faces.joined(group_name, "cyd") as (cyd,):
                view = await faces.call(cyd.settled, SECONDS)
                assert view.members == (ada.me, bea.me, cyd.me)
                assert await faces.call(cyd.settled, 5) is view, "it stays settled"

    faces.play(scene())


def test_a_member_alone_settles_after_its_time_and_not_before(faces: Any, group_name: str) -> None:
    async def scene() -> None:
        began = time.monotonic()
        async with faces.joined(group_name, "ada") as (ada,):
            with pytest.raises(TimedOut, match=r"a settled membership: not within 0\.2 s"):
                await faces.call(ada.settled, 0.2)
            view = await faces.call(ada.settled, SECONDS)
            took = time.monotonic() - began
            assert view.members == (ada.me,)
            assert took >= PERIODS * HELLO_SECONDS
            assert not ada._node._watches

    faces.play(scene())


def test_a_change_begins_the_time_anew(faces: Any, group_name: str) -> None:
    async def scene() -> None:
        async with faces.joined(group_name, "ada") as (ada,):
            await faces.call(ada.settled, SECONDS)
            before = time.monotonic()
            async with faces.joined(group_name, "bea") as (bea,):
                await faces.call(ada.wait_for, 2, SECONDS)
                waits = [faces.call(member.settled, SECONDS) for member in (ada, bea)]
                views = await asyncio.gather(*waits)
                assert time.monotonic() - before >= PERIODS * HELLO_SECONDS
                assert [view.members for view in views] == [(ada.me, bea.me)] * 2

    faces.play(scene())


def test_who_has_left_does_not_settle(faces: Any, group_name: str) -> None:
    async def scene() -> None:
        async with faces.joined(group_name, "ada") as (ada,):
            waiting = asyncio.ensure_future(faces.call(ada.settled, SECONDS))
            await asyncio.sleep(0)
            await faces.call(ada.leave)
            with pytest.raises(MemberClosed):
                await waiting
            with pytest.raises(MemberClosed):
                await faces.call(ada.settled, SECONDS)
            with pytest.raises(ConfigurationError, match="timeout = -1"):
                await faces.call(ada.settled, -1)

    faces.play(scene())


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
    faces: Any, group_name: str
) -> None:
    def join_and_drop() -> None:
        phalanx.blocking.join(group_name, name="ada", config=LOCAL)

    async def drop() -> None:
        if faces.kind == "asyncio":
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
                member = await faces.join(group_name, name="ada")
                break
            except NameInUse:  # it is still leaving
                assert time.monotonic() < end
        await faces.call(member.leave)

    faces.play(scene())
