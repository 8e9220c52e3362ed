"""A zip of this package, which Spark adds to the path of its workers."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import zipfile
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGE = Path(__file__).resolve().parent.parent
_OF_ALL_TIMES = (1980, 1, 1, 0, 0, 0)


def ship(spark: SparkSession) -> None:
    """Sends it. Workers of this session import it before one that is installed there."""
    spark.addArtifacts(str(packed(_folder())), pyfile=True)


@cache
def _folder() -> Path:
    """Until this process ends: a cluster asks for the zip when it starts its workers."""
    folder = tempfile.mkdtemp(prefix="phalanx-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def packed(folder: Path) -> Path:
    """The zip. Its name is made of what is in it, so that no worker takes an older one for it."""
    sources = sorted(PACKAGE.rglob("*.py"))
    digest = blake2b(digest_size=6)
    for source in sources:
        digest.update(source.relative_to(PACKAGE).as_posix().encode() + b"\0")
        digest.update(source.read_bytes())
    path = folder / f"phalanx-{digest.hexdigest()}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for source in sources:
            name = f"phalanx/{source.relative_to(PACKAGE).as_posix()}"
            made.writestr(zipfile.ZipInfo(name, _OF_ALL_TIMES), source.read_bytes())
    return path
