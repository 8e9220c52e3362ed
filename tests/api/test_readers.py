"""Several readers of one group, and none: who is woken, and what nobody reads."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import phalanx
from phalanx.errors import ConfigurationError, NotReceiving

SECONDS = 20.0


async def _next(api: Any, group: Any) -> Any:
    """The next event; None at the end."""
    if api.kind == "asyncio":
        return await anext(group, None)
    return await api.call(group.receive)


async def _first_batch(api: Any, group: Any) -> Any:
    return await anext(group.batches()) if api.kind == "asyncio" else next(group.batches())


def test_readers_that_wait_at_once_share_the_events_and_all_see_the_end(
    api: Any, group_name: str
) -> None:
    async def scene() -> None:
        async with api.joined(group_name, "ada") as (ada,):
            assert isinstance(await _next(api, ada), phalanx.View)
            readers = [asyncio.ensure_future(_next(api, ada)) for _ in range(3)]
            waiting = ada._runner.buffer._on_put
            end = asyncio.get_running_loop().time() + SECONDS
            while len(waiting) < 3:
                assert asyncio.get_running_loop().time() < end, "one took the place of another"
                await asyncio.sleep(0.002)
            await api.call(ada.send, b"one")
            done, rest = await asyncio.wait(
                readers, timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            assert [task.result().body for task in done] == [b"one"]
            await api.call(ada.leave)
            assert await asyncio.wait_for(asyncio.gather(*rest), SECONDS) == [None, None]

    api.run(scene())


def test_a_reader_that_gives_up_takes_nothing_from_the_others(api: Any, group_name: str) -> None:
    async def scene() -> None:
        async with api.joined(group_name, "ada") as (ada,):
            assert isinstance(await _next(api, ada), phalanx.View)
            reader = asyncio.ensure_future(_next(api, ada))
            waiting = ada._runner.buffer._on_put
            end = asyncio.get_running_loop().time() + SECONDS
            while len(waiting) < 1:
                assert asyncio.get_running_loop().time() < end
                await asyncio.sleep(0.002)
            try:
                if api.kind == "asyncio":
                    await asyncio.wait_for(anext(ada), 0.02)
                else:
                    await api.call(ada.receive, 0.02)
            except TimeoutError:
                pass
            assert len(waiting) == 1
            await api.call(ada.send, b"one")
            assert (await asyncio.wait_for(reader, SECONDS)).body == b"one"

    api.run(scene())


def test_a_member_that_only_sends_never_stops_for_want_of_a_reader(
    api: Any, group_name: str
) -> None:
    """Forty times what its buffer may hold, own messages and those of another."""

    async def scene() -> None:
        small = phalanx.local(buffer_bytes_max=64 << 10)
        async with (
            api.joined(group_name, "ada", config=small, receive=False) as (ada,),
            api.joined(group_name, "bea", config=small, receive=False) as (bea,),
        ):
            for member in (ada, bea):
                await api.call(member.wait_for, 2, SECONDS)
            receipts = []
            for member in (ada, bea):
                for _ in range(128):
                    send = api.call(member.send, bytes(10_000), phalanx.SAFE)
                    receipts.append(await asyncio.wait_for(send, SECONDS))
            for receipt in receipts:
                await asyncio.wait_for(api.call(receipt.stable), SECONDS)
            for member in (ada, bea):
                assert member._runner.buffer.waiting_bytes == 0
                assert member._runner._reader_lag == 0

    api.run(scene())


def test_a_member_that_only_sends_has_views_receipts_and_no_events(
    api: Any, group_name: str
) -> None:
    async def scene() -> None:
        async with api.joined(group_name, "ada", receive=False) as (ada,):
            async with api.joined(group_name, "bea") as (bea,):
                await api.call(ada.wait_for, "bea", SECONDS)
                receipt = await api.call(ada.send, b"one")
                await asyncio.wait_for(api.call(receipt.stable), SECONDS)
                while not isinstance(event := await _next(api, bea), phalanx.Message):
                    pass
                assert event.body == b"one"
            view = await api.call(ada.wait_for, gone="bea", timeout=SECONDS)
            assert ada.view == view
            with pytest.raises(NotReceiving, match="join with receive=True"):
                await _next(api, ada)
            with pytest.raises(NotReceiving):
                await _first_batch(api, ada)

    api.run(scene())


def test_receive_is_true_or_false(api: Any, group_name: str) -> None:
    async def scene() -> None:
        with pytest.raises(ConfigurationError, match="receive = 'no'"):
            await api.join(group_name, receive="no")

    api.run(scene())
