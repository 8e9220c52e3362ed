"""Arrow columns as numpy arrays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from phalanx.pipeline.arrow_columns import codes, grouped, ints, is_known, life_codes, own_times


def test_integers_have_a_zero_where_they_are_null() -> None:
    column = pa.chunked_array([pa.array([3, None]), pa.array([5])])
    assert ints(column).tolist() == [3, 0, 5]
    assert is_known(column).tolist() == [True, False, True]
    assert ints(pa.chunked_array([], pa.int64())).tolist() == []


def test_a_code_is_the_place_in_a_list() -> None:
    column = pa.chunked_array([pa.array(["b", "x", "a"])])
    assert codes(column, ["a", "b"]).tolist() == [1, -1, 0]
    assert codes(column, []).tolist() == [-1, -1, -1]


def test_a_life_is_a_name_and_an_incarnation_together() -> None:
    names = pa.chunked_array([pa.array(["ada", "ada", "bea", "bea", "cyd", "ada"])])
    numbers = pa.chunked_array([pa.array([1, 7, 1, 7, 1, 9])])
    lives = [("ada", 1), ("ada", 7), ("bea", 7)]
    assert life_codes(names, numbers, lives).tolist() == [0, 1, -1, 2, -1, -1]
    assert life_codes(names, numbers, []).tolist() == [-1] * 6


def test_simulated_time_comes_before_the_own_clock() -> None:
    table = pa.table({"sim_ns": pa.array([None, 4]), "t_ns": pa.array([7, 8])})
    assert own_times(table).tolist() == [7, 4]


def test_equal_keys_are_grouped_in_their_order() -> None:
    found = [(key, places.tolist()) for key, places in grouped(np.array([5, 2, 5, 2]))]
    assert found == [(2, [1, 3]), (5, [0, 2])]
    assert list(grouped(np.array([], np.int64))) == []
