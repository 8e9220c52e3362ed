"""Breadth-first search through every state of a small group.

The first path found to each kind of violation is a shortest one, of those that reduction leaves.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import pairwise
from time import perf_counter

import msgspec

from phalanx.explore.check_codes import described
from phalanx.explore.member_history import Finding
from phalanx.explore.process_state import Action
from phalanx.explore.settle import Settling
from phalanx.explore.state_space import Options, State, StateSpace
from phalanx.sim.run import without_garbage_collection

EVERY = 4096
"""States between two checks of the clock."""


class FoundViolation(msgspec.Struct, frozen=True):
    """A violation (`check_codes`), and the path that leads to it."""

    check: str
    text: str
    path: tuple[Action, ...]

    def __str__(self) -> str:
        return described(self.check, self.text)


class SearchResult(msgspec.Struct):
    """The result of a search."""

    states: int = 0
    transitions: int = 0
    ends: int = 0
    depth: int = 0
    seconds: float = 0.0
    complete: bool = False
    actors: int = 0
    counts: dict[str, int] = {}
    """How often each check failed. A state that fails is not followed further."""
    violations: list[FoundViolation] = []
    """The first of each kind."""


class SearchLimits(msgspec.Struct, frozen=True):
    seconds: float = float("inf")
    states: float = float("inf")
    violations: float = float("inf")
    """Stop when so many states have failed."""


Watch = Callable[[SearchResult, int], None]
"""Called now and then with the progress and the number of states that wait."""


class Search:
    """One search. `run` may be called once."""

    def __init__(self, options: Options, reduction: bool = True) -> None:
        self.world = StateSpace(options)
        self._reduction = reduction
        self._settling = Settling(self.world)
        self.first = self._settling.begun()
        self._states: list[State] = [self.first]
        self._parents = array("L", [0])
        self.result = SearchResult(states=1)

    def run(self, limits: SearchLimits, watch: Watch | None = None) -> SearchResult:
        """Search all states, or as many as the limits allow."""
        with without_garbage_collection():
            self._run(limits, watch)
        return self.result

    def _run(self, limits: SearchLimits, watch: Watch | None) -> None:
        result, states, parents = self.result, self._states, self._parents
        started, seen = perf_counter(), {self.first}
        at, level, pruned = 0, 1, 0
        while at < len(states):
            if at == level:
                result.depth += 1
                level = len(states)
            if at % EVERY == 0:
                result.seconds = perf_counter() - started
                result.states = len(states) + pruned
                if watch is not None:
                    watch(result, len(states) - at)
                if result.seconds > limits.seconds:
                    break
            if len(states) >= limits.states or sum(result.counts.values()) >= limits.violations:
                break
            for after in self._after(at, seen):
                result.transitions += 1
                if after in seen:
                    continue
                seen.add(after)
                found = self.world.verdict(after)
                if found is None:
                    states.append(after)
                    parents.append(at)
                else:
                    pruned += 1
                    self._failed(found, at, after, [])
            at += 1
        result.states = len(states) + pruned
        result.complete = at == len(states)
        result.seconds = perf_counter() - started
        result.actors = len(self.world.actors.facts)

    def _after(self, at: int, seen: set[State]) -> list[State]:
        """The successors of a state; if it is an end, check it."""
        state = self._states[at]
        if self._reduction:
            chosen = self.world.reduced(state)
            if chosen is not None and any(after not in seen for _, after in chosen):
                return [after for _, after in chosen]
        needed = self.world.needed(state)
        if not needed:
            self.result.ends += 1
            wrong = self._settling.finding(state)
            if wrong is not None:
                self._failed(wrong[0], at, None, wrong[1])
        return [after for _, after in needed + self.world.chances(state)]

    # -------------------------------------------------------------- violations

    def _failed(self, found: Finding, at: int, after: State | None, more: list[Action]) -> None:
        counts = self.result.counts
        counts[found.check] = counts.get(found.check, 0) + 1
        if counts[found.check] > 1:
            return
        path = self._path(at)
        if after is not None:
            path.append(self._action(self._states[at], after))
        self.result.violations.append(FoundViolation(found.check, found.text, (*path, *more)))

    def _path(self, at: int) -> list[Action]:
        """The actions that lead to a state."""
        places = [at]
        while places[-1]:
            places.append(self._parents[places[-1]])
        states = [self._states[place] for place in reversed(places)]
        return [self._action(a, b) for a, b in pairwise(states)]

    def _action(self, before: State, after: State) -> Action:
        steps = self.world.needed(before) + self.world.chances(before)
        return next(action for action, state in steps if state == after)
