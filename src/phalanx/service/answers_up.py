"""Answers of interfaces on their way up, from homes and speakers to the speaker of the set above.

Whole answers (`Tell`) wait a few milliseconds for others; what members have moved on since
(`Advance`) goes at once, behind the answers that wait: those are of an earlier moment.
"""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.service.answer_batches import AnswerBatches
from phalanx.service.call_routes import ForSpeaker, Route
from phalanx.service.group_messages import Advance, Moved, QueryReply, Tell
from phalanx.service.interface_polls import InterfacePolls
from phalanx.service.look_scope import LookScopes
from phalanx.service.set_log import SetLog
from phalanx.service.set_speaker import SetSpeaker
from phalanx.service.set_tree import SetTree
from phalanx.service.values import Gid, SetState

Logs = Mapping[str, SetLog]


class AnswersUp:
    """Of one server; `speakers`, `polls` and `looks` are those of its owner."""

    def __init__(
        self,
        topology: SetTree,
        speakers: Mapping[str, SetSpeaker],
        polls: Mapping[str, InterfacePolls],
        looks: LookScopes,
    ) -> None:
        self._topology = topology
        self._speakers = speakers
        self._polls = polls
        self._looks = looks
        self._batches = AnswerBatches()

    def deadline(self) -> int:
        return self._batches.deadline()

    def due(self, now: int) -> list[Route]:
        """What has waited long enough."""
        return [ForSpeaker(tell.set, tell) for tell in self._batches.due(now)]

    # -------------------------------------------------------------- at a home

    def answered(self, now: int, logs: Logs, sender: Gid, reply: QueryReply) -> None:
        """An interface of this home has answered a poll."""
        for name in self._homes_of(logs, sender, reply.served.interface):
            tell = self._polls[name].answered(logs[name].state, reply)
            if tell is not None:
                self._batches.add(now, tell)

    def moved(self, logs: Logs, sender: Gid, moved: Moved) -> list[Route]:
        """Members of an interface of this home have taken directives."""
        out: list[Route] = []
        for name in self._homes_of(logs, sender, moved.interface):
            advance = self._polls[name].advanced(logs[name].state, moved)
            if advance is not None:
                out += [*self._waiting(), ForSpeaker(name, advance)]
        return out

    def _homes_of(self, logs: Logs, sender: Gid, interface: str) -> list[str]:
        if sender.name != interface:
            return []
        return [
            name
            for name in sorted(self._polls)
            if self._polls[name].is_served(logs[name].state, interface)
        ]

    # -------------------------------------------------------------- at a speaker

    def told(self, now: int, logs: Logs, sender: Gid, tell: Tell) -> list[Route]:
        """An answer for the table of a set, and for the one above."""
        speaker = self._speakers.get(tell.set)
        if speaker is None or tell.set not in logs:
            return []
        changed = speaker.heard(sender, tell)
        if changed is None or changed:
            self._looks.touch([tell.set], changed)
        question = speaker.answer_above(now, self._above(logs, tell.set), tell)
        if question is None or not tell.served:
            return []
        state = logs[tell.set].state
        valid = tuple(
            served
            for served in tell.served
            if speaker.table.entry(now, state, served.interface) is not None
        )
        asked, set_above, lineage = question
        self._batches.add(now, Tell(set_above, lineage, asked, tell.set, valid))
        return []

    def advanced(self, now: int, logs: Logs, sender: Gid, message: Advance) -> list[Route]:
        """The same of members that have moved on."""
        name, speaker = message.set, self._speakers.get(message.set)
        if speaker is None or name not in logs:
            return []
        uids = speaker.table.advance(sender, message)
        if uids:
            self._looks.touch([name], uids)
        state, moved = logs[name].state, message.moved
        above = self._above(logs, name)
        asked = speaker.asked_above(now, above, message.asked)
        if asked is None or above is None:
            return []
        if speaker.table.entry(now, state, moved.interface) is None:
            return []
        passed = Advance(above.set, above.lineage, asked, name, moved)
        return [*self._waiting(), ForSpeaker(above.set, passed)]

    def _waiting(self) -> list[Route]:
        return [ForSpeaker(tell.set, tell) for tell in self._batches.all()]

    def _above(self, logs: Logs, name: str) -> SetState | None:
        above = self._topology.above(name)
        return logs[above].state if above is not None and above in logs else None
