"""An archive of Java classes that takes a third off the start of Spark.

Java writes the classes that it has loaded to the archive when it ends, after the first command that
starts Spark on this machine: in the background, 20 to 30 CPU seconds, once for each version
of Java and pyspark. Later sessions use the archive. Java ignores an archive that does not fit.

An archive is written under a name of its own, its head last, and renamed by the next session that
finds it complete. `python -m phalanx.pipeline.class_archive` makes it at once and waits for it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from phalanx.errors import PipelineError

OFF = "PHALANX_SPARK_ARCHIVE"
"""`off` in the environment: none is made."""
SECONDS_MAX = 300.0
MAGIC = (0xF00BABA8).to_bytes(4, sys.byteorder)
"""What an archive begins with that Java has completed."""
_FRESH = ".fresh"


def options() -> list[str]:
    """Options for Java: use the archive, or make it."""
    path = place()
    if path is None:
        return []
    if use := _use(path):
        return use
    if os.environ.get(OFF) == "off" or any(_fresh(path)):  # another process makes it
        return []
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        return []
    return [f"-XX:ArchiveClassesAtExit={path}.{os.getpid()}{_FRESH}"]


def use_options() -> list[str]:
    """Options for Java: use the archive, if it exists."""
    path = place()
    return _use(path) if path is not None else []


def _use(path: Path) -> list[str]:
    _adopt(path)
    return [f"-XX:SharedArchiveFile={path}"] if path.is_file() else []


def _adopt(path: Path) -> None:
    """Renames an archive that is complete, and deletes those that nobody completes."""
    for fresh in _fresh(path):
        try:
            with fresh.open("rb") as file:
                complete = file.read(len(MAGIC)) == MAGIC
            if complete:
                fresh.rename(path)
            elif time.time() - fresh.stat().st_mtime > SECONDS_MAX:
                fresh.unlink()
        except OSError:  # another session was faster, or the folder cannot be written
            continue


def _fresh(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}.*{_FRESH}"))


def place() -> Path | None:
    """Where the archive for this Java and this pyspark lies; None without either."""
    java = _java()
    spec = find_spec("pyspark")
    if java is None or spec is None or spec.origin is None:
        return None
    try:
        spark = version("pyspark")
    except PackageNotFoundError:
        return None
    key = blake2b(f"{java}\0{java.stat().st_mtime_ns}\0{spec.origin}".encode(), digest_size=6)
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(cache) / "phalanx" / f"spark-{spark}-{key.hexdigest()}.jsa"


def make() -> Path:
    """Makes it, or returns the one there is. PipelineError if Java makes none."""
    path = place()
    if path is None:
        raise PipelineError("java", "there is no Java, or no pyspark", "install both first")
    if not _use(path):
        command = [sys.executable, "-m", "phalanx.pipeline.class_archive", "--rehearse"]
        subprocess.run(command, check=False, timeout=SECONDS_MAX)
        end = time.monotonic() + SECONDS_MAX
        while not _use(path):  # Java writes it when the session has gone
            if time.monotonic() > end:
                raise PipelineError(str(path), "Java made no archive", "Spark starts without it")
            time.sleep(0.2)
    return path


def rehearse() -> None:
    """What an audit does: tasks in Python, whose results come back."""
    from phalanx.pipeline.session import session

    spark = session(quick=True)
    try:
        spark.range(0, 4, 1, 2).mapInArrow(lambda batches: batches, "id long").collect()
    finally:
        spark.stop()


def _java() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    path = Path(found).resolve() if found else None
    return path if path is not None and path.is_file() else None


if __name__ == "__main__":
    if "--rehearse" in sys.argv:
        rehearse()
    else:
        print(make())
