"""Shrink a failing scenario to a small one that fails with the same property.

The search is greedy: it tries one simplification after the other, keeps those that still fail, and
repeats until none helps or the runs are used up. Random generators are seeded by names (see
`network`, `traffic`), so dropping a part leaves the rest as it was, as far as possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import msgspec

from phalanx.sim.run import RunResult, run
from phalanx.sim.scenario.model import CUTS, LIVES, MS, Network, Scenario
from phalanx.sim.scenario.validation import flaw_of

Fails = Callable[[Scenario], bool]
RUNS_MAX = 300

_FAULT_TABLES = (
    *("garbage", "imposter", "break_", "pause", "reader", "busy", "clock", "burst", "link"),
    *("member", "role"),
)
_LASTING = ("pause", "reader", "busy", "burst", "cut")
_LASTING_NS_MIN = MS
_T = TypeVar("_T", bound=msgspec.Struct)


class Shrunk(msgspec.Struct, frozen=True):
    """The smallest failing scenario found, and how many runs that took."""

    scenario: Scenario
    runs: int


def fails_like(result: RunResult, play: Callable[[Scenario], RunResult] = run) -> Fails:
    """Whether a scenario fails with one of the properties that `result` failed with."""
    wanted = result.signature
    return lambda scenario: any(name in wanted for name in play(scenario).signature)


def shrink(scenario: Scenario, fails: Fails, runs_max: int = RUNS_MAX) -> Shrunk:
    """`scenario` must fail; so does what comes back. `fails` is called `runs_max` times at most."""
    runs = 0
    best = scenario
    at, helped = 0, False
    simpler: Iterator[Scenario] = _simpler(best)
    while runs < runs_max:
        candidate = next(simpler, None)
        if candidate is None:
            if not helped:
                break
            at, helped = 0, False
            simpler = _simpler(best)
            continue
        at += 1
        if candidate == best or flaw_of(candidate) is not None:
            continue
        runs += 1
        if fails(candidate):
            best, helped = candidate, True
            at -= 1  # what comes next now stands where this one stood
            simpler = islice(_simpler(best), at, None)
    return Shrunk(best, runs)


def _simpler(scenario: Scenario) -> Iterator[Scenario]:
    """Scenarios with a little less in them, the boldest cuts first."""
    if len(scenario.members) > 1:
        for name in reversed(scenario.members):
            yield without_member(scenario, name)
    yield from _fewer(scenario, "traffic")
    for tables in (CUTS, LIVES, *((table,) for table in _FAULT_TABLES)):
        if any(getattr(scenario, table) for table in tables):
            yield _with(scenario, **dict.fromkeys(tables, ()))
    yield from _calmer(scenario)
    yield from _longer_lives(scenario)
    for table in (*CUTS, *_FAULT_TABLES):
        yield from _fewer(scenario, table)
    yield from _shorter(scenario)
    yield _with(scenario, start="together")
    yield _with(scenario, config={})
    for key in scenario.config:
        yield _with(scenario, config={k: v for k, v in scenario.config.items() if k != key})
    yield from _plainer_traffic(scenario)


def without_member(scenario: Scenario, name: str) -> Scenario:
    """The scenario as if the member had never been there."""

    def others(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if names is None else tuple(n for n in names if n != name)

    traffic = []
    for table in scenario.traffic:
        to = others(table.to) if isinstance(table.to, tuple) else table.to
        if table.from_ != name and to:
            traffic.append(_with(table, to=to))
    changed: dict[str, Any] = {}
    for key in ("link", "burst", "cut"):
        tables = [_with(t, from_=others(t.from_), to=others(t.to)) for t in getattr(scenario, key)]
        changed[key] = tuple(t for t in tables if t.from_ != () and t.to != ())
    for key in ("pause", "reader", "clock", "busy", "role", *LIVES):
        changed[key] = tuple(row for row in getattr(scenario, key) if row.member != name)
    partitions = []
    for partition in scenario.partition:
        groups = tuple(group for g in partition.groups if (group := others(g)))
        if groups:
            partitions.append(_with(partition, groups=groups))
    return _with(
        scenario,
        members=tuple(n for n in scenario.members if n != name),
        traffic=tuple(traffic),
        member=tuple(m for m in scenario.member if m.name != name),
        garbage=tuple(g for g in scenario.garbage if g.to != name),
        partition=tuple(partitions),
        imposter=tuple(i for i in scenario.imposter if name not in (i.member, i.beside)),
        break_=tuple(b for b in scenario.break_ if name not in (b.member, b.target)),
        **changed,
    )


def _longer_lives(scenario: Scenario) -> Iterator[Scenario]:
    """Without what ends and begins lives: all that happens to one member, then one thing, then
    an end together with the restart after it, for neither makes sense without the other."""
    rows = [(row.at_ns, table, row) for table in LIVES for row in getattr(scenario, table)]
    for name in scenario.members:
        yield _without_rows(scenario, [row for _, _, row in rows if row.member == name])
    for _, _, row in rows:
        yield _without_rows(scenario, [row])
    for at, table, row in rows:
        if table == "restart":
            ends = [e for e in rows if e[1] != "restart" and e[2].member == row.member]
            before = [end for end in ends if end[0] <= at]
            if before:
                last = max(before, key=lambda end: end[0])
                yield _without_rows(scenario, [row, last[2]])


def _without_rows(scenario: Scenario, rows: Sequence[Any]) -> Scenario:
    """The scenario without these rows of its lives."""
    left = {
        table: tuple(row for row in getattr(scenario, table) if not any(row is r for r in rows))
        for table in LIVES
    }
    return _with(scenario, **left)


def _fewer(scenario: Scenario, table: str) -> Iterator[Scenario]:
    """Half of the rows of a table, then all but one."""
    rows: Sequence[Any] = getattr(scenario, table)
    half = len(rows) // 2
    if half > 1:
        yield _with(scenario, **{table: tuple(rows[:half])})
        yield _with(scenario, **{table: tuple(rows[half:])})
    for i in range(len(rows)):
        yield _with(scenario, **{table: (*rows[:i], *rows[i + 1 :])})


def _shorter(scenario: Scenario) -> Iterator[Scenario]:
    """What lasts a while lasts half as long; a reader is behind by one level only; an imposter is
    like most."""
    for table in _LASTING:
        rows: Sequence[Any] = getattr(scenario, table)
        for i, row in enumerate(rows):
            if row.for_ns is not None and row.for_ns > _LASTING_NS_MIN:
                yield _replaced(scenario, table, i, _with(row, for_ns=row.for_ns // 2))
    for i, reader in enumerate(scenario.reader):
        yield _replaced(scenario, "reader", i, _with(reader, level=1))
    for i, imposter in enumerate(scenario.imposter):
        yield _replaced(scenario, "imposter", i, _with(imposter, incarnation=None))


def _replaced(scenario: Scenario, table: str, i: int, row: msgspec.Struct) -> Scenario:
    rows: Sequence[Any] = getattr(scenario, table)
    return _with(scenario, **{table: (*rows[:i], row, *rows[i + 1 :])})


def _calmer(scenario: Scenario) -> Iterator[Scenario]:
    plain = Network()
    yield _with(scenario, network=plain)
    for key in Network.__struct_fields__:
        calm = getattr(plain, key)
        if getattr(scenario.network, key) != calm:
            yield _with(scenario, network=_with(scenario.network, **{key: calm}))


def _plainer_traffic(scenario: Scenario) -> Iterator[Scenario]:
    for i, table in enumerate(scenario.traffic):
        changes: list[dict[str, Any]] = [
            {"count": max(1, table.count // 2)},
            {"count": max(1, table.count - 1)},
            {"batch": max(1, table.batch // 2)},
            {"batch": max(1, table.batch - 1)},
            {"size_max": None},
            {"size": min(table.size, 8), "size_max": None},
            {"to": "all"},
            {"service": "agreed"},
            {"jitter_ns": 0},
        ]
        for change in changes:
            yield _replaced(scenario, "traffic", i, _with(table, **change))


def _with(struct: _T, **changes: Any) -> _T:
    return msgspec.structs.replace(struct, **changes)
