"""Mutants of which components unite: rules N and J of docs/protocol/membership.md."""

from __future__ import annotations

from phalanx.core.frames import Component
from phalanx.core.ids import ViewId
from phalanx.core.membership import normal_form
from phalanx.core.membership.proposals import Entry, epoch
from phalanx.core.membership.protocol import MembershipProtocol
from phalanx.core.membership.statements import Statement
from phalanx.core.membership.steps import Expired, Instruction
from phalanx.core.membership.view_history import ViewHistory
from phalanx.sim.mutants.mutant import Mutant

# ------------------------------------------------------------------ N: normal form


def nothing_is_past(self: ViewHistory, view: object) -> bool:
    return False


def only_installed_views(self: ViewHistory, views: tuple[ViewId, ...]) -> None:
    """The components of a view that was installed may be merged again."""
    _ADD(self, (views[0], views[-1]))


def newest_entry_alone(base: ViewId, known: dict[ViewId, Component], out: set[Entry]) -> None:
    """Of two entries of a member the older goes, not its whole component."""
    order = sorted(known, key=lambda view: (view == base, epoch(view), view))
    newest = {m: view for view in order for m in known[view].members if (m, view) not in out}
    for view in order:
        for member in known[view].members:
            if (member, view) not in out and newest[member] != view:
                out.add((member, view))


_ADD = ViewHistory.add

# ------------------------------------------------------------------ J: joins


def no_contact(self: MembershipProtocol, said: Statement) -> bool:
    """Proposals of members that are no entries are ignored, though they count this one."""
    return False


def propose_alone(self: MembershipProtocol, now: int, given: Expired) -> list[Instruction]:
    """A collection that nobody answered ends in a proposal all the same."""
    if now < self._collect_until or self.collected:
        return _ON_COLLECTED(self, now, given)
    draft = self._draft()
    return self._issue(now, self._normal(draft), draft)


_ON_COLLECTED = MembershipProtocol._on_collected

MUTANTS: dict[str, Mutant] = {
    "component-merged-twice": Mutant(
        "N: merge a component again that was left or merged before",
        ((ViewHistory, "__contains__", nothing_is_past),),
        "walk",
    ),
    "half-the-past": Mutant(
        "N: remember views that were installed, not the components they were made of",
        ((ViewHistory, "add", only_installed_views),),
        "walk",
    ),
    "components-share-members": Mutant(
        "N: keep the rest of a component when a member of it has a newer entry",
        ((normal_form, "_separate", newest_entry_alone),),
        "walk",
    ),
    "contact-by-proposal-ignored": Mutant(
        "J: ignore the proposal of a stranger that counts this member",
        ((MembershipProtocol, "_wants_me", no_contact),),
        "walk",
    ),
    "join-of-nobody-proposed": Mutant(
        "J: propose a join that nobody answered",
        ((MembershipProtocol, "_on_collected", propose_alone),),
        "walk",
    ),
}
