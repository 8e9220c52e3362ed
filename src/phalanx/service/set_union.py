"""The union of two components of a set: which of them leads, and the state that comes out (rules
H3, H5).

Both speakers compute the same from the two states, in whichever order they are given.
"""

from __future__ import annotations

from msgspec.structs import replace

from phalanx.core.ids import digest_of
from phalanx.service.group_union import joined
from phalanx.service.set_names import names_united
from phalanx.service.set_state import SEEN_MAX, with_ancestors
from phalanx.service.values import NO_RECORD, Gid, GroupRecord, HandOver, HomeOf, SetState


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
        names=names_united(first.names, second.names),
        groups=_groups(first, second),
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


def _groups(first: SetState, second: SetState) -> dict[str, GroupRecord]:
    """The records of both, their histories joined (rule G9)."""
    groups: dict[str, GroupRecord] = {}
    for uid in sorted({*first.groups, *second.groups}):
        x, y = first.groups.get(uid, NO_RECORD), second.groups.get(uid, NO_RECORD)
        own = x.own or y.own
        if x.own is not None and y.own is not None:
            context = digest_of(first.vid.digest, second.vid.digest, uid.encode())
            own, apart = joined(x.own, y.own, context)
            if apart is not None:
                groups[apart.uid] = GroupRecord(own=apart)
        pends = {
            p.id: p for mine, done in ((x, second.seen), (y, first.seen)) for p in _open(mine, done)
        }
        groups[uid] = GroupRecord(
            own=own,
            below=tuple(sorted({*x.below, *y.below})),
            pends=tuple(pends[id_] for id_ in sorted(pends)),
            recall=x.recall or y.recall,
        )
    return groups


def _open(record: GroupRecord, seen: tuple[str, ...]) -> list[HandOver]:
    """Hand-overs that the other side does not know as finished. They stay on their way: none is
    turned into ownership."""
    return [p for p in record.pends if f"done {p.id}" not in seen]
