"""Scenarios as TOML files: strict reading with errors by line, and writing.

`load` and `parse` raise ScenarioError with the file, the line and what to do, always in one
line of text. tomllib does not say where a value stood; `places` finds it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from phalanx.errors import ScenarioError
from phalanx.sim.scenario.model import (
    Burst,
    Busy,
    ClockJump,
    Crash,
    Cut,
    Garbage,
    Heal,
    Imposter,
    LinkSettings,
    Network,
    OperatorBreak,
    Partition,
    Pause,
    Peculiarity,
    PlannedLeave,
    PlannedRole,
    Reader,
    Restart,
    Scenario,
    Traffic,
)
from phalanx.sim.scenario.toml_positions import DEPTH_MAX, deep_line, last_line, line_of
from phalanx.sim.scenario.toml_text import quoted, shown, toml_pairs
from phalanx.sim.scenario.validation import Flaw, flaw_of
from phalanx.sim.scenario.validation import Path as Place
from phalanx.text import one_line

_TABLES: dict[str, type[msgspec.Struct]] = {
    "network": Network,
    "member": Peculiarity,
    "link": LinkSettings,
    "pause": Pause,
    "burst": Burst,
    "reader": Reader,
    "partition": Partition,
    "heal": Heal,
    "cut": Cut,
    "crash": Crash,
    "restart": Restart,
    "leave": PlannedLeave,
    "imposter": Imposter,
    "break": OperatorBreak,
    "clock": ClockJump,
    "busy": Busy,
    "role": PlannedRole,
    "garbage": Garbage,
    "traffic": Traffic,
}
_SINGLE = ("network", "config")
_PLACE = re.compile(r"(.*?)(?: - at `\$?([^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([A-Za-z_]+)|\[(\d+)\]")
_KEY = re.compile(r"\s*([^=\n]*?)\s*=")
_WORDS = {"array": "a list", "object": "a table", "str": "a string"}
_LONG_NUMBER = re.compile(r"[0-9_]{4000,}")


def load(path: str | Path) -> Scenario:
    """The scenario in a file; ScenarioError if it cannot be read or played."""
    file = str(path)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise _error(file, None, error.strerror or str(error), _READABLE) from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = f"not a text file: byte 0x{data[error.start]:02x} is not UTF-8"
        raise _error(file, line, problem, _READABLE) from None
    return parse(text, file)


_READABLE = "name a readable TOML file"


def parse(text: str, file: str = "scenario") -> Scenario:
    """The scenario in a text; `file` is only for the error messages."""
    data = _toml_data(text, file)
    flaw = _excess(data, ())
    if flaw is None:
        try:
            scenario = msgspec.convert(data, Scenario)
        except msgspec.ValidationError as error:
            flaw = _flaw(str(error), data)
        else:
            flaw = flaw_of(scenario)
            if flaw is None:
                return scenario
    raise _error(file, line_of(text, flaw.path), flaw.problem, flaw.remedy)


def _error(file: str, line: int | None, problem: str, remedy: str) -> ScenarioError:
    return ScenarioError(one_line(file), line, one_line(problem), one_line(remedy))


# ------------------------------------------------------------------ text that is not TOML


def _toml_data(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line, problem = _toml_problem(str(error), text)
        raise _error(file, line, problem, "write it as TOML 1.0") from None
    except RecursionError:
        raise _error(file, deep_line(text), _TOO_DEEP, _FLATTER) from None
    except ValueError:  # Python refuses to read numbers of thousands of digits
        found = _LONG_NUMBER.search(text)
        line = text.count("\n", 0, found.start()) + 1 if found else 1
        raise _error(file, line, "a number of thousands of digits", _SHORTER) from None


_TOO_DEEP = f"lists and tables are nested more than {DEPTH_MAX} deep"
_FLATTER = "a scenario needs three levels"
_SHORTER = "numbers have at most 64 bits"


def _toml_problem(message: str, text: str) -> tuple[int, str]:
    """The line of what tomllib complained about, and its complaint with the key in question."""
    found = re.search(r"\(at line (\d+)", message)
    line = int(found[1]) if found else last_line(text)
    problem = message.partition(" (at ")[0]
    if problem == "Cannot overwrite a value":
        if key := _KEY.match(text.split("\n")[line - 1]):
            problem = f"{key[1]} is given twice"
    elif twice := re.fullmatch(r"Cannot declare \((.*)\) twice", problem):
        names = re.findall(r"'([^']*)'", twice[1])
        problem = f"[{'.'.join(names)}] is declared twice"
    return line, problem


def _excess(value: object, path: Place) -> Flaw | None:
    """A number or a nesting that TOML allows to be refused, wherever it stands."""
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return Flaw(path, f"{_dotted(path)} = {shown(value)}", _SHORTER)
    if not isinstance(value, dict | list):
        return None
    if len(path) >= DEPTH_MAX:
        return Flaw(path, _TOO_DEEP, _FLATTER)
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return next((flaw for key, v in items if (flaw := _excess(v, (*path, key)))), None)


# ------------------------------------------------------------------ TOML that is no scenario


def _flaw(message: str, data: Mapping[str, Any]) -> Flaw:
    """What msgspec complained about, as a place, a problem and a remedy."""
    found = _PLACE.fullmatch(message)
    assert found is not None
    problem, place = found[1], found[2] or ""
    path: Place = tuple(int(m[2]) if m[2] else m[1] for m in _STEP.finditer(place))
    table = str(path[0]) if path else ""
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", problem, re.DOTALL):
        where = f" in {table}" if table else ""
        remedy = f"known: {', '.join(_keys(table))}"
        return Flaw((*path, unknown[1]), f"unknown key {quoted(unknown[1])}{where}", remedy)
    if missing := re.fullmatch(r"Object missing required field `(.*)`", problem):
        where = f"[[{table}]]" if table else "the scenario"
        return Flaw(path, f"{where} has no {missing[1]!r}", f"add {missing[1]} = ...")
    value = _value(data, path)
    problem_shown = f"{_dotted(path)} = {shown(value)}"
    if problem.startswith("Invalid enum value"):
        return Flaw(path, problem_shown, _choose(table, str(path[-1]), value))
    whole = len(path) == 1 or (len(path) == 2 and isinstance(path[1], int))
    if whole and table in (*_TABLES, "config"):
        return _misshapen(path, table, value)
    return Flaw(path, problem_shown, _wanted(problem, value))


def _choose(table: str, key: str, value: object) -> str:
    kinds = get_args(get_type_hints(_TABLES.get(table, Scenario))[key])
    words = [*kinds, *(word for kind in kinds for word in get_args(kind))]
    choice = f"choose among {', '.join(word for word in words if isinstance(word, str))}"
    if any(get_args(kind)[1:] == (...,) for kind in kinds):
        return f"{choice}, or give a list of members, for example [{shown(value)}]"
    return choice


def _misshapen(path: Place, table: str, value: object) -> Flaw:
    """A table where a list of tables belongs, or the other way round."""
    if table in _SINGLE:
        given = f"[[{table}]]" if isinstance(value, list) else f"{table} = {shown(value)}"
        return Flaw(path, f"{given}: {table} is one table", f"write [{table}], once")
    given = f"[{table}]" if isinstance(value, dict) else f"{table} = {shown(value)}"
    return Flaw(path, f"{given}: there may be several", f"write [[{table}]]")


def _wanted(problem: str, value: object) -> str:
    """What msgspec expected, in words of TOML."""
    if re.match(r"Expected `array( \| null)?`, got `str`", problem):
        return f"give a list, for example [{shown(value)}]"
    problem = problem.replace(" | null", "").replace("`object`", "`a table`")
    problem = re.sub(r"`(\w+)( \| (\w+))?`", _in_words, problem)
    return problem.replace("`", "").replace("Expected", "it must be", 1).replace(", got", ", not")


def _in_words(found: re.Match[str]) -> str:
    words = [_WORDS.get(word, word) for word in (found[1], found[3]) if word]
    return " or ".join(words)


def _dotted(path: Place) -> str:
    keys = (key for key in path if isinstance(key, str))
    return ".".join(k if re.fullmatch(r"[\w-]+", k) else quoted(k) for k in keys)


def _keys(table: str) -> list[str]:
    return [f.encode_name for f in msgspec.structs.fields(_TABLES.get(table, Scenario))]


def _value(data: Any, path: Place) -> Any:
    for step in path:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return None
    return data


# ------------------------------------------------------------------ writing


def to_toml(scenario: Scenario) -> str:
    """The scenario as a file that `parse` turns into an equal one."""
    data = msgspec.to_builtins(scenario)
    plain = {key: value for key, value in data.items() if not _is_table(value)}
    lines = toml_pairs(plain)
    for key, value in data.items():
        if key not in plain:
            many = not isinstance(value, dict)
            for row in value if many else [value]:
                lines += ["", f"[[{key}]]" if many else f"[{key}]", *toml_pairs(row)]
    return "\n".join(lines) + "\n"


def _is_table(value: object) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and isinstance(value[0], dict)
    return isinstance(value, dict)
