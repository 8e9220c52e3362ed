"""The state space of a small group: the possible next steps, with partial-order reduction.

A state is one local state for each process and a budget of the faults that are left. The steps:

    deliver p q    p takes the next unit that q sent; if it answers with an AJ, that costs an
                   attempt, and when there is none left, the unit (an AJ, a mere hint) is lost
    collect p      alpha of p is over
    fetch p q k    p gets frame k of q, which it misses and which is not on its way, from whoever
                   still has it
    attempt p q    p hears a HELLO of q, a stranger, and says AJ: costs an attempt
    break p q      p suspects q: costs a suspicion
    data p         p's user sends a message: costs one
    drop p q       the next unit from q to p is lost: costs a loss
    crash p        costs a crash
    lose p q       all that q, crashed, sent last never reaches p
    notice p q     p suspects q, which has crashed

and, only when none of `deliver`, `collect`, `fetch` and `notice` can happen, in this order:

    fetch p q k    q repeats its last frame, which p lacks without knowing
    ack p          p sends an ack-only frame that others wait for
    answer p       T_change of p is over       speak p   T_view of p is over
    notice p q     q, of p's view, is in another one and will not come back: p hears its HELLO, or
                   suspects it if the HELLO changes nothing

`answer` and `speak` can happen at any time while there are time-outs in the budget, and `ack`
while there are acks: keep-alives that nobody waits for.

Reduction. Actions of different processes commute: each changes one actor, takes from the front
of its own queues and adds to the end of others'. They interfere only over the budget, over a
HELLO or a missing frame (which depend on another's state), over a crash, and over being quiet.
So let p be a process to which something is on its way from every other one, that misses no
frame, that forgets none in its next step, and that can spend nothing; and let nobody crash or
hear HELLOs any more. Nothing that the others do before p acts disables, enables or changes an
action of p, nor is it changed by one: the actions of p are a persistent set (Godefroid 1996),
and it is enough to follow these. All ends of the search are reached that way. What is wrong with
histories is wrong for ever (`histories`), and every state leads to an end, so each kind of
violation is found at an end if it is to be found at all. Should the search ever go round in
a circle, `search` follows everything from a state whose chosen successors are all known.

Symmetry is not used: slots, batches and the choice among views of one epoch go by names and
digests, so a permuted state need not behave as a permutation of the other's behaviour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from phalanx.config import lan
from phalanx.core.effects import Service
from phalanx.explore.member_history import Finding, MemberHistories
from phalanx.explore.memoized_members import MemoizedMembers
from phalanx.explore.process_state import Action, Move, Moves, ProcessState, ProcessStates

State = tuple[int, ...]
"""The local state of each process, then the budget."""
Step = tuple[Action, State]

BUDGET = ("attempts", "suspicions", "crashes", "losses", "data", "timeouts", "acks")
ENDLESS = -1
"""An unlimited amount."""
ATTEMPTS, SUSPICIONS, CRASHES, LOSSES, DATA, TIMEOUTS, ACKS = range(len(BUDGET))


class Options(msgspec.Struct, frozen=True):
    """The group and the faults that a search explores."""

    members: int = 2
    start: tuple[tuple[int, ...], ...] = ()
    """Processes that boot together; by default each boots alone."""
    attempts: int = 0
    suspicions: int = 0
    crashes: int = 0
    losses: int = 0
    data: int = 0
    timeouts: int = 0
    acks: int = 0
    mode: Literal["hold", "flow"] = "hold"
    service: Service = Service.AGREED
    young: bool = False
    """Components have just booted; otherwise all their members have already sent a frame."""

    @property
    def components(self) -> tuple[tuple[int, ...], ...]:
        return self.start or tuple((p,) for p in range(self.members))


class StateSpace:
    """Every state of a small group."""

    def __init__(self, options: Options) -> None:
        n = self.n = options.members
        self.options = options
        self.actors = MemoizedMembers(n, lan(mode=options.mode), options.service)
        self.histories = MemberHistories(options.mode == "hold")
        self.processes = ProcessStates(self.actors, self.histories)
        self._budgets: list[tuple[int, ...]] = []
        self._budget_of: dict[tuple[int, ...], int] = {}
        self._everybody = (1 << n) - 1
        self._others = [tuple(q for q in range(n) if q != p) for p in range(n)]
        self._costs = (
            (SUSPICIONS, self._breaks),
            (DATA, self._data),
            (LOSSES, self.processes.drops),
            (TIMEOUTS, self._timers),
            (CRASHES, self._crashes),
            (ACKS, self._keep_alives),
        )
        self.empty = self._budget((0,) * len(BUDGET))
        self.endless = self._budget((ENDLESS,) + (0,) * (len(BUDGET) - 1))
        self.full = self._budget(tuple(getattr(options, name) for name in BUDGET))

    def boot(self) -> State:
        """The state in which all processes have started and nothing else has happened."""
        states = [0] * self.n
        for component in self.options.components:
            for p in component:
                first = self.actors.boot(p, component)
                assert not first.units
                history = self.histories.begin(p, first.events)
                states[p] = self.processes.number(
                    ProcessState(p, first.actor, history, ((),) * self.n)
                )
        return (*states, self.full)

    def verdict(self, state: State) -> Finding | None:
        """The first violation in the histories of the members."""
        return self.histories.verdict(tuple([self.processes.history[s] for s in state[:-1]]))

    # -------------------------------------------------------------- next steps

    def needed(self, state: State) -> list[Step]:
        """Steps that happen sooner or later without a fault; none at an end."""
        moves = self.moves(state)
        free = self._free(state, moves)
        return free or next((tier for tier in self._quiet(state, moves) if tier), [])

    def chances(self, state: State) -> list[Step]:
        """Steps that may or may not happen: faults and losses."""
        moves, out = self.moves(state), []
        if state[-1] != self.empty:
            out += self._spent(state, moves)
        if any(m.gone for m in moves):
            out += self._lost(state, moves)
        return out

    def reduced(self, state: State) -> list[Step] | None:
        """A persistent set of the steps that is enough to follow, if there is one."""
        budget = self._budgets[state[-1]]
        if any(budget[CRASHES:]):
            return None
        moves = self.moves(state)
        if any(m.gone for m in moves):
            return None
        for p, m in enumerate(moves):
            if (
                m.heard == self._everybody ^ 1 << p
                and m.keeps
                and not m.wants
                and not m.tries
                and not (budget[ATTEMPTS] and not m.busy)
                and not (budget[SUSPICIONS] and m.known)
            ):
                return [(act, self.moved(state, p, local, units)) for act, local, units in m.free]
        return None

    def moved(self, state: State, p: int, local: int, units: tuple[int, ...]) -> State:
        """The state after a process took another local state and sent units."""
        new = list(state)
        new[p] = local
        if units:
            put = self.processes.put
            for q in self._others[p]:
                new[q] = put(new[q], p, units)
        return tuple(new)

    def moves(self, state: State) -> list[Moves]:
        found, known = self.processes.found, self.processes.moves
        return [known[local] or found(local) for local in state[:-1]]

    def _free(self, state: State, moves: list[Moves]) -> list[Step]:
        out: list[Step] = []
        for p, m in enumerate(moves):
            for action, local, units in m.free:
                out.append((action, self.moved(state, p, local, units)))
            for paid, unheard in m.tries:
                hears = self._budgets[state[-1]][ATTEMPTS]
                action, local, units = paid if hears else unheard
                step = (action, self.moved(state, p, local, units))
                out += self._paid(ATTEMPTS, [step]) if hears else [step]
            for q, number in m.wants:
                for r in self._others[p]:
                    if not moves[r].gone:
                        unit = self.processes.facts(state[r]).held.get((q, number))
                        if unit is not None:
                            out += self._given(state, ("fetch", p, q, number), "take", unit)
                            break
        if any(m.gone for m in moves):
            for p, q in self._pairs(moves):
                if moves[q].gone and q in self.processes.facts(state[p]).known:
                    out += self._given(state, ("notice", p, q, 0), "break", q)
        return out

    def _given(self, state: State, action: Action, what: str, whom: int) -> list[Step]:
        done = self.processes.given(state[action[1]], what, whom)
        return [] if done is None else [(action, self.moved(state, action[1], *done))]

    def _pairs(self, moves: list[Moves]) -> Iterator[tuple[int, int]]:
        """A live process and another."""
        for p, m in enumerate(moves):
            if not m.gone:
                for q in self._others[p]:
                    yield p, q

    def _quiet(self, state: State, moves: list[Moves]) -> Iterator[list[Step]]:
        """Steps that happen when no other can; each kind only if none before it can."""
        facts = self.processes.facts
        again: list[Step] = []
        for p, q in self._pairs(moves):
            if not moves[q].gone:
                last = facts(state[q]).last
                here, unit = facts(state[p]), facts(state[q]).held.get((q, last))
                if here.have[q] < last and unit is not None and (q, last) not in here.waiting:
                    again += self._given(state, ("fetch", p, q, last), "take", unit)
        yield again
        yield self._each(state, moves, self._acks)
        late = self._each(state, moves, self._timers)
        for p, q in self._pairs(moves):
            if not moves[q].gone and q in facts(state[p]).known:
                if facts(state[q]).view.id != facts(state[p]).view.id and not moves[p].busy:
                    action, hello = ("notice", p, q, 0), facts(state[q]).hello
                    heard = self._given(state, action, "take", hello)
                    late += heard or self._given(state, action, "break", q)
        yield late

    def _each(
        self, state: State, moves: list[Moves], find: Callable[[int], list[Move]]
    ) -> list[Step]:
        """The moves of one kind of all live processes."""
        return [
            (action, self.moved(state, p, local, units))
            for p, m in enumerate(moves)
            if not m.gone
            for action, local, units in find(state[p])
        ]

    def _acks(self, local: int) -> list[Move]:
        return self.processes.own(local, "ack") if self.processes.facts(local).owes else []

    def _keep_alives(self, local: int) -> list[Move]:
        return self.processes.own(local, "ack")

    def _timers(self, local: int) -> list[Move]:
        facts, out = self.processes.facts(local), []
        if facts.awaits:
            out += self.processes.own(local, "answer")
        if facts.listens:
            out += self.processes.own(local, "speak")
        return out

    def _breaks(self, local: int) -> list[Move]:
        known = self.processes.facts(local).known
        return [move for q in known for move in self.processes.own(local, "break", q)]

    def _data(self, local: int) -> list[Move]:
        return self.processes.own(local, "data")

    def _crashes(self, local: int) -> list[Move]:
        return [
            (
                ("crash", self.processes.states[local].process, 0, 0),
                self.processes.crashed(local),
                (),
            )
        ]

    # -------------------------------------------------------------- faults

    def _spent(self, state: State, moves: list[Moves]) -> list[Step]:
        budget, out = self._budgets[state[-1]], []
        for item, find in self._costs:
            if budget[item]:
                out += self._paid(item, self._each(state, moves, find))
        if budget[ATTEMPTS]:
            out += self._paid(ATTEMPTS, self.attempts(state))
        return out

    def attempts(self, state: State) -> list[Step]:
        """Attempts to join between processes of different views, regardless of the budget."""
        moves, facts, out = self.moves(state), self.processes.facts, []
        for p, q in self._pairs(moves):
            if moves[q].gone or moves[p].busy or self.actors.ids[q] in facts(state[p]).view.members:
                continue
            hello = facts(state[q]).hello
            out += self._given(state, ("attempt", p, q, 0), "take", hello)
        return out

    def _lost(self, state: State, moves: list[Moves]) -> list[Step]:
        out = []
        for p, q in self._pairs(moves):
            if moves[q].gone and moves[p].heard >> q & 1:
                local = self.processes.lost(state[p], q)
                out.append((("lose", p, q, 0), self.moved(state, p, local, ())))
        return out

    def _paid(self, item: int, steps: list[Step]) -> list[Step]:
        """The same steps, charged to the budget."""
        return [(action, (*state[:-1], self._less(state[-1], item))) for action, state in steps]

    def _less(self, budget: int, item: int) -> int:
        left = list(self._budgets[budget])
        left[item] -= left[item] > 0
        return self._budget(tuple(left))

    def _budget(self, amounts: tuple[int, ...]) -> int:
        number = self._budget_of.get(amounts)
        if number is None:
            number = self._budget_of[amounts] = len(self._budgets)
            self._budgets.append(amounts)
        return number
