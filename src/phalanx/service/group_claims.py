"""Claims (rule G10): a level-1 set takes up a group that its interfaces hold and that has no owner
on the whole way to the top, or whose owner has gone another way than the members here.

The speaker asks the interfaces for the histories that they hold. The longest one becomes the group,
with the members of this set that fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from phalanx.service.group_duties import put_apart
from phalanx.service.group_messages import FetchGroup
from phalanx.service.group_union import joined
from phalanx.service.group_views import fits, next_view
from phalanx.service.set_facts import SetFacts
from phalanx.service.state_draft import StateDraft
from phalanx.service.values import (
    HISTORY_VIEWS_MAX,
    NO_RECORD,
    GroupView,
    ServiceGroup,
    Vid,
    interface_of,
)

Fetches = list[tuple[str, FetchGroup]]


class GroupClaims:
    """Of one level-1 set, at its speaker."""

    def __init__(self) -> None:
        self._wanted: dict[str, tuple[str, ...]] = {}
        """For each group to be claimed the members that have no owner."""
        self._held: dict[str, dict[str, ServiceGroup]] = {}
        self._asked: dict[str, int] = {}

    def look(
        self, facts: SetFacts, orphans: frozenset[str], strays: dict[str, frozenset[str]]
    ) -> Fetches:
        """Find members without owner, and ask their interfaces for what they hold."""
        lost: dict[str, list[str]] = {}
        for entry in facts.table.interfaces(facts.now, facts.state):
            for member, uid in sorted(entry.served.groups.items()):
                last = entry.served.positions.get(member)
                if last is not None and _has_no_owner(facts, uid, member, orphans, strays):
                    lost.setdefault(uid, []).append(member)
        self._wanted = {}
        out: Fetches = []
        for uid, members in sorted(lost.items()):
            if not facts.grace.waited(facts.now, ("claim", facts.name, uid)):
                continue
            self._wanted[uid] = tuple(members)
            held = self._held.setdefault(uid, {})
            if self._asked.get(uid, 0) + facts.times.poll_ns > facts.now:
                continue
            self._asked[uid] = facts.now
            for interface in sorted({interface_of(m) for m in members} - held.keys()):
                out.append((interface, FetchGroup(facts.name, interface, uid)))
        for uid in sorted(self._held.keys() - self._wanted.keys()):
            del self._held[uid]
        return out

    def take(self, interface: str, group: ServiceGroup) -> None:
        """What an interface holds."""
        if group.uid in self._wanted:
            self._held.setdefault(group.uid, {})[interface] = group

    def entries(self, facts: SetFacts, draft: StateDraft) -> None:
        """Claim what all interfaces concerned have reported on."""
        for uid, members in sorted(self._wanted.items()):
            held = self._held.get(uid, {})
            record = draft.record(uid)
            if {interface_of(m) for m in members} - held.keys() or record.pends:
                continue
            if record.own is not None and facts.unserved(record.own, sure=True):
                continue
            lasts = [facts.table.position(m) for m in members]
            group = longest_history([held[i] for i in sorted(held)], lasts)
            if group is None:
                continue
            kept = members_kept(facts, group, members)
            claimed = next_view(group, kept, "claim", draft.context)
            claimed = replace(claimed, epoch=claimed.epoch + 1, pin=None, goal=None, want=None)
            apart = None
            if record.own is not None:
                claimed, apart = joined(record.own, claimed, draft.context, frozenset(kept))
            draft.put(uid, replace(record, own=claimed), "claim")
            put_apart(draft, apart)
            del self._wanted[uid]
            facts.grace.clear(("claim", facts.name, uid))


def members_kept(facts: SetFacts, group: ServiceGroup, without_owner: tuple[str, ...]) -> list[str]:
    """The members of a claimed group: those that are served here and fit."""
    return [m for m in group.view.members if m in without_owner and _fits_here(facts, group, m)]


def _has_no_owner(
    facts: SetFacts,
    uid: str,
    member: str,
    orphans: frozenset[str],
    strays: dict[str, frozenset[str]],
) -> bool:
    if member in strays.get(uid, ()):
        return True
    return uid in orphans and facts.state.groups.get(uid, NO_RECORD) == NO_RECORD


def _fits_here(facts: SetFacts, group: ServiceGroup, member: str) -> bool:
    entry = facts.table.entry(facts.now, facts.state, interface_of(member), sure=True)
    if entry is None or member not in entry.served.positions:
        return False
    return fits(group, member, entry.served.positions[member])


def longest_history(
    held: Sequence[ServiceGroup], lasts: Sequence[Vid | None]
) -> ServiceGroup | None:
    """The group as of the longest history that members without owner have gone through; `lasts` are
    their last views. Interfaces may hold other branches as well, of members that have an owner.
    None if nobody holds one of these views."""
    known: dict[Vid, GroupView] = {}
    for group in held:
        for view in (*group.history, group.view):
            known.setdefault(view.vid, view)
    best: tuple[GroupView, dict[Vid, GroupView]] | None = None
    for last in sorted(vid for vid in lasts if vid is not None and vid in known):
        past = _ancestors(known, known[last])
        if best is None or best[0].vid in past or last > best[0].vid:
            best = (known[last], past)
    if best is None:
        return None
    history = tuple(best[1][vid] for vid in sorted(best[1]))[-HISTORY_VIEWS_MAX:]
    latest = max(held, key=lambda group: group.view.vid)
    return replace(latest, view=best[0], history=history, admitted=_admitted(held))


def _ancestors(known: Mapping[Vid, GroupView], view: GroupView) -> dict[Vid, GroupView]:
    """The known views that led to one."""
    found: dict[Vid, GroupView] = {}
    open_ = list(view.preds)
    while open_:
        vid = open_.pop()
        if vid in known and vid not in found:
            found[vid] = known[vid]
            open_ += known[vid].preds
    return found


def _admitted(held: Sequence[ServiceGroup]) -> dict[str, int]:
    admitted: dict[str, int] = {}
    for group in held:
        for interface, number in group.admitted.items():
            admitted[interface] = max(number, admitted.get(interface, 0))
    return admitted
