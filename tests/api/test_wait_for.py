"""Waiting for views: what `wait_for` takes, refuses and raises, on both api."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest

import phalanx
from phalanx.api.view_condition import ViewCondition
from phalanx.core.ids import MemberId, ViewId
from phalanx.errors import ConfigurationError, MemberClosed, TimedOut
from phalanx.runtime.events import View
from phalanx.runtime.view_feed import ViewFeed, ViewFeeds

SECONDS = 20.0
NOBODY = ViewId(1, 0, b"12345678")


def view(*names: str) -> View:
    return View(id=NOBODY, members=tuple(MemberId(name, 7) for name in names))


@pytest.mark.parametrize(
    ("given", "fitting", "other"),
    [
        ({"members": 2}, ["ada", "bea"], ["ada"]),
        ({"members": "ada"}, ["ada"], ["a", "d"]),
        ({"members": ("ada", "bea")}, ["ada", "bea", "cyd"], ["ada", "cyd"]),
        ({"members": {"ada", "bea"}}, ["ada", "bea"], ["bea"]),
        ({"members": MemberId("ada", 7)}, ["ada"], ["bea"]),
        ({"members": [MemberId("ada", 7), "bea"]}, ["ada", "bea"], ["ada"]),
        ({"members": lambda view: len(view.members) == 2}, ["ada", "bea"], ["a", "b", "c"]),
        ({"majority_of": 5}, ["ada", "bea", "cyd"], ["ada", "bea"]),
        ({"majority_of": 4}, ["ada", "bea", "cyd"], ["ada", "bea"]),
        ({"majority_of": 1}, ["ada"], []),
        ({"majority_of": ["ada", "bea", "cyd"]}, ["ada", "cyd"], ["ada", "x", "y"]),
        ({"majority_of": ["ada", "ada", "bea"]}, ["ada", "bea"], ["ada"]),
        ({"gone": "cyd"}, ["ada"], ["ada", "cyd"]),
        ({"gone": ["cyd", "dov"]}, ["ada"], ["ada", "dov"]),
        ({"gone": MemberId("cyd", 7)}, ["ada"], ["ada", "cyd"]),
        ({"members": 2, "gone": "cyd"}, ["ada", "bea"], ["ada", "cyd"]),
        ({"members": "bea", "gone": MemberId("bea", 6)}, ["ada", "bea"], ["ada"]),
        ({"majority_of": ["ada", "bea", "cyd"], "gone": "cyd"}, ["ada", "bea"], ["ada"]),
    ],
)
def test_a_condition_tells_a_view_that_fits_from_one_that_does_not(
    given: dict[str, Any], fitting: list[str], other: list[str]
) -> None:
    condition = ViewCondition(**given)
    assert condition.fits(view(*fitting))
    assert not condition.fits(view(*other))


def test_another_incarnation_is_another_member() -> None:
    assert not ViewCondition(MemberId("ada", 8)).fits(view("ada"))
    assert ViewCondition(gone=MemberId("ada", 8)).fits(view("ada"))


def test_a_generator_of_names_is_read_once() -> None:
    condition = ViewCondition(name for name in ("ada", "bea"))
    assert [condition.fits(view("ada", "bea")) for _ in range(2)] == [True, True]
    assert not condition.fits(view("ada"))


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "members = None"),
    ({"members": None}, "members = None"),
    ({"members": True}, "members = True"),
    ({"members": 0}, "members = 0"),
    ({"members": -1}, "members = -1"),
    ({"members": 5000}, "members = 5000"),
    ({"members": 2.0}, "members = 2.0"),
    ({"members": ""}, "members = ''"),
    ({"members": "a\nb"}, "members = 'a\\nb'"),
    ({"members": []}, "members = []"),
    ({"members": b"ada"}, "members = 97"),
    ({"members": ["ada", None]}, "members = None"),
    ({"members": object}, "members ="),
    ({"majority_of": 0}, "majority_of = 0"),
    ({"majority_of": []}, "majority_of = []"),
    ({"majority_of": True}, "majority_of = True"),
    ({"gone": 3}, "gone = 3"),
    ({"gone": ()}, "gone = ()"),
    ({"gone": "ada"}, "gone = 'ada': this member"),
    ({"members": "bea", "gone": ["bea", "cyd"]}, "bea is one of `members`"),
    ({"members": [MemberId("bea", 7)], "gone": "bea"}, "bea.7 is one of `members`"),
    ({"members": [MemberId("bea", 7), MemberId("bea", 8)]}, "one incarnation of a name"),
    ({"majority_of": ["bea", "cyd", "dov"], "gone": ["cyd", "dov"]}, "no majority"),
    ({"members": 1, "timeout": -1}, "timeout = -1"),
    ({"members": 1, "timeout": math.nan}, "timeout = nan"),
    ({"members": 1, "timeout": "5"}, "timeout = '5'"),
    ({"members": 1, "timeout": True}, "timeout = True"),
]


async def _async_predicate(view: View) -> bool:
    return True


def test_what_no_view_could_fit_is_refused_by_name(api: Any, group_name: str) -> None:
    async def scene() -> None:
        async with api.joined(group_name, "ada") as (ada,):
            for given, text in BAD:
                if given.get("members") is object:
                    given = {"members": _async_predicate}
                with pytest.raises(ConfigurationError) as raised:
                    await asyncio.wait_for(api.call(ada.wait_for, **given), SECONDS)
                assert text in str(raised.value)

    api.run(scene())


def test_every_kind_of_condition_is_waited_for(api: Any, group_name: str) -> None:
    async def scene() -> None:
        async with api.joined(group_name, "ada", "bea") as (ada, bea):
            wait = ada.wait_for
            conditions: list[dict[str, Any]] = [
                {"members": 2},
                {"members": "bea"},
                {"members": (name for name in ["ada", bea.me])},
                {"members": lambda view: bea.me in view.members},
                {"majority_of": 2},
                {"majority_of": ["ada", "bea", "cyd"]},
                {"members": 2, "gone": "cyd"},
            ]
            for given in conditions:
                found = await api.call(wait, timeout=SECONDS, **given)
                assert [m.name for m in found.members] == ["ada", "bea"]
            await api.call(bea.leave)
            found = await api.call(wait, gone="bea", timeout=SECONDS)
            assert found.members == (ada.me,)

    api.run(scene())


def test_a_timeout_names_what_was_waited_for(api: Any, group_name: str) -> None:
    async def scene() -> None:
        async with api.joined(group_name, "ada") as (ada,):
            waits: list[tuple[dict[str, Any], str]] = [
                ({"members": 2}, "members = 2"),
                ({"members": "bea"}, "members = 'bea'"),
                ({"members": iter(["bea", "cyd"])}, "members = ['bea', 'cyd']"),
                ({"majority_of": 3, "gone": "cyd"}, "majority_of = 3, gone = 'cyd'"),
                ({"members": _never}, "members = _never"),
            ]
            for given, text in waits:
                with pytest.raises(TimedOut) as raised:
                    await api.call(ada.wait_for, timeout=0.02, **given)
                assert text in str(raised.value)
            with pytest.raises(TimedOut):
                await api.call(ada.wait_for, 2, 0)
            await api.call(ada.wait_for, 1, 0)
            await api.call(ada.wait_for, 1, math.inf)

    api.run(scene())


def _never(view: View) -> bool:
    return False


def test_waits_that_timed_out_leave_nothing_with_the_event_loop(api: Any, group_name: str) -> None:
    async def scene() -> None:
        async with api.joined(group_name, "ada") as (ada,):
            for _ in range(20):
                with pytest.raises(TimedOut):
                    await api.call(ada.wait_for, 2, timeout=0.001)
            runner = ada._runner
            end = asyncio.get_running_loop().time() + SECONDS
            while len(runner.feeds) or len(runner.watchers):
                assert asyncio.get_running_loop().time() < end
                await asyncio.sleep(0.002)

    api.run(scene())


def test_an_error_of_the_function_reaches_the_caller_and_the_group_goes_on(
    api: Any, group_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    def after(count: int) -> Callable[[View], bool]:
        def broken(view: View) -> bool:
            if len(view.members) >= count:
                raise ZeroDivisionError("by accident")
            return False

        return broken

    async def scene() -> None:
        async with api.joined(group_name, "ada") as (ada,):
            with pytest.raises(ZeroDivisionError):
                await api.call(ada.wait_for, after(1), SECONDS)
            waiting = asyncio.ensure_future(api.call(ada.wait_for, after(2), SECONDS))
            async with api.joined(group_name, "bea"):
                with pytest.raises(ZeroDivisionError):
                    await waiting
            await api.call((await api.call(ada.send, b"x")).ordered)

    api.run(scene())
    assert not caplog.records


def test_after_leaving_no_view_fits(api: Any, group_name: str) -> None:
    async def scene() -> None:
        async with api.joined(group_name, "ada", "bea") as (ada, _):
            await api.call(ada.wait_for, 2, SECONDS)
            await api.call(ada.leave)
            for members in (1, 2, 3, "bea", _never):
                with pytest.raises(MemberClosed, match="it has left its group"):
                    await api.call(ada.wait_for, members, SECONDS)

    api.run(scene())


def test_leaving_ends_a_wait(api: Any, group_name: str) -> None:
    async def scene() -> None:
        async with api.joined(group_name, "ada") as (ada,):
            waiting = asyncio.ensure_future(api.call(ada.wait_for, 2, SECONDS))
            await asyncio.sleep(0)
            await api.call(ada.leave)
            with pytest.raises(MemberClosed):
                await waiting

    api.run(scene())


def test_a_feed_gives_every_view_in_order_and_then_the_end() -> None:
    one, two = view("ada"), view("ada", "bea")
    feeds, feed, told = ViewFeeds(), ViewFeed(), list[int]()
    feeds.add(feed, one)
    feeds.put(two)
    feeds.put(one)
    feed.when_put(lambda: told.append(1))
    assert told == [1], "it had come before"
    assert [feed.take(), feed.take(), feed.take(), feed.take()] == [one, two, one, None]
    feed.when_put(lambda: told.append(2))
    feeds.end()
    assert (told, feed.ended, len(feeds)) == ([1, 2], True, 0)
    late = ViewFeed()
    feeds.add(late, one)
    assert (late.ended, late.take()) == (True, None)


def test_wait_for_is_part_of_the_public_face() -> None:
    assert phalanx.Group.wait_for.__doc__ == phalanx.blocking.Group.wait_for.__doc__
