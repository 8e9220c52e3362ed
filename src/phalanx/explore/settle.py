"""From an end of the search to one common view, and what must hold on the way.

An end is a state in which nothing need happen: no frame is on its way or missing, no timer runs.
There nobody may be stuck in a change (J4), everybody has delivered its own messages (J6), and
those in one view have delivered the same (J2f). From there on strangers hear of each other, as
often as it takes, one pair at a time, until all live processes are in one view (J8). Which of
the things that can happen does is fixed, so the way is a function of the state.
"""

from __future__ import annotations

from itertools import combinations

from phalanx.explore.member_history import Finding
from phalanx.explore.process_state import Action
from phalanx.explore.state_space import State, StateSpace

STEPS_MAX = 5_000
"""More steps than this between two attempts to join are held for endless."""
SETTLE: Action = ("settle", 0, 0, 0)
"""Stands in a path where an end is left for a common view."""
RANKED = ("deliver", "collect", "fetch", "notice", "ack", "answer", "speak")
"""What comes first when several things can happen."""


class Settling:
    """Settles states of one world; remembers those that settle well."""

    def __init__(self, world: StateSpace) -> None:
        self._world = world
        self._well: set[State] = set()

    def begun(self) -> State:
        """Where a search starts: after the boot, or when all members of components have spoken."""
        state = self._world.boot()
        if self._world.options.young:
            return state
        settled, _ = self.drained((*state[:-1], self._world.empty))
        return (*settled[:-1], self._world.full)

    def drained(self, state: State) -> tuple[State, list[Action]]:
        """Where everything that need happen leads to, and how; nothing is spent."""
        path: list[Action] = []
        while True:
            needed = self._world.needed(state)
            if not needed or len(path) > STEPS_MAX:
                return state, path
            action, state = min(needed, key=_rank)
            path.append(action)

    def finding(self, end: State) -> tuple[Finding, list[Action]] | None:
        """What is wrong at an end or after it, and what leads there from the end."""
        found = self._at_end(end)
        if found is not None:
            return found, []
        state = (*end[:-1], self._world.endless)
        path = [SETTLE]
        passed: list[State] = []
        for _ in range(4 + 2 * self._world.n):  # property bounded-views
            if state in self._well:
                break
            passed.append(state)
            if self._is_united(state):
                break
            tries = self._world.attempts(state)
            if not tries:
                return Finding("J8", f"no two can find each other: {self._shown(state)}"), path
            action, state = tries[0]
            state, more = self.drained(state)
            path += [action, *more]
            if len(more) > STEPS_MAX:
                return Finding("J4", f"it does not end: {self._shown(state)}"), path
            found = self._world.verdict(state) or self._at_end(state)
            if found is not None:
                return found, path
        else:
            return Finding("J8", f"no common view: {self._shown(state)}"), path
        self._well.update(passed)
        return None

    def _at_end(self, state: State) -> Finding | None:
        """J4, J6 and J2f: what must hold where nothing need happen any more."""
        seats, stories = self._world.seats, self._world.histories.stories
        live = [p for p, m in enumerate(self._world.moves(state)) if not m.gone]
        for p in live:
            facts = seats.facts(state[p])
            if not facts.resting:
                return Finding("J4", f"m{p} is stuck: {self._shown(state)}")
            told = {m for done in stories[seats.history[state[p]]].delivered for m in done}
            for number in range(1, facts.accepted + 1):
                if (p, number) not in told:
                    return Finding("J6", f"m{p} has not delivered its own message {number}")
        for p, q in combinations(live, 2):
            one, two = (stories[seats.history[state[r]]] for r in (p, q))
            if one.views[-1].view == two.views[-1].view:
                if set(one.delivered[-1]) != set(two.delivered[-1]):
                    return Finding("J2f", f"m{p} and m{q} deliver different messages in the end")
        return None

    def _is_united(self, state: State) -> bool:
        moves = self._world.moves(state)
        live = [p for p, m in enumerate(moves) if not m.gone]
        views = {self._world.seats.facts(state[p]).view for p in live}
        return len(views) <= 1 and all(len(view.members) == len(live) for view in views)

    def _shown(self, state: State) -> str:
        """Where everybody is, in a line."""
        out = []
        for p, m in enumerate(self._world.moves(state)):
            if not m.gone:
                view = self._world.seats.facts(state[p]).view
                names = " ".join(member.name for member in view.members)
                out.append(f"m{p} in {view.id} ({names}){' changing' if m.busy else ''}")
        return "; ".join(out)


def _rank(step: tuple[Action, State]) -> tuple[int, Action]:
    return RANKED.index(step[0][0]), step[0]
