"""Names in the rows of a group as numbers: views, sets of receivers, services.

Views and sets are numbered as they are met; -1 stands for none, and NONE for a null of a column of
numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phalanx.journal.arrow_schema import arrow
from phalanx.pipeline.audit.number_ranges import NONE, Longs

BASIC, CAUSAL, AGREED, SAFE = range(4)
SERVICES = ("BASIC", "CAUSAL", "AGREED", "SAFE")
ReceiverSet = tuple[tuple[str, ...], tuple[int, ...] | None]
"""Names, and their incarnations where rows have them."""


class RowCoder:
    """Codes columns of Arrow tables."""

    def __init__(self) -> None:
        self.views: dict[str, int] = {}
        self.sets: dict[ReceiverSet, int] = {}
        self._pa = arrow()

    def coded(self, table: Any, column: str) -> tuple[Longs, list[Any]]:
        """A column as indices into its distinct values."""
        found = table.column(column).combine_chunks().dictionary_encode()
        if isinstance(found, self._pa.ChunkedArray):
            found = found.combine_chunks()
        indices = found.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        values = found.dictionary.to_pylist()
        used = np.bincount(indices + 1, minlength=len(values) + 1)[1:] > 0
        if used.all():
            return indices, values
        # Codes of a file may have values that none of these rows has.
        places = np.append(np.cumsum(used) - 1, -1)
        return places[indices], [
            value for value, is_used in zip(values, used, strict=True) if is_used
        ]

    def pairs(self, table: Any, name: str, number: str) -> tuple[Longs, list[tuple[str, int]]]:
        """Two columns as indices into their distinct pairs."""
        a, names = self.coded(table, name)
        b, numbers = self.coded(table, number)
        many = max(1, len(numbers))
        both = a * many + b
        used = np.bincount(both, minlength=len(names) * many) > 0
        pairs = [(names[i // many], numbers[i % many]) for i in np.flatnonzero(used).tolist()]
        return (np.cumsum(used) - 1)[both], pairs

    def view_number(self, view: str | None) -> int:
        """The number of a view; -1 for none."""
        return -1 if view is None else self.views.setdefault(view, len(self.views))

    def viewed(self, table: Any, column: str) -> Longs:
        where, views = self.coded(table, column)
        numbers = np.array([*map(self.view_number, views), -1], dtype=np.int64)
        found: Longs = numbers[where]
        return found

    def receivers(self, table: Any, to: str = "to", inc: str = "to_incarnations") -> Longs:
        """Sets of receivers as numbers; -1 is the whole view."""
        pc = self._pa.compute
        found = np.full(table.num_rows, -1, dtype=np.int64)
        column = table.column(to).combine_chunks()
        if column.null_count == len(column):
            return found
        where = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        some = table.select([to, inc]).take(self._pa.array(where))
        names = some.column(to).combine_chunks()
        numbers = some.column(inc).combine_chunks()
        key = pc.binary_join_element_wise(
            pc.binary_join(names, "\x1f"),
            pc.coalesce(pc.binary_join(numbers.cast(self._pa.list_(self._pa.string())), ","), "?"),
            "\x1e",
        )
        code = key.dictionary_encode().indices.to_numpy(zero_copy_only=False)
        _, firsts = np.unique(code, return_index=True)
        numbered = np.zeros(len(firsts), dtype=np.int64)
        for i, at in enumerate(firsts.tolist()):
            incs = numbers[at].as_py()
            whom = tuple(names[at].as_py()), None if incs is None else tuple(incs)
            numbered[i] = self.sets.setdefault(whom, len(self.sets))
        found[where] = numbered[code]
        return found

    def longs(self, table: Any, column: str, null: int = NONE) -> Longs:
        values = table.column(column)
        if values.null_count:
            values = values.fill_null(null)
        return np.asarray(values.to_numpy()).astype(np.int64, copy=False)

    def services(self, table: Any) -> Longs:
        code, names = self.coded(table, "service")
        numbers = [SERVICES.index(name) for name in names]
        found: Longs = np.array(numbers or [0], dtype=np.int64)[code]
        return found
