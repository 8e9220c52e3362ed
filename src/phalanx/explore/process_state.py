"""An actor, its history, and what is on its way to it: one process of the group, by number.

Units from one sender arrive in the order they were sent; between senders there is no order.
Whatever a process does changes its own seat and the ends of the others' queues, nothing else.
So what a seat can do is found once, and a state of the whole group is a few numbers.
"""

from __future__ import annotations

import msgspec

from phalanx.explore.member_history import MemberHistories
from phalanx.explore.memoized_members import GONE, Facts, MemoizedMembers, Place, StepOutcome

Action = tuple[str, int, int, int]
"""What, who, with whom or 0, which frame or 0."""

Move = tuple[Action, int, tuple[int, ...]]
"""An action of a process, the seat it leads to, and the units that it sends."""


class ProcessState(msgspec.Struct, frozen=True, gc=False):
    process: int
    actor: int
    history: int
    inbox: tuple[tuple[int, ...], ...]
    """Per sender, the units on their way."""


class Moves(msgspec.Struct, frozen=True, gc=False):
    """What a seat can do by itself."""

    free: tuple[Move, ...]
    """Take the next unit of a sender; end a collection."""
    tries: tuple[tuple[Move, Move], ...]
    """Take the next unit of a sender and answer it with an attempt to join; or do not hear it."""
    wants: tuple[Place, ...]
    """Frames that it misses and that are not on their way."""
    heard: int
    """Bit mask of the processes of which something is on its way."""
    known: tuple[int, ...]
    """With whom it could break."""
    keeps: bool
    """Whatever it does next, it still holds all frames that it holds now, and is in its view."""
    busy: bool
    gone: bool


class ProcessStates:
    """All seats met so far. `moves[seat]` is None until somebody asks `found(seat)`."""

    def __init__(self, actors: MemoizedMembers, histories: MemberHistories) -> None:
        self.actors = actors
        self.histories = histories
        self.seats: list[ProcessState] = []
        self.moves: list[Moves | None] = []
        self.history: list[int] = []
        self._numbers: dict[ProcessState, int] = {}
        self._puts: dict[tuple[int, int, tuple[int, ...]], int] = {}
        self._taken: dict[tuple[int, str, int], tuple[int, tuple[int, ...]] | None] = {}

    def number(self, seat: ProcessState) -> int:
        number = self._numbers.get(seat)
        if number is None:
            number = self._numbers[seat] = len(self.seats)
            self.seats.append(seat)
            self.moves.append(None)
            self.history.append(seat.history)
        return number

    def facts(self, seat: int) -> Facts:
        """Of the actor in a seat that is not gone."""
        return self.actors.facts[self.seats[seat].actor]

    # -------------------------------------------------------------- what others do to it

    def put(self, seat: int, sender: int, units: tuple[int, ...]) -> int:
        """The seat with more on its way to it."""
        key = (seat, sender, units)
        found = self._puts.get(key)
        if found is None:
            old = self.seats[seat]
            if old.actor == GONE or self.facts(seat).broken:
                found = seat
            else:
                inbox = _with(old.inbox, sender, old.inbox[sender] + units)
                found = self.number(msgspec.structs.replace(old, inbox=inbox))
            self._puts[key] = found
        return found

    def crashed(self, seat: int) -> int:
        """The seat of a process that is no more: what it has seen remains."""
        old = self.seats[seat]
        nothing = ((),) * len(old.inbox)
        return self.number(ProcessState(old.process, GONE, old.history, nothing))

    def lost(self, seat: int, sender: int) -> int:
        """The seat, if all that is on its way from the sender never arrives."""
        old = self.seats[seat]
        return self.number(msgspec.structs.replace(old, inbox=_with(old.inbox, sender, ())))

    # -------------------------------------------------------------- what it does

    def given(self, seat: int, what: str, whom: int) -> tuple[int, tuple[int, ...]] | None:
        """What becomes of a seat that is given something beside its queues, and what it sends;
        None if it minds not at all."""
        key = (seat, what, whom)
        if key in self._taken:
            return self._taken[key]
        old = self.seats[seat]
        outcome = self.actors.do(old.actor, what, whom)
        result = None
        if outcome.actor != old.actor or outcome.units or outcome.events:
            result = self._after(old, outcome, old.inbox), outcome.units
        self._taken[key] = result
        return result

    def found(self, seat: int) -> Moves:
        """What a seat can do; remembered in `moves`."""
        moves = self.moves[seat]
        if moves is None:
            moves = self.moves[seat] = self._find(seat)
        return moves

    def _find(self, number: int) -> Moves:
        seat = self.seats[number]
        p = seat.process
        if seat.actor == GONE or self.facts(number).broken:
            return Moves((), (), (), 0, (), keeps=True, busy=False, gone=True)
        facts = self.facts(number)
        free: list[Move] = []
        tries: list[tuple[Move, Move]] = []
        coming, heard = set(), 0
        for q, queue in enumerate(seat.inbox):
            if not queue:
                continue
            heard |= 1 << q
            coming |= {self.actors.units[unit].place for unit in queue}
            action, rest = ("deliver", p, q, 0), _with(seat.inbox, q, queue[1:])
            outcome = self.actors.do(seat.actor, "take", queue[0])
            move = (action, self._after(seat, outcome, rest), outcome.units)
            if all(self.actors.units[unit].place is not None for unit in outcome.units):
                free.append(move)
            else:
                deaf = self.number(msgspec.structs.replace(seat, inbox=rest))
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

    def own(self, seat: int, what: str, whom: int = 0) -> list[Move]:
        """The move that it makes when told to; none if that changes nothing."""
        done = self.given(seat, what, whom)
        return [((what, self.seats[seat].process, whom, 0), *done)] if done else []

    def drops(self, seat: int) -> list[Move]:
        """The next unit from a sender is lost."""
        old = self.seats[seat]
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
        self, seat: ProcessState, outcome: StepOutcome, inbox: tuple[tuple[int, ...], ...]
    ) -> int:
        history = self.histories.extend(seat.process, seat.history, outcome.events)
        if self.actors.facts[outcome.actor].broken:
            inbox = ((),) * len(inbox)
        return self.number(ProcessState(seat.process, outcome.actor, history, inbox))


def _with(
    inbox: tuple[tuple[int, ...], ...], sender: int, queue: tuple[int, ...]
) -> tuple[tuple[int, ...], ...]:
    return (*inbox[:sender], queue, *inbox[sender + 1 :])
