"""Who of a set is silent, who has applied the last state, and who has answered a question to all.

Members watch their successor in rank order (rule M1). Each question and each answer carries the
state of its sender, so that members that lag or have diverged are found although they hear each
other (rule M11). While a state is not stable, or somebody wants an answer of everybody, all
members are asked.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from phalanx.service.values import Gid


class OpenQuestion(msgspec.Struct, frozen=True):
    """A question to all of the view (rule C5), and who has answered it at the last state."""

    token: int
    number: int
    answered: frozenset[Gid]
    deadline: int


class SetMonitor(msgspec.Struct, frozen=True):
    """Begun anew with each state. `unanswered`: for each member that was asked, the questions
    since its last sign of life. `applied_by`: who is known to have applied the last state."""

    applied_by: frozenset[Gid]
    unanswered: tuple[tuple[Gid, int], ...] = ()
    questions: tuple[OpenQuestion, ...] = ()

    def asked(self, targets: Sequence[Gid]) -> SetMonitor:
        """One more question to each target; others are not waited for."""
        known = dict(self.unanswered)
        return replace(self, unanswered=tuple((t, known.get(t, 0) + 1) for t in targets))

    def heard(self, member: Gid) -> SetMonitor:
        if all(other != member for other, _ in self.unanswered):
            return self
        return replace(self, unanswered=tuple(p for p in self.unanswered if p[0] != member))

    def silent(self, retries: int) -> tuple[Gid, ...]:
        """Who has not answered the first question and its repetitions."""
        return tuple(member for member, count in self.unanswered if count > retries)

    def with_applied(self, members: Sequence[Gid]) -> SetMonitor:
        return replace(self, applied_by=self.applied_by.union(members))

    def applied_by_all(self, view: Sequence[Gid]) -> bool:
        return all(m in self.applied_by for m in view)

    def with_question(self, me: Gid, token: int, deadline: int) -> tuple[SetMonitor, int]:
        """A question under a number of its own."""
        number = 1 + max((q.number for q in self.questions), default=token)
        question = OpenQuestion(token, number, frozenset({me}), deadline)
        return replace(self, questions=(*self.questions, question)), number

    def answered(
        self, member: Gid, number: int, view: Sequence[Gid]
    ) -> tuple[SetMonitor, tuple[int, ...]]:
        """The tokens of the questions that all have answered now."""
        still, done = [], []
        for question in self.questions:
            if question.number == number:
                question = replace(question, answered=question.answered | {member})
            if all(m in question.answered for m in view):
                done.append(question.token)
            else:
                still.append(question)
        return replace(self, questions=tuple(still)), tuple(done)

    def expired(self, now: int) -> tuple[SetMonitor, tuple[int, ...]]:
        """The tokens of the questions that nobody waits for any longer."""
        late = tuple(q.token for q in self.questions if q.deadline <= now)
        if not late:
            return self, ()
        return replace(self, questions=tuple(q for q in self.questions if q.deadline > now)), late

    def without_questions(self) -> tuple[SetMonitor, tuple[int, ...]]:
        return replace(self, questions=()), tuple(q.token for q in self.questions)


def successor(me: Gid, view: Sequence[Gid], heard: Sequence[Gid]) -> tuple[Gid, ...]:
    """The next member in rank order that is heard; none if there is no other."""
    if me not in view:
        return ()
    at = view.index(me)
    return tuple(m for m in (*view[at + 1 :], *view[:at]) if m in heard)[:1]
