"""The next view of a group as the difference to its current one, and back.

`advance_of` makes the entry of the log, `advanced` applies it. A view that the entry cannot express
(members that change places, parts from elsewhere) has none; then the whole record is entered.
"""

from __future__ import annotations

from msgspec.structs import replace

from phalanx.service.entries import AdvanceGroup
from phalanx.service.values import (
    HISTORY_VIEWS_MAX,
    NOWHERE,
    GroupView,
    ServiceGroup,
    Vid,
)

_NO_VIEW = GroupView(NOWHERE, (), (), {}, "")


def advance_of(before: ServiceGroup, after: ServiceGroup, cause: str) -> AdvanceGroup | None:
    """The entry that leads from one value of a group to a next one with one more view; None if no
    entry does. Histories do not count."""
    view = after.view
    if view.preds != (before.view.vid,):
        return None
    here = dict.fromkeys(view.members)
    was = dict.fromkeys(before.view.members)
    gone = tuple(member for member in was if member not in here)
    came = tuple(member for member in here if member not in was)
    attributes = {
        member: after.attributes.get(member)
        for member in before.attributes | after.attributes
        if after.attributes.get(member) != before.attributes.get(member)
    }
    admitted = {
        interface: number
        for interface, number in after.admitted.items()
        if before.admitted.get(interface) != number
    }
    rest = _rest(after)
    entry = AdvanceGroup(
        uid=after.uid,
        vid=view.vid,
        reason=view.cause,
        gone=gone,
        came=came,
        attributes=attributes,
        admitted=admitted,
        rest=None if rest == _rest(before) else rest,
        cause=cause,
    )
    made = advanced(before, entry)
    return entry if made.view == view and made.admitted == after.admitted else None


def advanced(before: ServiceGroup, entry: AdvanceGroup) -> ServiceGroup:
    """The group after the entry, which follows this value of it."""
    gone = frozenset(entry.gone)
    stay = tuple(member for member in before.view.members if member not in gone)
    parts: dict[str, Vid | None] = dict.fromkeys(stay, before.view.vid)
    parts |= dict.fromkeys(entry.came)
    members = (*stay, *entry.came)
    view = GroupView(entry.vid, (before.view.vid,), members, parts, entry.reason)
    attributes = before.attributes
    if entry.attributes:
        changed = before.attributes | entry.attributes
        attributes = {member: texts for member, texts in changed.items() if texts is not None}
    return replace(
        before if entry.rest is None else entry.rest,
        view=view,
        history=(*before.history, before.view)[-HISTORY_VIEWS_MAX:],
        admitted=before.admitted | entry.admitted,
        attributes=attributes,
    )


def _rest(group: ServiceGroup) -> ServiceGroup:
    return replace(group, view=_NO_VIEW, history=(), admitted={}, attributes={})
