"""A server that is not a member of a set yet and asks to be added (rules H1, H7, C6).

It asks at the multicast address of the set until a component proposes the change. It answers the
Initiate of that change like a member, and takes the whole state from the Commit of a change that it
has acknowledged; any other could be one that it was a member of before it left: `admitted` is then
the record with which its `SetLog` begins. A component that exists shows itself (`AnnounceState`);
when none has for a while, the server founds one (`may_found`).
"""

from __future__ import annotations

from msgspec.structs import replace

from phalanx.service import effects, inputs, messages
from phalanx.service.coordination import joiners
from phalanx.service.effects import Multicast, Send, ServiceEffect, SetRecord
from phalanx.service.entries import ChangeId
from phalanx.service.service_times import ServiceTimes
from phalanx.service.values import NOWHERE, Gid, SetState

ACKED_MAX = 64


class SetJoiner:
    """Ends with `admitted`; its owner may end it before that at any time."""

    __slots__ = (
        "_acked",
        "_alone_since",
        "_at",
        "_base",
        "_shunned",
        "_period_ns",
        "_wait_ns",
        "admitted",
        "me",
        "set",
    )

    def __init__(self, me: Gid, name: str, times: ServiceTimes, now: int) -> None:
        self.me = me
        self.set = name
        self._at = now
        self._alone_since = now
        self._period_ns = times.announce_ns
        self._wait_ns = times.grace_ns
        self._acked: tuple[ChangeId, ...] = ()
        self._base = NOWHERE
        self._shunned: frozenset[Gid] = frozenset()
        """Members that a coordinator on this base has isolated: their changes are not answered any
        more, as members of the base would not."""
        self.admitted: SetRecord | None = None

    def deadline(self) -> int:
        return self._at

    def may_found(self, now: int) -> bool:
        """Nobody of the set has been heard for a while."""
        return now - self._alone_since >= self._wait_ns

    def step(
        self, now: int, given: inputs.MessageReceived | inputs.TimerDue
    ) -> list[ServiceEffect]:
        match given:
            case inputs.TimerDue():
                return self._ask(now)
            case inputs.MessageReceived(message=messages.AnnounceState()):
                self._alone_since = now
                return []
            case inputs.MessageReceived(sender, messages.Initiate() as message):
                self._alone_since = now
                if self.me not in joiners(message.change, ()):
                    return []
                if message.base != self._base:
                    self._base, self._shunned = message.base, frozenset()
                if sender in self._shunned:
                    return []
                self._shunned |= frozenset(message.isolated)
                self._acked = (*self._acked, message.change.id)[-ACKED_MAX:]
                id_, round_ = message.change.id, message.round
                ack = messages.Ack(self.set, message.base, id_, "acked", (), round_)
                return [Send(sender, ack)]
            case inputs.MessageReceived(sender, messages.Commit(state=SetState()) as commit):
                return self._admit(sender, commit)
            case _:
                return []

    def _ask(self, now: int) -> list[ServiceEffect]:
        self._at = now + self._period_ns
        return [Multicast(self.set, messages.EnterSet(self.set))]

    def _admit(self, sender: Gid, commit: messages.Commit) -> list[ServiceEffect]:
        state = commit.state
        if (
            commit.id not in self._acked or sender in self._shunned
        ):  # an earlier life was in that state, and has gone on
            return [effects.Ignored("state of a change that was not acknowledged", sender)]
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
