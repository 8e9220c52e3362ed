"""What the speaker of a set does with its waiting calls: answer them, refuse them, or pass them on
to the next set (rules C5, G7, N2)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from phalanx.service.call_desk import PIN_ONLY, WaitingCall, no_such_group
from phalanx.service.call_outcomes import (
    CallClimbs,
    CallDescends,
    CallDone,
    CallOutcome,
    CallRefused,
)
from phalanx.service.call_problem import clipped
from phalanx.service.effects import ConfirmSet
from phalanx.service.group_messages import (
    CallResult,
    DownMessage,
    GroupData,
    GroupMessage,
    Resolve,
    Resolved,
)
from phalanx.service.set_facts import SetFacts
from phalanx.service.set_speaker import SetSpeaker
from phalanx.service.values import NO_RECORD, Gid, Vid

TOKEN_STEP = 1024
"""Between the numbers of two questions to a set: its monitor counts upwards from each."""


class ForServer(msgspec.Struct, frozen=True):
    """A message for a server, which may be this one."""

    to: Gid
    message: GroupMessage


class ForSpeaker(msgspec.Struct, frozen=True):
    """A message for the speaker of a set that this server is a member of."""

    set: str
    message: GroupMessage


class ForInterface(msgspec.Struct, frozen=True):
    """A message on its way down."""

    message: DownMessage


Route = ForServer | ForSpeaker | ForInterface | ConfirmSet


class CallRoutes:
    """Of one server. Remembers which questions to a set are open for which calls."""

    def __init__(self) -> None:
        self._tokens: dict[int, tuple[str, str]] = {}
        self._last_token = 0

    def look(self, facts: SetFacts, speaker: SetSpeaker) -> list[Route]:
        """All calls that wait at the speaker."""
        out: list[Route] = []
        for key in sorted(speaker.desk.waiting):
            if key in speaker.desk.waiting:
                out += self._look_at(facts, speaker, key)
        return out

    def confirmed(self, token: int) -> tuple[str, str]:
        """A question has been answered, or will not be: the set, and the call it was for."""
        return self._tokens.pop(token, ("", ""))

    def _look_at(self, facts: SetFacts, speaker: SetSpeaker, key: str) -> list[Route]:
        waiting = speaker.desk.waiting[key]
        outcome = speaker.desk.outcome(waiting, facts)
        if waiting.call.kind == "send":
            found, data = _sends(facts, speaker, waiting, outcome)
            if found is None:
                return [ForInterface(each) for each in data]
            outcome = found
        request = waiting.request
        match outcome:
            case CallDone(result):
                linear = waiting.call.arguments.get("linear") == "true" and not result.bound
                if linear and waiting.confirmed != facts.state.vid:
                    return self._confirm(facts.name, key)
                speaker.desk.close(key)
                return _reply(request, result)
            case CallRefused(error):
                if waiting.confirmed != facts.state.vid:
                    return self._confirm(facts.name, key)
                speaker.desk.close(key)
                return _reply(request, CallResult(request.call.id, error=clipped(error)))
            case CallClimbs():
                return self._climb(facts, speaker, waiting, key)
            case CallDescends(child, uid):
                parents = facts.state.kids.get(child, ())
                speaker.desk.close(key)
                call = replace(request.call, bound=uid)
                hops = request.hops + 1
                down = replace(request, set=child, call=call, down=True, hops=hops)
                return [ForServer(parents[0], down)] if parents else []
            case _:
                return []

    def _climb(
        self, facts: SetFacts, speaker: SetSpeaker, waiting: WaitingCall, key: str
    ) -> list[Route]:
        """Nothing of the group here: ask the set above. At the top the answer is negative, once all
        sets on the way have confirmed theirs (rule C5)."""
        request = waiting.request
        if request.sure and waiting.confirmed != facts.state.vid:
            return self._confirm(facts.name, key)
        above = facts.topology.above(facts.name)
        if above is not None:
            if facts.above is None or facts.me not in facts.above.view:
                return []
            speaker.desk.close(key)
            return [
                ForSpeaker(above, replace(request, set=above, down=False, hops=request.hops + 1))
            ]
        speaker.desk.close(key)
        if request.sure:
            return _reply(
                request, CallResult(request.call.id, error=clipped(no_such_group(request)))
            )
        lan = facts.topology.set_of_interface(request.call.interface)
        again = replace(request, set=lan, sure=True, down=False, hops=0)
        return [ForServer(request.home, again)]

    def _confirm(self, name: str, key: str) -> list[Route]:
        """Ask all of the set for an answer, unless that is under way."""
        if (name, key) in self._tokens.values():
            return []
        self._last_token += TOKEN_STEP
        self._tokens[self._last_token] = (name, key)
        return [ConfirmSet(name, self._last_token)]


def _sends(
    facts: SetFacts, speaker: SetSpeaker, waiting: WaitingCall, outcome: CallOutcome
) -> tuple[CallOutcome | None, Sequence[GroupData]]:
    """A `send_msg` whose group is owned here; others go on."""
    if isinstance(outcome, CallClimbs | CallDescends):
        return outcome, ()
    uid = waiting.call.bound or facts.state.names.get(waiting.call.name, waiting.call.name)
    own = facts.stable.groups.get(uid, NO_RECORD).own if facts.stable is not None else None
    if own is None:
        return None, ()
    return speaker.data.begin(facts.now, facts.name, waiting.request, own)


def _reply(request: Resolve, result: CallResult) -> list[Route]:
    if request.call.member == PIN_ONLY:
        return []
    return [ForServer(request.home, Resolved(request.interface, result))]


def confirmed_at(speaker: SetSpeaker | None, key: str, vid: Vid | None) -> bool:
    """Note that all members of the set have answered for a call."""
    if speaker is None or vid is None:
        return False
    speaker.desk.confirmed(key, vid)
    return True
