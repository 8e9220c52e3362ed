"""Several readers of one group, and none: who is woken, and what nobody reads."""

from __future__ import annotations

import asyncio
from typing import Any

import phalanx

SECONDS = 20.0


async def _next(faces: Any, group: Any) -> Any:
    """The next event; None at the end."""
    if faces.kind == "asyncio":
        return await anext(group, None)
    return await faces.call(group.receive)


def test_readers_that_wait_at_once_share_the_events_and_all_see_the_end(
    faces: Any, group_name: str
) -> None:
    async def scene() -> None:
        async with faces.joined(group_name, "ada") as (ada,):
            assert isinstance(await _next(faces, ada), phalanx.View)
            readers = [asyncio.ensure_future(_next(faces, ada)) for _ in range(3)]
            waiting = ada._node.buffer._on_put
            end = asyncio.get_running_loop().time() + SECONDS
            while len(waiting) < 3:
                assert asyncio.get_running_loop().time() < end, "one took the place of another"
                await asyncio.sleep(0.002)
            await faces.call(ada.send, b"one")
            done, rest = await asyncio.wait(
                readers, timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            assert [task.result().body for task in done] == [b"one"]
            await faces.call(ada.leave)
            assert await asyncio.wait_for(asyncio.gather(*rest), SECONDS) == [None, None]

    faces.play(scene())


def test_a_reader_that_gives_up_takes_nothing_from_the_others(faces: Any, group_name: str) -> None:
    async def scene() -> None:
        async with faces.joined(group_name, "ada") as (ada,):
            assert isinstance(await _next(faces, ada), phalanx.View)
            reader = asyncio.ensure_future(_next(faces, ada))
            waiting = ada._node.buffer._on_put
            end = asyncio.get_running_loop().time() + SECONDS
            while len(waiting) < 1:
                assert asyncio.get_running_loop().time() < end
                await asyncio.sleep(0.002)
            try:
                if faces.kind == "asyncio":
                    await asyncio.wait_for(anext(ada), 0.02)
                else:
                    await faces.call(ada.receive, 0.02)
            except TimeoutError:
                pass
            assert len(waiting) == 1
            await faces.call(ada.send, b"one")
            assert (await asyncio.wait_for(reader, SECONDS)).body == b"one"

    faces.play(scene())
