"""A Spark data source for raw and live journals: `spark.read.format("phalanx")`.

    spark.read.format("phalanx").option("table", "deliver").load("journals/")

`path` is a file or folder, `paths` a JSON list of them; `table` is one of `journal.schema`. Each
row appears once, however many copies of a segment there are. A live segment is read up to its size
when the query was planned, so that a repeated task reads the same rows. Filters on cluster,
journal, group, member and incarnation skip whole segments, filters on lseq whole blocks.

Use it for journals that are being written, and for damaged ones. For many queries on many journals,
ingest them: Spark reads only the needed columns of Parquet, while here all rows pass through
Python. Everything but the classes that Spark calls works without Spark.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from phalanx.errors import PipelineError
from phalanx.journal.column_buffer import ColumnBuffer
from phalanx.journal.columnar_reader import ColumnarReader
from phalanx.journal.columns import NUMBER_MAX
from phalanx.journal.reader import below
from phalanx.journal.schema import TABLES
from phalanx.pipeline.message_stream.message_stream_reader import MessageStreamReader
from phalanx.pipeline.message_stream.span_reader import message_schema
from phalanx.pipeline.schemas import spark_schema
from phalanx.pipeline.segment_source import Offer, find_offers, is_export
from phalanx.pipeline.stream_options import stream_options
from phalanx.pipeline.table_stream import TableStreamReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "phalanx"
MESSAGES = "messages"
"""The one table that is not of a journal: the ordered messages of a group."""
PARTITION_BYTES = 16 << 20
_OF_HEADER = ("cluster", "journal", "group", "member", "incarnation")


class Wanted(msgspec.Struct, frozen=True):
    """What of the journals is asked for."""

    table: str
    equal: dict[str, list[Any]] = {}
    """Columns of the header, and the values that will do."""
    low: int = 1
    high: int = NUMBER_MAX
    """The numbers of rows."""
    columns: list[str] | None = None
    """None: all."""

    def needs(self, offer: Offer) -> bool:
        header = offer.header
        return all(getattr(header, name) in values for name, values in self.equal.items())

    def narrowed(self, test: Filter) -> Wanted:
        """As far as a filter says something that can be used."""
        match test:
            case EqualTo((column,), value) | EqualNullSafe((column,), value):
                values: Sequence[Any] = [value]
            case In((column,), values):
                pass
            case _:
                return self._bounded(test)
        if column in _OF_HEADER:
            known = self.equal.get(column, values)
            both = [value for value in known if value in values]
            return msgspec.structs.replace(self, equal=self.equal | {column: both})
        if column == "lseq" and values and None not in values:
            return self._between(min(values), max(values))
        return self

    def _bounded(self, test: Filter) -> Wanted:
        match test:
            case GreaterThan(("lseq",), int(value)):
                return self._between(value + 1, NUMBER_MAX)
            case GreaterThanOrEqual(("lseq",), int(value)):
                return self._between(value, NUMBER_MAX)
            case LessThan(("lseq",), int(value)):
                return self._between(1, value - 1)
            case LessThanOrEqual(("lseq",), int(value)):
                return self._between(1, value)
            case _:
                return self

    def _between(self, low: int, high: int) -> Wanted:
        return msgspec.structs.replace(self, low=max(low, self.low), high=min(high, self.high))


def find(paths: Iterable[str | Path], wanted: Wanted) -> list[Offer]:
    """The segments that may hold what is wanted; a folder in which nothing was written yet holds
    none. JournalError and PipelineError as `find_offers`."""
    some = []
    for path in map(Path, paths):
        if is_export(path):
            problem = "these are exported files, no journals"
            raise PipelineError(str(path), problem, "read them as Parquet, or open them")
        if not path.is_dir() or any(below(path)):
            some.append(path)
    offers = find_offers(some) if some else []
    return [offer for offer in offers if wanted.needs(offer)]


def parted(offers: Sequence[Offer]) -> list[list[Offer]]:
    """Neighbours together, up to a size that keeps all cores busy."""
    total = sum(offer.size for offer in offers)
    limit = min(PARTITION_BYTES, max(1 << 20, total // (2 * (os.cpu_count() or 1))))
    parts: list[list[Offer]] = []
    room = 0
    for offer in offers:
        if not parts or offer.size > room:
            parts.append([])
            room = limit
        parts[-1].append(offer)
        room -= offer.size
    return parts


def batches(offers: Sequence[Offer], wanted: Wanted) -> Iterator[Any]:
    """The rows of one table as Arrow batches."""
    gathered = ColumnBuffer(wanted.table, wanted.columns)
    for offer in offers:
        for rows in ColumnarReader(offer.copies, (wanted.low, wanted.high), offer.after):
            if rows.table == wanted.table:
                gathered.add(rows.rows, rows.columns)
                if gathered.full:
                    yield gathered.take().replace_schema_metadata(None)
    if gathered.rows:
        yield gathered.take().replace_schema_metadata(None)


# ---------------------------------------------------------------------- what Spark calls


class SourcePartition(InputPartition):
    """Segments that one task reads."""

    def __init__(self, offers: list[Offer]) -> None:
        super().__init__(None)
        self.offers = msgspec.msgpack.encode(offers)


class JournalReader(DataSourceReader):
    def __init__(self, paths: Sequence[str], table: str, columns: list[str] | None = None) -> None:
        self._paths = list(paths)
        self._wanted = Wanted(table, columns=columns)

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  Spark's name
        """Spark tests every row all the same: what is left out here is a matter of time only."""
        for test in filters:
            self._wanted = self._wanted.narrowed(test)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        return [SourcePartition(some) for some in parted(find(self._paths, self._wanted))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, SourcePartition):  # what Spark makes of no partitions at all
            return iter(())
        offers = msgspec.msgpack.decode(partition.offers, type=list[Offer])
        return batches(offers, self._wanted)


class JournalSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        if self.options.get("table") == MESSAGES:
            return from_arrow_schema(message_schema())
        whole = spark_schema(table_of(self.options))
        columns = columns_of_options(self.options)
        return whole if columns is None else StructType([whole[name] for name in columns])

    def reader(self, schema: StructType) -> DataSourceReader:
        if self.options.get("table") == MESSAGES:
            problem = "the messages of a group are a stream"
            raise PipelineError(f"table = {MESSAGES!r}", problem, "use spark.readStream")
        columns = columns_of_options(self.options)
        return JournalReader(paths_of(self.options), table_of(self.options), columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        paths, options = paths_of(self.options), stream_options(self.options)
        if self.options.get("table") == MESSAGES:
            return MessageStreamReader(paths, self.options.get("group"), options)
        columns = columns_of_options(self.options)
        return TableStreamReader(paths, table_of(self.options), options, columns)


def table_of(options: Mapping[str, str]) -> str:
    table = options.get("table", "")
    if table not in TABLES:
        raise PipelineError(f"table = {table!r}", "there is none", f"one of {', '.join(TABLES)}")
    return table


def columns_of_options(options: Mapping[str, str]) -> list[str] | None:
    """The columns that the option `columns` names, in this order; None without it."""
    given = options.get("columns")
    if given is None:
        return None
    known = spark_schema(table_of(options)).names
    columns = [name.strip() for name in given.split(",")]
    wrong = [name for name in columns if name not in known or columns.count(name) > 1]
    if wrong:
        problem = f"{wrong[0]!r} is no column of the table, or is there twice"
        raise PipelineError(f"columns = {given!r}", problem, f"some of {', '.join(known)}")
    return columns


def paths_of(options: Mapping[str, str]) -> list[str]:
    found = json.loads(options.get("paths", "[]"))
    if path := options.get("path"):
        found.append(path)
    if not found:
        raise PipelineError("path", "nothing to read", 'give .load("journals/")')
    return [str(path) for path in found]


STREAM_ENVIRONMENT = (
    "SPARK_LOCAL_DIRS",
    "SPARK_AUTH_SOCKET_TIMEOUT",
    "SPARK_BUFFER_SIZE",
    "SPARK_PYTHON_RUNTIME",
)
"""What Spark 4.3 puts into the environment of a Python source when a stream begins. All queries
share the map, and it is sent with their tasks: a query that begins while the tasks of another are
serialized made them unreadable (OptionalDataException). So the names are there from the beginning,
and Spark replaces the values only."""


def register(spark: SparkSession) -> None:
    """Makes the format known to a session; `session()` does so."""
    registered: Callable[[type[DataSource]], None] = spark.dataSource.register
    if not hasattr(spark, "_jsparkSession"):  # through Connect: the server makes the map
        registered(JournalSource)
        return
    environment: dict[str, str] = spark.sparkContext.environment
    missing = dict.fromkeys(set(STREAM_ENVIRONMENT) - set(environment), "")
    environment |= missing
    try:
        registered(JournalSource)
    finally:
        for name in missing:
            del environment[name]
