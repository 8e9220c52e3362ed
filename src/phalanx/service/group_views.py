"""Views of a group and its history (rules G3, G4).

A group carries all views that led to its current one. Each view names, for every member, the view
that the member comes from (`parts`): going back along these names from the current view gives the
chain of views that the member has to install, in their order. `last` is the last view that a member
has installed, None before its first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from phalanx.core.ids import digest_of
from phalanx.service.values import (
    HISTORY_VIEWS_MAX,
    GroupView,
    ServiceGroup,
    Vid,
    interface_of,
    number_of,
)

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


def next_view(
    group: ServiceGroup, members: Sequence[str], cause: str, context: bytes
) -> ServiceGroup:
    """The group with its next view. `context` names the state of the set that decides it, so that
    two sides of a fork never make one view of the same members."""
    here = set(group.view.members)
    parts = {m: group.view.vid if m in here else None for m in members}
    return with_view(group, members, parts, (group.view.vid,), cause, context)


def with_view(
    group: ServiceGroup,
    members: Sequence[str],
    parts: Mapping[str, Vid | None],
    preds: tuple[Vid, ...],
    cause: str,
    context: bytes,
    past: Sequence[GroupView] = (),
) -> ServiceGroup:
    """The group with a view that follows `preds`. `past`: views that led to them and that the
    history of the group does not have."""
    number = number_after(preds)
    content = _encode((group.uid, preds, tuple(members), cause))
    vid = Vid(number, digest_of(content, context))
    view = GroupView(vid, preds, tuple(members), dict(parts), cause)
    known = {v.vid: v for v in (*past, *group.history, group.view)}
    history = tuple(known[v] for v in sorted(known))[-HISTORY_VIEWS_MAX:]
    admitted = dict(group.admitted)
    for member in members:
        if parts[member] is None:
            interface = interface_of(member)
            admitted[interface] = max(admitted.get(interface, 0), number_of(member))
    return replace(group, view=view, history=history, admitted=admitted)


def number_after(preds: Sequence[Vid]) -> int:
    """The number of a view grows along every history (rule M13)."""
    return 1 + max((vid.number for vid in preds), default=0)


def created(
    uid: str, name: str, scope: str, context: bytes, template: ServiceGroup | None = None
) -> ServiceGroup:
    """A group without members (rule G1); properties and rules of the template, if there is one."""
    vid = Vid(1, digest_of(uid.encode(), context))
    view = GroupView(vid, (), (), {}, "create")
    if template is None:
        return ServiceGroup(uid, name, scope, view)
    new = replace(template, uid=uid, name=name, scope=scope, view=view, history=(), admitted={})
    new = replace(new, ended=None, pin=None, goal=None, want=None)
    return replace(new, epoch=0, original_size=0, attributes={})


def follows(group: ServiceGroup, vid: Vid) -> bool:
    """Whether this view led to the group's current one."""
    return any(view.vid == vid for view in group.history)


def directive_after(group: ServiceGroup, member: str, last: Vid | None) -> GroupView | None:
    """The first view that a member has to install after `last` (rule G4). None if it has the
    current one, is not in it, or has gone a way that this history does not meet."""
    return next(iter(views_after(group, member, last)), None)


def views_after(group: ServiceGroup, member: str, last: Vid | None) -> tuple[GroupView, ...]:
    """All views that a member has to install after `last`, in their order."""
    if last == group.view.vid or member not in group.view.parts:
        return ()
    previous = group.view.parts[member]
    if previous == last:
        return (group.view,)
    views = {view.vid: view for view in group.history}
    found = [group.view]
    while previous != last:
        at = views.get(previous) if previous is not None else None
        if at is None or member not in at.parts or len(found) > len(views):
            return ()  # the last: a history that an interface made up may go round
        found.append(at)
        previous = at.parts[member]
    return tuple(reversed(found))


def fits(group: ServiceGroup, member: str, last: Vid | None) -> bool:
    """Whether a member of the view has gone no other way than this history (rule G4)."""
    return (
        last is None or last == group.view.vid or directive_after(group, member, last) is not None
    )


def is_excluded(group: ServiceGroup, member: str, last: Vid) -> bool:
    """Whether the membership of this member is over: the history goes on without it (rule G4)."""
    if member in group.view.members:
        return False
    return group.ended is not None or follows(group, last)


def may_admit(group: ServiceGroup, member: str) -> bool:
    """A member id is admitted once (rule G3). An interface numbers its members upwards, so the
    highest number of each is enough to know."""
    return number_of(member) > group.admitted.get(interface_of(member), 0)
