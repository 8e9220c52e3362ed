"""The lake: Parquet files, and manifests that list the files of each version.

    LAKE/_manifest/00000007.json   version 7: the files of every table
    LAKE/_work/0a1b2c3d4e5f6071    a writer that has not published yet, and its notes
    LAKE/bronze/deliver/0a1b2c3d4e5f6071-00003.parquet

- *bronze* has every row that was ever taken, table by table;
- *silver* has each row once: of every segment the rows that were taken last (a live segment is
  taken again when it has grown), and the tables `journals` and `segments`;
- *gold* has tables that others derived from silver and published.

A writer writes files under unused names, then publishes the next manifest. A manifest appears
whole, and two writers cannot publish the same version. Old manifests are kept, and with them the
tables of their versions: `at(version)`. A writer that is killed leaves files that no manifest
lists; the next writer removes them.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from phalanx.errors import PipelineError
from phalanx.journal.parquet_writer import WrittenFile
from phalanx.pipeline.schemas import EVENTS, JOURNALS, SEGMENTS, spark_schema
from phalanx.pipeline.tables import Tables

MANIFESTS = "_manifest"
WORK = "_work"
LAYERS = ("bronze", "silver", "gold")
FORMAT = 2
"""Of lakes. 1: tables and columns have the names of schema version 7 and before."""
EPOCH = "1970-01-01T00:00:00+00:00"
_WRITER = re.compile("[0-9a-f]{16}")
_OTHER = "give an empty folder, a new one, or a lake"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a lake. Paths are within the lake, or absolute."""

    format: int = FORMAT
    version: int = 0
    published: str = ""
    """The instant, in UTC."""
    writer: str = ""
    what: str = ""
    cluster: str | None = None
    bronze: dict[str, list[WrittenFile]] = {}
    silver: dict[str, list[WrittenFile]] = {}
    gold: dict[str, list[WrittenFile]] = {}


class Snapshot:
    """The tables of one version."""

    def __init__(self, place: Path, manifest: Manifest) -> None:
        self.place = place
        self.manifest = manifest

    def paths(self, layer: str, table: str) -> list[str]:
        """The files of a table."""
        listed: Mapping[str, Sequence[WrittenFile]] = getattr(self.manifest, layer)
        return [str(self.place / file.path) for file in listed.get(table, ())]

    def frame(self, spark: SparkSession, table: str, layer: str = "silver") -> DataFrame:
        """A table. PipelineError if it is one of gold that nobody has published."""
        paths = self.paths(layer, table)
        schema = _schema(table)
        if not paths:
            if schema is None:
                problem = f"version {self.manifest.version} has no table {table!r} in {layer}"
                raise PipelineError(str(self.place), problem, "publish it first")
            return spark.createDataFrame([], schema)
        for path in paths:
            if not Path(path).is_file():
                remedy = "restore it, or ingest the journals into a new lake"
                raise PipelineError(path, "a file of the lake is missing", remedy)
        read = spark.read if schema is None else spark.read.schema(schema)
        return read.parquet(*map(_literally, paths))

    def tables(self, spark: SparkSession) -> Tables:
        """What audit, history and measures ask: each row once."""
        frames = {
            name: self.frame(spark, name)
            for name in (*EVENTS, JOURNALS)
            if self.paths("silver", name)
        }
        if "corrupt" in frames:
            frames["corrupt"] = _with_run(frames["corrupt"], frames[JOURNALS])
        return Tables(spark, frames)


class Store:
    """A lake that is there. PipelineError if the folder holds something else."""

    def __init__(self, place: str | Path) -> None:
        self.place = Path(place).absolute()  # workers elsewhere have another working directory
        if not is_lake(self.place):
            raise PipelineError(str(self.place), f"there is no {MANIFESTS} in it", _OTHER)

    @classmethod
    def create(cls, place: str | Path) -> Store:
        """Opens a lake, or begins one in a new or empty folder."""
        place = Path(place)
        try:
            if not is_lake(place):
                if place.exists() and (not place.is_dir() or any(place.iterdir())):
                    raise PipelineError(str(place), "it holds something that is no lake", _OTHER)
                (place / MANIFESTS).mkdir(parents=True, exist_ok=True)
            (place / WORK).mkdir(exist_ok=True)
        except OSError as error:
            raise _unwritable(place, error) from error
        return cls(place)

    def versions(self) -> list[int]:
        """All that were published, the newest last."""
        names = (path.name for path in (self.place / MANIFESTS).glob("*.json"))
        return sorted(int(name[:-5]) for name in names if name[:-5].isdigit())

    def at(self, version: int | None = None) -> Snapshot:
        """The tables as they were; the newest if no version is given. Version 0 is empty."""
        known = self.versions()
        if version is None:
            version = known[-1] if known else 0
        if version == 0:
            return Snapshot(self.place, Manifest())
        if version not in known:
            there = f"{known[0]} to {known[-1]}" if known else "none"
            problem = f"there is no version {version}"
            raise PipelineError(str(self.place), problem, f"there are {there}")
        return Snapshot(self.place, _manifest(self.place / MANIFESTS / _name(version)))

    @contextmanager
    def writing(self) -> Iterator[str]:
        """The name of a writer, for the names of its files. One at a time; what a killed one left
        is removed first. What was written and not published is removed at the end."""
        path = self.place / WORK / "lock"
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise _unwritable(self.place, error) from error
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                problem = "another process writes to it now"
                raise PipelineError(str(self.place), problem, "wait until it ends") from error
            self._sweep()
            writer = uuid.uuid4().hex[:16]
            (self.place / WORK / writer).mkdir()
            try:
                yield writer
            finally:
                self._sweep()
        finally:
            os.close(fd)

    def commit(self, manifest: Manifest, writer: str, what: str) -> Manifest:
        """Publishes the version that follows the one `manifest` was made from. PipelineError if
        somebody else has published it."""
        version = manifest.version + 1
        made = msgspec.structs.replace(
            manifest,
            version=version,
            writer=writer,
            what=what,
            published=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )
        folder = self.place / MANIFESTS
        fresh = folder / f".{writer}.tmp"
        try:
            with fresh.open("wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(made), indent=1))
                file.flush()
                os.fsync(file.fileno())
            os.link(fresh, folder / _name(version))
            _sync(folder)
        except FileExistsError as error:
            problem = f"version {version} was published by another process meanwhile"
            raise PipelineError(str(self.place), problem, "run it again") from error
        except OSError as error:
            raise _unwritable(self.place, error) from error
        finally:
            with suppress(OSError):
                fresh.unlink()
        return made

    def publish(self, table: str, frame: DataFrame, what: str = "") -> int:
        """Replaces a table of gold, and returns the version that has it. What was published
        before stays in its versions."""
        with self.writing() as writer:
            before = self.at().manifest
            folder = self.place / "gold" / table / writer
            frame.write.parquet(str(folder))
            parts = sorted(folder.glob("*.parquet"))
            files = [
                WrittenFile(str(part.relative_to(self.place)), -1, part.stat().st_size)
                for part in parts
            ]
            gold = before.gold | {table: files}
            made = msgspec.structs.replace(before, gold=gold)
            return self.commit(made, writer, what or f"publish {table}").version

    def _sweep(self) -> None:
        """Removes what writers left that are gone: all but what they published."""
        for note in (self.place / WORK).iterdir():
            if not _WRITER.fullmatch(note.name):
                continue
            if not self._published(note.name):
                for layer in LAYERS:
                    for left in (self.place / layer).glob(f"*/*{note.name}*"):
                        _remove(left)
            _remove(note)

    def _published(self, writer: str) -> bool:
        """As far as can be told: a manifest that cannot be read may be the writer's."""
        try:
            newest_first = reversed(self.versions())
            return any(self.at(version).manifest.writer == writer for version in newest_first)
        except PipelineError:
            return True


def since_ns(lake: str | Path, since: int | datetime) -> int:
    """An instant in nanoseconds of the epoch: the one given, or that of a version of the lake."""
    if isinstance(since, int):
        since = datetime.fromisoformat(Store(lake).at(since).manifest.published or EPOCH)
    return (since - datetime.fromisoformat(EPOCH)) // timedelta(microseconds=1) * 1000


def is_lake(place: Path) -> bool:
    return (place / MANIFESTS).is_dir()


def _with_run(corrupt: DataFrame, journals: DataFrame) -> DataFrame:
    """A segment of which nothing can be read does not know its run; its journal may."""
    known = journals.select("journal", F.col("run").alias("of_journal"))
    run = F.when(F.col("run") == "", F.col("of_journal")).otherwise(F.col("run"))
    return (
        corrupt.join(F.broadcast(known), "journal", "left")
        .withColumn("run", F.coalesce(run, F.lit("")))
        .select(*spark_schema("corrupt").names)
    )


def _literally(path: str) -> str:
    """A path as it is: Spark would take brackets and stars for a pattern."""
    return re.sub(r"[][{}*?\\]", r"\\\g<0>", path)


def _schema(table: str) -> StructType | None:
    return spark_schema(table) if table in (*EVENTS, JOURNALS, SEGMENTS) else None


def _name(version: int) -> str:
    return f"{version:08}.json"


def _manifest(path: Path) -> Manifest:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (OSError, msgspec.DecodeError, ValueError) as error:
        problem = "not a manifest of a lake"
        raise PipelineError(str(path), problem, "remove it, or restore a whole copy") from error
    if found.format < FORMAT:
        problem = f"a lake of format {found.format}: its tables and columns have earlier names"
        raise PipelineError(str(path), problem, "ingest the journals again, into a new lake")
    if found.format > FORMAT:
        problem = f"format {found.format} is newer than {FORMAT}"
        remedy = "read it with the version of phalanx that wrote it, or a later one"
        raise PipelineError(str(path), problem, remedy)
    return found


def _remove(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _unwritable(place: Path, error: OSError) -> PipelineError:
    problem = f"cannot be written ({error.strerror or error})"
    return PipelineError(str(place), problem, "choose a place that can be written")
