"""Mutants of how components unite: what may be merged, and what becomes of who has moved.

The rules are PROTOCOLS B.7's `acceptable`, `norm`, `moved`, `past` and handlers.
"""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.core.frames import Component, Fault, Join
from phalanx.core.ids import MemberId, ViewId
from phalanx.core.membership import doubts, kernel
from phalanx.core.membership.contexts import Members, Reach, normal
from phalanx.core.membership.doubts import Doubts
from phalanx.core.membership.kernel import Kernel
from phalanx.core.membership.ledger import Entry, context_of
from phalanx.core.membership.past import Past
from phalanx.core.membership.views import COLLECT, COMMIT, IDLE
from phalanx.sim.mutants.mutant import Mutant

# ------------------------------------------------------------------ what is old


def never_old(self: Kernel, member: MemberId, view: ViewId) -> bool:
    return False


def old_only_if_past(self: Kernel, member: MemberId, view: ViewId) -> bool:
    return self._past.has_view(view)


# ------------------------------------------------------------------ what may be merged


def merge_again(self: Kernel, components: tuple[Component, ...]) -> bool:
    if not self._believable(components):
        return False
    mine = [c.view for c in components if self.me in c.members]
    return not mine or (self.view.id in mine and all(map(self._past.has_view, mine)))


def components_that_count_me_elsewhere(self: Kernel, components: tuple[Component, ...]) -> bool:
    if not self._believable(components):
        return False
    for component in normal((*self.components, *components)):
        if component.view != self.view.id and self._past.has_view(component.view):
            return False
    return True


def merge_anything(self: Kernel, components: tuple[Component, ...]) -> bool:
    return self._believable(components)


def nothing_below_is_past(self: Past, closing: Reach) -> None:
    self._coloured = []


def all_components(components: Iterable[Component]) -> tuple[Component, ...]:
    known = {c.view: c for c in components}
    return tuple(known[view] for view in sorted(known))


# ------------------------------------------------------------------ who has moved


def never_follow(self: Kernel, member: MemberId, component: Component) -> None:
    self.break_with((member,))


def moved_only_while_idle(
    self: Kernel, member: MemberId, view: ViewId, members: Members, context: bytes
) -> bool:
    return self.stage is IDLE and _HAS_MOVED(self, member, view, members, context)


_HAS_MOVED = Kernel.has_moved

# ------------------------------------------------------------------ handlers


def commit_alone(self: Kernel) -> None:
    self._commit()


def unite_faults_of_others(self: Kernel, entry: Entry, fault: Fault) -> None:
    """The fault sets of non-members' own changes are united too."""
    member, new = entry.sender, frozenset(fault.new)
    if member in self.view.members or self.me in fault.faulty:
        _ON_FAULT(self, entry, fault)
    elif self.stage is COLLECT:
        self.before |= new & (self.joining | frozenset(self.view.members))
    elif self.stage is COMMIT and fault.context != self.proposal_id:
        add = new & self.joining
        if member in self.joining - self.before - self.after and not add <= self.before:
            self.before |= add
            self._commit()
    else:
        _ON_FAULT(self, entry, fault)


def handle_any_fault(self: Kernel, entry: Entry, fault: Fault) -> None:
    """... and one that names me breaks me with its sender."""
    if self.me in fault.faulty and entry.sender not in self.view.members:
        self.break_with((entry.sender,))
    else:
        unite_faults_of_others(self, entry, fault)


def named_in_any_change(self: Kernel, entry: Entry, fault: Fault) -> None:
    """Somebody who names me is broken with, whatever change that was in."""
    if self.me in fault.faulty:
        self.break_with((entry.sender,))
    else:
        _ON_FAULT(self, entry, fault)


def answer_my_own_context(self: Kernel, entry: Entry, join: Join) -> None:
    """A member that joins without saying so first is not followed: B.2 item 16."""
    if self.stage is not IDLE or context_of(entry) == self.context_id:
        _ON_JOIN(self, entry, join)


def forget_what_was_put_off(self: Kernel) -> None:
    self._stash = []


_ON_FAULT = Kernel._on_fault
_ON_JOIN = Kernel._on_join

MUTANTS: dict[str, Mutant] = {
    "old-control-handled": Mutant(
        "handle a non-member's FA or JOIN from a view that was left or overtaken",
        ((Doubts, "_is_old", never_old), (Kernel, "_on_fault", handle_any_fault)),
        "walk",
    ),
    "overtaken-control-handled": Mutant(
        "handle a non-member's FA or JOIN though it has spoken from a newer view since",
        ((Doubts, "_is_old", old_only_if_past),),
        "walk",
    ),
    "component-merged-twice": Mutant(
        "merge a component again that was merged or left before",
        ((Doubts, "_acceptable", merge_again),),
        "walk",
    ),
    "any-component-merged": Mutant(
        "merge components that count me in a view that I am not in",
        ((Doubts, "_acceptable", components_that_count_me_elsewhere),),
        "walk",
    ),
    "everything-merged": Mutant(
        "merge whatever is proposed, outdated components too",
        (
            (Doubts, "_acceptable", merge_anything),
            (kernel, "normal", all_components),
            (doubts, "normal", all_components),
        ),
        "walk",
    ),
    "half-the-past": Mutant(
        "hold views whose members did not come along for mergeable after a join",
        ((Past, "joined", nothing_below_is_past),),
        "walk",
    ),
    "outdated-components-kept": Mutant(
        "keep components in a join that are nobody's newest",
        ((kernel, "normal", all_components), (doubts, "normal", all_components)),
        "walk",
    ),
    "moved-is-never-followed": Mutant(
        "break with a member of another component that has moved on in a join",
        ((Kernel, "moved", never_follow),),
        "walk",
    ),
    "moved-only-while-idle": Mutant(
        "notice only outside joins that a member speaks from a view without me",
        ((Kernel, "has_moved", moved_only_while_idle),),
        "walk",
    ),
    "join-of-nobody-proposed": Mutant(
        "propose a join that nobody answered",
        ((Kernel, "_collected", commit_alone),),
        "walk",
    ),
    "faults-of-others-united": Mutant(
        "leave out of a join whom another component held for failed in its own change",
        ((Kernel, "_on_fault", unite_faults_of_others),),
        "walk",
    ),
    "named-in-any-change": Mutant(
        "break with whoever names me, also in a change that is not mine",
        ((Kernel, "_on_fault", named_in_any_change),),
        "walk",
    ),
    "join-of-a-member-ignored": Mutant(
        "do not take a member's JOIN for its AJ",
        ((Kernel, "_on_join", answer_my_own_context),),
        "walk",
    ),
    "attempts-not-put-off": Mutant(
        "forget attempts that come in the middle of a change",
        ((Kernel, "_replay", forget_what_was_put_off),),
        "walk",
    ),
}
