"""Normal form of a proposal: rule N of docs/protocol/membership.md.

Every proposal that a member issues is in its normal form. Normalisation only leaves out more
entries, which is always allowed; it depends on the member, so two members may normalise the same
union differently, and then hear each other until they agree.

The proof needs two things of it: a member has one entry in a proposal (one base), and a component
that the member was in, or that was live in a view it installed, is never live again for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from phalanx.core.ids import MemberId, ViewId
from phalanx.core.membership.proposals import EPOCH_MAX, Entry, Proposal, epoch
from phalanx.core.roles import Roles
from phalanx.core.wire.frames import Component

JOINS_AHEAD_MAX = 1 << 24
"""The entries of a component whose epoch is further ahead than this are left out."""

IsPast = Callable[[Component], bool]


def normal_form(
    me: MemberId,
    base: ViewId,
    components: Iterable[Component],
    left_out: Iterable[Entry],
    is_past: IsPast,
    roles: Roles = (),
) -> Proposal:
    """What `me`, in view `base`, issues for this union of components, left-out entries and roles
    (rule N)."""
    known = {c.view: c for c in components}
    out = set(left_out)
    for view, component in known.items():
        if view != base and (is_past(component) or _is_far(base, view)):
            out.update((member, view) for member in component.members)
    _separate(base, known, out)
    _one_incarnation(me, known, out)
    return Proposal(known, frozenset(out), roles)


def _is_far(base: ViewId, view: ViewId) -> bool:
    """Whether an epoch is further ahead than that of any member that follows the rules."""
    return view.joins > min(base.joins + JOINS_AHEAD_MAX, EPOCH_MAX - 1)


def _separate(base: ViewId, known: dict[ViewId, Component], out: set[Entry]) -> None:
    """Of two live components that list one member, the older goes as a whole, but never the base:
    so no other component that lists this member is live. Listed members count even if they are
    left out: they moved from one to the other (rule N.2)."""
    order = sorted(known, key=lambda view: (view == base, epoch(view), view))
    listing: dict[MemberId, list[int]] = {}
    for place, view in enumerate(order):
        for member in known[view].members:
            listing.setdefault(member, []).append(place)
    shared = {member: places for member, places in listing.items() if len(places) > 1}
    if not shared:
        return
    for place, view in enumerate(order):
        members = known[view].members
        newer = {at for m in members if m in shared for at in shared[m] if at > place}
        if newer and not _is_dead(known[view], out):
            if any(not _is_dead(known[order[at]], out) for at in newer):
                out.update((member, view) for member in members)


def _one_incarnation(me: MemberId, known: dict[ViewId, Component], out: set[Entry]) -> None:
    """Of two incarnations of one name the later stays, but never against the member itself
    (rule N.3)."""
    holders: dict[str, Entry] = {}
    for view, component in known.items():
        for member in component.members:
            if (member, view) in out:
                continue
            held = holders.get(member.name)
            if held is None:
                holders[member.name] = (member, view)
            elif held[0] == me or (member != me and member < held[0]):
                out.add((member, view))
            else:
                out.add(held)
                holders[member.name] = (member, view)


def _is_dead(component: Component, out: set[Entry]) -> bool:
    return all((member, component.view) in out for member in component.members)
