"""Mutants of seeing and being seen: silence, HELLO, settings, names, members that never speak."""

from __future__ import annotations

from phalanx.config import Config
from phalanx.core import speaker
from phalanx.core.frames import Attempt, Claim, Component, Held, Hello, Plain
from phalanx.core.ids import MemberId, ViewId
from phalanx.core.lansis import Lansis
from phalanx.core.membership.discovery import Discovery
from phalanx.core.membership.name_claim import NameClaim
from phalanx.core.membership.protocol import MembershipProtocol
from phalanx.core.membership.steps import Input, Instruction, Met
from phalanx.core.presence import Presence
from phalanx.core.recovery import Recovery
from phalanx.core.shared_settings import DIGEST_BYTES
from phalanx.core.stay import Stay
from phalanx.sim.mutants.mutant import Mutant

# ------------------------------------------------------------------ signs of life


def what_waits_is_not_heard(self: Lansis, sender: int) -> bool:
    return bool(self.dag.latest[sender][sender])


def never_catches_up(self: Presence, had: int, have: int) -> bool:
    return False


def ever_more_seldom(self: Recovery, tries: int) -> int:
    return self._config.nack_retry_ns << min(tries, 6) >> 1


# ------------------------------------------------------------------ searching


def never_again(self: MembershipProtocol, now: int, given: Met) -> list[Instruction]:
    """Whoever was heard in a view before is not sought after it was lost."""
    if self._statements.newest(given.member) is not None:
        return []
    return _ON_MET(self, now, given)


def one_way_will_do(
    self: Discovery, now: int, hello: Hello | Attempt, view: ViewId, ours: bool
) -> bool:
    _SEARCH_HEARD(self, now, hello, view, ours)
    return not ours and self.is_patient(now)


_ON_MET = MembershipProtocol._on_met
_SEARCH_HEARD = Discovery.heard

# ------------------------------------------------------------------ settings


def any_settings_will_do(config: Config) -> bytes:
    return bytes(DIGEST_BYTES)


# ------------------------------------------------------------------ names


def no_answer_to_a_claim(self: NameClaim, claim: Claim) -> Held | None:
    return None


def nobody_vouches(self: Presence, now: int, claim: Claim, stay: Stay) -> Held | None:
    return None


def repeats_prove_life(self: Presence, holder: MemberId, other: MemberId, stay: Stay) -> bool:
    """A frame of a member that another one repeats counts like one that came from itself."""
    since = self._namesake_ns.get(other, 1 << 62)
    return holder == self.me or self.detector.heard_ns[stay.ranked[holder]] > since


def outdated_views_stay(self: Presence, now: int, held: Held, stay: Stay) -> list[Input]:
    return []


def namesakes_ignored(self: NameClaim, other: MemberId, alone: bool) -> Held | None:
    return None


def rivals_ignored(
    self: Presence, now: int, rival: MemberId, component: Component, stay: Stay
) -> list[Plain]:
    return []


def a_group_protects_nobody(
    self: Presence, now: int, packet: Plain, stay: Stay
) -> tuple[list[Plain], list[Input]]:
    """A stranger's word stops a member that is in a view with others."""
    if isinstance(packet, Held):
        self.lost_name = self.lost_name or self.claim.loses(now, packet)
        doubt = self.claim.doubts(now, packet)
        return ([] if doubt is None else [doubt]), []
    return _PACKET(self, now, packet, stay)


def namesakes_of_others_ignored(
    self: Presence, now: int, component: Component, stay: Stay
) -> list[Plain]:
    return []


_PACKET = Presence.packet

MUTANTS: dict[str, Mutant] = {
    "unspoken-while-frames-wait": Mutant(
        "take a member for one that never spoke in the view while its frames wait for the first",
        ((Lansis, "spoke", what_waits_is_not_heard),),
        "membership",
    ),
    "stalled-while-one-catches-up": Mutant(
        "miss acknowledgements that stand in frames which are still on their way",
        ((Presence, "_catches_up", never_catches_up),),
        "membership",
    ),
    "asked-ever-more-seldom": Mutant(
        "ask for a frame so seldom that who does not send it again is taken for stalled",
        ((Recovery, "_wait", ever_more_seldom),),
        "membership",
    ),
    "lost-component-not-sought": Mutant(
        "never again join with a member that was heard from once",
        ((MembershipProtocol, "_on_met", never_again),),
        "membership",
    ),
    "joins-over-one-way-links": Mutant(
        "start a join with whoever can be heard, whether it hears us or not",
        ((Discovery, "heard", one_way_will_do),),
        "membership",
    ),
    "settings-not-compared": Mutant(
        "let members join that order messages by another rule",
        ((speaker, "shared_digest", any_settings_will_do),),
        "membership",
    ),
    "claim-not-answered": Mutant(
        "let a second process take a name that is held",
        (
            (NameClaim, "answer", no_answer_to_a_claim),
            (Presence, "_vouched", nobody_vouches),
        ),
        "membership",
    ),
    "nobody-vouches": Mutant(
        "say nothing for a member whose name is claimed by one that it does not hear",
        ((Presence, "_vouched", nobody_vouches),),
        "membership",
    ),
    "namesake-not-told": Mutant(
        "let two holders of one name live on after they have met",
        (
            (NameClaim, "met", namesakes_ignored),
            (Presence, "_namesakes", namesakes_of_others_ignored),
            (Presence, "_meet_rival", rivals_ignored),
        ),
        "membership",
    ),
    "outdated-views-stay": Mutant(
        "keep a view all of whose members have later namesakes in another view",
        ((Presence, "_dissolved", outdated_views_stay),),
        "membership",
    ),
    "repeats-prove-life": Mutant(
        "let a member keep its name because others still repeat its frames",
        ((Presence, "_stays", repeats_prove_life),),
        "membership",
    ),
    "dead-namesake-wins": Mutant(
        "stop a member that a group has accepted when a process that was removed says that it has "
        "the name",
        ((Presence, "packet", a_group_protects_nobody),),
        "membership",
    ),
}
