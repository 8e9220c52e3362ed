"""Arrow columns as numpy arrays: integers, and names as codes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from phalanx.journal.arrow_schema import arrow

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def ints(column: Any) -> Ints:
    """The values of a column of integers; 0 where it is null."""
    found: Ints = column.fill_null(0).combine_chunks().to_numpy(zero_copy_only=False)
    return found


def is_known(column: Any) -> Bools:
    """Where a column is not null."""
    found: Bools = column.is_valid().combine_chunks().to_numpy(zero_copy_only=False)
    return found


def codes(column: Any, values: Sequence[str]) -> Ints:
    """The place of each value of a column of text in a list; -1 for those that are not in it."""
    pa = arrow()
    places = pa.compute.index_in(column, value_set=pa.array(values, pa.string()))
    return ints(places.fill_null(-1)).astype(np.int64)


def own_times(table: Any) -> Ints:
    """Per row, the clock by which durations at one member are measured: simulated time if there is
    any."""
    simulated = is_known(table.column("sim_ns"))
    return np.where(simulated, ints(table.column("sim_ns")), ints(table.column("t_ns")))


def grouped(keys: Ints) -> Iterator[tuple[int, Ints]]:
    """Each key, and the places where it is, in the order of keys."""
    order = np.argsort(keys, kind="stable")
    values, begins = np.unique(keys[order], return_index=True)
    yield from zip(values.tolist(), np.split(order, begins[1:]), strict=bool(len(values)))


def life_codes(names: Any, incarnations: Any, lives: Sequence[tuple[str, int]]) -> Ints:
    """The place of each life, given by a column of names and one of incarnations, in a list; -1
    for those that are not in it."""
    known = list(dict.fromkeys(name for name, _ in lives))
    numbers = np.array(sorted({number for _, number in lives}), np.int64)
    width = len(numbers) + 1
    places = np.full((len(known) + 1) * width, -1, np.int64)
    for place, (name, number) in enumerate(lives):
        places[known.index(name) * width + int(np.searchsorted(numbers, number))] = place
    wanted = ints(incarnations)
    rank = np.searchsorted(numbers, wanted)
    hit = rank < len(numbers)
    hit[hit] = numbers[rank[hit]] == wanted[hit]
    code = codes(names, known)
    return places[np.where(hit & (code >= 0), code * width + rank, len(places) - 1)]
