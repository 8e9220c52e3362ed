"""States and transitions of a small set, on the class that runs in a server, `SetLog`.

Two members each want one change, of different priority, at the same base. Messages arrive in any
order; `losses` of them may be lost; `crashes` members may stop for good. Time-outs fire
only when nothing else can happen, unless `early` allows some before that. Questions of the monitor
and their answers are delivered at once, with nothing in between, when all else is quiet.
Reports that a state is applied, and that it is stable, arrive at once unless
`stability` is set: they only ever add to what a member knows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from copy import copy
from typing import NamedTuple

import msgspec

from phalanx.core.ids import MemberId
from phalanx.service import effects, inputs
from phalanx.service.entries import (
    APPLICATION_REQUEST,
    PHYSICAL_FAILURE,
    ChangeId,
    RegisterName,
    SetChange,
)
from phalanx.service.messages import Ack, LogMessage, Monitor, MonitorReply, StableUpTo
from phalanx.service.service_times import ServiceTimes
from phalanx.service.set_log import SetLog, TimerName
from phalanx.service.set_state import founded
from phalanx.service.values import Gid

IMPATIENT = ServiceTimes(ack_retries=1, reply_retries=0)
"""One repetition, so that a message that came too soon for its receiver is sent again."""
NAME_OF_CHANGE = {"a": APPLICATION_REQUEST, "b": PHYSICAL_FAILURE}
WATCHES: tuple[type[LogMessage], ...] = (Monitor, MonitorReply)
WAITS: tuple[TimerName, ...] = ("ack", "commit", "election")


class SetSearchOptions(msgspec.Struct, frozen=True):
    """`starters`: which member wants change a and which wants b, the one that goes first."""

    members: int = 3
    starters: tuple[int, int] = (0, 1)
    crashes: int = 0
    losses: int = 0
    early: int = 0
    stability: bool = False
    """Whether reports that a state is applied or stable are messages like others."""

    @property
    def undisturbed(self) -> bool:
        return not (self.crashes or self.losses or self.early)


class InFlight(NamedTuple):
    sender: int
    to: int
    message: LogMessage


class SetSearchState(NamedTuple):
    """Logs and packets by their numbers in the tables of `SetSpace`."""

    logs: tuple[int, ...]
    flight: frozenset[int]
    dead: frozenset[int]
    crashes: int
    early: int
    losses: int


class Stepped(NamedTuple):
    """What a step of one log leads to."""

    log: int
    packets: tuple[int, ...]


def member_ids(count: int) -> tuple[Gid, ...]:
    return tuple(MemberId(f"s{i}") for i in range(count))


def log_key(log: SetLog) -> Hashable:
    """What tells two logs apart. Deadlines are left out: `now` never moves in a search."""
    fields = dict(sorted(vars(log).items()))
    chain = fields.pop("_chain")
    timers = fields.pop("_timers")
    stable = chain.stable.vid if chain.stable is not None else None
    return (chain.vid, stable, tuple(sorted(timers)), *fields.values())


class SetSpace:
    """The transitions of a small set. Every log and every packet is kept once, and every step of a
    log on an input is computed once."""

    def __init__(self, options: SetSearchOptions) -> None:
        self.options = options
        self.ids = member_ids(options.members)
        self._index = {gid: index for index, gid in enumerate(self.ids)}
        self.logs: list[SetLog] = []
        self.packets: list[InFlight] = []
        self._log_numbers: dict[Hashable, int] = {}
        self._packet_numbers: dict[InFlight, int] = {}
        self._steps: dict[tuple[int, Hashable], Stepped] = {}
        a, b = options.starters
        self.wanted = tuple(
            tuple(name for name, at in (("a", a), ("b", b)) if at == index)
            for index in range(options.members)
        )

    def initial(self) -> SetSearchState:
        state = founded("set", self.ids, None)
        record = effects.SetRecord(state, state, ())
        logs = tuple(self._kept(SetLog(gid, record, IMPATIENT, 0)) for gid in self.ids)
        options = self.options
        limits = (options.crashes, options.early, options.losses)
        return SetSearchState(logs, frozenset(), frozenset(), *limits)

    def log(self, state: SetSearchState, i: int) -> SetLog:
        return self.logs[state.logs[i]]

    def successors(self, state: SetSearchState) -> list[tuple[str, SetSearchState]]:
        """All that can happen next, each with a line that says what it is."""
        out = [*self._proposals(state), *self._arrivals(state)]
        quiet = not out
        if quiet or state.early:
            out += self._time_outs(state, quiet)
        if quiet and not out:
            out += self._monitors(state)
        if state.crashes:
            out += self._crashes(state)
        if state.losses:
            left = state._replace(losses=state.losses - 1)
            out += [(f"lost: {self._text(n)}", self._without(left, n)) for n in state.flight]
        return out

    def _alive(self, state: SetSearchState) -> list[int]:
        return [i for i in range(self.options.members) if i not in state.dead]

    def _proposals(self, state: SetSearchState) -> Iterator[tuple[str, SetSearchState]]:
        for i in self._alive(state):
            for name in self.wanted[i]:
                log = self.log(state, i)
                entry = RegisterName(name, name)
                queued = any(entry in change.entries for change in log._queue.changes)
                if queued or name in log.state.names:
                    continue
                number = log.state.vid.number * 2 + (name == "b")
                change = SetChange(ChangeId(self.ids[i], number), NAME_OF_CHANGE[name], (entry,))
                given = inputs.ProposeChange(change)
                yield f"{i} proposes {name}", self._stepped(state, i, given)

    def _arrivals(self, state: SetSearchState) -> Iterator[tuple[str, SetSearchState]]:
        for number in sorted(state.flight):
            packet = self.packets[number]
            rest = self._without(state, number)
            given = inputs.MessageReceived(self.ids[packet.sender], packet.message)
            yield self._text(number), self._stepped(rest, packet.to, given, packet=number)

    def _time_outs(
        self, state: SetSearchState, quiet: bool
    ) -> Iterator[tuple[str, SetSearchState]]:
        left = state.early if quiet else state.early - 1
        for i in self._alive(state):
            for name in WAITS:
                if name in self.log(state, i)._timers:
                    later = self._stepped(state, i, inputs.TimerDue(), name)
                    yield f"{i}: time for {name} is over", later._replace(early=left)

    def _monitors(self, state: SetSearchState) -> Iterator[tuple[str, SetSearchState]]:
        """One member asks; questions and answers are delivered at once."""
        for i in self._alive(state):
            after = self._at_once(self._stepped(state, i, inputs.TimerDue(), "monitor"), WATCHES)
            if after != state:
                yield f"{i} monitors", after

    def _at_once(
        self, state: SetSearchState, kinds: tuple[type[LogMessage], ...]
    ) -> SetSearchState:
        """Deliver packets of these kinds, and those that they lead to."""
        while True:
            mine = [n for n in state.flight if self._is(n, kinds)]
            if not mine:
                return state
            packet = self.packets[min(mine)]
            given = inputs.MessageReceived(self.ids[packet.sender], packet.message)
            rest = self._without(state, min(mine))
            state = self._stepped(rest, packet.to, given, packet=min(mine), settle=False)

    def _is(self, number: int, kinds: tuple[type[LogMessage], ...]) -> bool:
        message = self.packets[number].message
        return isinstance(message, kinds)

    def _crashes(self, state: SetSearchState) -> Iterator[tuple[str, SetSearchState]]:
        for i in self._alive(state):
            flight = frozenset(n for n in state.flight if self.packets[n].to != i)
            dead, left = state.dead | {i}, state.crashes - 1
            yield f"{i} crashes", state._replace(dead=dead, crashes=left, flight=flight)

    def _stepped(
        self,
        state: SetSearchState,
        i: int,
        given: inputs.LogInput,
        timer: TimerName | None = None,
        packet: int | None = None,
        settle: bool = True,
    ) -> SetSearchState:
        """The state after member i has carried out an input."""
        event: Hashable = packet if packet is not None else (timer, given)
        done = self._steps.get((state.logs[i], event))
        if done is None:
            done = self._step(state.logs[i], i, given, timer)
            self._steps[(state.logs[i], event)] = done
        sent = [n for n in done.packets if self.packets[n].to not in state.dead]
        logs = (*state.logs[:i], done.log, *state.logs[i + 1 :])
        after = state._replace(logs=logs, flight=state.flight.union(sent))
        if settle and not self.options.stability:
            return self._settled(after)
        return after

    def _settled(self, state: SetSearchState) -> SetSearchState:
        """Reports that a state is applied, or stable, arrive at once."""
        while True:
            mine = sorted(n for n in state.flight if self._is_report(n))
            if not mine:
                return state
            packet = self.packets[mine[0]]
            given = inputs.MessageReceived(self.ids[packet.sender], packet.message)
            rest = self._without(state, mine[0])
            state = self._stepped(rest, packet.to, given, packet=mine[0], settle=False)

    def _is_report(self, number: int) -> bool:
        message = self.packets[number].message
        return isinstance(message, StableUpTo) or (
            isinstance(message, Ack) and message.status == "applied"
        )

    def _step(
        self, number: int, i: int, given: inputs.LogInput, timer: TimerName | None
    ) -> Stepped:
        log = copy(self.logs[number])
        if timer is not None:
            log._timers = {**log._timers, timer: 0}
        sent = []
        for effect in log.step(0, given):
            if isinstance(effect, effects.Send) and effect.to in self._index:
                assert isinstance(effect.message, LogMessage)
                sent.append(self._packet(InFlight(i, self._index[effect.to], effect.message)))
        return Stepped(self._kept(log), tuple(sent))

    def _kept(self, log: SetLog) -> int:
        number = self._log_numbers.setdefault(log_key(log), len(self.logs))
        if number == len(self.logs):
            self.logs.append(log)
        return number

    def _packet(self, packet: InFlight) -> int:
        number = self._packet_numbers.setdefault(packet, len(self.packets))
        if number == len(self.packets):
            self.packets.append(packet)
        return number

    @staticmethod
    def _without(state: SetSearchState, number: int) -> SetSearchState:
        return state._replace(flight=state.flight - {number})

    def _text(self, number: int) -> str:
        sender, to, message = self.packets[number]
        what = getattr(message, "status", "")
        return f"{sender} -> {to} {type(message).__name__} {what}".rstrip()
