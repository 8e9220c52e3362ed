"""Messages of the log, as one member sends them: each names where the member is (rule M5) and whom
it does not hear (rule M19)."""

from __future__ import annotations

from typing import Literal

import msgspec

from phalanx.service import messages
from phalanx.service.coordination import Coordination
from phalanx.service.coordinator_election import CoordinatorElection
from phalanx.service.effects import Send
from phalanx.service.entries import ChangeId
from phalanx.service.messages import Commit
from phalanx.service.values import Gid, Vid


class LogMessages(msgspec.Struct, frozen=True):
    """Makes messages with the header of this moment."""

    set: str
    base: Vid
    stable: Vid
    isolated: tuple[Gid, ...]

    def initiate(self, work: Coordination) -> messages.Initiate:
        return messages.Initiate(
            self.set, self.base, work.change, self.isolated, work.other, work.round
        )

    def initiates(self, work: Coordination) -> list[Send]:
        """The question to everybody who is asked and heard."""
        message = self.initiate(work)
        return [Send(to, message) for to in work.targets if to not in self.isolated]

    def answer(self, asked: messages.Initiate, status: Literal["acked", "busy"]) -> messages.Ack:
        id_, round_ = asked.change.id, asked.round
        return messages.Ack(self.set, self.base, id_, status, self.isolated, round_)

    def applied(self, id_: ChangeId) -> messages.Ack:
        return messages.Ack(self.set, self.base, id_, "applied", self.isolated)

    def question(self, number: int = 0) -> messages.Monitor:
        return messages.Monitor(self.set, self.base, self.stable, number, self.isolated)

    def reply(self, number: int) -> messages.MonitorReply:
        return messages.MonitorReply(self.set, self.base, self.stable, number, self.isolated)

    def missing(self, commits: tuple[Commit, ...]) -> messages.MissingCommits:
        return messages.MissingCommits(self.set, self.base, commits, self.isolated)

    def stable_up_to(self, vid: Vid) -> messages.StableUpTo:
        return messages.StableUpTo(self.set, self.base, vid, self.isolated)

    def report(self, run: CoordinatorElection) -> messages.CoordinatorFailed:
        """This member's status in an election."""
        return messages.CoordinatorFailed(
            self.set, self.base, run.change, run.failed, run.status, False, self.isolated
        )

    def reply_to(self, asked: messages.CoordinatorFailed) -> messages.CoordinatorFailed:
        """For a member that is still in an election that is over here, or not begun."""
        return messages.CoordinatorFailed(
            self.set, self.base, asked.change, asked.failed, "acked", True, self.isolated
        )
