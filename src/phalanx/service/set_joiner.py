"""A server that is not a member of a set yet and asks to be added (rules H1, H7, C6).

It asks the servers that it knows, in turn, until one of them proposes the change. It answers the
Initiate of that change like a member, and takes the whole state from the Commit: `admitted` is then
the record with which its `SetLog` begins.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from phalanx.service import effects, inputs, messages
from phalanx.service.coordination import joiners
from phalanx.service.effects import LogEffect, Send, SetRecord
from phalanx.service.service_times import ServiceTimes
from phalanx.service.values import Gid, SetState


class SetJoiner:
    """Ends with `admitted`; its owner may end it before that at any time."""

    __slots__ = ("_asked", "_at", "_contacts", "_period_ns", "admitted", "me", "set")

    def __init__(
        self, me: Gid, name: str, contacts: Sequence[Gid], times: ServiceTimes, now: int
    ) -> None:
        self.me = me
        self.set = name
        self._contacts = tuple(c for c in contacts if c != me)
        self._asked = 0
        self._at = now
        self._period_ns = times.announce_ns
        self.admitted: SetRecord | None = None

    def deadline(self) -> int:
        return self._at

    def step(self, now: int, given: inputs.MessageReceived | inputs.TimerDue) -> list[LogEffect]:
        match given:
            case inputs.TimerDue():
                return self._ask(now)
            case inputs.MessageReceived(sender, messages.Initiate() as message):
                if self.me not in joiners(message.change, ()):
                    return []
                ack = messages.Ack(self.set, message.base, message.change.id, "acked")
                return [Send(sender, ack)]
            case inputs.MessageReceived(sender, messages.Commit(state=SetState()) as commit):
                return self._admit(sender, commit)
            case _:
                return []

    def _ask(self, now: int) -> list[LogEffect]:
        self._at = now + self._period_ns
        if not self._contacts:
            return []
        to = self._contacts[self._asked % len(self._contacts)]
        self._asked += 1
        return [Send(to, messages.EnterSet(self.set))]

    def _admit(self, sender: Gid, commit: messages.Commit) -> list[LogEffect]:
        state = commit.state
        if state is None or state.vid != commit.vid or self.me not in state.view:
            return [effects.Ignored("state of another commit", sender)]
        record = SetRecord(state, None, (replace(commit, state=None),))
        self.admitted = record
        applied = messages.Ack(self.set, state.vid, commit.id, "applied")
        return [
            effects.Persist(record),
            Send(sender, applied),
            effects.StateApplied(state, commit),
        ]
