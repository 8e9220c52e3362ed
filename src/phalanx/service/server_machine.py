"""One server (S3's mserver) with all its set memberships.

It carries each input to the log of its set, then looks at the states and proposes what is missing:
parents (`hierarchy`), servers that ask to enter, unions with other components. Proposals are made
again and again until the state shows them, so nothing depends on a single one.

Unions (rule H3): the speaker of each component announces it. The one whose component leads offers
its state to the other speaker, which answers with its own if both may unite; the first then
proposes the union to the members of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from phalanx.service import effects, hierarchy, inputs, messages
from phalanx.service.effects import LogEffect, Multicast, Send, ServiceEffect, SetRecord
from phalanx.service.entries import (
    APPLICATION_REQUEST,
    PHYSICAL_REQUEST,
    AddServer,
    ChangeId,
    Entry,
    RemoveServer,
    SetChange,
)
from phalanx.service.group_messages import GroupMessage
from phalanx.service.group_server import GroupServer
from phalanx.service.inputs import MessageReceived, ProposeChange, ProposeUnion, TimerDue
from phalanx.service.service_times import ServiceTimes
from phalanx.service.set_joiner import SetJoiner
from phalanx.service.set_log import SetLog
from phalanx.service.set_state import founded
from phalanx.service.set_tree import SetTree
from phalanx.service.set_union import leads, united
from phalanx.service.values import SERVERS_MAX, Gid, SetState, Vid

Effects = list[ServiceEffect]
ServerInput = MessageReceived | TimerDue | inputs.ServerSuspected
ROUNDS_MAX = 64
"""Times that one step looks at its states again because it has changed them."""


class Mserver:
    """See the module. `logs` holds the sets that this server is a member of."""

    def __init__(
        self,
        me: Gid,
        topology: SetTree,
        records: Mapping[str, SetRecord],
        times: ServiceTimes,
        now: int,
    ) -> None:
        self.me = me
        self.topology = topology
        self.logs: dict[str, SetLog] = {
            name: SetLog(me, record, times, now) for name, record in sorted(records.items())
        }
        self.joiners: dict[str, SetJoiner] = {}
        self.groups = GroupServer(me, topology, times)
        self._times = times
        self._changes = 0
        self._proposed: dict[str, Vid] = {}
        self._asking: dict[str, dict[Gid, int]] = {}
        self._leaving: set[str] = set()
        self._tick_at = now
        self._look = True
        self.groups.follow(self.logs)
        self.groups.looks.update(self.logs)

    # -------------------------------------------------------------- what others may read

    def deadline(self) -> int:
        logs = [log.deadline() for log in self.logs.values()]
        joins = [joiner.deadline() for joiner in self.joiners.values()]
        return min([self._tick_at, self.groups.deadline(), *logs, *joins])

    def states(self) -> dict[str, SetState]:
        """The last state of each set."""
        return {name: log.state for name, log in self.logs.items()}

    def leave(self, name: str) -> None:
        """Leave a set for good (rule H7)."""
        self._leaving.add(name)

    # -------------------------------------------------------------- inputs

    def step(self, now: int, given: ServerInput) -> Effects:
        """Carry out one input."""
        return self.steps(now, (given,))

    def steps(self, now: int, given: Sequence[ServerInput]) -> Effects:
        """Carry out inputs that have come together, then look at what has become of them."""
        out: Effects = []
        for each in given:
            match each:
                case MessageReceived(sender, message):
                    out += self._received(now, sender, message)
                case TimerDue():
                    out += self._due(now)
                case inputs.ServerSuspected():
                    for name in sorted(self.logs):
                        out += self._log_step(now, name, each)
        for _ in range(ROUNDS_MAX):
            if not self._look and not self.groups.looks:
                break
            if self._look:
                self._look = False
                self.groups.follow(self.logs)
                out += self._duties(now)
            for name in sorted(self.groups.looks):
                out += self._groups(now, self.groups.look(now, self.logs, name))
                if name in self.logs and self._may_propose(name):
                    out += self._propose_groups(now, name)
        return out

    def _groups(self, now: int, given: Effects) -> Effects:
        """What the groups ask of this server's own logs is done here; all else goes out."""
        out: Effects = []
        for effect in given:
            if isinstance(effect, effects.ConfirmSet):
                if effect.set in self.logs:
                    out += self._log_step(now, effect.set, inputs.ConfirmAnswers(effect.token))
                else:
                    self.groups.confirmed(effect.token, None)
            else:
                out.append(effect)
        return out

    def _propose_groups(self, now: int, name: str) -> Effects:
        entries, more = self.groups.entries(now, self.logs, name)
        out = self._groups(now, more)
        if entries:
            out += self._propose(now, name, tuple(entries), APPLICATION_REQUEST)
        return out

    def _received(self, now: int, sender: Gid, message: messages.ServiceMessage) -> Effects:
        if isinstance(message, GroupMessage):
            if sender == self.me:
                return []
            return self._groups(now, self.groups.received(now, self.logs, sender, message))
        name = message.set
        if sender == self.me:
            return []
        if name in self.joiners:
            return self._joiner_step(now, name, MessageReceived(sender, message))
        if name not in self.logs:
            return []
        if isinstance(message, messages.LogMessage):
            return self._log_step(now, name, MessageReceived(sender, message))
        match message:
            case messages.EnterSet():
                self._asking.setdefault(name, {})[sender] = now
                self._look = True
                state = self.logs[name].state
                if sender in state.view:
                    return list(self.logs[name].welcome(sender))
                if state.view[0] != self.me:
                    return []
                return [Send(sender, self._announcement(now, state))]
            case messages.AnnounceState():
                return self._announced(now, sender, message)
            case messages.Unite():
                return self._unite(now, sender, message)
            case _:
                assert_never(message)

    def _log_step(self, now: int, name: str, given: inputs.LogInput) -> Effects:
        return self._after(now, name, self.logs[name].step(now, given))

    def _after(self, now: int, name: str, out: list[LogEffect]) -> Effects:
        """What a log reports is for this server; all else goes out."""
        passed: Effects = []
        for effect in out:
            passed.append(effect)
            match effect:
                case effects.StateApplied(commit=commit):
                    self._look = True
                    self.groups.follow(self.logs)
                    told = self.groups.applied(self.logs, name, commit.entries)
                    passed += self._groups(now, told)
                case effects.StateStable():
                    self._look = True
                    self.groups.stable(name)
                case effects.AnswersConfirmed(token, vid):
                    self.groups.confirmed(token, vid)
                case effects.AnswersMissing(token):
                    self.groups.confirmed(token, None)
                case effects.ChangeDropped():
                    self._proposed.pop(name, None)
                    self._look = True
                    self.groups.looks.add(name)
                case effects.LeftSet():
                    self.logs.pop(name, None)
                    self._look = True
                    passed.append(effects.Persist(effects.SetForgotten(name)))
                case _:
                    pass
        return passed

    def _joiner_step(
        self, now: int, name: str, given: inputs.MessageReceived | inputs.TimerDue
    ) -> Effects:
        joiner = self.joiners[name]
        out = joiner.step(now, given)
        if joiner.admitted is not None:
            del self.joiners[name]
            self.logs[name] = SetLog(self.me, joiner.admitted, self._times, now)
            self._look = True
        return out

    # -------------------------------------------------------------- time

    def _due(self, now: int) -> Effects:
        out: Effects = []
        for name in sorted(self.logs):
            if name in self.logs and self.logs[name].deadline() <= now:
                out += self._log_step(now, name, TimerDue())
        for name in sorted(self.joiners):
            if self.joiners[name].deadline() <= now:
                out += self._joiner_step(now, name, TimerDue())
        out += self._groups(now, self.groups.due(now, self.logs))
        if self._tick_at <= now:
            self._tick_at = now + self._times.announce_ns
            self._proposed.clear()
            self._look = True
            self.groups.looks.update(self.logs)
            for log in self.logs.values():
                if hierarchy.speaker(self.topology, log.state) == self.me:
                    out.append(Multicast(log.set, self._announcement(now, log.state)))
        return out

    # -------------------------------------------------------------- proposals

    def _duties(self, now: int) -> Effects:
        """What this server has to bring about, one change for each set that is idle. Looked for
        when a state has changed, and at every tick."""
        out: Effects = []
        for name in [n for n, log in sorted(self.logs.items()) if not log.is_member]:
            del self.logs[name]  # it stopped between leaving and forgetting
            out.append(effects.Persist(effects.SetForgotten(name)))
        wanted = set(self.topology.sets_of(self.me.name)) - self._leaving
        for name, log in self.logs.items():
            above = self.topology.above(name)
            if above is not None and log.state.parent == self.me:
                wanted |= {above} - self._leaving
        for name in sorted(wanted - self.logs.keys() - self.joiners.keys()):
            self.joiners[name] = SetJoiner(self.me, name, self._times, now)
        for name in sorted(self.joiners.keys() - wanted):
            del self.joiners[name]
        for name in sorted(self.joiners):
            if self.joiners[name].may_found(now):
                out += self._found(now, name)
        for name in sorted(self.logs):
            if name in self.logs and self._may_propose(name):
                if entries := self._entries(now, name):
                    out += self._propose(now, name, entries)
        return out

    def _entries(self, now: int, name: str) -> tuple[Entry, ...]:
        """What is missing in the state of a set, as far as it is for this server to propose."""
        states, me, topology = self.states(), self.me, self.topology
        state = states[name]
        if name in self._leaving and len(state.view) > 1:
            return (RemoveServer(me),)
        if (parent := hierarchy.parent_wanted(topology, me, state)) is not None:
            return (parent,)
        if (parent := hierarchy.parent_returns(topology, me, states, name)) is not None:
            return (parent,)
        if (parent := hierarchy.stranger_gives_way(topology, me, state)) is not None:
            return (parent,)
        for child in topology.children(name):
            if child in states:
                kid = hierarchy.kid_wanted(topology, me, states, child)
                if kid is not None:
                    return (kid,)
        for rule in (hierarchy.kid_unwanted, hierarchy.not_needed):
            if (entry := rule(topology, me, states, name)) is not None:
                return (entry,)
        if state.view[0] == me:
            recent = now - 2 * self._times.announce_ns
            asking = self._asking.pop(name, {})
            new = [s for s, at in sorted(asking.items()) if at >= recent and s not in state.view]
            room = SERVERS_MAX - len(state.view)
            return tuple(AddServer(server) for server in new[:room])
        return ()

    def _propose(
        self, now: int, name: str, entries: tuple[Entry, ...], priority: int = PHYSICAL_REQUEST
    ) -> Effects:
        log = self.logs[name]
        self._proposed[name] = log.state.vid
        change = SetChange(self._next_id(), priority, entries)
        return self._log_step(now, name, ProposeChange(change))

    def _may_propose(self, name: str) -> bool:
        """Nothing is under way, and nothing was proposed on this state lately."""
        log = self.logs[name]
        return log.is_idle and self._proposed.get(name) != log.state.vid

    def _next_id(self) -> ChangeId:
        self._changes += 1
        return ChangeId(self.me, self._changes)

    def _found(self, now: int, name: str) -> Effects:
        """Nobody of the set is there: begin a component of it (rule H1)."""
        del self.joiners[name]
        is_parent = self.topology.sets[name].parent == self.me.name
        number = 1 + max((log.state.vid.number for log in self.logs.values()), default=0)
        salt = now.to_bytes(8, "big")
        state = founded(name, (self.me,), self.me if is_parent else None, number, salt)
        record = SetRecord(state, state, ())
        self.logs[name] = SetLog(self.me, record, self._times, now)
        return [effects.Persist(record)]

    # -------------------------------------------------------------- unions

    def _parent_lineage(self, state: SetState) -> bytes | None:
        """The lineage of this component's parent in the set above, if this server is the parent."""
        above = self.topology.above(state.set)
        if above is None or state.parent != self.me or above not in self.logs:
            return None
        return self.logs[above].state.lineage

    def _settled(self, now: int, name: str) -> bool:
        """Nothing is under way, the last state is stable, and groups are settled (rule H4)."""
        log = self.logs[name]
        if not log.is_idle or log.stable is None or log.stable.vid != log.state.vid:
            return False
        return self.groups.is_settled(now, self.logs, name)

    def _announcement(self, now: int, state: SetState) -> messages.AnnounceState:
        lineage = self._parent_lineage(state)
        settled = self._settled(now, state.set)
        return messages.AnnounceState(
            state.set, state.vid, state.lineage, state.view, lineage, settled
        )

    def _may_unite(
        self, now: int, state: SetState, view: tuple[Gid, ...], parent_lineage: bytes | None
    ) -> bool:
        """Rule H3, as far as this speaker knows."""
        if hierarchy.speaker(self.topology, state) != self.me or not self._settled(now, state.set):
            return False
        mine = {m.name for m in state.view}
        if any(m.name in mine for m in view):
            return False  # a fork that is still under way
        if self.topology.above(state.set) is None:
            return True
        return parent_lineage is not None and parent_lineage == self._parent_lineage(state)

    def _announced(self, now: int, sender: Gid, message: messages.AnnounceState) -> Effects:
        state = self.logs[message.set].state
        if message.vid == state.vid:
            return []
        missing = self.logs[message.set].missing(sender, message.vid)
        if missing or not message.settled:
            return list(missing)
        if not self._may_unite(now, state, message.view, message.parent_lineage):
            return []
        if (-len(state.view), state.lineage) > (-len(message.view), message.lineage):
            return []  # the other component leads
        lineage = self._parent_lineage(state)
        return [Send(sender, messages.Unite(state.set, state.vid, message.vid, state, lineage))]

    def _unite(self, now: int, sender: Gid, message: messages.Unite) -> Effects:
        name = message.set
        state = self.logs[name].state
        if message.other != state.vid or message.state.vid != message.base:
            return []
        if not self._may_unite(now, state, message.state.view, message.parent_lineage):
            return []
        if not message.answer:
            if leads(state, message.state):
                return []
            lineage = self._parent_lineage(state)
            answer = messages.Unite(name, state.vid, message.base, state, lineage, True)
            return [Send(sender, answer)]
        if not leads(state, message.state):
            return []
        result = united(state, message.state, self.topology.sets[name].parent)
        change = SetChange(self._next_id(), PHYSICAL_REQUEST)
        return self._log_step(now, name, ProposeUnion(change, message.base, result))
