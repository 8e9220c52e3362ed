"""Settle a state of the search: let a quiet group join into one view, and check it on the way.

An end of the search is a state in which no frame is in flight or missing and no timer runs. There
the checks of `end_checks` must hold (J4, J6, J2f). From there on, processes of different views
hear of each other, one pair at a time, until all live processes are in one view (J8). The choice
among possible steps is fixed, so the path is a function of the state.
"""

from __future__ import annotations

from phalanx.explore.end_checks import FinalState, described_views, end_finding, is_united
from phalanx.explore.member_history import Finding
from phalanx.explore.process_state import Action
from phalanx.explore.state_space import State, StateSpace

STEPS_MAX = 5_000
"""More steps than this between two attempts to join are reported as endless."""
SETTLE: Action = ("settle", 0, 0, 0)
"""Marks the point of a path where settling begins."""
RANKED = ("deliver", "collect", "fetch", "notice", "ack", "answer", "speak")
"""The order in which settling takes possible steps."""


class Settling:
    """Settles states of one state space; remembers those that settle without a finding."""

    def __init__(self, world: StateSpace) -> None:
        self._world = world
        self._well: set[State] = set()

    def begun(self) -> State:
        """The first state of a search: after the boot, or after every member has sent a frame."""
        state = self._world.boot()
        if self._world.options.young:
            return state
        settled, _ = self.drained((*state[:-1], self._world.empty))
        return (*settled[:-1], self._world.full)

    def drained(self, state: State) -> tuple[State, list[Action]]:
        """The end that the needed steps lead to, and the path; no fault is spent."""
        path: list[Action] = []
        while True:
            needed = self._world.needed(state)
            if not needed or len(path) > STEPS_MAX:
                return state, path
            action, state = min(needed, key=_rank)
            path.append(action)

    def finding(self, end: State) -> tuple[Finding, list[Action]] | None:
        """The first violation at an end or after it, and the path to it from the end."""
        found = end_finding(self._final(end))
        if found is not None:
            return found, []
        state = (*end[:-1], self._world.endless)
        path = [SETTLE]
        passed: list[State] = []
        for _ in range(4 + 2 * self._world.n):  # property bounded-views
            if state in self._well:
                break
            passed.append(state)
            if is_united(self._final(state)):
                break
            tries = self._world.attempts(state)
            if not tries:
                return Finding("J8", f"no two can find each other: {self._views(state)}"), path
            action, state = tries[0]
            state, more = self.drained(state)
            path += [action, *more]
            if len(more) > STEPS_MAX:
                return Finding("J4", f"it does not end: {self._views(state)}"), path
            found = self._world.verdict(state) or end_finding(self._final(state))
            if found is not None:
                return found, path
        else:
            return Finding("J8", f"no common view: {self._views(state)}"), path
        self._well.update(passed)
        return None

    def _final(self, state: State) -> list[FinalState]:
        processes, stories = self._world.processes, self._world.histories.stories
        final = []
        for p, m in enumerate(self._world.moves(state)):
            if not m.gone:
                facts, history = processes.facts(state[p]), stories[processes.history[state[p]]]
                shown = (facts.view, m.busy, facts.resting, facts.accepted)
                final.append(FinalState(p, *shown, history))
        return final

    def _views(self, state: State) -> str:
        return described_views(self._final(state))


def _rank(step: tuple[Action, State]) -> tuple[int, Action]:
    return RANKED.index(step[0][0]), step[0]
