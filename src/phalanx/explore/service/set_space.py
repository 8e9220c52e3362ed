"""States and transitions of a small set, on the class that runs in a server, `SetLog`.

Two members each want one change, of different priority, at the same base. Messages arrive in any
order; `losses` of them may be lost; `crashes` members may stop for good. Time-outs fire
only when nothing else can happen, unless `early` allows some before that; a member may suspect
another one that is alive, `suspicions` times, and `restarts` members come back from their disks at
once. Questions of the monitor
and their answers are delivered at once, with nothing in between, when all else is quiet.
Reports that a state is applied, and that it is stable, arrive at once unless
`stability` is set: they only ever add to what a member knows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from copy import copy
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from phalanx.core.ids import MemberId
from phalanx.service import effects, inputs
from phalanx.service.entries import (
    APPLICATION_REQUEST,
    PHYSICAL_FAILURE,
    PHYSICAL_REQUEST,
    ChangeId,
    RegisterName,
    SetChange,
)
from phalanx.service.log_timers import TimerName
from phalanx.service.messages import (
    Ack,
    Commit,
    LogMessage,
    MissingCommits,
    Monitor,
    MonitorReply,
    StableUpTo,
)
from phalanx.service.service_times import ServiceTimes
from phalanx.service.set_log import SetLog
from phalanx.service.set_state import founded
from phalanx.service.set_union import united
from phalanx.service.values import Gid

IMPATIENT = ServiceTimes(ack_retries=1, reply_retries=0)
"""One repetition, so that a message that came too soon for its receiver is sent again."""
NAME_OF_CHANGE = {"a": APPLICATION_REQUEST, "b": PHYSICAL_FAILURE}
WATCHES: tuple[type[LogMessage], ...] = (Monitor, MonitorReply)
WAITS: tuple[TimerName, ...] = ("ack", "commit", "election")


class SetSearchOptions(msgspec.Struct, frozen=True):
    """`starters`: which member wants change a and which wants b, the one that goes first. With
    `others` the last members are a component of their own, and member 0 proposes the union of both
    once."""

    members: int = 3
    starters: tuple[int | None, int | None] = (0, 1)
    others: int = 0
    crashes: int = 0
    losses: int = 0
    early: int = 0
    suspicions: int = 0
    restarts: int = 0
    stability: bool = False
    """Whether reports that a state is applied or stable are messages like others."""

    @property
    def undisturbed(self) -> bool:
        faults = self.crashes, self.losses, self.early, self.suspicions, self.restarts
        return not self.others and not any(faults)


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
    suspicions: int
    restarts: int
    unions: int = 0


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
    work = fields.pop("_work")
    work = replace(work, united=None) if work is not None else None
    stable = chain.stable.vid if chain.stable is not None else None
    return (chain.vid, stable, tuple(sorted(timers.names)), work, *fields.values())


def packet_key(packet: InFlight) -> Hashable:
    """What tells two packets apart. The state of a commit follows from its id, and has no hash."""
    match packet.message:
        case Commit(vid=vid, isolated=isolated):
            return packet.sender, packet.to, vid, isolated
        case MissingCommits(base=base, commits=commits, isolated=isolated):
            vids = tuple(commit.vid for commit in commits)
            return packet.sender, packet.to, base, vids, isolated
        case _:
            return packet


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
        self._packet_numbers: dict[Hashable, int] = {}
        self._steps: dict[tuple[int, Hashable], Stepped] = {}
        a, b = options.starters
        self.wanted = tuple(
            tuple(name for name, at in (("a", a), ("b", b)) if at == index)
            for index in range(options.members)
        )

    def initial(self) -> SetSearchState:
        options = self.options
        one = options.members - options.others
        states = [founded("set", self.ids[:one], None), founded("set", self.ids[one:], None)]
        records = [effects.SetRecord(state, state, ()) for state in states]
        logs = tuple(
            self._kept(SetLog(gid, records[index >= one], IMPATIENT, 0))
            for index, gid in enumerate(self.ids)
        )
        faults = (options.suspicions, options.restarts)
        limits = (options.crashes, options.early, options.losses, *faults)
        unions = min(1, options.others)
        return SetSearchState(logs, frozenset(), frozenset(), *limits, unions)

    def log(self, state: SetSearchState, i: int) -> SetLog:
        return self.logs[state.logs[i]]

    def successors(self, state: SetSearchState) -> list[tuple[str, SetSearchState]]:
        """All that can happen next, each with a line that says what it is."""
        out = [*self._proposals(state), *self._union(state), *self._arrivals(state)]
        quiet = not out
        if quiet or state.early:
            out += self._time_outs(state, quiet)
        if quiet and not out:
            out += self._monitors(state)
        if state.crashes:
            out += self._crashes(state)
        if state.suspicions:
            out += self._suspicions(state)
        if state.restarts:
            out += self._restarts(state)
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

    def _union(self, state: SetSearchState) -> Iterator[tuple[str, SetSearchState]]:
        """The union as the servers of both sides agree on it, if its bases are the last states."""
        if state.unions and 0 not in state.dead:
            one, other = self.log(state, 0).state, self.log(state, self.options.members - 1).state
            change = SetChange(ChangeId(self.ids[0], 100 + one.vid.number), PHYSICAL_REQUEST)
            given = inputs.ProposeUnion(change, other.vid, united(one, other, None))
            after = self._stepped(state, 0, given)
            yield "0 proposes the union", after._replace(unions=state.unions - 1)

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
                if name in self.log(state, i)._timers.names:
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

    def _suspicions(self, state: SetSearchState) -> Iterator[tuple[str, SetSearchState]]:
        left = state.suspicions - 1
        for i in self._alive(state):
            log = self.log(state, i)
            for other in log.state.view:
                if other != self.ids[i] and other not in log.isolated:
                    after = self._stepped(state, i, inputs.ServerSuspected(other))
                    line = f"by {i}, {self._index[other]} is suspected"
                    yield line, after._replace(suspicions=left)

    def _restarts(self, state: SetSearchState) -> Iterator[tuple[str, SetSearchState]]:
        """A member comes back with its disk at once; packets to it are only late."""
        for i in self._alive(state):
            begun = SetLog(self.ids[i], self.log(state, i).record(), IMPATIENT, 0)
            logs = (*state.logs[:i], self._kept(begun), *state.logs[i + 1 :])
            if logs != state.logs:
                yield f"{i} restarts", state._replace(logs=logs, restarts=state.restarts - 1)

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
        proposed = given.change.id if isinstance(given, inputs.ProposeUnion) else None
        event: Hashable = proposed or (timer, given)
        if packet is not None:
            event = packet
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
            log._timers = log._timers.armed(timer, 0)
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
        number = self._packet_numbers.setdefault(packet_key(packet), len(self.packets))
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
