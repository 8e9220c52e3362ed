"""Mutants of what crosses from one view to the next: floors, what is kept for those who lag behind,
who came along, and what waits to be sent.

The rules are PROTOCOLS B.6 items 3, 8, 9 and 11, and B.7's floors.
"""

from __future__ import annotations

import msgspec

from phalanx.core.effects import ViewInstalled
from phalanx.core.frames import Component, Frame
from phalanx.core.ids import MemberId
from phalanx.core.membership.views import Change
from phalanx.core.mover import Mover
from phalanx.core.packing import Outbox
from phalanx.core.stay import Stay
from phalanx.core.visitors import Domain
from phalanx.sim.mutants.mutant import Mutant

# ------------------------------------------------------------------ floors


def no_floors(self: Domain, slot: int, where: Component | None) -> bool:
    return False


def floors_for_all(self: Domain, slot: int, where: Component | None) -> bool:
    return slot != self._me


def floors_for_members(self: Domain, slot: int, where: Component | None) -> bool:
    return slot != self._me and where is not None and self.me not in where.members


def never_later(self: Domain, where: Component, known: Component | None) -> bool:
    return False


# ------------------------------------------------------------------ from one view to the next


def again_without_waiting(self: Domain) -> Frame | None:
    for slot, waiting in enumerate(self._waiting):
        frame = waiting.get(self.dag.have[slot] + 1) if waiting else None
        if frame is not None and frame.handled:
            return frame
    return None


def forget_the_view_before(
    self: Stay, before: Stay, keeps: frozenset[MemberId], phase: int
) -> None:
    _SUCCEED(self, before, keeps, phase)
    self.domain.archive.clear()


def together_with_all(self: Mover, change: Change) -> None:
    _together(self, change, change.view.members)


def _together(self: Mover, change: Change, members: tuple[MemberId, ...]) -> None:
    out = self._out
    begun = len(out)
    _INSTALL(self, change)
    for index in range(begun, len(out)):
        effect = out[index]
        if isinstance(effect, ViewInstalled):
            out[index] = msgspec.structs.replace(effect, transitional=members)


def not_again(self: Outbox) -> None:
    """The rest of a large message goes on in the next view."""


def not_readdressed(self: Outbox, ranks: dict[int, int]) -> None:
    """Receivers keep their ranks of the view before."""


_INSTALL = Mover.install
_SUCCEED = Stay.succeed

MUTANTS: dict[str, Mutant] = {
    "floors-ignored": Mutant(
        "ask for what lies below the floors of other components",
        ((Domain, "_hides", no_floors),),
        "walk",
    ),
    "floors-for-all": Mutant(
        "treat everything below any floor as present",
        ((Domain, "_hides", floors_for_all),),
        "walk",
    ),
    "floors-for-members": Mutant(
        "let a floor hide frames of a member of my own view that has moved",
        ((Domain, "_hides", floors_for_members),),
        "walk",
    ),
    "floor-of-a-later-component": Mutant(
        "let the floor of a later component hide what a member said in the join under way",
        ((Domain, "_is_later", never_later),),
        "walk",
    ),
    "entered-again-without-waiting": Mutant(
        "let frames enter the next view before what they follow",
        ((Domain, "pull_again", again_without_waiting),),
        "walk",
    ),
    "old-view-forgotten": Mutant(
        "forget the frames of the view before at the install",
        ((Stay, "succeed", forget_the_view_before),),
        "walk",
    ),
    "transitional-set-of-all": Mutant(
        "say that all members of the next view came along",
        ((Mover, "install", together_with_all),),
        "walk",
    ),
    "large-message-goes-on": Mutant(
        "send the rest of a large message in the next view",
        ((Outbox, "again", not_again),),
        "walk",
    ),
    "receivers-keep-their-ranks": Mutant(
        "address what waits by the ranks of the view before",
        ((Outbox, "readdress", not_readdressed),),
        "walk",
    ),
}
