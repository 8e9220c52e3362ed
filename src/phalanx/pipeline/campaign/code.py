"""Which code a campaign ran.

The version of the code is a digest of the package's own source, wherever it was imported from: a
checkout, an installation, or the zip that a cluster was sent. So a result says what it is a
result of, and an executor that has another phalanx is found out before it plays a seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from importlib.resources.abc import Traversable

PACKAGE = "phalanx"


@cache
def code_version() -> str:
    """Names the source of the package that this process has imported."""
    digest = blake2b(digest_size=8)
    for name, data in sources():
        digest.update(f"{name} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()


def sources() -> Iterator[tuple[str, bytes]]:
    """The files of the package by their names in it, in order."""
    yield from sorted(_walk(files(PACKAGE), PACKAGE))


def _walk(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for item in folder.iterdir():
        path = f"{name}/{item.name}"
        if item.is_dir():
            if item.name != "__pycache__":
                yield from _walk(item, path)
        elif item.name.endswith(".py"):
            yield path, item.read_bytes()
