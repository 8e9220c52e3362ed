"""The union of two components of a set: which of them leads, and the state that comes out (rules
H3, H5).

Both speakers compute the same from the two states, in whichever order they are given.
"""

from __future__ import annotations

from msgspec.structs import replace

from phalanx.service.set_state import SEEN_MAX, with_ancestors
from phalanx.service.values import Gid, HomeOf, SetState


def leads(one: SetState, other: SetState) -> bool:
    """Whether the first component keeps its ranks in front: the larger one, then the one whose
    lineage sorts first."""
    return (-len(one.view), one.lineage) < (-len(other.view), other.lineage)


def united(one: SetState, other: SetState, configured_parent: str | None) -> SetState:
    """The state of the union. Its id and lineage are set when it is committed."""
    first, second = (one, other) if leads(one, other) else (other, one)
    view = (*first.view, *(m for m in second.view if m not in first.view))
    kids = dict(first.kids)
    for child, parents in second.kids.items():
        known = kids.get(child, ())
        kids[child] = (*known, *(p for p in parents if p not in known))
    seen = tuple(dict.fromkeys((*first.seen, *second.seen)))[-SEEN_MAX:]
    return replace(
        first,
        view=view,
        parent=_parent(first.parent, second.parent, configured_parent),
        kids=kids,
        homes=_homes(first.homes, second.homes),
        seen=seen,
        ancestors=with_ancestors(first.ancestors, *second.ancestors, first.lineage, second.lineage),
    )


def _parent(first: Gid | None, second: Gid | None, configured: str | None) -> Gid | None:
    for parent in (first, second):
        if parent is not None and parent.name == configured:
            return parent
    return first if first is not None else second


def _homes(first: dict[str, HomeOf], second: dict[str, HomeOf]) -> dict[str, HomeOf]:
    """The later choice of each interface."""
    homes = dict(first)
    for interface, home in second.items():
        known = homes.get(interface)
        if known is None or (home.seq, home.server) > (known.seq, known.server):
            homes[interface] = home
    return homes
