"""`send_msg` at the owner of a group: each message goes to the homes of the members that it
addresses, and the sender learns how many of them have it. At most once to each, in no order."""

from __future__ import annotations

import base64
import json

import msgspec
from msgspec.structs import replace

from phalanx.core.deadline import NEVER
from phalanx.service.call_outcomes import CallDone, CallOutcome, CallRefused
from phalanx.service.call_rights import may
from phalanx.service.group_messages import CallResult, GroupCall, GroupData, Resolve
from phalanx.service.group_reads import selected
from phalanx.service.values import ServiceGroup, interface_of

SENDS_MAX = 1024


class OpenSend(msgspec.Struct, frozen=True):
    """A message whose addressees have not all answered."""

    request: Resolve
    own: ServiceGroup
    addressed: tuple[str, ...]
    answered: frozenset[str]
    until: int


class DataFanOut:
    """Of one set, at its speaker. A call that is repeated is sent once by the same speaker."""

    def __init__(self, wait_ns: int) -> None:
        self._wait_ns = wait_ns
        self._open: dict[str, OpenSend] = {}
        self._done: dict[str, CallResult] = {}

    def begin(
        self, now: int, name: str, request: Resolve, own: ServiceGroup
    ) -> tuple[CallOutcome | None, list[GroupData]]:
        """Send the message of a call to the members that match."""
        call = request.call
        if call.id in self._done:
            return CallDone(self._done[call.id]), []
        if call.id in self._open or len(self._open) >= SENDS_MAX:
            return None, []
        if own.ended is not None:
            return CallRefused(f"no-such-group({call.name})"), []
        if not may(call, own, "send"):
            return CallRefused("denied(send)"), []
        to = tuple(selected(own, own.view.members, call.arguments.get("selector", "")))
        if not to:
            return CallRefused("no-match"), []
        self._open[call.id] = OpenSend(request, own, to, frozenset(), now + self._wait_ns)
        return None, _data(name, call, own, to)

    def answered(self, id_: str, members: tuple[str, ...]) -> bool:
        """Members that have the message. Returns whether it is one of ours."""
        send = self._open.get(id_)
        if send is None:
            return False
        self._open[id_] = replace(send, answered=send.answered | frozenset(members))
        return True

    def finished(self, now: int) -> list[tuple[Resolve, CallResult]]:
        """Messages that all have answered, or whose time is over."""
        out = []
        for id_, send in sorted(self._open.items()):
            if send.until > now and not send.answered.issuperset(send.addressed):
                continue
            del self._open[id_]
            values = {
                "addressed": json.dumps(len(send.addressed)),
                "answered": json.dumps(len(send.answered.intersection(send.addressed))),
            }
            result = CallResult(id_, send.own.uid, vid=send.own.view.vid, values=values)
            while len(self._done) >= SENDS_MAX:
                del self._done[next(iter(self._done))]
            self._done[id_] = result
            out.append((send.request, result))
        return out

    def deadline(self) -> int:
        return min((send.until for send in self._open.values()), default=NEVER)


def _data(name: str, call: GroupCall, own: ServiceGroup, to: tuple[str, ...]) -> list[GroupData]:
    by_interface: dict[str, list[str]] = {}
    for member in to:
        by_interface.setdefault(interface_of(member), []).append(member)
    mine = [m for m in call.callers if m in own.view.members]
    sender = mine[0] if mine else ""
    body = base64.b64decode(call.arguments.get("body", ""))
    return [
        GroupData(name, interface, own.uid, call.id, sender, tuple(members), body)
        for interface, members in sorted(by_interface.items())
    ]
