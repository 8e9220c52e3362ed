"""Mutants of how a view is closed: contexts, fault sets, evidence, who is barred, epochs.

The rules are PROTOCOLS B.2 items 1, 4, 10 to 14, 17 and 22, as B.7 has them.
"""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.core import announced, presence
from phalanx.core.frames import Announce, Component, Context, Fault, Frame, Join
from phalanx.core.ids import MemberId, View, ViewId, digest_of
from phalanx.core.membership import contexts, views
from phalanx.core.membership.contexts import NOBODY, Members, Reach, covers, members_of, ranked
from phalanx.core.membership.kernel import Kernel
from phalanx.core.membership.ledger import Entry, Ledger
from phalanx.core.membership.views import COMMIT, IDLE, Views
from phalanx.core.visitors import Domain
from phalanx.sim.mutants.mutant import Mutant

# ------------------------------------------------------------------ closed sets


def only_the_latest_set(self: Views, context: Context, digest: bytes, out: Members) -> bool:
    """S0 Fig. 3 to the letter: F is what I hold now, not what I held when others said so."""
    latest = self.faulty if digest == self.context_id else self.after
    return out == latest and _IS_CLOSED(self, context, digest, out)


def a_larger_set_will_do(self: Views, context: Context, digest: bytes, out: Members) -> bool:
    """S0 Fig. 3, read otherwise: all the others have named what I hold now, or more."""
    latest = self.faulty if digest == self.context_id else self.after
    if out != latest or self.me in out:
        return False
    ledger, evidence = self._ledger, self._ledger._evidence.get(digest, {})
    for member in members_of(context) - out:
        frames = [ledger._closing_frame(digest, member, out)]
        if not context.boot:
            frames.append(ledger._closing_frame(digest, member, NOBODY))
        if any(found is None or not covers(evidence, member, found[0]) for found in frames):
            return False
    return True


def closed_by_a_larger_set(
    self: Ledger, context: bytes, member: MemberId, out: Members
) -> tuple[int, Reach] | None:
    if not out:
        return _CLOSING_FRAME(self, context, member, out)
    named = self._faults.get(context, {}).get(member, {})
    return min((found for larger, found in named.items() if out <= larger), default=None, key=_by)


def _by(found: tuple[int, Reach]) -> int:
    return found[0]


def largest_first(self: Ledger, context: bytes) -> list[Members]:
    return list(reversed(_NAMED(self, context)))


def everything_counts(self: Ledger, entry: Entry) -> None:
    _WRITE(self, entry)
    if isinstance(entry.said, Join | Fault):
        self.count(entry)


def proves_nothing(self: Kernel, announce: Announce, members: Members) -> bool:
    return False


_IS_CLOSED = Views._is_closed
_CLOSING_FRAME = Ledger._closing_frame
_NAMED = Ledger.named
_WRITE = Ledger.write

# ------------------------------------------------------------------ who names me


def unite_a_fault_that_names_me(self: Kernel, entry: Entry, fault: Fault) -> None:
    faulty = frozenset(fault.faulty)
    if self.me not in faulty:
        _ON_FAULT(self, entry, fault)
    elif self.stage is COMMIT and fault.context == self.proposal_id:
        if not faulty <= self.after:
            self.after |= faulty
            self._say_fault(joint=True)
    elif self.stage is IDLE and fault.context == self.context_id and not faulty <= self.faulty:
        self.faulty |= faulty
        self._say_fault(joint=False)


def unite_a_join_that_names_me(self: Kernel, entry: Entry, join: Join) -> None:
    if self.me not in join.failed_before or self.stage is IDLE:
        _ON_JOIN(self, entry, join)
    else:
        self._unite(entry.announce.components, frozenset(join.failed_before))


_ON_FAULT = Kernel._on_fault
_ON_JOIN = Kernel._on_join

# ------------------------------------------------------------------ who is barred


def barred_for_ever(self: Views, member: MemberId) -> bool:
    return member != self.me and (
        member in self.faulty or (self.stage is not IDLE and member in self.before | self.after)
    )


def admitted_once(self: Domain, frame: Frame) -> bool:
    """A member that was barred while its frame waited is not asked again whether it may enter."""
    return frame.sender < self.dag.n or _IS_ADMITTED(self, frame)


_IS_ADMITTED = Domain._is_admitted


def wanted_by_nobody(self: Domain, frame: Frame) -> bool:
    return False


# ------------------------------------------------------------------ epochs and names of views


def removal_counts_as_a_join(before: View, context: bytes, members: Members) -> View:
    return contexts._view(before.id.joins + 1, 0, context, ranked(members))


def join_at_the_same_epoch(
    components: Iterable[Component], context: bytes, members: Members
) -> View:
    joins = max(c.view.joins for c in components)
    return contexts._view(joins, 0, context, ranked(members))


def named_by_epoch(
    joins: int, removals: int, context: bytes, members: tuple[MemberId, ...]
) -> View:
    return View(ViewId(joins, removals, digest_of(b"view")), members, context)


def any_view(component: Component) -> bool:
    return True


# ------------------------------------------------------------------ a change goes on, or ends


def forget_the_join(self: Views, out: Members) -> None:
    self.stage, self.proposal, self.proposal_id = IDLE, None, b""
    self.components, self.before, self.after = (), NOBODY, NOBODY
    _INSTALL_REMOVAL(self, out)


def no_time_out(self: Kernel) -> list[MemberId]:
    if not self.changing:
        self._answer_until = views.NEVER
    return []


_INSTALL_REMOVAL = Views._install_removal

MUTANTS: dict[str, Mutant] = {
    "only-the-latest-set": Mutant(
        "close only the set that I hold now, not the smaller ones that all have named (Fig. 3)",
        ((Views, "_is_closed", only_the_latest_set),),
        "walk",
    ),
    "a-larger-set-will-do": Mutant(
        "close the set that I hold now when all the others have named it or a larger one",
        (
            (Views, "_is_closed", a_larger_set_will_do),
            (Ledger, "_closing_frame", closed_by_a_larger_set),
        ),
        "walk",
    ),
    "largest-set-first": Mutant(
        "of several closed sets install the largest",
        ((Ledger, "named", largest_first),),
        "walk",
    ),
    "no-evidence-rule": Mutant(
        "count what barred members said, however it came here",
        ((Ledger, "write", everything_counts),),
        "walk",
    ),
    "no-proof-by-tag": Mutant(
        "learn nothing from somebody who speaks from the view that I have not closed",
        ((Kernel, "proves", proves_nothing),),
        "walk",
    ),
    "unites-what-names-me": Mutant(
        "unite a fault set or a proposal that names me instead of breaking with its sender",
        (
            (Kernel, "_on_fault", unite_a_fault_that_names_me),
            (Kernel, "_on_join", unite_a_join_that_names_me),
        ),
        "walk",
    ),
    "barred-for-ever": Mutant(
        "bar members that were removed even when they come back",
        ((Views, "barred", barred_for_ever),),
        "walk",
    ),
    "barred-without-a-second-look": Mutant(
        "let frames enter whose sender was barred while they waited, and what they follow",
        ((Domain, "_is_admitted", admitted_once),),
        "walk",
    ),
    "barred-even-as-the-past": Mutant(
        "keep a barred member's frames out even if a survivor's frame follows them",
        ((Domain, "_is_wanted", wanted_by_nobody),),
        "walk",
    ),
    "one-number-epochs": Mutant(
        "count joins and removals in one number",
        ((views, "removal_view", removal_counts_as_a_join),),
        "walk",
    ),
    "epoch-not-raised": Mutant(
        "let a join have the epoch of its newest component",
        ((views, "join_view", join_at_the_same_epoch),),
        "walk",
    ),
    "view-id-reused": Mutant(
        "name a view by its epoch alone, whoever is in it and whatever change made it",
        (
            (contexts, "_view", named_by_epoch),
            (announced, "is_view", any_view),
            (presence, "is_view", any_view),
        ),
        "walk",
    ),
    "removal-forgets-the-join": Mutant(
        "end the join under way when a removal is installed",
        ((Views, "_install_removal", forget_the_join),),
        "walk",
    ),
    "no-change-time-out": Mutant(
        "wait for ever for whoever does not answer a proposal or a fault set",
        ((Kernel, "_unanswered", no_time_out),),
        "walk",
    ),
}
