"""Breadth-first search of all states of a small set, and its checks (docs/service/rules.md).

At the end of every path: DIV, a live member has another one in its view that has gone another way;
LAG, it has one in its view that is behind, or ahead, and nobody brings them together; STUCK,
somebody waits although nothing will come; SPLIT, the set forked although nothing failed; LOST, a
change that a live member wants is not in its state. In every state: C4, a member takes a state for
stable that another member of its view has not applied; GP, two members have applied different
commits on one base, and each is in the commit of the other.
"""

from __future__ import annotations

from collections import deque
from itertools import permutations
from time import perf_counter

import msgspec

from phalanx.explore.service.set_space import (
    SetSearchOptions,
    SetSearchState,
    SetSpace,
)
from phalanx.service.set_log import SetLog
from phalanx.sim.run import without_garbage_collection

STATES_BETWEEN_LOOKS = 1024
FAULTS = ("crashes", "restarts", "suspected")
"""How the lines of steps end that need not happen."""


class SetSearchResult(msgspec.Struct):
    """The result of a search; `complete` if every state was seen."""

    options: SetSearchOptions
    states: int = 0
    transitions: int = 0
    ends: int = 0
    seconds: float = 0.0
    complete: bool = False
    violations: dict[str, int] = {}
    paths: dict[str, list[str]] = {}
    """The first path to each kind of violation, a shortest one."""


def search_set(
    options: SetSearchOptions, seconds: float = 60.0, until: str | None = None
) -> SetSearchResult:
    """All states within the time, or as many as it allows, or up to the first violation `until`."""
    with without_garbage_collection():
        return _search(options, seconds, until)


def _search(options: SetSearchOptions, seconds: float, until: str | None) -> SetSearchResult:
    space = SetSpace(options)
    pairs = PairChecks(space)
    first = space.initial()
    result = SetSearchResult(options)
    came_from: dict[SetSearchState, tuple[SetSearchState, str] | None] = {first: None}
    open_states = deque([first])
    started = perf_counter()
    while open_states and until not in result.violations:
        if result.states % STATES_BETWEEN_LOOKS == 0 and perf_counter() - started > seconds:
            break
        state = open_states.popleft()
        result.states += 1
        following = space.successors(state)
        result.transitions += len(following)
        found = pairs.broken(state)
        if all(line.endswith(FAULTS) for line, _ in following):
            result.ends += 1
            found = found or verdict(space, state)
        if found:
            result.violations[found] = result.violations.get(found, 0) + 1
            if found not in result.paths:
                result.paths[found] = _path(came_from, state)
        for line, after in following:
            if after not in came_from:
                came_from[after] = (state, line)
                open_states.append(after)
    result.complete = not open_states
    result.seconds = perf_counter() - started
    return result


def _path(
    came_from: dict[SetSearchState, tuple[SetSearchState, str] | None], state: SetSearchState
) -> list[str]:
    lines = []
    while (step := came_from[state]) is not None:
        state, line = step
        lines.append(line)
    return lines[::-1]


class PairChecks:
    """What must hold in every state, of each pair of members; every pair is looked at once."""

    def __init__(self, space: SetSpace) -> None:
        self._space = space
        self._seen: dict[tuple[int, int], str | None] = {}

    def broken(self, state: SetSearchState) -> str | None:
        for one, other in permutations(state.logs, 2):
            found = self._seen.get((one, other), "")
            if found == "":
                found = self._seen[(one, other)] = pair_verdict(
                    self._space.logs[one], self._space.logs[other]
                )
            if found is not None:
                return found
        return None


def pair_verdict(one: SetLog, other: SetLog) -> str | None:
    """Rules C4 and GP of two members."""
    stable = one.stable
    if stable is not None and other.me in stable.view:
        applied = {other.state.vid, *(commit.vid for commit in other.record().commits)}
        if stable.vid not in applied and other.state.vid.number <= stable.vid.number:
            return "C4"
    for mine in one.record().commits:
        for theirs in other.record().commits:
            if mine.vid != theirs.vid and not set(mine.bases).isdisjoint(theirs.bases):
                if other.me in mine.members and one.me in theirs.members:
                    return "GP"
    return None


def verdict(space: SetSpace, state: SetSearchState) -> str | None:
    """What is wrong at the end of a path."""
    logs = [space.logs[number] for number in state.logs]
    live = [i for i in range(space.options.members) if i not in state.dead]
    if any(not logs[i].is_idle for i in live):
        return "STUCK"
    for p in live:
        for q in live:
            one, other = logs[p]._chain, logs[q]._chain
            if space.ids[q] in one.view and one.vid != other.vid:
                return "DIV" if one.relation(other.vid) == "diverged" else "LAG"
    if space.options.undisturbed and any(
        len(logs[i].state.view) != space.options.members for i in live
    ):
        return "SPLIT"
    if any(name not in logs[i].state.names for i in live for name in space.wanted[i]):
        return "LOST"
    return None
