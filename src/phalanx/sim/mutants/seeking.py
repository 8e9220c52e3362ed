"""Mutants of seeing and being seen: silence, HELLO, names, members that never speak."""

from __future__ import annotations

import msgspec

from phalanx.core.frames import Alive, Attempt, Claim, Component, Held, Hello, Plain
from phalanx.core.ids import MemberId, ViewId
from phalanx.core.membership.kernel import Kernel
from phalanx.core.membership.names import NameClaim
from phalanx.core.membership.search import Search
from phalanx.core.mover import Mover
from phalanx.core.presence import Presence
from phalanx.core.stay import Stay
from phalanx.sim.mutants.mutant import Mutant

# ------------------------------------------------------------------ signs of life


def any_hello_is_a_sign(self: Presence, now: int, hello: Hello, stay: Stay) -> list[Plain]:
    if hello.sender in stay.ranked and hello.sender != self.me:
        self._sign(now, hello.sender, stay)
    return _HELLO(self, now, hello, stay)


def any_answer_is_a_sign(self: Presence, now: int, alive: Alive, stay: Stay) -> list[Plain]:
    return _ALIVE(self, now, msgspec.structs.replace(alive, view=stay.view.id), stay)


def all_have_spoken(self: Mover) -> list[MemberId]:
    return []


_HELLO = Presence._hello
_ALIVE = Presence._alive

# ------------------------------------------------------------------ searching


def never_again(self: Kernel, member: MemberId, view: ViewId) -> None:
    """Whoever was heard in a view before is not sought after it was lost."""
    if member not in self._past._newest:
        _FOREIGN(self, member, view)


def one_way_will_do(
    self: Search, now: int, hello: Hello | Attempt, view: ViewId, ours: bool
) -> bool:
    _SEARCH_HEARD(self, now, hello, view, ours)
    return not ours and now >= self._patient_until


def overtaken_hellos_count(
    self: Search, now: int, hello: Hello | Attempt, view: ViewId, ours: bool
) -> bool:
    known = self._strangers.get(hello.sender)
    if known is not None:
        known.number = min(known.number, hello.number)
    return _SEARCH_HEARD(self, now, hello, view, ours)


_FOREIGN = Kernel.foreign
_SEARCH_HEARD = Search.heard

# ------------------------------------------------------------------ names


def no_answer_to_a_claim(self: NameClaim, claim: Claim) -> Held | None:
    return None


def nobody_vouches(self: Presence, claim: Claim, stay: Stay) -> Held | None:
    return None


def namesakes_ignored(self: NameClaim, other: MemberId) -> Held | None:
    return None


def namesakes_of_others_ignored(
    self: Presence, now: int, component: Component, stay: Stay
) -> list[Plain]:
    return []


MUTANTS: dict[str, Mutant] = {
    "hello-of-a-moved-member": Mutant(
        "take a HELLO for a sign of life from a member that says it from another view",
        ((Presence, "_hello", any_hello_is_a_sign),),
        "membership",
    ),
    "answer-of-a-moved-member": Mutant(
        "take an answer to a probe for a sign of life from a member that is in another view",
        ((Presence, "_alive", any_answer_is_a_sign),),
        "membership",
    ),
    "silence-in-a-new-view": Mutant(
        "wait for ever for members that never speak in the view",
        ((Mover, "unspoken", all_have_spoken),),
        "membership",
    ),
    "lost-component-not-sought": Mutant(
        "never again join with a member that was heard from once",
        ((Kernel, "foreign", never_again),),
        "membership",
    ),
    "joins-over-one-way-links": Mutant(
        "start a join with whoever can be heard, whether it hears us or not",
        ((Search, "heard", one_way_will_do),),
        "membership",
    ),
    "overtaken-hello-counts": Mutant(
        "believe a HELLO that was overtaken by a newer one of its sender",
        ((Search, "heard", overtaken_hellos_count),),
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
    "namesake-not-told": Mutant(
        "let two holders of one name live on after they have met",
        (
            (NameClaim, "met", namesakes_ignored),
            (Presence, "_namesakes", namesakes_of_others_ignored),
        ),
        "membership",
    ),
}
