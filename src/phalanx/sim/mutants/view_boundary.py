"""Mutants of where a view ends and the next begins: the rules Cut and Early delivery, carried
frames, votes and stability."""

from __future__ import annotations

import msgspec

from phalanx.core.broadcast.outbox import Outbox
from phalanx.core.effects import Deliver, Effect, ViewInstalled
from phalanx.core.ids import MemberId
from phalanx.core.member.active_view import ActiveView
from phalanx.core.member.frame_builder import Content
from phalanx.core.member.sender import Sender
from phalanx.core.member.view_change import ViewChange
from phalanx.core.member.view_state import ViewState
from phalanx.core.membership.carryover import ViewOrigin
from phalanx.core.membership.instructions import InstallView
from phalanx.core.membership.protocol import MembershipProtocol
from phalanx.core.wire.frames import ControlMessage, Frame, Propose
from phalanx.sim.mutants.mutant import Mutant

# ------------------------------------------------------------------ the cut


def all_that_is_here(self: ViewState, closings: dict[MemberId, int]) -> list[int]:
    """Everything that entered, whether what closed the view follows it or not."""
    return self.dag.have.copy()


def last_proposals(self: ViewState, closings: dict[MemberId, int]) -> list[int]:
    """The past of the last proposal of each member, not of the one that is installed."""
    last = dict(closings)
    for frame in self.carry:
        member = self.view.members[frame.sender]
        if frame.control is not None and isinstance(frame.control.said, Propose):
            if member in last:
                last[member] = max(last[member], frame.number)
    return _CUT(self, last)


def first_proposals(self: ViewState, closings: dict[MemberId, int]) -> list[int]:
    """The past of the first proposal of each member."""
    first: dict[MemberId, int] = {}
    for frame in self.carry:
        if frame.control is not None and isinstance(frame.control.said, Propose):
            first.setdefault(self.view.members[frame.sender], frame.number)
    return _CUT(self, {member: first.get(member, n) for member, n in closings.items()})


def own_past(self: ViewState, closings: dict[MemberId, int]) -> list[int]:
    """The past of the own closing frame alone (S0 Fig. 8)."""
    return _CUT(self, {self.me: closings[self.me]})


_CUT = ViewState.cut

# ------------------------------------------------------------------ early delivery


def nothing_is_held(self: ViewChange, sender: MemberId) -> bool:
    return False


def every_proposal_releases(self: ViewState, frame: Frame) -> bool:
    """A later proposal of a member releases what it follows, as its first one does."""
    return True


def released_by_anybody(self: ViewChange, now: int, frame: Frame, out: list[Effect]) -> None:
    """A frame of phase 1 that is no first proposal releases what it follows."""
    state = self._active.state
    _ENTER_FRAME(self, now, frame, out)
    if self._active.state is state and frame.phase and frame.tag == state.tag:
        self._active.deliver(now, state.released(frame.vector), out)


_ENTER_FRAME = ViewChange._enter_frame

# ------------------------------------------------------------------ phases and carried frames


def no_phase(self: MembershipProtocol) -> int:
    """Frames of a change belong to the view that ends."""
    return 1 if self.stage == "LEAVING" else 0


def nothing_is_carried(self: ViewOrigin, frame: Frame, sender: MemberId) -> bool:
    return False


def carried_from_anywhere(self: ViewOrigin, frame: Frame, sender: MemberId) -> bool:
    """Frames of phase 1 are carried into any later view of their sender."""
    return sender in self.entries and frame.phase == 1 and frame.number > self.starts[sender]


def start_at_the_closing(
    self: ActiveView,
    now: int,
    first: int,
    content: Content,
    said: ControlMessage | None,
    out: list[Effect],
) -> Frame:
    """Messages that a member sent in phase 1 before its closing frame are not carried."""
    self.state.first_carried = 0
    return _SEND(self, now, first, content, said, out)


def never_held(self: Sender, protocol: MembershipProtocol) -> bool:
    return False


_SEND = ActiveView._send

# ------------------------------------------------------------------ votes and stability


def vote_in_phase_1(self: ViewChange, now: int, frame: Frame, out: list[Effect]) -> None:
    """A frame of a change votes in the view that it ends."""
    state = self._active.state
    _ENTER_FRAME(self, now, frame, out)
    if self._active.state is state and frame.phase and frame.tag == state.tag:
        vote = msgspec.structs.replace(frame, ordered=False)
        deliveries: list[Deliver] = []
        state.queue.advance(state.order.insert(vote), deliveries)
        out += deliveries


def stable_by_phase_1(self: ViewChange, now: int, frame: Frame, out: list[Effect]) -> None:
    """A frame of a change proves stable what it follows."""
    state = self._active.state
    _ENTER_FRAME(self, now, frame, out)
    if self._active.state is state and frame.phase and frame.tag == state.tag:
        state.dag.count_deferred(frame)


def stable_by_carried(self: ViewChange, now: int, frame: Frame, out: list[Effect]) -> None:
    """A carried frame proves stable what it follows, though its sender may never come."""
    _ENTER_REGULAR(self, now, frame, out)
    state = self._active.state
    if frame.phase and not self._must_hold(state.sender_of(frame)):
        state.dag.count_deferred(frame)
        self._active.deliver(now, [], out)


_ENTER_REGULAR = ViewChange._enter_regular

# ------------------------------------------------------------------ what crosses


def all_came_along(
    self: ViewChange, now: int, install: InstallView, inputs: object, out: list[Effect]
) -> None:
    begun = len(out)
    _INSTALL(self, now, install, inputs, out)  # type: ignore[arg-type]
    for index in range(begun, len(out)):
        effect = out[index]
        if isinstance(effect, ViewInstalled):
            out[index] = msgspec.structs.replace(effect, transitional=install.view.members)


def forget_the_view_before(
    self: ViewChange, now: int, before: ViewState, inputs: object, out: list[Effect]
) -> None:
    _INHERIT(self, now, before, inputs, out)  # type: ignore[arg-type]
    self._resources.past_frames.clear()
    self._resources.foreign.clear()


def never_fetched(self: MembershipProtocol, said: object) -> list[object]:
    return []


def not_again(self: Outbox) -> None:
    """The rest of a large message goes on in the next view."""


def not_readdressed(self: Outbox, ranks: dict[int, int]) -> list[object]:
    """Receivers keep their ranks of the view before."""
    return []


_INSTALL = ViewChange._install
_INHERIT = ViewChange._inherit

MUTANTS: dict[str, Mutant] = {
    "no-closing-cut": Mutant(
        "Cut: deliver at the end of a view all that is here",
        ((ViewState, "cut", all_that_is_here),),
        "walk",
    ),
    "cut-at-last-proposals": Mutant(
        "Cut: end a view at the last proposals of its members",
        ((ViewState, "cut", last_proposals),),
        "walk",
    ),
    "cut-at-first-proposals": Mutant(
        "Cut: end a view at the first proposals of its members",
        ((ViewState, "cut", first_proposals),),
        "walk",
    ),
    "cut-at-own-proposal": Mutant(
        "Cut: end a view at the own closing frame",
        ((ViewState, "cut", own_past),),
        "walk",
    ),
    "everything-delivered-early": Mutant(
        "Early delivery: deliver what enters, whosever it is",
        ((ViewChange, "_must_hold", nothing_is_held),),
        "walk",
    ),
    "later-proposals-release": Mutant(
        "Early delivery: let every proposal of a member release what it follows",
        ((ViewState, "is_first_proposal", every_proposal_releases),),
        "walk",
    ),
    "released-by-anybody": Mutant(
        "Early delivery: let any frame of phase 1 release what it follows",
        ((ViewChange, "_enter_frame", released_by_anybody),),
        "walk",
    ),
    "phase-not-taken-over": Mutant(
        "Cut: tag frames of a change as frames of the view that ends",
        ((MembershipProtocol, "phase", property(no_phase)),),
        "walk",
    ),
    "nothing-is-carried": Mutant(
        "Cut: drop what was sent in phase 1",
        ((ViewOrigin, "carries", nothing_is_carried),),
        "walk",
    ),
    "carried-from-anywhere": Mutant(
        "Cut: carry frames of phase 1 into any later view of their sender",
        ((ViewOrigin, "carries", carried_from_anywhere),),
        "walk",
    ),
    "start-at-the-closing": Mutant(
        "Cut: drop what was sent in phase 1 before the closing frame",
        ((ActiveView, "_send", start_at_the_closing),),
        "walk",
    ),
    "sends-while-held": Mutant(
        "W-13: send during a change although the mode is hold",
        ((Sender, "_is_held", never_held),),
        "walk",
    ),
    "votes-in-phase-1": Mutant(
        "O-2: count frames of a change as votes in the view that it ends",
        ((ViewChange, "_enter_frame", vote_in_phase_1),),
        "walk",
    ),
    "stable-by-phase-1": Mutant(
        "B-12: take messages for safe that only frames of a change acknowledge",
        ((ViewChange, "_enter_frame", stable_by_phase_1),),
        "walk",
    ),
    "stable-by-carried": Mutant(
        "B-12: take messages for safe that only carried frames acknowledge",
        ((ViewChange, "_enter_regular", stable_by_carried),),
        "walk",
    ),
    "transitional-set-of-all": Mutant(
        "D-18: report that all members of the next view came along",
        ((ViewChange, "_install", all_came_along),),
        "walk",
    ),
    "old-view-forgotten": Mutant(
        "R3: forget the frames of the view before at the install",
        ((ViewChange, "_inherit", forget_the_view_before),),
        "walk",
    ),
    "closings-not-fetched": Mutant(
        "R3: do not ask for the frames that closed a view",
        ((MembershipProtocol, "_fetches", never_fetched),),
        "walk",
    ),
    "large-message-goes-on": Mutant(
        "F-12: send the rest of a large message in the next view",
        ((Outbox, "again", not_again),),
        "walk",
    ),
    "receivers-keep-their-ranks": Mutant(
        "D-19: address what waits by the ranks of the view before",
        ((Outbox, "readdress", not_readdressed),),
        "walk",
    ),
}
