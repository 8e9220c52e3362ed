"""Convert the effects of a process of the membership service to rows of its journal.

A recorder belongs to one life of one server or interface. Its owner gives it every effect in the
order in which they are carried out, what clients call, and at a regular end what the machine then
holds.

`run` is the cluster outside of simulations. Sizes: a state costs one row and two for each group
that its entries name; the digest of a whole state is taken only if `digests` asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from phalanx.journal import schema as ev
from phalanx.journal import service_schema as rows
from phalanx.journal.service_rows import ServiceRows, labels, part_text, vid_text
from phalanx.journal.set_recorder import SetRecorder
from phalanx.service import effects as fx
from phalanx.service.group_messages import CallResult, GroupCall, Resolved
from phalanx.service.set_tree import SetTree
from phalanx.service.values import Gid, ServiceGroup, SetState


class ConfiguredSetFacts(msgspec.Struct, frozen=True):
    """A set as its configuration names it."""

    name: str
    level: int
    above: str | None
    parent: str | None
    servers: tuple[str, ...]
    interfaces: tuple[str, ...]


class ServiceRecorder:
    """Numbers and words the rows of one life of one process."""

    def __init__(self, run: str, name: str, life: int, digests: bool = False) -> None:
        self.name = name
        self.life = life
        self._rows = ServiceRows(run, name, life)
        self._sets = SetRecorder(self._rows, digests)
        self._home: fx.InterfaceRecord | None = None

    # ------------------------------------------------------------------ begin and end

    def start(
        self,
        now: int,
        process: Gid,
        kind: Literal["SERVER", "INTERFACE"],
        configured: Iterable[ConfiguredSetFacts],
        records: Iterable[fx.DurableRecord],
        sim_ns: int | None = None,
    ) -> list[ev.Event]:
        """The first rows of a life: who it is, and what it has on its disk."""
        self._rows.begin(now, sim_ns)
        self._rows.row(ev.Life, op="START")
        self._rows.row(rows.ProcessStarted, kind=kind, process=str(process))
        for plan in configured:
            self._rows.row(
                rows.SetConfigured,
                set=plan.name,
                level=plan.level,
                above=plan.above,
                parent=plan.parent,
                servers=list(plan.servers),
                interfaces=list(plan.interfaces),
            )
        for record in records:
            match record:
                case fx.SetRecord():
                    self._sets.held("RESTORED", record.state, False)
                    self._sets.taken_over(record.state)
                    self._sets.acknowledged(record)
                case fx.InterfaceRecord():
                    self._home = record
                    self._chosen("RESTORED", record, ())
                case fx.HeldMembership() if record.uid:
                    self._membership("RESTORED", record)
                case _:
                    pass
        return self._rows.end()

    def stop_server(
        self,
        now: int,
        states: Iterable[tuple[SetState, bool]],
        asking: Iterable[str],
        sim_ns: int | None = None,
        reason: str = "ended",
    ) -> list[ev.Event]:
        """The last rows of a server that ends as intended: its states, each with whether something
        is under way, and the sets that it waits to enter."""
        self._rows.begin(now, sim_ns)
        for state, busy in states:
            self._sets.held("LAST", state, busy)
            for uid, record in sorted(state.groups.items()):
                self._sets.record_held(state, uid, record)
        for name in asking:
            self._rows.row(rows.SetEntryAsked, set=name)
        self._rows.row(ev.Life, op="STOP", reason=reason)
        return self._rows.end()

    def stop_interface(
        self,
        now: int,
        record: fx.InterfaceRecord,
        path: Sequence[str],
        members: Iterable[fx.HeldMembership],
        sim_ns: int | None = None,
        reason: str = "ended",
    ) -> list[ev.Event]:
        """The last rows of an interface that ends as intended."""
        self._rows.begin(now, sim_ns)
        self._chosen("LAST", record, path)
        for held in members:
            if held.uid:
                self._membership("LAST", held)
        self._rows.row(ev.Life, op="STOP", reason=reason)
        return self._rows.end()

    def crash(self, now: int, sim_ns: int | None = None) -> list[ev.Event]:
        """The last row of a life that was ended from outside; only a simulator knows that."""
        self._rows.begin(now, sim_ns)
        self._rows.row(ev.Life, op="CRASH")
        return self._rows.end()

    # ------------------------------------------------------------------ in between

    def record(
        self, now: int, effects: Sequence[fx.ServiceEffect], sim_ns: int | None = None
    ) -> list[ev.Event]:
        """The rows of one step, in the order of its effects."""
        self._rows.begin(now, sim_ns)
        delivered: list[fx.Notify] = []
        for effect in effects:
            if delivered and not (isinstance(effect, fx.Notify) and _alike(delivered[0], effect)):
                self._notified(delivered)
                delivered = []
            match effect:
                case fx.Notify():
                    delivered.append(effect)
                case fx.StateApplied(state, commit):
                    self._sets.applied(state, commit)
                case fx.StateStable(state):
                    members = labels(state.view)
                    self._rows.row(
                        rows.SetStateStable, set=state.set, vid=vid_text(state.vid), members=members
                    )
                case fx.Persist(record):
                    self._persisted(record)
                case fx.Answer(result):
                    self._finished(result)
                case fx.Send(message=CallResult() as result):
                    self._answered(result)
                case fx.Send(message=Resolved(result=CallResult() as result)):
                    self._answered(result)
                case _:
                    pass
        if delivered:
            self._notified(delivered)
        return self._rows.end()

    def submitted(self, now: int, call: GroupCall, sim_ns: int | None = None) -> list[ev.Event]:
        """A client has made a call."""
        self._rows.begin(now, sim_ns)
        self._rows.row(
            rows.CallMade,
            call=call.id,
            kind=call.kind,
            name=call.name,
            group_member=call.member,
            scope=call.scope,
        )
        return self._rows.end()

    def call_refused(
        self, now: int, call: str, error: str, sim_ns: int | None = None
    ) -> list[ev.Event]:
        """A call was refused before it was made."""
        self._rows.begin(now, sim_ns)
        self._rows.row(rows.CallFailed, call=call, error=error)
        return self._rows.end()

    def refused(
        self, now: int, counts: Mapping[str, int], sim_ns: int | None = None
    ) -> list[ev.Event]:
        """Messages that were dropped since the last time, by reason."""
        self._rows.begin(now, sim_ns)
        for reason, count in sorted(counts.items()):
            self._rows.row(ev.Refused, reason=reason, count=count)
        return self._rows.end()

    def clock(self, now: int, wall_ns: int, boot_id: str) -> list[ev.Event]:
        """What the wall clock says now."""
        self._rows.begin(now, None)
        self._rows.row(ev.Clock, wall_ns=wall_ns, boot_id=boot_id)
        return self._rows.end()

    def served(
        self, now: int, name: str, own: ServiceGroup, members: Iterable[str], sim_ns: int
    ) -> list[ev.Event]:
        """Ground truth of a simulation: whom this server serves as the speaker of an owner."""
        self._rows.begin(now, sim_ns)
        vid = vid_text(own.view.vid)
        self._rows.row(rows.GroupServed, set=name, uid=own.uid, vid=vid, members=sorted(members))
        return self._rows.end()

    # ------------------------------------------------------------------ interfaces

    def _persisted(self, record: fx.DurableRecord) -> None:
        match record:
            case fx.SetRecord():
                self._sets.persisted(record)
            case fx.SetForgotten(name):
                self._sets.forgotten(name)
            case fx.InterfaceRecord():
                home = self._home
                if home is None or (home.home, home.seq) != (record.home, record.seq):
                    self._chosen("TAKEN", record, ())
                self._home = record
            case _:
                pass

    def _notified(self, notices: Sequence[fx.Notify]) -> None:
        """One row for members that are told the same in one step."""
        first, view = notices[0], notices[0].view
        to = [notice.member for notice in notices]
        previous = vid_text(first.previous) if first.previous is not None else None
        if view is None:
            self._rows.row(
                rows.MembershipEnded,
                uid=first.uid,
                previous=previous,
                to=to,
                ended=int(first.ended),
            )
            return
        parts = [part_text(view.parts[m]) if m in view.parts else "-" for m in to]
        self._rows.row(
            rows.GroupViewDelivered,
            uid=first.uid,
            vid=vid_text(view.vid),
            previous=previous,
            to=to,
            to_parts=parts,
            members=list(view.members),
            cause=view.cause,
        )

    def _chosen(
        self,
        op: Literal["RESTORED", "TAKEN", "LAST"],
        record: fx.InterfaceRecord,
        path: Sequence[str],
    ) -> None:
        self._rows.row(rows.HomeTaken, op=op, home=record.home, seq=record.seq, path=list(path))

    def _membership(self, op: Literal["RESTORED", "LAST"], held: fx.HeldMembership) -> None:
        self._rows.row(
            rows.MembershipHeld,
            op=op,
            group_member=held.member,
            uid=held.uid,
            vid=vid_text(held.view.vid) if held.view is not None else None,
            over=int(held.over),
            parent_member=held.parent,
        )

    def _finished(self, result: CallResult) -> None:
        self._rows.row(
            rows.CallFinished,
            call=result.id,
            uid=result.uid,
            vid=vid_text(result.vid) if result.vid is not None else None,
            error=result.error,
            group_member=result.values.get("member", ""),
        )

    def _answered(self, result: CallResult) -> None:
        if result.error:
            self._rows.row(rows.CallFailed, call=result.id, error=result.error)


def configured_sets(topology: SetTree, name: str) -> list[ConfiguredSetFacts]:
    """The sets of the configuration that a server, or an interface, belongs to."""
    server = topology.homes.get(name, name)
    mine = topology.sets_of(server)
    if name in topology.homes:
        mine = (topology.set_of_interface(name),)
    return [
        ConfiguredSetFacts(
            plan.name,
            plan.level,
            plan.above,
            plan.parent,
            plan.members,
            tuple(
                interface
                for interface in sorted(topology.homes)
                if plan.level == 1 and topology.set_of_interface(interface) == plan.name
            ),
        )
        for plan in (topology.sets[each] for each in mine)
    ]


def _alike(one: fx.Notify, other: fx.Notify) -> bool:
    """Whether both fit into one row."""
    same = (one.uid, one.previous, one.ended) == (other.uid, other.previous, other.ended)
    if one.view is None or other.view is None:
        return same and one.view is other.view
    return same and one.view.vid == other.view.vid
