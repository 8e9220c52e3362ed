"""Open Parquet files that phalanx wrote (needs pyarrow).

Pages have checksums, which are verified: without them a flipped bit in a file is another number in
a row, and an audit would judge it. The heads of pages have none; where they are damaged pyarrow may
end a column or a dictionary early, so rows are counted and codes are checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from phalanx.journal.arrow_schema import arrow


@contextmanager
def open_parquet(
    path: str | Path, *, rows: int = -1, read_dictionary: Sequence[str] = ()
) -> Iterator[Any]:
    """A `pyarrow.parquet.ParquetFile`. ArrowException or OSError for a file that is damaged, or
    that has another number of rows than `rows`, if that is not negative. Damage of a page is found
    when it is read; give `check_rows` the number of rows that were."""
    pa = arrow()
    with pa.parquet.ParquetFile(
        path, read_dictionary=list(read_dictionary), page_checksum_verification=True
    ) as file:
        there = file.metadata.num_rows
        if rows >= 0:
            check_rows(there, rows)
        yield file


def check_rows(found: int, wanted: int) -> None:
    """ArrowException if so many rows were found where others were wanted."""
    if found != wanted:
        raise arrow().ArrowInvalid(f"it has {found:,} rows, not {wanted:,}")


def check_codes(rows: Any) -> None:
    """ArrowException if a column of dictionary codes has one that is not in its dictionary."""
    for column in rows.columns:
        if arrow().types.is_dictionary(column.type):
            column.validate(full=True)
