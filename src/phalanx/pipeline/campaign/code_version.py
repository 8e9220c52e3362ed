"""The version of the code that a campaign runs.

The version is a digest of the source files that the result of a seed depends on, wherever they were
imported from: a checkout, an installation, or the zip that was sent to a cluster. So every result
names the code that produced it, an executor with other code is detected before it runs a seed, and
a campaign continues after a change to files that cannot affect it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from importlib.resources.abc import Traversable

PACKAGE = "phalanx"
PLAYED = (
    "phalanx/config.py",
    "phalanx/core/",
    "phalanx/errors.py",
    "phalanx/explore/",
    "phalanx/journal/",
    "phalanx/pipeline/campaign/seed_task.py",
    "phalanx/sim/",
    "phalanx/text.py",
    "phalanx/verify/",
)
"""What playing a seed imports; a test follows the imports."""


@cache
def code_version() -> str:
    """Names the source that this process would play seeds with."""
    digest = blake2b(digest_size=8)
    for name, data in sources():
        digest.update(f"{name} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()


def sources() -> Iterator[tuple[str, bytes]]:
    """The files of it by their names in the package, in order."""
    every = _walk(files(PACKAGE), PACKAGE)
    yield from sorted(item for item in every if item[0].startswith(PLAYED))


def _walk(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for item in folder.iterdir():
        path = f"{name}/{item.name}"
        if item.is_dir():
            if item.name != "__pycache__":
                yield from _walk(item, path)
        elif item.name.endswith(".py"):
            yield path, item.read_bytes()
