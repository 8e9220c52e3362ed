"""Scenarios as TOML files: read strictly, complained about by line, written back.

`load` and `parse` raise ScenarioError with the file, the line and what to do. tomllib does
not say where a value stood, so the line is found by looking for its table and key in the
text; where that fails (inline tables), the line of the nearest thing found is named.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from phalanx.errors import ScenarioError
from phalanx.sim.scenario import (
    Burst,
    Flaw,
    Garbage,
    Link,
    Network,
    Pause,
    Peculiarity,
    Scenario,
    Traffic,
    flaw_of,
)

_TABLES: dict[str, type[msgspec.Struct]] = {
    "network": Network,
    "member": Peculiarity,
    "link": Link,
    "pause": Pause,
    "burst": Burst,
    "garbage": Garbage,
    "traffic": Traffic,
}
_PLACE = re.compile(r"(.*?)(?: - at `\$?(.*)`)?$", re.DOTALL)
_STEP = re.compile(r"\.([A-Za-z_]+)|\[(\d+)\]|\[\.\.\.\]")
_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]\",=]+?)\s*\]")
_KEY = re.compile(r"\s*\"?([A-Za-z0-9_-]+)\"?\s*[.=]")


def load(path: str | Path) -> Scenario:
    """The scenario in a file; ScenarioError if it cannot be read or played."""
    file = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        raise ScenarioError(file, None, reason, "name a readable TOML file") from None
    return parse(text, file)


def parse(text: str, file: str = "scenario") -> Scenario:
    """The scenario in a text; `file` is only for the error messages."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+)", str(error))
        line = int(found[1]) if found else len(text.splitlines())
        problem = str(error).partition(" (at ")[0]
        raise ScenarioError(file, line, problem, "write it as TOML 1.0") from None
    try:
        scenario = msgspec.convert(data, Scenario)
    except msgspec.ValidationError as error:
        flaw = _flaw(str(error), data)
    else:
        fault = flaw_of(scenario)
        if fault is None:
            return scenario
        flaw = fault
    raise ScenarioError(file, line_of(text, flaw.path), flaw.problem, flaw.remedy)


def _flaw(message: str, data: Mapping[str, Any]) -> Flaw:
    """What msgspec complained about, as a place, a problem and a remedy."""
    found = _PLACE.match(message)
    assert found is not None
    problem, place = found[1], found[2] or ""
    path: tuple[str | int, ...] = tuple(
        int(m[2]) if m[2] else m[1] for m in _STEP.finditer(place) if m[1] or m[2]
    )
    table = str(path[0]) if path else ""
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", problem):
        known = ", ".join(_keys(table))
        where = f" in {table}" if table else ""
        return Flaw((*path, unknown[1]), f"unknown key {unknown[1]!r}{where}", f"known: {known}")
    if missing := re.fullmatch(r"Object missing required field `(.*)`", problem):
        where = f"[[{table}]]" if table else "the scenario"
        return Flaw(path, f"{where} has no {missing[1]!r}", f"add {missing[1]} = ...")
    key = ".".join(str(step) for step in path if isinstance(step, str))
    value = _value(data, path)
    shown = f"{key} = {value!r}" if not isinstance(value, dict | list) else key
    if problem.startswith("Invalid enum value"):
        return Flaw(path, shown, f"choose among {', '.join(_choices(table, str(path[-1])))}")
    wanted = problem.replace("`", "").replace("Expected", "it must be", 1).replace(", got", ", not")
    return Flaw(path, shown, wanted)


def _choices(table: str, key: str) -> list[str]:
    """The words that a key may have for its value."""
    kinds = get_args(get_type_hints(_TABLES[table])[key])
    words = [*kinds, *(word for kind in kinds for word in get_args(kind))]
    return [word for word in words if isinstance(word, str)]


def _keys(table: str) -> list[str]:
    return [f.encode_name for f in msgspec.structs.fields(_TABLES.get(table, Scenario))]


def _value(data: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def line_of(text: str, path: tuple[str | int, ...]) -> int | None:
    """The line, counted from 1, where the value at `path` or what holds it seems to stand."""
    places = _places(text)
    for length in range(len(path), 0, -1):
        if path[:length] in places:
            return places[path[:length]]
    return 1


def _places(text: str) -> dict[tuple[str | int, ...], int]:
    """Where each table header and each key stands."""
    places: dict[tuple[str | int, ...], int] = {}
    rows: dict[str, int] = {}
    inside: tuple[str | int, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            first, *rest = (part.strip().strip('"') for part in header[2].split("."))
            if header[1] == "[[" and not rest:
                rows[first] = rows.get(first, -1) + 1
            inside = (first, rows[first], *rest) if first in rows else (first, *rest)
            places.setdefault(inside, number)
        elif key := _KEY.match(line):
            places.setdefault((*inside, key[1]), number)
    return places


def to_toml(scenario: Scenario) -> str:
    """The scenario as a file that `parse` turns into an equal one."""
    data = msgspec.to_builtins(scenario)
    plain = {key: value for key, value in data.items() if not _is_table(value)}
    lines = _pairs(plain)
    for key, value in data.items():
        if key not in plain:
            many = not isinstance(value, dict)
            for row in value if many else [value]:
                lines += ["", f"[[{key}]]" if many else f"[{key}]", *_pairs(row)]
    return "\n".join(lines) + "\n"


def _is_table(value: object) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and isinstance(value[0], dict)
    return isinstance(value, dict)


def _pairs(table: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_toml(value)}" for key, value in table.items()]


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:_}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    assert isinstance(value, dict), f"no TOML for {value!r}"
    return "{ " + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + " }"
