"""Local states of one process: its member, its history, and the units in flight to it, by number.

Units from one sender arrive in the order they were sent; between senders there is no order.
An action of a process changes only its own local state and the ends of the others' queues. So the
moves of a local state are computed once, and a state of the whole group is a few numbers.
"""

from __future__ import annotations

import msgspec

from phalanx.explore.member_history import MemberHistories
from phalanx.explore.memoized_members import GONE, Facts, MemoizedMembers, Place, StepOutcome

Action = tuple[str, int, int, int]
"""The action, the process, the other process or 0, the frame or 0."""

Move = tuple[Action, int, tuple[int, ...]]
"""An action of a process, the local state it leads to, and the units that it sends."""


class ProcessState(msgspec.Struct, frozen=True, gc=False):
    process: int
    actor: int
    history: int
    inbox: tuple[tuple[int, ...], ...]
    """Per sender, the units in flight."""


class Moves(msgspec.Struct, frozen=True, gc=False):
    """The moves that a process can make from a local state."""

    free: tuple[Move, ...]
    """Take the next unit of a sender; end a collection."""
    tries: tuple[tuple[Move, Move], ...]
    """Take the next unit of a sender and answer it with an attempt to join; or do not hear it."""
    wants: tuple[Place, ...]
    """Frames that it misses and that are not in flight."""
    heard: int
    """Bit mask of the processes from which a unit is in flight."""
    known: tuple[int, ...]
    """The processes that it could suspect."""
    keeps: bool
    """Each free move keeps all frames that it holds now, and its view."""
    busy: bool
    gone: bool


class ProcessStates:
    """All local states met so far. `moves[local]` is None until `found(local)` is called."""

    def __init__(self, actors: MemoizedMembers, histories: MemberHistories) -> None:
        self.actors = actors
        self.histories = histories
        self.states: list[ProcessState] = []
        self.moves: list[Moves | None] = []
        self.history: list[int] = []
        self._numbers: dict[ProcessState, int] = {}
        self._puts: dict[tuple[int, int, tuple[int, ...]], int] = {}
        self._taken: dict[tuple[int, str, int], tuple[int, tuple[int, ...]] | None] = {}

    def number(self, local: ProcessState) -> int:
        number = self._numbers.get(local)
        if number is None:
            number = self._numbers[local] = len(self.states)
            self.states.append(local)
            self.moves.append(None)
            self.history.append(local.history)
        return number

    def facts(self, local: int) -> Facts:
        """The facts about the member of a local state that is not gone."""
        return self.actors.facts[self.states[local].actor]

    # -------------------------------------------------------------- caused by others

    def put(self, local: int, sender: int, units: tuple[int, ...]) -> int:
        """The local state with more units in flight to it."""
        key = (local, sender, units)
        found = self._puts.get(key)
        if found is None:
            old = self.states[local]
            if old.actor == GONE or self.facts(local).broken:
                found = local
            else:
                inbox = _with(old.inbox, sender, old.inbox[sender] + units)
                found = self.number(msgspec.structs.replace(old, inbox=inbox))
            self._puts[key] = found
        return found

    def crashed(self, local: int) -> int:
        """The local state after a crash: the history remains."""
        old = self.states[local]
        nothing = ((),) * len(old.inbox)
        return self.number(ProcessState(old.process, GONE, old.history, nothing))

    def lost(self, local: int, sender: int) -> int:
        """The local state after the loss of everything in flight from the sender."""
        old = self.states[local]
        return self.number(msgspec.structs.replace(old, inbox=_with(old.inbox, sender, ())))

    # -------------------------------------------------------------- own moves

    def given(self, local: int, what: str, whom: int) -> tuple[int, tuple[int, ...]] | None:
        """The local state after an input from outside its queues, and the units that it sends;
        None if the input changes nothing."""
        key = (local, what, whom)
        if key in self._taken:
            return self._taken[key]
        old = self.states[local]
        outcome = self.actors.do(old.actor, what, whom)
        result = None
        if outcome.actor != old.actor or outcome.units or outcome.events:
            result = self._after(old, outcome, old.inbox), outcome.units
        self._taken[key] = result
        return result

    def found(self, local: int) -> Moves:
        """The moves of a local state; remembered in `moves`."""
        moves = self.moves[local]
        if moves is None:
            moves = self.moves[local] = self._find(local)
        return moves

    def _find(self, number: int) -> Moves:
        local = self.states[number]
        p = local.process
        if local.actor == GONE or self.facts(number).broken:
            return Moves((), (), (), 0, (), keeps=True, busy=False, gone=True)
        facts = self.facts(number)
        free: list[Move] = []
        tries: list[tuple[Move, Move]] = []
        coming, heard = set(), 0
        for q, queue in enumerate(local.inbox):
            if not queue:
                continue
            heard |= 1 << q
            coming |= {self.actors.units[unit].place for unit in queue}
            action, rest = ("deliver", p, q, 0), _with(local.inbox, q, queue[1:])
            outcome = self.actors.do(local.actor, "take", queue[0])
            move = (action, self._after(local, outcome, rest), outcome.units)
            if all(self.actors.units[unit].place is not None for unit in outcome.units):
                free.append(move)
            else:
                deaf = self.number(msgspec.structs.replace(local, inbox=rest))
                tries.append((move, (action, deaf, ())))
        if facts.collecting:
            free += self.own(number, "collect")
        wants = tuple(place for place in facts.missing if place not in coming)
        keeps = all(
            facts.held.keys() <= self.facts(after).held.keys()
            and facts.view.id == self.facts(after).view.id
            for _, after, _ in free
        )
        moves = (tuple(free), tuple(tries), wants)
        return Moves(*moves, heard, facts.known, keeps, facts.busy, gone=False)

    def own(self, local: int, what: str, whom: int = 0) -> list[Move]:
        """The move caused by this input; none if the input changes nothing."""
        done = self.given(local, what, whom)
        return [((what, self.states[local].process, whom, 0), *done)] if done else []

    def drops(self, local: int) -> list[Move]:
        """The next unit from a sender is lost."""
        old = self.states[local]
        return [
            (
                ("drop", old.process, q, 0),
                self.number(msgspec.structs.replace(old, inbox=_with(old.inbox, q, queue[1:]))),
                (),
            )
            for q, queue in enumerate(old.inbox)
            if queue
        ]

    def _after(
        self, local: ProcessState, outcome: StepOutcome, inbox: tuple[tuple[int, ...], ...]
    ) -> int:
        history = self.histories.extend(local.process, local.history, outcome.events)
        if self.actors.facts[outcome.actor].broken:
            inbox = ((),) * len(inbox)
        return self.number(ProcessState(local.process, outcome.actor, history, inbox))


def _with(
    inbox: tuple[tuple[int, ...], ...], sender: int, queue: tuple[int, ...]
) -> tuple[tuple[int, ...], ...]:
    return (*inbox[:sender], queue, *inbox[sender + 1 :])
