"""Real groups on the loopback interface, and a look at what they leave behind."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import phalanx
from phalanx import blocking

_count = itertools.count()


def until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether it came true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True


class Faces:
    """The asyncio or the blocking face, for tests of what both promise: a scene is a coroutine, and
    calls of the blocking face run in a thread."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def play(self, scene: Coroutine[Any, Any, None]) -> None:
        asyncio.run(asyncio.wait_for(scene, 60))

    async def join(self, group: str, **given: Any) -> Any:
        given = {"config": phalanx.local()} | given
        if self.kind == "asyncio":
            return await phalanx.join(group, **given)
        return await asyncio.to_thread(blocking.join, group, **given)

    @asynccontextmanager
    async def joined(self, group: str, *names: str, **given: Any) -> AsyncIterator[list[Any]]:
        """Members of these names, each as soon as it is in."""
        out: list[Any] = []
        try:
            for name in names:
                member = await self.join(group, name=name, **given)
                out.append(member)  # at once, so that it leaves even if the next one fails
            yield out
        finally:
            for member in out:
                await self.call(member.leave)

    async def call(self, method: Callable[..., Any], *args: Any, **given: Any) -> Any:
        if self.kind == "asyncio":
            return await method(*args, **given)
        return await asyncio.to_thread(method, *args, **given)


@pytest.fixture(params=["asyncio", "blocking"])
def faces(request: pytest.FixtureRequest) -> Faces:
    return Faces(request.param)


@pytest.fixture
def group_name() -> str:
    """One that no other test, also none that runs beside this one, has."""
    return f"test-{os.getpid()}-{next(_count)}"


def _open() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _ours() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("phalanx")]


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    before = _open()
    yield
    assert until(lambda: not _ours()), f"threads left: {_ours()}"
    assert until(lambda: _open() <= before), f"descriptors: {before} before, {_open()} after"
