"""Mutants of failure detection and discovery: silence, HELLO, settings, names, silent members."""

from __future__ import annotations

from phalanx.config import Config
from phalanx.core.broadcast.reliable import ReliableBroadcast
from phalanx.core.broadcast.retransmission import Retransmission
from phalanx.core.effects import Evidence, PeerState
from phalanx.core.failure_detector import FailureDetector, WatchedPeer
from phalanx.core.ids import MemberId, ViewId
from phalanx.core.member import control_plane, member
from phalanx.core.member.control_plane import ControlPlane
from phalanx.core.member.member import Member
from phalanx.core.member.view_state import ViewState
from phalanx.core.membership.discovery import Discovery
from phalanx.core.membership.instructions import Input, Instruction, Met
from phalanx.core.membership.name_claim import NameClaim
from phalanx.core.membership.protocol import MembershipProtocol
from phalanx.core.wire.frames import Component
from phalanx.core.wire.packets import ControlPacket, Hello, JoinAttempt, NameClaimed, NameHeld
from phalanx.core.wire.shared_settings import DIGEST_BYTES
from phalanx.sim.mutants.mutant import Mutant

# ------------------------------------------------------------------ signs of life


def what_waits_is_not_heard(self: ReliableBroadcast, sender: int) -> bool:
    return bool(self.dag.latest[sender][sender])


def never_catches_up(self: ControlPlane, had: int, have: int) -> bool:
    return False


def ever_more_seldom(self: Retransmission, tries: int) -> int:
    return self._config.nack_retry_ns << min(tries, 6) >> 1


def only_direct_signs(
    self: FailureDetector, now: int, peer: WatchedPeer
) -> tuple[PeerState, Evidence]:
    """Frames that others bring are no signs of life."""
    peer.since_ns = min(peer.since_ns, peer.direct_since_ns)
    return _VERDICT(self, now, peer)


_VERDICT = FailureDetector._verdict

# ------------------------------------------------------------------ searching


def never_again(self: MembershipProtocol, now: int, given: Met) -> list[Instruction]:
    """A member that was heard in a view before is not sought after it was lost."""
    if self._statements.newest(given.member) is not None:
        return []
    return _ON_MET(self, now, given)


def one_way_will_do(
    self: Discovery, now: int, hello: Hello | JoinAttempt, view: ViewId, ours: bool
) -> bool:
    _SEARCH_HEARD(self, now, hello, view, ours)
    return not ours and self.is_patient(now)


_ON_MET = MembershipProtocol._on_met
_SEARCH_HEARD = Discovery.heard

# ------------------------------------------------------------------ settings


def any_settings_will_do(config: Config) -> bytes:
    return bytes(DIGEST_BYTES)


def leaves_are_losses(
    self: ControlPlane, members: tuple[MemberId, ...], view_state: ViewState
) -> bool:
    return bool(members)


# ------------------------------------------------------------------ names


def no_answer_to_a_claim(self: NameClaim, claim: NameClaimed) -> NameHeld | None:
    return None


def nobody_vouches(
    self: ControlPlane, now: int, claim: NameClaimed, view_state: ViewState
) -> NameHeld | None:
    return None


def repeats_prove_life(
    self: ControlPlane, holder: MemberId, other: MemberId, view_state: ViewState
) -> bool:
    """A frame of a member that another one repeats counts like one that came from itself."""
    since = self._namesake_ns.get(other, 1 << 62)
    return holder == self.me or self.detector.heard_ns[view_state.ranked[holder]] > since


def outdated_views_stay(
    self: ControlPlane, now: int, held: NameHeld, view_state: ViewState
) -> list[Input]:
    return []


def crossed_views_stay(members: tuple[MemberId, ...], others: tuple[MemberId, ...]) -> bool:
    namesakes = {other.name: other for other in others}
    return all(member < namesakes.get(member.name, member) for member in members)


def namesakes_ignored(self: NameClaim, other: MemberId, alone: bool) -> NameHeld | None:
    return None


def rivals_ignored(
    self: ControlPlane, now: int, rival: MemberId, component: Component, view_state: ViewState
) -> list[ControlPacket]:
    return []


def a_group_protects_nobody(
    self: ControlPlane, now: int, packet: ControlPacket, view_state: ViewState
) -> tuple[list[ControlPacket], list[Input]]:
    """A stranger's word stops a member that is in a view with others."""
    if isinstance(packet, NameHeld):
        self.lost_name = self.lost_name or self.claim.loses(now, packet)
        doubt = self.claim.doubts(now, packet)
        return ([] if doubt is None else [doubt]), []
    return _PACKET(self, now, packet, view_state)


def namesakes_of_others_ignored(
    self: ControlPlane, now: int, component: Component, view_state: ViewState
) -> list[ControlPacket]:
    return []


def answers_stop_members(self: ControlPlane, now: int, held: NameHeld) -> list[ControlPacket]:
    """An answer to a claim stops a process that was a member, on a network that is not trusted."""
    self.lost_name = self.lost_name or self.claim.loses(now, held)
    doubt = self.claim.doubts(now, held)
    return [] if doubt is None else [doubt]


def contested_for_good(self: NameClaim, now: int) -> NameClaimed | None:
    if self.rival is not None:
        self._left = 2
    return _EXPIRE(self, now)


def seeks_while_contested(self: NameClaim) -> bool:
    return not self.pending


def goes_on_without_its_name(self: Member) -> bool:
    return False


_EXPIRE = NameClaim.expire
_PACKET = ControlPlane.packet

MUTANTS: dict[str, Mutant] = {
    "only-direct-signs": Mutant(
        "L-1: treat a member as failed though others bring its frames",
        ((FailureDetector, "_verdict", only_direct_signs),),
        "mesh",
    ),
    "unspoken-while-frames-wait": Mutant(
        "T: take a member for one that never spoke in the view while its frames wait for the first",
        ((ReliableBroadcast, "spoke", what_waits_is_not_heard),),
        "membership",
    ),
    "stalled-while-one-catches-up": Mutant(
        "L-7: miss acknowledgements that stand in frames which are still on their way",
        ((ControlPlane, "_catches_up", never_catches_up),),
        "membership",
    ),
    "asked-ever-more-seldom": Mutant(
        "B-8: ask for a frame so seldom that who does not send it again is taken for stalled",
        ((Retransmission, "_wait", ever_more_seldom),),
        "membership",
    ),
    "lost-component-not-sought": Mutant(
        "J: never again join with a member that was heard from once",
        ((MembershipProtocol, "_on_met", never_again),),
        "membership",
    ),
    "joins-over-one-way-links": Mutant(
        "L-12: start a join with whoever can be heard, whether it hears us or not",
        ((Discovery, "heard", one_way_will_do),),
        "membership",
    ),
    "settings-not-compared": Mutant(
        "L-21: let members join that order messages by another rule",
        ((member, "shared_digest", any_settings_will_do),),
        "membership",
    ),
    "claim-not-answered": Mutant(
        "L-16: let a second process take a name that is held",
        (
            (NameClaim, "answer", no_answer_to_a_claim),
            (ControlPlane, "_vouched", nobody_vouches),
        ),
        "membership",
    ),
    "nobody-vouches": Mutant(
        "L-18: say nothing for a member whose name is claimed by one that it does not hear",
        ((ControlPlane, "_vouched", nobody_vouches),),
        "membership",
    ),
    "namesake-not-told": Mutant(
        "L-17: let two holders of one name live on after they have met",
        (
            (NameClaim, "met", namesakes_ignored),
            (ControlPlane, "_namesakes", namesakes_of_others_ignored),
            (ControlPlane, "_meet_rival", rivals_ignored),
        ),
        "membership",
    ),
    "outdated-views-stay": Mutant(
        "L-19: keep a view all of whose members have later namesakes in another view",
        ((ControlPlane, "_dissolved", outdated_views_stay),),
        "membership",
    ),
    "leaves-count-as-flapping": Mutant(
        "L-13: ignore strangers for a while because members have left",
        ((ControlPlane, "any_faulty", leaves_are_losses),),
        "membership",
    ),
    "crossed-views-stay": Mutant(
        "L-19: keep two views with the same names of which each has some of the later processes",
        ((control_plane, "gives_way", crossed_views_stay),),
        "membership",
    ),
    "repeats-prove-life": Mutant(
        "L-18: let a member keep its name because others still repeat its frames",
        ((ControlPlane, "_stays", repeats_prove_life),),
        "membership",
    ),
    "joins-without-its-name": Mutant(
        "L-17: install a view with others in the step in which the name was lost",
        ((Member, "_loses_its_name", property(goes_on_without_its_name)),),
        "membership",
    ),
    "dead-namesake-wins": Mutant(
        "L-17: stop a member that a group has accepted when a process that was removed says that "
        "it has the name",
        ((ControlPlane, "packet", a_group_protects_nobody),),
        "membership",
    ),
    "answers-stop-members": Mutant(
        "L-17: stop a process that was a member for its name, where packets may be forged",
        ((ControlPlane, "_held", answers_stop_members),),
        "membership",
    ),
    "contested-for-good": Mutant(
        "L-17: stay alone though nobody else has the name any more",
        ((NameClaim, "expire", contested_for_good),),
        "membership",
    ),
    "seeks-while-contested": Mutant(
        "L-17: look for others while another process has the name",
        ((NameClaim, "is_ours", property(seeks_while_contested)),),
        "membership",
    ),
}
