"""Values of scenario files as text: as TOML, and inside messages of one line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from phalanx.text import one_line

SHOWN_MAX = 80


def quoted(text: str) -> str:
    """A name or key of any kind inside a message: quoted, on one line, not too long."""
    return repr(text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "...")


def shown(value: object) -> str:
    """A value inside a message, in TOML's spelling: one line, and not too long."""
    if isinstance(value, dict):
        return "{ ... }"
    if isinstance(value, list | tuple):
        return "[ ... ]"
    if isinstance(value, bool | str):
        text = one_line(toml(value))
    elif isinstance(value, int) and abs(value) >> 64:
        text = "a number of more than 64 bits"
    elif isinstance(value, int | float):
        text = str(value)
    else:  # dates and times: TOML writes them as ISO 8601 does
        text = one_line(str(value).replace(" ", "T"))
    return text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "..."


def toml(value: Any) -> str:
    """A value as TOML: booleans, integers, strings, and lists and tables of those."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:_}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml(v) for v in value) + "]"
    assert isinstance(value, dict), f"no TOML for {value!r}"
    return "{ " + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + " }"


def toml_pairs(table: Mapping[str, Any]) -> list[str]:
    """The keys and values of a table, a line each."""
    return [f"{key} = {toml(value)}" for key, value in table.items()]
