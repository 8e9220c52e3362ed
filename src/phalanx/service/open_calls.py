"""The open calls of one interface: repeated under the same id until there is a result (rule G7).

A name is resolved once; from then on the call names the group by its uid. A join takes a member id
that is never used again, and creates its group if it may and there is none. A call that concerns a
second group (the parent of a subgroup, the other side of a merge) asks for that one first.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec.structs import replace

from phalanx.core.deadline import NEVER
from phalanx.service.effects import DurableRecord, OpenCall, RecordRemoved
from phalanx.service.group_calls import text_property
from phalanx.service.group_messages import CallResult, GroupCall
from phalanx.service.service_times import ServiceTimes
from phalanx.service.set_tree import SetTree

CREATE = "+create"
CHECK = "+check"
PART = "#"
TRIES_LONGER = 2
"""Repetitions after each of which the next one waits twice as long, so that calls that wait for a
busy server do not make it busier."""


class CallInWork(msgspec.Struct, frozen=True):
    """One call, when it is repeated next and when it is given up."""

    call: GroupCall
    again_at: int
    until: int
    tries: int = 0


class OpenCalls:
    """Returns what is to be sent; its owner makes records durable first."""

    def __init__(self, topology: SetTree, times: ServiceTimes) -> None:
        self._times = times
        self.top = next(s.name for s in topology.sets.values() if s.above is None)
        self.open: dict[str, CallInWork] = {}
        self._first: dict[str, CallInWork] = {}
        """Calls that precede one: it is not repeated before they are answered."""
        self._parts: dict[str, dict[str, CallResult | None]] = {}

    def restore(self, now: int, calls: list[GroupCall]) -> None:
        """After a restart: go on with calls whose names are resolved."""
        for call in calls:
            self.open[call.id] = CallInWork(call, now, now + self._times.call_timeout_ns)

    def deadline(self) -> int:
        works = [*self.open.values(), *self._first.values()]
        return min((w.again_at for w in works), default=NEVER)

    def begin(self, now: int, call: GroupCall, timeout_ns: int | None) -> list[GroupCall]:
        """A new call. What is to be sent now."""
        until = now + (timeout_ns or self._times.call_timeout_ns)
        if call.arguments.get("call") == "get_sites":
            parts = _parts_of(call)
            self._parts[call.id] = dict.fromkeys(part.id for part in parts)
        else:
            parts = [call]
        again_at = now + self._times.call_retry_ns
        for part in parts:
            self.open[part.id] = CallInWork(part, again_at, until)
        first = check_of(call)
        if first is None:
            return parts
        self._first[call.id] = CallInWork(first, again_at, until)
        return [first]

    def checked(self, now: int, id_: str, result: CallResult) -> list[GroupCall]:
        """The second group of a call is known: the call itself."""
        if self._first.pop(id_, None) is None or id_ not in self.open:
            return []
        work = self.open[id_]
        call = with_check(work.call, result)
        self.open[id_] = replace(work, call=call, again_at=now + self._times.call_retry_ns)
        return [call]

    def bind(
        self, now: int, id_: str, uid: str, callers: tuple[str, ...]
    ) -> tuple[list[DurableRecord], list[GroupCall]]:
        """The name of a call is resolved: the call goes on with the uid, with the rights of these
        members."""
        work = self.open.get(id_)
        if work is None or work.call.bound:
            return [], []
        call = replace(work.call, bound=uid, callers=callers)
        self.open[id_] = replace(work, call=call, again_at=now + self._times.call_retry_ns)
        return [OpenCall(call)], [call]

    def renew(self, now: int, id_: str, **changes: Any) -> list[GroupCall]:
        """A join goes on under another member id, or with a member of the parent group."""
        work = self.open[id_]
        call = replace(work.call, **changes)
        self.open[id_] = replace(work, call=call, again_at=now + self._times.call_retry_ns)
        return [call]

    def create(self, now: int, id_: str) -> list[GroupCall]:
        """A join whose group does not exist creates it first."""
        work = self.open[id_]
        call = GroupCall(
            f"{id_}{CREATE}",
            "create",
            work.call.interface,
            work.call.name,
            scope=self.top,
            new_uid=work.call.new_uid,
        )
        self._first[id_] = CallInWork(call, now + self._times.call_retry_ns, work.until)
        return [call]

    def created(self, id_: str) -> bool:
        """The answer to a creation. Returns whether it was under way."""
        return self._first.pop(id_, None) is not None

    def close(self, id_: str) -> list[DurableRecord]:
        """The call has a result, or is given up."""
        work = self.open.pop(id_, None)
        self._first.pop(id_, None)
        return [RecordRemoved("open", id_)] if work is not None and work.call.bound else []

    def whole(self, result: CallResult) -> CallResult | None:
        """The result of a call of several parts, when the last has come; of others at once."""
        id_, mark, _ = result.id.rpartition(PART)
        parts = self._parts.get(id_) if mark else None
        if parts is None:
            return result
        parts[result.id] = result
        if not result.error and any(each is None for each in parts.values()):
            return None
        del self._parts[id_]
        for part in parts:
            self.open.pop(part, None)
        if result.error:
            return replace(result, id=id_)
        sites = [site for r in parts.values() if r is not None for site in _sites_of(r)]
        return CallResult(id_, values={"sites": json.dumps(sites)})

    def due(self, now: int) -> tuple[list[GroupCall], list[GroupCall]]:
        """Calls to repeat, and calls to give up."""
        again: list[GroupCall] = []
        over = [w.call for _, w in sorted(self.open.items()) if w.until <= now]
        for works in (self.open, self._first):
            for id_, work in sorted(works.items()):
                if work.until > now and work.again_at <= now:
                    tries = min(work.tries + 1, TRIES_LONGER)
                    wait = self._times.call_retry_ns << tries
                    works[id_] = replace(work, again_at=now + wait, tries=tries)
                    if works is self._first or id_ not in self._first:
                        again.append(work.call)
        return again, over


def check_of(call: GroupCall) -> GroupCall | None:
    """The question about the second group of a call; None if it concerns only one."""
    name, right = "", ""
    if call.kind == "merge":
        name, right = call.arguments.get("group_2", ""), "merge"
    elif call.kind == "create":
        name, right = text_property(call, "parent_group"), "split"
    if not name:
        return None
    scope = call.scope if call.kind == "create" else ""
    arguments = {"right": right}
    return replace(
        call, id=f"{call.id}{CHECK}", kind="check", name=name, scope=scope, arguments=arguments
    )


def with_check(call: GroupCall, result: CallResult) -> GroupCall:
    """The call with what is known of its second group. A subgroup has the scope of its parent,
    unless it names a narrower one."""
    scope, parent = result.values.get("scope", ""), result.values.get("parent", "")
    if call.kind == "merge":
        other = {"group_2": result.uid, "scope_2": scope, "parent_2": parent}
        return replace(call, arguments={**call.arguments, **other})
    arguments = {**call.arguments, "parent": result.uid}
    return replace(call, scope=call.scope or scope, arguments=arguments)


def _parts_of(call: GroupCall) -> list[GroupCall]:
    """A query about several groups is one query for each."""
    groups = json.loads(call.arguments.get("groups", "[]"))
    arguments = {**call.arguments, "call": "get_gsites"}
    return [
        replace(call, id=f"{call.id}{PART}{at}", name=str(name), arguments=arguments)
        for at, name in enumerate(groups)
    ]


def _sites_of(result: CallResult) -> list[Any]:
    """The sites in a result; none if a server of another version has sent something else."""
    try:
        sites = json.loads(result.values.get("sites", "[]"))
    except (ValueError, RecursionError):
        return []
    return sites if isinstance(sites, list) else []
