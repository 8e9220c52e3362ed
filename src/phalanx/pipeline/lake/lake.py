"""Open a lake, list its versions, and read the tables of a version (needs deltalake).

    snapshot = Lake("lake/").snapshot()
    snapshot.files("deliver", groups=["orders"])     Parquet files, for any engine
    snapshot.journals()                              the facts of all journals

A lake that cannot be read is refused with a PipelineError that names the remedy: a folder without a
lake, Delta tables that another program wrote, and lakes of an earlier or later format.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec

from phalanx.errors import PipelineError
from phalanx.journal.arrow_schema import arrow
from phalanx.journal.schema import SCHEMA_VERSION
from phalanx.pipeline.lake.lake_file import LakeFile, read_files
from phalanx.pipeline.lake.lake_schema import EPOCH, FORMAT, OWN_TABLES, VERSIONS, lake_schema
from phalanx.pipeline.schemas import JOURNALS, SEGMENTS
from phalanx.pipeline.segment_stats import JournalFacts, SegmentFacts

if TYPE_CHECKING:
    from deltalake import DeltaTable

LOG = "_delta_log"
WORK = "_work"
NAME = "phalanx"
"""The name that each of our Delta tables has in its metadata."""
_CONFIGURATION = {
    "delta.enableExpiredLogCleanup": "false",  # `lake vacuum` does both, and knows the versions
    "delta.deletedFileRetentionDuration": "interval 0 days",
}
_MANIFESTS = "_manifest"
"""What lakes of format 1 and 2 had."""
_OTHER = "give an empty folder, a new one, or a lake"
_NEWER = "use the version of phalanx that wrote it, or a later one"
_AGAIN = "ingest the journals into a new lake"


class LakeVersion(msgspec.Struct, frozen=True):
    """One version of a lake: which version of each Delta table belongs to it."""

    version: int
    committed: datetime
    what: str
    writer: str
    tables: dict[str, int]


class Snapshot:
    """The tables of one version of a lake. They do not change, until vacuum removes the version."""

    def __init__(
        self,
        place: Path,
        version: int,
        delta_versions: dict[str, int],
        files: Mapping[str, list[LakeFile]] | None = None,
    ) -> None:
        """`files` are those of tables that are known: a task elsewhere need not read Delta logs."""
        self.place = place
        self.version = version
        self.delta_versions = delta_versions
        self._files = dict(files or {})

    def files(self, table: str, *, groups: Collection[str] | None = None) -> list[LakeFile]:
        """The Parquet files of a table, those of some groups only; none for a table that nobody
        has written to."""
        if table not in self._files:
            version = self.delta_versions.get(table)
            if version is None:
                return []
            self._files[table] = files_of(open_table(self.place, table, version), self.place, table)
        return [file for file in self._files[table] if groups is None or file.group in groups]

    def read(
        self,
        table: str,
        *,
        groups: Collection[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Any:
        """All rows of a table as one Arrow table, with the columns of `lake_schema`; of a derived
        table with those that it was last replaced with."""
        files = self.files(table, groups=groups)
        if table in OWN_TABLES:
            return read_files(files, lake_schema(table), columns)
        delta = open_table(self.place, table, self.delta_versions.get(table))
        return read_files(files, arrow().schema(delta.schema().to_arrow()), columns)

    def journals(self, *, groups: Collection[str] | None = None) -> list[JournalFacts]:
        """The facts of all journals that have rows, in the order of their names."""
        found = _facts(self, JOURNALS, JournalFacts, groups)
        return sorted(found, key=lambda facts: facts.journal)

    def segments(self, *, groups: Collection[str] | None = None) -> list[SegmentFacts]:
        """The facts of all segments that were ever taken."""
        return _facts(self, SEGMENTS, SegmentFacts, groups)


class Lake:
    """A lake that exists. PipelineError if the folder holds something else."""

    def __init__(self, place: str | Path) -> None:
        self.place = Path(place).absolute()  # workers elsewhere have another working directory
        _check_path(self.place)
        if (self.place / _MANIFESTS).is_dir():
            problem = "a lake of format 2 or before: Parquet files with manifests"
            raise PipelineError(str(place), problem, _AGAIN)
        if not _has_log(self.place / VERSIONS):
            problem = f"there is no table `{VERSIONS}` in it"
            if is_lake(self.place):
                problem = "a Delta table of another program, not a lake"
            raise PipelineError(str(place), problem, _OTHER)

    @classmethod
    def create(cls, place: str | Path) -> Lake:
        """Opens a lake, or creates one in a new or empty folder."""
        place = Path(place)
        _check_path(place.absolute())
        try:
            if not is_lake(place):
                if place.exists() and (not place.is_dir() or _has_content(place)):
                    raise PipelineError(str(place), "it holds something that is no lake", _OTHER)
                create_table(place.absolute(), VERSIONS, lake_schema(VERSIONS))
            lake = cls(place)
            (place / WORK).mkdir(exist_ok=True)
        except OSError as error:
            raise unwritable(place, error) from error
        return lake

    def versions(self) -> list[LakeVersion]:
        """All versions that can still be read, the newest last."""
        return VersionRows(self.place, open_table(self.place, VERSIONS)).all()

    def snapshot(self, version: int | None = None) -> Snapshot:
        """The tables as they were in a version; the newest if none is given. Version 0 is empty."""
        rows = VersionRows(self.place, open_table(self.place, VERSIONS))
        if version is None:
            version = rows.newest
        if version == 0 or rows.has(version):
            return Snapshot(self.place, version, rows.tables(version))
        known = rows.all()
        there = f"{known[0].version} to {known[-1].version}" if known else "none"
        problem = f"there is no version {version}"
        raise PipelineError(str(self.place), problem, f"there are {there}")

    def replace(
        self, table: str, rows: Any, where: Mapping[str, Any] | None = None, what: str = ""
    ) -> int:
        """Replaces rows of a derived table: all, or those whose columns have the values of `where`.
        Returns the version that has them. PipelineError if another process writes now."""
        from phalanx.pipeline.lake.lake_transaction import change

        with change(self, what or f"replace {table}") as transaction:
            transaction.replace(table, rows, where)
            return transaction.commit()

    def since_ns(self, version: int) -> int:
        """The instant at which a version was committed, in nanoseconds of the epoch."""
        self.snapshot(version)
        found = [one.committed for one in self.versions() if one.version == version]
        return _ns(found[0]) if found else 0


def since_ns(lake: str | Path, since: int | datetime) -> int:
    """An instant in nanoseconds of the epoch: the one given, or that of a version of the lake."""
    return Lake(lake).since_ns(since) if isinstance(since, int) else _ns(since)


def is_lake(place: Path) -> bool:
    """True for a lake of any format, and for Delta tables of others, so that opening one can say
    what it is."""
    if (place / _MANIFESTS).is_dir() or _has_log(place):
        return True
    if not place.is_dir():
        return False
    with os.scandir(place) as children:
        return any(child.is_dir() and _has_log(Path(child.path)) for child in children)


def files_of(delta: DeltaTable, place: Path, table: str) -> list[LakeFile]:
    """The live files of a Delta table."""
    with explained(place / table):
        rows = arrow().table(delta.get_add_actions(flatten=True)).to_pylist()
    files = []
    for row in rows:
        day = row.get("partition.day")
        file = LakeFile(
            path=str(place / table / unquote(row["path"])),
            rows=-1 if row["num_records"] is None else row["num_records"],
            bytes=row["size_bytes"],
            group=row.get("partition.group") or "",
            day="" if day is None else day.isoformat(),
        )
        files.append(file)
    return sorted(files, key=lambda file: file.path)


class VersionRows:
    """The rows of a state of the table `versions`. A lake that is ingested every few seconds has
    very many of them, so only `all` makes objects."""

    def __init__(self, place: Path, delta: DeltaTable) -> None:
        self._rows = read_files(files_of(delta, place, VERSIONS), lake_schema(VERSIONS))

    @property
    def newest(self) -> int:
        """0 if there is none."""
        return arrow().compute.max(self._rows["lake_version"]).as_py() or 0

    @property
    def writers(self) -> set[str]:
        return set(self._rows["writer"].unique().to_pylist())

    def has(self, version: int) -> bool:
        compute = arrow().compute
        return bool(compute.any(compute.equal(self._rows["lake_version"], version)).as_py())

    def tables(self, version: int) -> dict[str, int]:
        """The versions of the Delta tables. They grow with those of the lake."""
        compute = arrow().compute
        rows = self._rows.filter(compute.less_equal(self._rows["lake_version"], version))
        last = rows.group_by("table").aggregate([("delta_version", "max")])
        names, versions = last["table"].to_pylist(), last["delta_version_max"].to_pylist()
        return dict(zip(names, versions, strict=True))

    def all(self) -> list[LakeVersion]:
        """The versions, the newest last."""
        found: list[LakeVersion] = []
        tables: dict[str, int] = {}
        for row in self._rows.sort_by("lake_version").to_pylist():
            tables = tables | {row["table"]: row["delta_version"]}
            if found and found[-1].version == row["lake_version"]:
                found.pop()
            facts = (row["lake_version"], row["committed"], row["what"], row["writer"])
            found.append(LakeVersion(*facts, tables))
        return found


# ---------------------------------------------------------------------- Delta tables


def open_table(place: Path, table: str, version: int | None = None) -> DeltaTable:
    """A Delta table of a lake. PipelineError if it is not ours, or newer than this program."""
    from deltalake import DeltaTable

    path = place / table
    with explained(path):
        delta = DeltaTable(str(path), version=version)
        metadata, protocol = delta.metadata(), delta.protocol()
    try:
        facts = json.loads(metadata.description or "")
        written = int(facts["lake"]), int(facts["schema"])
    except (ValueError, TypeError, KeyError):
        written = None
    if metadata.name != NAME or written is None:
        raise PipelineError(str(path), "a Delta table of another program", _OTHER)
    if written[0] > FORMAT:
        problem = f"format {written[0]} of lakes is newer than {FORMAT}"
        raise PipelineError(str(path), problem, _NEWER)
    if written[1] > SCHEMA_VERSION:
        problem = f"schema version {written[1]} is newer than {SCHEMA_VERSION}"
        raise PipelineError(str(path), problem, _NEWER)
    if protocol.min_reader_version > 1:
        problem = "another program gave this table features that phalanx does not read"
        raise PipelineError(str(path), problem, _AGAIN)
    return delta


def create_table(place: Path, table: str, schema: Any, partition_by: Sequence[str] = ()) -> None:
    """Creates a Delta table of ours, unless it exists."""
    from deltalake import DeltaTable, Schema

    with explained(place / table):
        DeltaTable.create(
            str(place / table),
            Schema.from_arrow(schema),
            mode="ignore",
            partition_by=list(partition_by),
            name=NAME,
            description=description(),
            configuration=_CONFIGURATION,
        )


def description() -> str:
    """What the metadata of a Delta table says about its format."""
    return json.dumps({"lake": FORMAT, "schema": SCHEMA_VERSION})


@contextmanager
def explained(place: Path) -> Iterator[None]:
    """PipelineError, in one line, where deltalake fails."""
    from deltalake.exceptions import CommitFailedError, DeltaError

    try:
        yield
    except CommitFailedError as error:
        problem = "another process wrote to it at the same time"
        raise LakeConflict(str(place), problem, "run it again") from error
    except (DeltaError, ValueError) as error:
        problem = f"cannot be used as a Delta table ({str(error).splitlines()[0]})"
        raise PipelineError(str(place), problem, f"restore it, or {_AGAIN}") from error
    except OSError as error:
        raise unwritable(place, error) from error


class LakeConflict(PipelineError):
    """Two processes changed a lake at once; this one's change was not made."""


class LakeBusy(PipelineError):
    """Another process of this machine changes the lake now."""


def unwritable(place: Path, error: OSError) -> PipelineError:
    """A place that cannot be written, and the remedy."""
    problem = f"cannot be written ({error.strerror or error})"
    return PipelineError(str(place), problem, "choose a place that can be written")


def latest_delta_version(place: Path, table: str) -> int:
    """The newest version of a Delta table by the names in its log; -1 without one."""
    try:
        names = [path.name for path in (place / table / LOG).iterdir()]
    except OSError:
        return -1
    return max((int(name[:20]) for name in names if name[:20].isdigit()), default=-1)


def tables_in(place: Path) -> list[str]:
    """All Delta tables in the folder of a lake, published or not, but `versions`."""
    return sorted(
        child.name for child in place.iterdir() if child.name != VERSIONS and _has_log(child)
    )


def is_ours(place: Path, table: str) -> bool:
    """A Delta table that a lake may have. One of another program may lie in the same folder."""
    try:
        open_table(place, table)
    except PipelineError:
        return False
    return True


def _has_log(path: Path) -> bool:
    log = path / LOG
    return log.is_dir() and any(child.name[:20].isdigit() for child in log.iterdir())


def _check_path(place: Path) -> None:
    """deltalake 1.6 decodes a path once too often: it would use another folder."""
    if re.search("%[0-9A-Fa-f]{2}", str(place.resolve())):
        problem = "the Delta library cannot use a path with % and two hexadecimal digits"
        raise PipelineError(str(place), problem, "choose another place")


def _has_content(place: Path) -> bool:
    """Something besides what a killed `create` leaves."""
    return any(
        child.name not in (WORK, VERSIONS)
        or (child.name == VERSIONS and not (child / LOG).is_dir())
        for child in place.iterdir()
    )


def _facts(snapshot: Snapshot, table: str, kind: Any, groups: Collection[str] | None) -> list[Any]:
    names = kind.__struct_fields__
    rows = snapshot.read(table, groups=groups, columns=names).to_pylist()
    try:
        return [msgspec.convert(_known(row, kind), kind) for row in rows]
    except msgspec.ValidationError as error:
        problem = f"rows that are not those of `{table}` ({error})"
        raise PipelineError(str(snapshot.place / table), problem, _AGAIN) from error


def _known(row: dict[str, Any], kind: Any) -> dict[str, Any]:
    """Without columns that its writer did not have: their defaults stand for them."""
    defaults = len(kind.__struct_defaults__)
    later = set(kind.__struct_fields__[len(kind.__struct_fields__) - defaults :])
    return {name: value for name, value in row.items() if value is not None or name not in later}


def _ns(instant: datetime) -> int:
    return (instant - EPOCH) // timedelta(microseconds=1) * 1000
