"""Validation of scenarios: settings that contradict each other, and where they stand.

`flaw_of` finds the first flaw. `toml_file` reports it with the line of the file, `shrink` discards
scenarios that have one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from phalanx.config import lan
from phalanx.core.ids import NAME_LENGTH_MAX
from phalanx.core.roles import problem_with
from phalanx.errors import ConfigurationError
from phalanx.sim.scenario.model import HORIZON_NS_MAX, LIVES, SUBMISSION_BYTES_MAX, Scenario
from phalanx.sim.scenario.toml_text import quoted, shown

Path = tuple[str | int, ...]


class Flaw(msgspec.Struct, frozen=True):
    """Something a scenario says that cannot be played, and where it says it."""

    path: Path
    problem: str
    remedy: str


_GROUP_WIDE = ("mode", "message_bytes_max", "cluster")
"""Settings that no member may have for itself: runs are judged, and traffic is planned, by one."""
_APART = ("order", "early")
"""Settings that must agree: members that differ in one start alone, and stay apart."""


def flaw_of(scenario: Scenario) -> Flaw | None:
    """The first thing that does not fit together, None if the scenario can be played."""
    return (
        _bad_names(scenario)
        or _unknown_member(scenario)
        or _bad_config(scenario)
        or _bad_traffic(scenario)
        or _bad_partition(scenario)
        or _bad_life(scenario)
        or _bad_imposter(scenario)
        or _bad_break(scenario)
        or _bad_role(scenario)
        or _too_long(scenario)
    )


def _bad_names(scenario: Scenario) -> Flaw | None:
    known = scenario.members
    for i, name in enumerate(known):
        if not 0 < len(name) <= NAME_LENGTH_MAX or not name.isprintable():
            remedy = f"a name is 1 to {NAME_LENGTH_MAX} printable characters"
            return Flaw(("members", i), f"a member cannot be called {quoted(name)}", remedy)
        if name in known[:i]:
            remedy = "name each member once"
            return Flaw(("members", i), f"member {quoted(name)} is named twice", remedy)
    return None


def _unknown_member(scenario: Scenario) -> Flaw | None:
    known = scenario.members
    for place, name in _named(scenario):
        if name not in known:
            remedy = f"choose among {', '.join(known)}"
            return Flaw(place, f"unknown member {quoted(name)}", remedy)
    return None


_NAMING = {
    "member": ("name",),
    "pause": ("member",),
    "reader": ("member",),
    "garbage": ("to",),
    "link": ("from", "to"),
    "burst": ("from", "to"),
    "traffic": ("from", "to"),
    "partition": ("groups",),
    "cut": ("from", "to"),
    "crash": ("member",),
    "restart": ("member",),
    "leave": ("member",),
    "imposter": ("member", "beside"),
    "break": ("member", "target"),
    "clock": ("member",),
    "busy": ("member",),
    "role": ("member",),
}
"""Where members are named: by table, the keys that hold a name or lists of names."""


def _named(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    for table, keys in _NAMING.items():
        for i, row in enumerate(getattr(scenario, "break_" if table == "break" else table)):
            for key in keys:
                value = getattr(row, "from_" if key == "from" else key)
                if table == "traffic" and isinstance(value, str) and key == "to":
                    continue  # "all" or "some"
                yield from _names((table, i, key), value)


def _names(path: Path, value: object) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, tuple):
        for i, inner in enumerate(value):
            yield from _names((*path, i), inner)


def _bad_role(scenario: Scenario) -> Flaw | None:
    for i, role in enumerate(scenario.role):
        problem = problem_with(role.operations)
        if problem is None and list(role.operations) != sorted(set(role.operations)):
            problem = "name each operation once, in order"
        if problem is not None:
            shown = " ".join(map(quoted, role.operations))
            return Flaw(("role", i, "operations"), f"no role: {shown}", problem)
    return None


def _bad_config(scenario: Scenario) -> Flaw | None:
    try:
        lan(**scenario.config)
    except ConfigurationError as error:
        return _config_flaw(("config",), scenario.config, {}, error)
    seen: list[str] = []
    for i, own in enumerate(scenario.member):
        if own.name in seen:
            remedy = "put everything about it in one [[member]]"
            problem = f"{quoted(own.name)} has two [[member]] tables"
            return Flaw(("member", i, "name"), problem, remedy)
        seen.append(own.name)
        path = ("member", i, "config")
        for key in own.config:
            if key in _GROUP_WIDE:
                remedy = "set it in [config]"
                return Flaw((*path, key), f"{key} is the same at every member", remedy)
            if key in _APART and scenario.start == "together":
                remedy = 'set it in [config], or start = "alone": they form no view together'
                return Flaw((*path, key), f"{key} must agree in a view", remedy)
        try:
            lan(**{**scenario.config, **own.config})
        except ConfigurationError as error:
            return _config_flaw(path, own.config, scenario.config, error)
    return None


def _config_flaw(
    path: Path, written: dict[str, Any], common: dict[str, Any], error: ConfigurationError
) -> Flaw:
    """What is wrong, reported at a key that this table holds.

    Two settings may not go together; then the error names one of them and its remedy the
    other, and the one that it names may be a default that nobody wrote.
    """
    field, value = error.field, shown(error.value)
    partners = [word for word in re.findall(r"\w+", error.remedy) if word in written]
    if field in written or not partners:
        label = field if field.isidentifier() else quoted(field)
        return Flaw((*path, field), f"{label} = {value}", error.remedy)
    mine = partners[0]
    whence = "as [config] says" if field in common else "the default"
    problem = f"{mine} = {shown(written[mine])} does not go with {field} = {value}, {whence}"
    remedy = f"{field} {error.remedy}: change {mine}, or set {field} too"
    return Flaw((*path, mine), problem, remedy)


def _bad_traffic(scenario: Scenario) -> Flaw | None:
    limit = lan(**scenario.config).message_bytes_max
    for i, t in enumerate(scenario.traffic):
        largest = t.size if t.size_max is None else t.size_max
        if largest < t.size:
            remedy = f"make it {t.size} or more"
            return Flaw(("traffic", i, "size_max"), f"size_max = {largest} is below size", remedy)
        key = "size" if t.size_max is None else "size_max"
        if largest > limit:
            remedy = "send less, or raise message_bytes_max in [config]"
            problem = f"{key} = {largest} is over message_bytes_max = {limit}"
            return Flaw(("traffic", i, key), problem, remedy)
        if t.batch * largest > SUBMISSION_BYTES_MAX:
            remedy = f"let batch times {key} be {SUBMISSION_BYTES_MAX} at most"
            problem = f"one submission of {t.batch} x {largest} bytes is too large"
            return Flaw(("traffic", i, "batch"), problem, remedy)
        if isinstance(t.to, tuple) and (not t.to or len(set(t.to)) != len(t.to)):
            remedy = 'name one or more members once each, or say to = "all"'
            return Flaw(("traffic", i, "to"), "to is empty or names a member twice", remedy)
    return None


def _bad_partition(scenario: Scenario) -> Flaw | None:
    for i, partition in enumerate(scenario.partition):
        seen: list[str] = []
        for place, name in _names(("partition", i, "groups"), partition.groups):
            if name in seen:
                return Flaw(place, f"{quoted(name)} is in two groups", "name each member once")
            seen.append(name)
    return None


# What a member's process is doing, what may happen to it then, and what it does after that.
_LIFE = {
    ("running", "crash"): "gone",
    ("running", "leave"): "leaving",
    ("leaving", "crash"): "gone",
    ("leaving", "restart"): "running",
    ("gone", "restart"): "running",
}


def _bad_life(scenario: Scenario) -> Flaw | None:
    """Crashes, leaves and restarts of one member must make sense one after the other."""
    events = [
        (row.at_ns, order, i, row.member)
        for order, table in enumerate(LIVES)
        for i, row in enumerate(getattr(scenario, table))
    ]
    state = dict.fromkeys(scenario.members, "running")
    for at, order, i, name in sorted(events):
        table = LIVES[order]
        after = _LIFE.get((state[name], table))
        if after is None:
            problem = f"{quoted(name)} is {state[name]} at {at} ns"
            wanted = "[[crash]] or [[leave]]" if table == "restart" else "[[restart]]"
            remedy = f"a [[{table}]] of it needs a {wanted} of it before"
            return Flaw((table, i, "at_ns"), problem, remedy)
        state[name] = after
    return None


def _bad_imposter(scenario: Scenario) -> Flaw | None:
    """An incarnation is never used twice: two processes with one would be one member."""
    taken: list[tuple[str, int]] = []
    for i, imposter in enumerate(scenario.imposter):
        name, incarnation = imposter.member, imposter.incarnation
        if _apart(scenario, name) != _apart(scenario, imposter.beside):
            problem = f"{quoted(name)} and {quoted(imposter.beside)} differ in order or early"
            return Flaw(("imposter", i, "beside"), problem, "choose one with the same settings")
        if incarnation is None:
            continue
        if (name, incarnation) in taken or scenario.in_line(name, incarnation):
            problem = f"{quoted(name)} has two processes with incarnation {incarnation}"
            remedy = "give 0, or a number that no restart and no other [[imposter]] of it uses"
            return Flaw(("imposter", i, "incarnation"), problem, remedy)
        taken.append((name, incarnation))
    return None


def _apart(scenario: Scenario, name: str) -> list[object]:
    config = scenario.config_of(name)
    return [getattr(config, key) for key in _APART]


def _bad_break(scenario: Scenario) -> Flaw | None:
    for i, row in enumerate(scenario.break_):
        if row.member == row.target:
            problem = f"{quoted(row.member)} cannot break with itself"
            return Flaw(("break", i, "target"), problem, "name another member")
    return None


def _too_long(scenario: Scenario) -> Flaw | None:
    for path, end in scenario.ends_ns():
        if end > HORIZON_NS_MAX:
            remedy = f"let it end by {HORIZON_NS_MAX} ns: lower count, every_ns or jitter_ns"
            return Flaw(path, f"[[{path[0]}]] goes on until {end} ns", remedy)
    return None
