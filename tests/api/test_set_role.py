"""Roles: what `set_role` does and refuses, on both api."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from phalanx.errors import ConfigurationError, MemberClosed
from phalanx.runtime.events import View

SECONDS = 20.0


def test_a_role_is_in_the_views_of_all_members(api: Any, group_name: str) -> None:
    async def body() -> None:
        async with api.joined(group_name, "ada", "bea") as (ada, bea):
            await api.call(ada.wait_for, 2, SECONDS)
            view = await api.call(ada.set_role, {"write", "read"}, SECONDS)
            assert view.roles == {ada.me: frozenset({"read", "write"})}
            assert ada.view.roles == view.roles
            there = await api.call(bea.wait_for, lambda v: ada.me in v.roles, SECONDS)
            assert (there.id, there.roles, there.cause) == (view.id, view.roles, "role")
            assert (there.joined, there.left) == ((), ())

    api.run(body())


def test_roles_set_at_once_are_all_in_force(api: Any, group_name: str) -> None:
    async def body() -> None:
        async with api.joined(group_name, "ada", "bea", "cyd") as members:
            for member in members:
                await api.call(member.wait_for, 3, SECONDS)
            await asyncio.gather(*(api.call(m.set_role, [m.me.name], SECONDS) for m in members))
            wanted = {m.me: frozenset({m.me.name}) for m in members}
            for member in members:
                view = await api.call(member.wait_for, lambda v: v.roles == wanted, SECONDS)
                assert isinstance(view, View)

    api.run(body())


def test_the_last_of_several_roles_is_in_force(api: Any, group_name: str) -> None:
    async def body() -> None:
        async with api.joined(group_name, "ada", "bea") as (ada, bea):
            await api.call(ada.wait_for, 2, SECONDS)
            for number in range(3):
                await api.call(ada.set_role, [f"v{number}"], SECONDS)
            assert ada.view.roles == {ada.me: frozenset({"v2"})}
            before = ada.view
            assert (await api.call(ada.set_role, ["v2"], SECONDS)).id == before.id
            view = await api.call(ada.set_role, (), SECONDS)
            assert view.roles == {ada.me: frozenset()}
            await api.call(bea.wait_for, lambda v: v.id == view.id, SECONDS)

    api.run(body())


def test_a_view_is_complete_when_all_its_members_have_spoken_in_it(
    api: Any, group_name: str
) -> None:
    async def body() -> None:
        async with api.joined(group_name, "ada", "bea") as (ada, bea):
            await api.call(ada.wait_for, 2, SECONDS)
            end = asyncio.get_running_loop().time() + SECONDS
            while not (ada.complete and bea.complete):
                assert asyncio.get_running_loop().time() < end
                await asyncio.sleep(0.01)
            assert ada.view.id == bea.view.id
            await api.call(bea.leave)
            assert not bea.complete

    api.run(body())


@pytest.mark.parametrize(
    "operations",
    ["read", None, 7, [b"read"], [""], ["a b"], ["x" * 33], [f"op{i}" for i in range(17)]],
)
def test_operations_that_cannot_be_are_refused(
    api: Any, group_name: str, operations: object
) -> None:
    async def body() -> None:
        async with api.joined(group_name, "ada") as (ada,):
            with pytest.raises(ConfigurationError, match="operations"):
                await api.call(ada.set_role, operations)

    api.run(body())


def test_a_member_that_has_left_sets_no_role(api: Any, group_name: str) -> None:
    async def body() -> None:
        async with api.joined(group_name, "ada") as (ada,):
            await api.call(ada.leave)
            with pytest.raises(MemberClosed):
                await api.call(ada.set_role, ["read"])

    api.run(body())
