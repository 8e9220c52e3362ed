"""Groups between a set and the one above (rules G5, G6): hand-overs and pointers.

The parent of a child set sees the states of both. A hand-over is taken up only when its RELEASE is
stable, and cleared only when its ADOPT is (rule C4); its id in `seen` makes a second ADOPT a
repetition. ADOPT upwards is for the speaker of the upper set, which knows whom that set serves;
what the parent reports to it is in `Tell.carried`.
"""

from __future__ import annotations

from msgspec.structs import replace

from phalanx.service.group_duties import put_apart, without_members, without_want
from phalanx.service.group_union import joined
from phalanx.service.group_views import may_admit, next_view
from phalanx.service.look_scope import Scope, in_scope
from phalanx.service.set_facts import SetFacts
from phalanx.service.set_tree import SetTree
from phalanx.service.state_draft import StateDraft
from phalanx.service.values import (
    NO_RECORD,
    GroupRecord,
    HandOver,
    ServiceGroup,
    SetState,
    interface_of,
)


def groups_carried_up(facts: SetFacts) -> tuple[HandOver, ...]:
    """For the set above: hand-overs that are stable here, without the members that are not served
    any more after a grace."""
    if not facts.is_stable:
        return ()
    out = []
    for uid in sorted(facts.state.groups):
        for pend in facts.state.groups[uid].pends:
            if pend.to != "up" or (facts.above is not None and pend.id in facts.above.seen):
                continue
            key = ("carried", facts.name, pend.id)
            lost = lost_on_the_way(facts, pend.group)
            if lost and not facts.grace.waited(facts.now, key):
                continue
            if lost:
                left = without_members(pend.group, lost, facts.state.vid.digest)
                pend = replace(pend, group=left)
            else:
                facts.grace.clear(key)
            out.append(pend)
    return tuple(out)


def lost_on_the_way(facts: SetFacts, group: ServiceGroup) -> tuple[str, ...]:
    """Members of a group that is carried up which may have another owner below by now."""
    return facts.unserved(group)


def is_repeated(draft: StateDraft, pend: HandOver) -> bool:
    """Whether a hand-over has been carried out already."""
    return pend.id in draft.state.seen


def adopt_from_below(
    facts: SetFacts, draft: StateDraft, child: str, carried: tuple[HandOver, ...]
) -> None:
    """ADOPT of what comes up from a child set. The join that caused the move is admitted in the
    same entry, or the group would go down again at once."""
    for pend in carried:
        uid = pend.group.uid
        record = draft.record(uid)
        if is_repeated(draft, pend) or draft.is_full:
            continue
        own, apart = pend.group, None
        if record.own is not None:
            if facts.is_frozen(record.own):
                continue
            from_child = frozenset(
                m
                for m in own.view.members
                if facts.topology.child_towards(facts.name, interface_of(m)) == child
            )
            own, apart = joined(record.own, own, draft.context, from_child)
        below = tuple(c for c in record.below if c != child)
        own = _with_wanted_member(facts, draft, replace(record, below=below), own)
        draft.put(uid, GroupRecord(own, below, record.pends, record.recall), "adopt")
        draft.see(pend.id)
        if facts.name == own.scope and own.ended is None:
            draft.register(own)
        put_apart(draft, apart)


def _with_wanted_member(
    facts: SetFacts, draft: StateDraft, record: GroupRecord, own: ServiceGroup
) -> ServiceGroup:
    member = own.want
    if member is None or not facts.spans(interface_of(member)):
        return own
    admissible = (
        own.ended is None
        and not record.pends
        and not record.below
        and may_admit(own, member)
        and facts.serves_interface(interface_of(member))
        and facts.is_sole_owner(own)
    )
    return admitted(own, member, draft.context) if admissible else without_want(own)


def admitted(own: ServiceGroup, member: str, context: bytes) -> ServiceGroup:
    """The group with one more member."""
    grown = next_view(own, (*own.view.members, member), "join", context)
    size = max(own.original_size, len(grown.view.members))
    return without_want(replace(grown, original_size=size))


def take_from_above(
    facts: SetFacts, draft: StateDraft, above: SetState, scope: Scope = None
) -> None:
    """ADOPT of groups that the set above has released to this one, for its carrier. `above` is
    stable."""
    for uid in in_scope(scope, above.groups):
        for pend in above.groups[uid].pends:
            if draft.is_full:
                return
            if pend.to != facts.name or not is_carrier(facts, pend) or is_repeated(draft, pend):
                continue
            record = draft.record(uid)
            own, apart = pend.group, None
            if record.own is not None:
                if facts.is_frozen(record.own):
                    continue
                here = frozenset(record.own.view.members)
                own, apart = joined(own, record.own, draft.context, here)
            draft.put(uid, replace(record, own=own), "take")
            if own.scope != facts.name and own.pin is None:
                draft.free(uid)  # it may have had its scope here before
            draft.see(pend.id)
            put_apart(draft, apart)


def is_carrier(facts: SetFacts, pend: HandOver) -> bool:
    """Whether this parent is the one that takes the group down (rule G5)."""
    return pend.carrier == facts.me


def clear_carried_up(draft: StateDraft, above: SetState, scope: Scope = None) -> None:
    """CLEAR here of hand-overs that the set above has carried out. `above` is stable."""
    for uid in in_scope(scope, draft.state.groups):
        record = draft.record(uid)
        for pend in record.pends:
            if pend.to == "up" and pend.id in above.seen:
                record = replace(record, pends=tuple(p for p in record.pends if p != pend))
                draft.put(uid, record, "clear")
                draft.see(f"done {pend.id}")


def clear_taken_below(draft: StateDraft, below: SetState, scope: Scope = None) -> None:
    """CLEAR here of hand-overs that a child set has carried out. `below` is stable."""
    for uid in in_scope(scope, draft.state.groups):
        record = draft.record(uid)
        for pend in record.pends:
            if pend.to == below.set and pend.id in below.seen:
                rest = tuple(p for p in record.pends if p != pend)
                child = tuple(sorted({*record.below, below.set}))
                record = replace(record, pends=rest, below=child)
                draft.put(uid, record, "clear")
                draft.see(f"done {pend.id}")


def keep_pointers(
    topology: SetTree,
    draft: StateDraft,
    below: SetState,
    is_stable: bool,
    only_parent: bool,
    scope: Scope = None,
) -> None:
    """Enter the child set at the groups of which it has a record, and remove it from the others
    (rule G6). The name of a group is entered where its scope is, and freed elsewhere."""
    for uid in in_scope(scope, below.groups, draft.state.groups):
        if draft.is_full:
            return
        record, theirs = draft.record(uid), below.groups.get(uid, NO_RECORD)
        if record.pends or any(pend.id in draft.state.seen for pend in theirs.pends):
            continue
        group = owned_or_carried(theirs)
        here = draft.state.set
        ends_below = group is not None and topology.is_at_or_above(below.set, group.scope)
        if not theirs.is_empty and below.set not in record.below:
            if ends_below:
                continue  # the pointers end at the scope
            if group is None and uid in below.names.values():
                continue
            pointers = tuple(sorted({*record.below, below.set}))
            draft.put(uid, replace(record, below=pointers), "point")
        if group is not None and group.scope == here and group.ended is None:
            if record.own is None:
                draft.register(group)
        elif group is not None and group.pin is None and group.scope != here:
            draft.free(uid)
        is_over = theirs.is_empty or ends_below
        if is_over and below.set in record.below and is_stable and only_parent:
            rest = tuple(c for c in record.below if c != below.set)
            draft.put(uid, replace(record, below=rest), "unpoint")


def owned_or_carried(record: GroupRecord) -> ServiceGroup | None:
    """The group in a record, wherever it is on its way."""
    if record.own is not None:
        return record.own
    return record.pends[0].group if record.pends else None


def heed_recall(draft: StateDraft, above: SetState, scope: Scope = None) -> None:
    """Two owners below one set, or one there as well: this set gives up its own (rule G6)."""
    for uid in in_scope(scope, draft.state.groups):
        record = draft.record(uid)
        theirs = above.groups.get(uid)
        if record.own is None and not record.below:
            continue
        if record.recall or theirs is None or draft.state.set not in theirs.below:
            continue
        if theirs.own is not None or len(theirs.below) > 1 or theirs.recall:
            draft.put(uid, replace(record, recall=True), "recall")


def is_held(record: GroupRecord, seen_above: tuple[str, ...]) -> bool:
    """Whether a set still answers for a group: it owns it, points to it, or carries it and the set
    above has not taken it up."""
    if record.own is not None or record.below:
        return True
    return any(pend.id not in seen_above for pend in record.pends)
