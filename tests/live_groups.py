"""Real groups on the loopback interface, for tests of the API and the runtime.

`nothing_is_left_behind` fails a test that leaves a thread or a descriptor open.
"""

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


class Api:
    """The asyncio or the blocking API, for tests of what both promise. The body of a test is a
    coroutine; blocking calls run in a thread."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def run(self, body: Coroutine[Any, Any, None]) -> None:
        asyncio.run(asyncio.wait_for(body, 60))

    async def join(self, group: str, **given: Any) -> Any:
        given = {"config": phalanx.local()} | given
        if self.kind == "asyncio":
            return await phalanx.join(group, **given)
        return await asyncio.to_thread(blocking.join, group, **given)

    @asynccontextmanager
    async def joined(self, group: str, *names: str, **given: Any) -> AsyncIterator[list[Any]]:
        """Members of these names, one after the other."""
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
def api(request: pytest.FixtureRequest) -> Api:
    return Api(request.param)


@pytest.fixture
def group_name() -> str:
    """A name that no other test uses, including tests in other processes."""
    return f"test-{os.getpid()}-{next(_count)}"


def _open() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _ours() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("phalanx")]


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    before = _open()
    yield
    assert until(lambda: not _ours()), f"threads left: {_ours()}"
    assert until(lambda: _open() <= before), f"descriptors: {before} before, {_open()} after"
