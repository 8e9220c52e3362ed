"""Mutants of what a group over channels rests on: rules of docs/protocol/channels.md.

Over channels frames come by way of others, gaps are long, and members fail and join while others
change the view. These rules hold over any network; scenarios of kind `mesh` need them soonest.
"""

from __future__ import annotations

from phalanx.core.broadcast.dag import Dag
from phalanx.core.broadcast.frame_store import FrameStore
from phalanx.core.broadcast.retransmission import Named, Retransmission
from phalanx.core.effects import Effect
from phalanx.core.ids import ViewId
from phalanx.core.member.active_view import ActiveView
from phalanx.core.membership.draft import Draft
from phalanx.core.membership.instructions import Instruction, Suspected
from phalanx.core.membership.proposals import Proposal
from phalanx.core.membership.protocol import MembershipProtocol
from phalanx.core.membership.statements import Statement
from phalanx.core.wire.frames import Frame, Place
from phalanx.core.wire.packets import Want
from phalanx.sim.mutants.mutant import Mutant


def faults_wait(self: MembershipProtocol, now: int, given: Suspected) -> list[Instruction]:
    """A failure during a change is remembered for the next view, as S1 5.3 has it."""
    if not self.issued:
        return _ON_SUSPECTED(self, now, given)
    self._suspects |= {member for member in given.members if member in self.view.members}
    return []


def statement_of_any_view(
    self: Draft, proposal: Proposal, view: ViewId, said: Statement, just: bool
) -> bool:
    """Control messages have no version, as in S1 5.3."""
    return self._unite_with(proposal, said)


def nobody_forwards(
    self: Retransmission, now: int, place: Place | Named, fragments: int, attempt: int, n: int
) -> None:
    """Only the sender of a frame repeats it."""


def asks_for_nothing(self: Retransmission, now: int) -> list[Want]:
    """What is missing is put off again and again."""
    _WANTS(self, now)
    return []


def silent_in_a_new_view(self: ActiveView, now: int, out: list[Effect]) -> None:
    """A member that has nothing to send does not show the others that it is in the view."""
    state = self.state
    if state.awaiting_first_frames and not self._sender.outbox.messages:
        if state.ack_scheduler.due(now, state.settled and state.broadcast.steady):
            state.ack_scheduler.spoke(now, False)
        return
    _SEND_DUE(self, now, out)


def enters_without_its_past(self: Dag, frame: Frame) -> bool:
    """Channels keep the order, so a frame enters when it is the next of its sender."""
    return frame.number == self.have[frame.sender] + 1


def drops_what_others_lack(self: FrameStore) -> None:
    """Frames are dropped when they are stable at any member."""
    dag = self.dag
    stable = dag.stable.copy()
    for sender in dag.newly_stable:
        dag.stable[sender] = max(stable[sender], dag.have[sender] - 1)
    _DROP_STABLE(self)
    dag.stable[:] = stable


_ON_SUSPECTED = MembershipProtocol._on_suspected
_WANTS = Retransmission.wants
_SEND_DUE = ActiveView.send_due
_DROP_STABLE = FrameStore.drop_stable

MUTANTS: dict[str, Mutant] = {
    "faults-wait-for-the-next-view": Mutant(
        "R1: leave a member that fails during a change to the next view",
        ((MembershipProtocol, "_on_suspected", faults_wait),),
        "mesh",
    ),
    "statements-of-any-view": Mutant(
        "R5: unite with what a member proposed from another view than its entry",
        ((Draft, "_consider", statement_of_any_view),),
        "walk",
    ),
    "nobody-forwards": Mutant(
        "B-9: let only the sender of a frame repeat it",
        ((Retransmission, "answer_later", nobody_forwards),),
        "mesh",
    ),
    "gaps-not-asked-for": Mutant(
        "B-6: never ask for a frame that is missing",
        ((Retransmission, "wants", asks_for_nothing),),
        "mesh",
    ),
    "silent-in-a-new-view": Mutant(
        "T: send nothing in a new view before there is a message to send",
        ((ActiveView, "send_due", silent_in_a_new_view),),
        "mesh",
    ),
    "enters-without-its-past": Mutant(
        "B-2: let a frame enter before what it follows",
        ((Dag, "ready", enters_without_its_past),),
        "mesh",
    ),
    "dropped-before-others-have-it": Mutant(
        "B-13: drop a frame though some members lack it",
        ((FrameStore, "drop_stable", drops_what_others_lack),),
        "mesh",
    ),
}
