"""A temporary folder for Parquet files that tasks on other machines may have to read.

PHALANX_SCRATCH sets another place than the system's.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from phalanx.errors import PipelineError

SCRATCH = "PHALANX_SCRATCH"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Removed in the end. PipelineError if it cannot be written."""
    folder = os.environ.get(SCRATCH)
    try:
        made = tempfile.TemporaryDirectory(
            prefix="phalanx-", dir=folder, ignore_cleanup_errors=True
        )
    except OSError as error:
        what = folder or tempfile.gettempdir()
        problem = f"cannot be written ({error.strerror or error})"
        raise PipelineError(what, problem, f"set {SCRATCH} to a place that can be") from error
    with made as name:
        yield Path(name)
