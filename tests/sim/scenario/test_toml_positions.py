"""Where things stand in a TOML text."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from phalanx.sim.scenario.toml_positions import Path, line_of, places
from phalanx.sim.scenario.toml_text import toml

TEXT = """\
title = "x" # a = 1
"quoted key" = 1
a.b = [
  1, # one
  [2,
   3],
]
text = QQQ
not = "a key" \\QQQ [no.table]
QQQ
inline = { x = 1, y = { z = 2 } }
[ table . "odd name" ]
key = 1979-05-27 07:32:00
[[rows]]
first = AAA
[[rows]]
AAA
[rows.own]
deep = 1.5
[[rows]]
first = "two"
[[rows.nested]]
[[rows.nested]]
x = 1
""".replace("QQQ", '"' * 3).replace("AAA", "'" * 3)


def test_every_key_table_and_element_is_found() -> None:
    tomllib.loads(TEXT)
    assert places(TEXT) == {
        ("title",): 1,
        ("quoted key",): 2,
        ("a",): 3,
        ("a", "b"): 3,
        ("a", "b", 0): 4,
        ("a", "b", 1): 5,
        ("a", "b", 1, 0): 5,
        ("a", "b", 1, 1): 6,
        ("text",): 8,
        ("inline",): 11,
        ("inline", "x"): 11,
        ("inline", "y"): 11,
        ("inline", "y", "z"): 11,
        ("table", "odd name"): 12,
        ("table", "odd name", "key"): 13,
        ("rows",): 14,
        ("rows", 0): 14,
        ("rows", 0, "first"): 15,
        ("rows", 0, "own"): 18,
        ("rows", 0, "own", "deep"): 19,
        ("rows", 1): 20,
        ("rows", 1, "first"): 21,
        ("rows", 1, "nested"): 22,
        ("rows", 1, "nested", 0): 22,
        ("rows", 1, "nested", 1): 23,
        ("rows", 1, "nested", 1, "x"): 24,
    }


def test_what_is_not_there_is_told_at_what_would_hold_it() -> None:
    assert line_of(TEXT, ("rows", 1, "nested", 1, "y")) == 23
    assert line_of(TEXT, ("rows", 0, "own", "x")) == 18
    assert line_of(TEXT, ("nothing",)) == 1


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=4)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.integers(-9, 9) | st.booleans() | NAMES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=6,
)


def paths_in(value: Any, path: Path) -> list[Path]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found: list[Path] = []
    for key, inner in items:
        found.append((*path, key))
        if isinstance(inner, dict | list):
            found += paths_in(inner, (*path, key))
    return found


@given(st.lists(VALUES, max_size=5))
def test_all_that_tomllib_reads_has_a_place(values: list[Any]) -> None:
    text = "".join(f"k{i} = {toml(value)}\n" for i, value in enumerate(values))
    data = tomllib.loads(text)
    found = places(text)
    assert sorted(map(str, found)) == sorted(map(str, paths_in(data, ())))
    for path, line in found.items():
        assert path[0] == f"k{line - 1}"
