"""Everything that one server does about groups, for all sets that it is a member of.

It reads the logs of these sets and proposes entries for them; `Mserver` owns the logs. For each set
that the server speaks for there is a `SetSpeaker`, for each level-1 set an `InterfacePolls`.
Messages go from speaker to speaker along parents; a server that is several of them passes a message
on to itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from msgspec.structs import replace

from phalanx.core.deadline import NEVER
from phalanx.core.ids import MemberId
from phalanx.service import hierarchy
from phalanx.service.answers_up import AnswersUp
from phalanx.service.call_desk import (
    HOPS_MAX,
    PIN_ONLY,
    pin_request,
)
from phalanx.service.call_problem import call_problem
from phalanx.service.call_routes import (
    CallRoutes,
    ForInterface,
    ForServer,
    ForSpeaker,
    Route,
    confirmed_at,
)
from phalanx.service.effects import ConfirmSet, Ignored, Send, ServiceEffect
from phalanx.service.entries import ENTRIES_MAX, Entry
from phalanx.service.group_duties import free_lost_names, owner_duties
from phalanx.service.group_messages import (
    Advance,
    Ask,
    CallResult,
    ChooseHome,
    Directive,
    DirectiveAck,
    DownMessage,
    FetchGroup,
    GroupCall,
    GroupData,
    GroupDataAck,
    GroupMessage,
    HeldGroup,
    HomeChosen,
    Query,
    QueryReply,
    Resolve,
    Resolved,
    Tell,
)
from phalanx.service.group_moves import (
    adopt_from_below,
    clear_carried_up,
    clear_taken_below,
    groups_carried_up,
    heed_recall,
    is_held,
    keep_pointers,
    take_from_above,
)
from phalanx.service.interface_polls import InterfacePolls
from phalanx.service.look_scope import NOTHING, LookScopes, Scope, both, touched_by
from phalanx.service.message_sender import MessageSenders
from phalanx.service.service_times import ServiceTimes
from phalanx.service.set_facts import SetFacts
from phalanx.service.set_log import SetLog
from phalanx.service.set_speaker import SetSpeaker
from phalanx.service.set_tree import SetTree
from phalanx.service.state_draft import StateDraft
from phalanx.service.values import Gid, SetState, Vid

KEPT_RETRIES = 5
"""For as many times of a repetition a call waits; the longest distance of two is four."""

Effects = list[ServiceEffect]
Logs = Mapping[str, SetLog]


class GroupServer:
    """See the module. `looks` names the sets that are to be looked at again, and their groups."""

    def __init__(self, me: Gid, topology: SetTree, times: ServiceTimes) -> None:
        self.me = me
        self.topology = topology
        self._times = times
        self.speakers: dict[str, SetSpeaker] = {}
        self.polls: dict[str, InterfacePolls] = {}
        self.looks = LookScopes()
        self._unproposed: dict[str, Scope] = {}
        """For each set the groups that were looked at while nothing could be proposed."""
        self._unstable: dict[str, Scope] = {}
        """For each set the groups that have changed since its last stable state."""
        self._seen: dict[str, SetState] = {}
        """The last state of each set that was looked at, to see what has changed."""
        self._routes = CallRoutes()
        self._senders = MessageSenders(topology)
        self._answers = AnswersUp(topology, self.speakers, self.polls, self.looks)

    def deadline(self) -> int:
        asks = [s.ask_at for s in self.speakers.values()]
        data = [s.data.deadline() for s in self.speakers.values()]
        return min([*asks, *data, self._answers.deadline()], default=NEVER)

    # -------------------------------------------------------------- who speaks for what

    def follow(self, logs: Logs) -> None:
        """Begin and end the parts of this server as its states ask for."""
        for name in sorted({*self.speakers, *self.polls, *logs}):
            log = logs.get(name)
            speaks = log is not None and hierarchy.speaker(self.topology, log.state) == self.me
            if speaks and name not in self.speakers:
                self.speakers[name] = SetSpeaker(self.me, name, self.topology, self._times)
            elif not speaks:
                self.speakers.pop(name, None)
            lan = log is not None and self.topology.level(name) == 1
            if lan and name not in self.polls:
                self.polls[name] = InterfacePolls(self.me)
            elif not lan:
                self.polls.pop(name, None)

    def _above(self, logs: Logs, name: str) -> SetState | None:
        above = self.topology.above(name)
        return logs[above].state if above is not None and above in logs else None

    def facts(self, now: int, logs: Logs, name: str) -> SetFacts:
        """What the speaker of a set sees."""
        log = logs[name]
        return self.speakers[name].facts(now, log.state, log.stable, self._above(logs, name))

    def _post(self, now: int, logs: Logs, to: Gid, message: GroupMessage) -> Effects:
        if to.name == self.me.name:
            return self.received(now, logs, self.me, message)
        return [Send(to, message)]

    def _to_speaker(self, now: int, logs: Logs, name: str, message: GroupMessage) -> Effects:
        log = logs.get(name)
        speaker = hierarchy.speaker(self.topology, log.state) if log is not None else None
        return [] if speaker is None else self._post(now, logs, speaker, message)

    # -------------------------------------------------------------- time

    def due(self, now: int, logs: Logs) -> Effects:
        """Ask who is served, where that is due, and report who has answered."""
        out: Effects = []
        out += self._send(now, logs, self._answers.due(now))
        for name in sorted(self.speakers):
            speaker = self.speakers[name]
            if name in logs and speaker.ask_at <= now:
                out += self.ask(now, logs, name)
            for request, result in speaker.data.finished(now):
                out += self._post(now, logs, request.home, Resolved(request.interface, result))
        return out

    def ask(self, now: int, logs: Logs, name: str) -> Effects:
        """A question to all members of a set that this server speaks for."""
        state = logs[name].state
        self.speakers[name].expire(now)
        question = self.speakers[name].question(now, state, self._above(logs, name))
        self.looks.add(name)
        out: Effects = []
        for member in state.view:
            out += self._post(now, logs, member, question)
        return out

    def applied(self, logs: Logs, name: str, entries: Sequence[Entry]) -> Effects:
        """A set has a new state by a commit with these entries: look at it and its neighbours; ask
        at once if others are responsible for interfaces now, and poll interfaces that have chosen
        this server."""
        state, before = logs[name].state, self._seen.get(name)
        self._seen[name] = state
        scope = touched_by(entries) if entries else None
        self._unstable[name] = both(self._unstable.get(name, NOTHING), scope)
        self.looks.touch(self._near(name), scope)
        if before is not None and before.view == state.view and before.kids == state.kids:
            if before.homes == state.homes and before.parent == state.parent:
                return []
        for each in (name, *self.topology.children(name)):
            if each in self.speakers:
                self.speakers[each].ask_at = 0
        out: Effects = []
        if name in self.polls:
            known = before.homes if before is not None else {}
            for interface, home in sorted(state.homes.items()):
                if home.server == self.me and known.get(interface) != home:
                    out += self._welcome(logs, name, interface)
        return out

    def stable(self, name: str) -> None:
        """The last state of a set is stable."""
        self.looks.touch(self._near(name), self._unstable.pop(name, None))

    def _near(self, name: str) -> tuple[str, ...]:
        """A set, and those whose decisions depend on its state."""
        above = self.topology.above(name)
        return (name, *self.topology.children(name), *([above] if above else []))

    def is_settled(self, now: int, logs: Logs, name: str) -> bool:
        """Every member of every group that is owned or under way is served, by answers of just now,
        and fits (rule H4)."""
        speaker = self.speakers.get(name)
        state = logs[name].state
        if speaker is None or speaker.table.lineage != state.lineage:
            return False
        facts = self.facts(now, logs, name)
        for _, record in sorted(state.groups.items()):
            groups = [p.group for p in record.pends]
            if record.own is not None:
                groups.append(record.own)
            if any(facts.unsettled(group) for group in groups):
                return False
        return True

    # -------------------------------------------------------------- messages

    def received(self, now: int, logs: Logs, sender: Gid, message: GroupMessage) -> Effects:
        """Carry out one message."""
        if sender != self.me and (reason := self._senders.problem(sender, message)):
            return [Ignored(reason, sender)]
        match message:
            case Ask():
                return self._asked(now, logs, sender, message)
            case Tell():
                return self._send(now, logs, self._answers.told(now, logs, sender, message))
            case Resolve():
                return self._resolve(now, logs, message)
            case Resolved():
                return [Send(message.interface, message.result)]
            case Directive() | GroupData() | FetchGroup():
                return self._passed_down(now, logs, message)
            case Advance():
                return self._send(now, logs, self._answers.advanced(now, logs, sender, message))
            case DirectiveAck(moved=moved):
                return self._send(now, logs, self._answers.moved(logs, sender, moved))
            case GroupDataAck():
                return self._data_acked(now, logs, message)
            case QueryReply():
                self._answers.answered(now, logs, sender, message)
                return []
            case ChooseHome(name, interface, _):
                if name not in self.polls or sender.name != interface:
                    return []
                self.polls[name].chosen(now, message)
                self.looks.add(name)
                return self._welcome(logs, name, interface)
            case HeldGroup(name, interface, group):
                if name in self.speakers:
                    self.speakers[name].claims.take(interface, group)
                    self.looks.add(name)
                    return []
                return self._to_speaker(now, logs, name, message)
            case GroupCall():
                return self._called(now, logs, sender, message)
            case Query() | HomeChosen() | CallResult():
                return []
            case _:
                assert_never(message)

    # -------------------------------------------------------------- who is served

    def _asked(self, now: int, logs: Logs, sender: Gid, ask: Ask) -> Effects:
        log = logs.get(ask.set)
        if log is None or not ask.path or ask.path[0].lineage != log.state.lineage:
            return []
        if hierarchy.speaker(self.topology, log.state) != sender:
            return []
        out: Effects = []
        if ask.set in self.polls:
            for query in self.polls[ask.set].polls(log.state, ask):
                out.append(Send(MemberId(query.interface), query))
        for child in self.topology.children(ask.set):
            if child in self.speakers and child in logs:
                self.speakers[child].heard_above(now, ask)
                out += self.ask(now, logs, child)
                out += self._report_up(now, logs, child)
        return out

    def _report_up(self, now: int, logs: Logs, name: str) -> Effects:
        """What the set above has to know of this one, besides who is served."""
        speaker, above = self.speakers[name], self._above(logs, name)
        question = speaker.answer_above(now, above, None)
        if question is None or above is None:
            return []
        asked, set_above, lineage = question
        state = logs[name].state
        held = {uid for uid, record in state.groups.items() if is_held(record, above.seen)}
        for child in self.topology.children(name):
            held |= speaker.table.held_below(state, child)
        carried = groups_carried_up(self.facts(now, logs, name))
        tell = Tell(set_above, lineage, asked, name, (), tuple(sorted(held)), carried)
        return self._to_speaker(now, logs, set_above, tell)

    def _welcome(self, logs: Logs, name: str, interface: str) -> Effects:
        """An interface that has chosen this server is polled as soon as that is in the state."""
        return [
            Send(MemberId(interface), message)
            for message in self.polls[name].first_poll(logs[name].state, interface)
        ]

    # -------------------------------------------------------------- ways down and up

    def _passed_down(self, now: int, logs: Logs, message: DownMessage) -> Effects:
        """Pass on what is for an interface: to the interface if this server is its home."""
        name = message.set
        if name not in logs:
            return []
        polls = self.polls.get(name)
        if polls is not None and polls.is_served(logs[name].state, message.interface):
            return [Send(MemberId(message.interface), message)]
        if name not in self.speakers:
            return []
        hop = self.speakers[name].next_hop(now, logs[name].state, message.interface)
        if hop is None or (hop[0] == self.me and hop[1] == name):
            return []
        return self._post(now, logs, hop[0], replace(message, set=hop[1]))

    def _data_acked(self, now: int, logs: Logs, ack: GroupDataAck) -> Effects:
        name = ack.set
        if name in self.speakers:
            if self.speakers[name].data.answered(ack.id, ack.members):
                out: Effects = []
                for request, result in self.speakers[name].data.finished(now):
                    reply = Resolved(request.interface, result)
                    out += self._post(now, logs, request.home, reply)
                return out
            above = self.topology.above(name)
            if above is None or above not in logs:
                return []
            return self._to_speaker(now, logs, above, replace(ack, set=above))
        return self._to_speaker(now, logs, name, ack)

    # -------------------------------------------------------------- calls

    def _called(self, now: int, logs: Logs, sender: Gid, call: GroupCall) -> Effects:
        """A call of an interface of this home."""
        if call.interface != sender.name:
            return []
        for name in sorted(self.polls):
            if self.polls[name].is_served(logs[name].state, call.interface):
                request = Resolve(name, self.me, sender, call)
                return self._to_speaker(now, logs, name, request)
        return []

    def _resolve(self, now: int, logs: Logs, request: Resolve) -> Effects:
        name = request.set
        if name not in logs or request.hops > HOPS_MAX:
            return []
        if (problem := call_problem(request.call, self.topology)) != "":
            result = CallResult(request.call.id, error=problem)
            reply = self._post(now, logs, request.home, Resolved(request.interface, result))
            return [Ignored("bad-call", request.interface), *reply]
        if name not in self.speakers:
            return self._to_speaker(now, logs, name, replace(request, hops=request.hops + 1))
        desk = self.speakers[name].desk
        desk.take(now, KEPT_RETRIES * self._times.call_retry_ns, self._times.pin_ttl_ns, request)
        self.looks.touch([name], frozenset({request.call.bound} - {""}))
        return []

    def look(self, now: int, logs: Logs, name: str) -> Effects:
        """Answer calls, pass them on, and send directives, by the states as they are."""
        scope = self.looks.take(name)
        self._unproposed[name] = both(self._unproposed.get(name, NOTHING), scope)
        speaker = self.speakers.get(name)
        if speaker is None or name not in logs:
            return []
        out: Effects = []
        facts = self.facts(now, logs, name)
        if facts.state.lineage != speaker.table.lineage:
            out += self.ask(now, logs, name)
            self.looks.take(name)
            scope = self._unproposed[name] = None
        out += self._send(now, logs, self._routes.look(facts, speaker))
        for directive in speaker.sender.look(facts, speaker.step(facts.state), scope):
            out += self._passed_down(now, logs, directive)
        if facts.level == 1 and scope is None:
            orphans, strays = speaker.lost_members(now, facts.state, facts.above)
            for _, fetch in speaker.claims.look(facts, orphans, strays):
                out += self._passed_down(now, logs, fetch)
        return out

    def confirmed(self, token: int, vid: Vid | None) -> None:
        """All members of a set have answered a question, or (no vid) they will not."""
        name, key = self._routes.confirmed(token)
        if confirmed_at(self.speakers.get(name), key, vid):
            self.looks.touch([name], NOTHING)

    def _send(self, now: int, logs: Logs, routes: Sequence[Route]) -> Effects:
        """Messages on their way."""
        out: Effects = []
        for route in routes:
            match route:
                case ForServer(to, message):
                    out += self._post(now, logs, to, message)
                case ForSpeaker(name, message):
                    out += self._to_speaker(now, logs, name, message)
                case ForInterface(message):
                    out += self._passed_down(now, logs, message)
                case ConfirmSet():
                    out.append(route)
        return out

    # -------------------------------------------------------------- entries

    def entries(self, now: int, logs: Logs, name: str) -> tuple[list[Entry], Effects]:
        """What is to be changed in a set, and requests that go on to other sets."""
        log = logs[name]
        scope = self._unproposed.pop(name, NOTHING)
        draft = StateDraft(log.state)
        out: Effects = []
        if name in self.speakers:
            out = self._speak(now, logs, name, draft, scope)
        for child in self.topology.children(name):
            below = logs.get(child)
            if child not in self.speakers or below is None:
                continue
            parents = log.state.kids.get(child, ())
            if self.me not in parents:
                continue
            is_stable = all_have_applied(below)
            if is_stable:
                clear_taken_below(draft, below.state, scope)
            only = parents == (self.me,)
            keep_pointers(self.topology, draft, below.state, is_stable, only, scope)
        if name in self.polls:
            homes = self.polls[name].entries(now, log.state)
            return [*draft.entries, *homes][:ENTRIES_MAX], out  # the other choices come next
        return draft.entries, out

    def _speak(self, now: int, logs: Logs, name: str, draft: StateDraft, scope: Scope) -> Effects:
        speaker = self.speakers[name]
        facts = self.facts(now, logs, name)
        if facts.state.lineage != speaker.table.lineage:
            return []  # nobody has answered yet
        owner_duties(facts, draft, scope)
        if scope is None:
            free_lost_names(facts, draft)
        for (child, parent), carried in sorted(speaker.carried.items()):
            if parent in facts.state.kids.get(child, ()):
                adopt_from_below(facts, draft, child, carried)
        above_name = self.topology.above(name)
        if above_name is not None and above_name in logs and facts.above is not None:
            if self.me in facts.above.kids.get(name, ()):
                if all_have_applied(logs[above_name]):
                    clear_carried_up(draft, facts.above, scope)
                    take_from_above(facts, draft, facts.above, scope)
                heed_recall(draft, facts.above, scope)
        if facts.level == 1:
            speaker.claims.entries(facts, draft)
        out: Effects = []
        for needed in speaker.desk.changes(facts, draft):
            parents = facts.state.kids.get(needed.child, ())
            for waiting in speaker.desk.waiting.values():
                if waiting.call.kind == "merge" and parents and waiting.call.member != PIN_ONLY:
                    request = pin_request(waiting.request, needed)
                    out += self._post(now, logs, parents[0], request)
        return out


def all_have_applied(log: SetLog) -> bool:
    """Whether the last state of a set is stable: a hand-over may be acted upon (rule C4)."""
    return log.stable is not None and log.stable.vid == log.state.vid
