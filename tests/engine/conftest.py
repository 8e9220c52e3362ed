"""Real groups on the loopback interface, and a look at what they leave behind."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_count = itertools.count()


def until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether it came true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True


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
