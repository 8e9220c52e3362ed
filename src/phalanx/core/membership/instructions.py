"""What the membership protocol is given and what it asks for.

Inputs are facts, in the past tense; instructions are what the member must do about them, in order.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from phalanx.core.effects import Action, Evidence
from phalanx.core.ids import MemberId, View, ViewId
from phalanx.core.membership.proposals import Proposal
from phalanx.core.membership.statements import Issue, Statement
from phalanx.core.wire.frames import Component

# ------------------------------------------------------------------ inputs


class Suspected(msgspec.Struct, frozen=True):
    """This member treats these as failed: the failure detector, an operator or a time-out."""

    members: tuple[MemberId, ...]
    evidence: Evidence | None = None
    """What to report as the reason; None if the suspicion was reported before."""


class Heard(msgspec.Struct, frozen=True):
    """An announced frame, a HELLO or an attempt to join has arrived. `contact` if members of its
    sender's view and of this one hear each other, and it is time to join others."""

    statement: Statement
    contact: bool


class Entered(msgspec.Struct, frozen=True):
    """A frame of phase 1 has entered with all its past: one of this view, or one that was carried
    into it. Also one's own, when it was sent."""

    statement: Statement


class Met(msgspec.Struct, frozen=True):
    """A member outside the view and this one hear each other (HELLO)."""

    member: MemberId
    view: ViewId


class Attempted(msgspec.Struct, frozen=True):
    """A member makes its component known in order to join (S0 Fig. 5: AJ)."""

    member: MemberId
    component: Component


class Expired(msgspec.Struct, frozen=True):
    """The deadline has come. `unspoken`: members that have not sent a frame in the view."""

    unspoken: tuple[MemberId, ...] = ()


class AllSpoke(msgspec.Struct, frozen=True):
    """All members of the view have sent a frame in it."""


class Resumed(msgspec.Struct, frozen=True):
    """The view that was to be installed is."""


class RoleSet(msgspec.Struct, frozen=True):
    """The application has set the operations of this member: sorted, without repetition."""

    operations: tuple[str, ...]


class LeaveRequested(msgspec.Struct, frozen=True):
    """This member shall leave."""


Input = (
    Suspected
    | Heard
    | Entered
    | Met
    | Attempted
    | Expired
    | AllSpoke
    | Resumed
    | RoleSet
    | LeaveRequested
)

# ------------------------------------------------------------------ instructions


class IssueProposal(msgspec.Struct, frozen=True):
    """Send a frame that issues the proposal, and give it back as `Entered`."""

    proposal: Proposal


class InstallView(msgspec.Struct, frozen=True):
    """Close the view, install the one that the proposal makes, then give `Resumed`."""

    before: View
    proposal: Proposal
    issues: dict[MemberId, Issue]
    """Per member of the next view, its closing frame: the one that issued the proposal."""

    @property
    def view(self) -> View:
        return self.proposal.view

    @property
    def together(self) -> tuple[MemberId, ...]:
        """Members of the next view that come from the one before."""
        entries = self.proposal.entries
        return tuple(m for m in self.view.members if entries[m] == self.before.id)

    @property
    def cause(self) -> Literal["removal", "join", "role"]:
        """`role`: nobody comes or goes. It is the same at all members of the view."""
        proposal = self.proposal
        if len(proposal.live) > 1:
            return "join"
        (came_from,) = proposal.live
        component = proposal.components[came_from]
        same = len(component.members) == len(proposal.entries)
        return "role" if same and component.roles != proposal.roles else "removal"


class Fetch(msgspec.Struct, frozen=True):
    """Ask for frames which issue a proposal of this member's: whose, sent in which view, number."""

    places: tuple[tuple[MemberId, ViewId, int], ...]


class BroadcastAttempt(msgspec.Struct, frozen=True):
    """Make the component known in order to join."""


class AnnounceView(msgspec.Struct, frozen=True):
    """Make the view known: a member of another one counts this member from a view it has left."""


class SendLeave(msgspec.Struct, frozen=True):
    """Send the last frame."""


class ReportSuspicion(msgspec.Struct, frozen=True):
    """A member of the view is left out on this evidence."""

    member: MemberId
    evidence: Evidence


class ReportStep(msgspec.Struct, frozen=True):
    """For the journal: the protocol took a step."""

    action: Action
    proposal: Proposal
    before: tuple[MemberId, ...]
    """Members that were left out before the step."""
    after: tuple[MemberId, ...]


Instruction = (
    IssueProposal
    | InstallView
    | Fetch
    | BroadcastAttempt
    | AnnounceView
    | SendLeave
    | ReportSuspicion
    | ReportStep
)
