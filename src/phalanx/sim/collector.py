"""Python's collector of cycles, put aside for the length of a run.

A run makes hundreds of thousands of objects that live to its end and next to no cycles. The
collector would walk them all again and again to find nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Nothing is collected in here; what is garbage then goes afterwards."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
