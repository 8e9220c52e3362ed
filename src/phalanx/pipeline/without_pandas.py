"""Keep pyarrow from importing pandas in a worker.

Most calls that convert values, `pyarrow.array`, `scalar`, `to_numpy` and `empty_table` among them,
import pandas where it is installed, to see whether a value is one of its own. That takes as long
as a small kernel does. pyarrow tries once; if that fails, it goes on without, and only calls that
need pandas (`to_pandas`) import it later.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType

from phalanx.journal.arrow_schema import arrow


class _NotFound:
    """Finds no pandas."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def without_pandas() -> None:
    """For processes that run our kernels only. Does nothing once pandas is imported."""
    if "pandas" in sys.modules:
        return
    pa = arrow()
    sys.meta_path.insert(0, _NotFound)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(_NotFound)
