"""The interface of one host (rules I1 to I4): many members of many groups, one home.

It answers the polls of its home, takes directives, passes views on to clients, and repeats calls
until they are answered. What it acknowledges is on its disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from msgspec.structs import replace

from phalanx.core.ids import MemberId
from phalanx.service.effects import (
    Answer,
    DurableRecord,
    HeldHistory,
    HeldMembership,
    Ignored,
    InterfaceRecord,
    OpenCall,
    PassData,
    Persist,
    Send,
    ServiceEffect,
)
from phalanx.service.group_messages import (
    CallResult,
    Directive,
    DirectiveAck,
    FetchGroup,
    GroupCall,
    GroupData,
    GroupDataAck,
    HeldGroup,
    Query,
    QueryReply,
)
from phalanx.service.home_choice import HomeChoice
from phalanx.service.inputs import CallSubmitted, InterfaceInput, MessageReceived, TimerDue
from phalanx.service.membership_book import MembershipBook
from phalanx.service.messages import ServiceMessage
from phalanx.service.open_calls import CHECK, CREATE, OpenCalls, check_of
from phalanx.service.service_times import ServiceTimes
from phalanx.service.set_tree import SetTree

Effects = list[ServiceEffect]
OPEN_CALLS_MAX = 16_384
ONE_GROUP = ("join", "leave", "delete", "set_group", "set_member")
"""Calls that are decided about one group, and bound to it first."""
DATA_IDS_KEPT = 4096
"""Messages that are remembered, so that a repetition is not passed on twice."""


class MemberInterface:
    """See the module. `records` are those of an earlier life."""

    def __init__(
        self,
        name: str,
        topology: SetTree,
        records: Iterable[DurableRecord],
        times: ServiceTimes,
        now: int,
    ) -> None:
        self.name = name
        own = InterfaceRecord(name, 0, topology.homes[name])
        members: list[HeldMembership] = []
        groups: list[HeldHistory] = []
        calls: list[GroupCall] = []
        for record in records:
            match record:
                case InterfaceRecord():
                    own = record
                case HeldMembership():
                    members.append(record)
                case HeldHistory():
                    groups.append(record)
                case OpenCall(call):
                    calls.append(call)
                case _:
                    pass
        self.home = HomeChoice(topology, own, times, now)
        self.book = MembershipBook(name, members, [each.group for each in groups])
        self.calls = OpenCalls(topology, times)
        self.calls.restore(now, calls)
        self._data_ids: dict[tuple[str, str], None] = {}

    def deadline(self) -> int:
        return min(self.home.deadline(), self.calls.deadline())

    @property
    def record(self) -> InterfaceRecord:
        return self.home.record

    def steps(self, now: int, given: Sequence[InterfaceInput]) -> Effects:
        """Carry out inputs that have come together."""
        return [effect for each in given for effect in self.step(now, each)]

    def step(self, now: int, given: InterfaceInput) -> Effects:
        """Carry out one input."""
        match given:
            case MessageReceived(sender, message):
                return self._received(now, sender, message)
            case CallSubmitted(call, timeout_ns):
                return self._submitted(now, call, timeout_ns)
            case TimerDue():
                return self._due(now)
            case _:
                assert_never(given)

    # -------------------------------------------------------------- messages

    def _received(self, now: int, sender: MemberId, message: ServiceMessage) -> Effects:
        if sender.name not in self.home.candidates:
            return [Ignored("unknown-sender", sender)]
        match message:
            case Query(interface=self.name):
                return self._polled(now, sender, message)
            case Directive(interface=self.name) if sender.name == self.record.home:
                return self._directed(now, sender, message)
            case FetchGroup(name, self.name, uid) if uid in self.book.groups:
                return [Send(sender, HeldGroup(name, self.name, self.book.groups[uid]))]
            case GroupData(interface=self.name):
                return self._data(sender, message)
            case CallResult():
                return self._result(now, message)
            case _:
                return []

    def _polled(self, now: int, sender: MemberId, query: Query) -> Effects:
        if not self.home.polled(now, sender.name, query):
            return []
        out: Effects = []
        if (self.record.home, self.record.seq) != (sender.name, query.seq):
            self.home.record = replace(self.record, home=sender.name, seq=query.seq)
            out.append(Persist(self.record))
        served = self.book.served(self.record.last_number)
        out.append(Send(sender, QueryReply(query.path[0].asked, served)))
        for to, choose in self.home.returns():
            out.append(Send(MemberId(to), choose))
        return [*out, *self._leave_with_parents(now)]

    def _directed(self, now: int, sender: MemberId, directive: Directive) -> Effects:
        """On disk before it is acknowledged (rule I3)."""
        if not self.home.is_on_path(directive.step):
            return []
        records, notices = self.book.take(directive)
        moved = self.book.moved(directive.members)
        return [
            *(Persist(record) for record in records),
            *notices,
            Send(sender, DirectiveAck(moved)),
            *self._leave_with_parents(now),
        ]

    def _data(self, sender: MemberId, data: GroupData) -> Effects:
        """At most once to each member."""
        out: Effects = []
        there: list[str] = []
        for member in data.members:
            held = self.book.members.get(member)
            if held is None or held.over or held.uid != data.uid or held.view is None:
                continue
            there.append(member)
            if (data.id, member) not in self._data_ids:
                self._data_ids[(data.id, member)] = None
                out.append(PassData(member, data))
        while len(self._data_ids) > DATA_IDS_KEPT:
            del self._data_ids[next(iter(self._data_ids))]
        ack = GroupDataAck(data.set, data.id, tuple(there))
        return [*out, Send(sender, ack)]

    # -------------------------------------------------------------- calls

    def _submitted(self, now: int, call: GroupCall, timeout_ns: int | None) -> Effects:
        if call.id in self.calls.open:
            return self._send([self.calls.open[call.id].call])
        if len(self.calls.open) >= OPEN_CALLS_MAX:
            return [Answer(CallResult(call.id, error="unavailable(too many open calls)"))]
        call = replace(call, interface=self.name, callers=())
        out: Effects = []
        if call.kind == "join":
            known = self.book.of_call(call.id)
            if known is not None and known.view is not None:
                values = {"member": known.member}
                return [Answer(CallResult(call.id, known.uid, vid=known.view.vid, values=values))]
            if known is None:
                out, call = self._named(call)
            else:
                call = replace(call, member=known.member, bound=known.uid)
        elif call.kind == "leave" and call.member in self.book.members:
            call = replace(call, bound=self.book.members[call.member].uid)
        elif call.kind == "create" and not call.scope and check_of(call) is None:
            call = replace(call, scope=self.calls.top)
        call = self._with_callers(call)
        return [*out, *self._send(self.calls.begin(now, call, timeout_ns))]

    def _with_callers(self, call: GroupCall) -> GroupCall:
        """The members whose rights count: those in the group, once it is known. Calls that concern
        other groups as well, or whose name is not resolved here, name all of the client."""
        client = call.id.rpartition("/")[0]
        if call.kind in ONE_GROUP:
            callers = self.book.of_client(client, call.bound) if call.bound else ()
        else:
            callers = self.book.of_client(client)
        return replace(call, callers=callers)

    def _named(self, call: GroupCall) -> tuple[Effects, GroupCall]:
        """A join gets a member id that this interface has never used."""
        number = self.record.last_number + 1
        self.home.record = replace(self.record, last_number=number)
        member = f"{self.name}/{number}"
        held = self.book.open(member, "", call.id)
        named = replace(call, member=member)
        return [Persist(self.record), Persist(held)], named

    def _send(self, calls: list[GroupCall]) -> Effects:
        home = MemberId(self.record.home)
        return [Send(home, call) for call in calls]

    def _result(self, now: int, result: CallResult) -> Effects:
        id_ = result.id.removesuffix(CREATE)
        if id_ != result.id:
            return self._created(now, id_, result)
        id_ = result.id.removesuffix(CHECK)
        if id_ != result.id:
            return self._checked(now, id_, result)
        work = self.calls.open.get(id_)
        if work is None:
            return []
        call = work.call
        if result.bound and not result.error:
            return self._bound(now, id_, result.bound)
        lost = result.error.startswith("no-such-group") and self.book.lives_in(call.name)
        if lost and call.kind != "merge":  # of a merge it may be the other group that is not there
            return []  # its owners are lost: the call is repeated while the group is claimed (G10)
        if call.kind == "join" and result.error:
            refused = self._join_refused(now, call, result)
            if refused is not None:
                return refused
            if (parent := parent_needed(result)) is not None:
                result = replace(result, error=f"out-of-scope(parent group {parent})")
        records = self.calls.close(id_)
        if call.kind == "join" and result.error:
            records += self.book.withdraw(call.member)
        answer = self.calls.whole(result)
        answers = [Answer(answer)] if answer is not None else []
        return [*(Persist(record) for record in records), *answers]

    def _bound(self, now: int, id_: str, uid: str) -> Effects:
        work = self.calls.open[id_]
        bound = self._with_callers(replace(work.call, bound=uid))
        records, again = self.calls.bind(now, id_, uid, bound.callers)
        for call in again:
            if call.kind == "join":
                records += self.book.bind(call.member, uid)
        return [*(Persist(record) for record in records), *self._send(again)]

    def _join_refused(self, now: int, call: GroupCall, result: CallResult) -> Effects | None:
        """Refusals that the interface deals with itself; None for all others."""
        if result.error == "member-used":
            records = self.book.withdraw(call.member)
            out, named = self._named(call)
            records += self.book.bind(named.member, call.bound)
            if parent_member := call.arguments.get("parent_member"):
                records += self.book.link(named.member, parent_member)
            again = self.calls.renew(now, call.id, member=named.member)
            saved = [Persist(record) for record in records]
            return [*out, *saved, *self._send(again)]
        if result.error.startswith("no-such-group") and not call.bound:
            if call.arguments.get("create") == "true":
                return self._send(self.calls.create(now, call.id))
        if (parent := parent_needed(result)) is not None:
            client = call.id.rpartition("/")[0]
            mine = self.book.member_in(parent, self.book.of_client(client, parent))
            if mine is None or not call.member:
                return None
            linked = [Persist(record) for record in self.book.link(call.member, mine)]
            arguments = {**call.arguments, "parent_member": mine}
            callers = (*call.callers, mine)
            again = self.calls.renew(now, call.id, arguments=arguments, callers=callers)
            return [*linked, *self._send(again)]
        return None

    def _checked(self, now: int, id_: str, result: CallResult) -> Effects:
        """What is known of the second group of a call."""
        if result.error:
            if not self.calls.open.get(id_):
                return []
            saved = [Persist(record) for record in self.calls.close(id_)]
            return [*saved, Answer(replace(result, id=id_))]
        return self._send(self.calls.checked(now, id_, result))

    def _leave_with_parents(self, now: int) -> Effects:
        """Members of subgroups whose member in the parent group is gone leave (S3 II.C); tried
        again at every poll until they have."""
        out: Effects = []
        for member, held in self.book.without_parent():
            client = held.call.rpartition("/")[0]
            id_ = f"{client}/with-parent-{member.replace('/', ' ')}"
            if id_ not in self.calls.open:
                call = GroupCall(
                    id_, "leave", self.name, held.uid, member, bound=held.uid, callers=(member,)
                )
                out += self._send(self.calls.begin(now, call, None))
        return out

    def _created(self, now: int, id_: str, result: CallResult) -> Effects:
        if not self.calls.created(id_) or id_ not in self.calls.open:
            return []
        call = self.calls.open[id_].call
        if not result.error:
            return self._bound(now, id_, result.uid)
        if result.error.startswith("name-in-use"):
            return self._send([call])  # somebody else was faster: join that group
        records = [*self.calls.close(id_), *self.book.withdraw(call.member)]
        saved = [Persist(record) for record in records]
        return [*saved, Answer(replace(result, id=id_))]

    # -------------------------------------------------------------- time

    def _due(self, now: int) -> Effects:
        out: Effects = []
        if self.home.deadline() <= now:
            for to, choose in self.home.questions(now):
                out.append(Send(MemberId(to), choose))
        again, over = self.calls.due(now)
        for call in over:
            records = self.calls.close(call.id)
            if call.kind == "join":
                records += self.book.withdraw(call.member)
            out += [Persist(record) for record in records]
            answer = self.calls.whole(CallResult(call.id, error="unavailable"))
            out += [Answer(answer)] if answer is not None else []
        return [*out, *self._send(again)]


def parent_needed(result: CallResult) -> str | None:
    """The parent group in which a join to a subgroup needs a member; None for other refusals."""
    code, _, detail = result.error.partition("(")
    return detail.removesuffix(")") if code == "needs-parent" else None
