"""One group from two of its histories (rule G9).

Where two owners of a group meet, in the union of two components or in a set that adopts a group
that it owns already, their histories become one. A member goes from its side's view to the common
one, so nobody skips a view. If the rules of the group forbid it, the smaller side becomes a group
of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from msgspec.structs import replace

from phalanx.service.group_views import created, follows, with_view
from phalanx.service.rules.group_rules import may_merge
from phalanx.service.values import GroupView, ServiceGroup, Vid

Merges = Callable[[ServiceGroup, ServiceGroup], bool]
"""Whether two sides of a group become one."""


def joined(
    x: ServiceGroup,
    y: ServiceGroup,
    context: bytes,
    served_by_y: Collection[str] = (),
    merges: Merges = may_merge,
) -> tuple[ServiceGroup, ServiceGroup | None]:
    """The group of both, and the group of its own that was kept apart by rule, if one was.
    A member of both is taken from x, or from y if y's side serves it."""
    if x.view.vid == y.view.vid:
        return _with_marks(x, x, y, 0), None
    if x.ended or y.ended:
        return _ended(x, y), None
    if x.view.members and y.view.members and not merges(x, y):
        return _apart(x, y, context)
    if follows(y, x.view.vid):
        return _caught_up(x, y, context), None
    if follows(x, y.view.vid):
        return _caught_up(y, x, context), None
    parts: dict[str, Vid | None] = dict.fromkeys(x.view.members, x.view.vid)
    for member in y.view.members:
        if member not in parts or member in served_by_y:
            parts[member] = y.view.vid
    base = x if x.view.vid > y.view.vid else y
    united = with_view(
        base, tuple(parts), parts, (x.view.vid, y.view.vid), "union", context, _past(x, y)
    )
    sides = {m: y if vid == y.view.vid else x for m, vid in parts.items()}
    return _with_marks(replace(united, attributes=_attributes(sides)), x, y, 1), None


def _attributes(sides: Mapping[str, ServiceGroup]) -> dict[str, dict[str, str]]:
    """The attributes of members as their sides have them: the other side has dropped them with the
    member, or has old ones."""
    return {m: side.attributes[m] for m, side in sides.items() if m in side.attributes}


def _past(x: ServiceGroup, y: ServiceGroup) -> tuple[GroupView, ...]:
    return (*x.history, x.view, *y.history, y.view)


def _caught_up(old: ServiceGroup, new: ServiceGroup, context: bytes) -> ServiceGroup:
    """One side is behind. Members that the newer side removed come back from where they are."""
    back = [m for m in old.view.members if m not in new.view.members]
    if not back:
        return _with_marks(new, old, new, 0)
    parts: dict[str, Vid | None] = dict.fromkeys(new.view.members, new.view.vid)
    parts |= dict.fromkeys(back, old.view.vid)
    preds = (old.view.vid, new.view.vid)
    union = with_view(new, tuple(parts), parts, preds, "union", context, _past(old, new))
    sides = {m: old if m in back else new for m in parts}
    return _with_marks(replace(union, attributes=_attributes(sides)), old, new, 0)


def _ended(x: ServiceGroup, y: ServiceGroup) -> ServiceGroup:
    """Deleted stays deleted; a split or merge loses to a side that took no part in it."""
    if "delete" in (x.ended, y.ended):
        return x if x.ended == "delete" else y
    return y if x.ended and not y.ended else x


def _apart(
    x: ServiceGroup, y: ServiceGroup, context: bytes
) -> tuple[ServiceGroup, ServiceGroup | None]:
    """The larger side, then the later one, keeps uid and name. The members of the other get new
    ids in a group of its own: their membership in this one is over."""
    small, large = sorted((x, y), key=lambda g: (len(g.view.members), g.view.vid))
    suffix = small.view.vid.digest.hex()
    uid = f"{small.uid.partition('~')[0]}~{suffix}"
    gone = [m for m in small.view.members if m not in large.view.members]
    rest = [f"{m.partition('~')[0]}~{suffix[:6]}" for m in gone]
    own = created(uid, small.name, small.scope, context, small)
    parts: dict[str, Vid | None] = dict.fromkeys(rest)
    own = with_view(own, rest, parts, (own.view.vid,), "apart", context)
    kept_parts: dict[str, Vid | None] = dict.fromkeys(large.view.members, large.view.vid)
    preds = (x.view.vid, y.view.vid)
    kept = with_view(large, large.view.members, kept_parts, preds, "apart", context, _past(x, y))
    return _with_marks(kept, x, y, 1), replace(own, original_size=len(rest))


def _with_marks(group: ServiceGroup, x: ServiceGroup, y: ServiceGroup, more: int) -> ServiceGroup:
    """Epoch, pin, size and admitted members of both sides."""
    admitted = {
        i: max(x.admitted.get(i, 0), y.admitted.get(i, 0), group.admitted.get(i, 0))
        for i in sorted({*x.admitted, *y.admitted, *group.admitted})
    }
    return replace(
        group,
        epoch=more + max(x.epoch, y.epoch),
        pin=x.pin or y.pin,
        goal=x.goal if x.pin else y.goal,
        admitted=admitted,
        original_size=max(x.original_size, y.original_size),
    )
