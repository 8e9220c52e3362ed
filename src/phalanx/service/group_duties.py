"""What the owner of a group does by itself (rules G2, G5, G11, N4, N5): remove members that it does
not serve, move the group up or down, register and free its name.

Functions of the facts; what is to be done goes into the draft.
"""

from __future__ import annotations

from msgspec.structs import replace

from phalanx.core.ids import digest_of
from phalanx.service.group_union import joined
from phalanx.service.group_views import next_view
from phalanx.service.look_scope import Scope, in_scope
from phalanx.service.rules.group_rules import survives
from phalanx.service.set_facts import SetFacts
from phalanx.service.state_draft import StateDraft
from phalanx.service.values import (
    NO_RECORD,
    Gid,
    GroupRecord,
    HandOver,
    ServiceGroup,
    interface_of,
)


def owner_duties(facts: SetFacts, draft: StateDraft, scope: Scope = None) -> None:
    """All groups in scope of which the set has a record."""
    for uid in in_scope(scope, draft.state.groups):
        if draft.is_full:
            return
        record = draft.record(uid)
        if _carrier_is_gone(facts, draft, uid, record):
            continue
        if record.own is not None:
            _own_group(facts, draft, uid, record, record.own)
        elif record.is_empty:
            draft.put(uid, NO_RECORD, "forget")
        else:
            _recall_for_believers(facts, draft, uid, record)


NAMELESS_GRACES = 4
"""After which the name of a group is free of which the scope has no record."""


def free_lost_names(facts: SetFacts, draft: StateDraft) -> None:
    """Names of groups that are lost: without members, or with all servers that knew them. A group
    that turns up again is registered again."""
    for uid in sorted(set(draft.state.names.values()) - draft.state.groups.keys()):
        if facts.grace.waited(facts.now, ("lost", facts.name, uid), NAMELESS_GRACES):
            draft.free(uid)


def _own_group(
    facts: SetFacts, draft: StateDraft, uid: str, record: GroupRecord, own: ServiceGroup
) -> None:
    if own.ended is not None:
        _ended_group(facts, draft, uid, record, own)
        return
    is_named = uid in draft.state.names.values()
    if facts.name == own.scope and not is_named:
        draft.register(own)
        return
    if is_named and facts.name != own.scope and own.pin is None:
        draft.free(uid)  # the group has another scope now
    unserved = facts.unserved(own)
    key = ("unserved", facts.name, uid)
    if unserved:
        _remove_unserved(facts, draft, uid, record, own)
        return
    facts.grace.clear(key)
    if record.below or record.pends:
        return
    if own.pin is not None and facts.leases.get(own.pin, 0) < facts.now:
        if facts.grace.waited(facts.now, ("pin", facts.name, uid)):
            draft.put(uid, replace(record, own=replace(own, pin=None, goal=None)), "unpin")
        return
    wants = own.want is not None and not facts.spans(interface_of(own.want))
    if _is_contested(facts, own) or (facts.name != own.scope and (record.recall or wants)):
        release_up(draft, uid)
    elif facts.name != place_of(own) and (own.pin is not None or facts.is_above(own.scope)):
        _release_towards(facts, draft, uid, own, place_of(own))
    elif own.want is not None and facts.name == own.scope:
        draft.put(uid, replace(record, own=without_want(own)), "want")
    elif own.pin is None:
        _release_down(facts, draft, uid, own)


def _is_contested(facts: SetFacts, own: ServiceGroup) -> bool:
    """Whether a set above has had the group as well for a grace, although its scope is here: it was
    another one in a part of the network. Such owners meet above, as others do (rule G6)."""
    if own.uid not in facts.contested or not facts.topology.is_at_or_above(facts.name, own.scope):
        return False
    return facts.grace.waited(facts.now, ("contested", facts.name, own.uid))


def _recall_for_believers(
    facts: SetFacts, draft: StateDraft, uid: str, record: GroupRecord
) -> None:
    """A group has to come here (rule G6): it is below one child and has a member, or a former one,
    below another, which its owner does not reach; or the scope that had its name is lost, and only
    the owner knows what it was."""
    if record.recall or record.pends or not record.below:
        return
    elsewhere = [
        m
        for m in facts.believers(uid)
        if facts.topology.child_towards(facts.name, interface_of(m)) not in record.below
    ]
    is_top = facts.topology.above(facts.name) is None
    nameless = is_top and uid not in draft.state.names.values()
    key = ("believers", facts.name, uid)
    if not elsewhere and not nameless:
        facts.grace.clear(key)
    elif facts.grace.waited(facts.now, key):
        draft.put(uid, replace(record, recall=True), "recall to here")


def _ended_group(
    facts: SetFacts, draft: StateDraft, uid: str, record: GroupRecord, own: ServiceGroup
) -> None:
    """An ended group goes up to its scope, frees its name there, and is forgotten in the end."""
    if facts.name != own.scope or _is_contested(facts, own):
        release_up(draft, uid)
    elif not record.below and not record.pends:
        if uid in draft.state.names.values():
            draft.free(uid)
        elif facts.leases.setdefault(f"tombstone {uid}", facts.now + facts.times.tombstone_ns) < (
            facts.now
        ):
            draft.put(uid, NO_RECORD, "forget")


def _remove_unserved(
    facts: SetFacts, draft: StateDraft, uid: str, record: GroupRecord, own: ServiceGroup
) -> None:
    """After a grace, one view without all who are not confirmed (rules G2, G11)."""
    key = ("unserved", facts.name, uid)
    if not facts.grace.waited(facts.now, key):
        return
    sure = members_lost(facts, own)
    if len(sure) > len(facts.unserved(own)) and not facts.grace.waited(facts.now, key, 2):
        return  # somebody has just become silent: give the answer some time
    facts.grace.clear(key)
    draft.put(uid, replace(record, own=without_members(own, sure, draft.context)), "fail")


def members_lost(facts: SetFacts, own: ServiceGroup) -> tuple[str, ...]:
    """Whom a view after a fork leaves out: all who are not confirmed just now."""
    return facts.unserved(own, sure=True)


def without_members(group: ServiceGroup, lost: tuple[str, ...], context: bytes) -> ServiceGroup:
    """The view without members that cannot be reached; without any if the group's rule says that
    what is left does not go on."""
    left = [m for m in group.view.members if m not in lost]
    if left and not survives(group, left):
        over = next_view(group, (), "terminated", context)
        return replace(over, original_size=0, attributes={})
    rest = next_view(group, left, "fail", context)
    return replace(rest, attributes={m: group.attributes[m] for m in left if m in group.attributes})


def without_want(group: ServiceGroup) -> ServiceGroup:
    """The join that made the group move is admitted, or is not waited for any more."""
    if group.want is None or group.want in group.view.members:
        return replace(group, want=None)
    attributes = {m: a for m, a in group.attributes.items() if m != group.want}
    return replace(group, want=None, attributes=attributes)


def release_up(draft: StateDraft, uid: str) -> None:
    """RELEASE upwards, by the parent of the set (rule G5)."""
    record = draft.record(uid)
    if record.own is None or record.pends or record.below:
        return
    draft.put(uid, _released(draft, record.own, "up", None), "release up")


def place_of(own: ServiceGroup) -> str:
    """The set in which a pin holds a group; without one its scope, above which it does not stay."""
    return own.goal or own.scope


def _release_towards(
    facts: SetFacts, draft: StateDraft, uid: str, own: ServiceGroup, place: str
) -> None:
    """RELEASE on the way to a set that lies above this one or below it."""
    if not facts.is_above(place):
        release_up(draft, uid)
        return
    child = next(s for s in facts.topology.path(place) if facts.topology.above(s) == facts.name)
    parents = draft.state.kids.get(child, ())
    if len(parents) == 1:
        draft.put(uid, _released(draft, own, child, parents[0]), "release down")


def _release_down(facts: SetFacts, draft: StateDraft, uid: str, own: ServiceGroup) -> None:
    """RELEASE to the child below which all members lie, if it has exactly one parent."""
    if facts.level == 1 or not own.view.members:
        return
    children = {facts.topology.child_towards(facts.name, interface_of(m)) for m in own.view.members}
    child = min((c for c in children if c is not None), default=None)
    if len(children) != 1 or child is None:
        return
    if any(m not in own.view.members for m in facts.believers(uid)):
        return  # who is excluded has to be told first
    parents = draft.state.kids.get(child, ())
    if len(parents) == 1:
        draft.put(uid, _released(draft, own, child, parents[0]), "release down")


def _released(draft: StateDraft, own: ServiceGroup, to: str, carrier: Gid | None) -> GroupRecord:
    """The record with the group on its way, under an id that no other hand-over has."""
    number = draft.base.number.to_bytes(8, "big")
    parts = (draft.state.set.encode(), own.uid.encode(), to.encode())
    id_ = digest_of(number, draft.base.digest, *parts).hex()
    moved = replace(own, epoch=own.epoch + 1)
    return GroupRecord(pends=(HandOver(id_, to, moved, carrier),))


def _carrier_is_gone(facts: SetFacts, draft: StateDraft, uid: str, record: GroupRecord) -> bool:
    """A group on its way down whose carrier is not the child's parent any more: name another one,
    or take it back with the members that are served now (rule G5)."""
    for pend in record.pends:
        if pend.to == "up":
            continue
        parents = draft.state.kids.get(pend.to, ())
        key = ("carrier", facts.name, pend.id)
        if pend.carrier in parents:
            facts.grace.clear(key)
            continue
        rest = tuple(p for p in record.pends if p != pend)
        if parents:
            named = (*rest, replace(pend, carrier=parents[0]))
            draft.put(uid, replace(record, pends=named), "new carrier")
            return True
        if not facts.grace.waited(facts.now, key):
            continue
        lost = lost_with_carrier(facts, pend.group)
        back = without_members(pend.group, lost, draft.context)
        if record.own is not None:
            back, apart = joined(record.own, back, draft.context)
            put_apart(draft, apart)
        draft.put(uid, replace(record, pends=rest, own=back), "take back")
        draft.see(f"done {pend.id}")
        return True
    return False


def lost_with_carrier(facts: SetFacts, group: ServiceGroup) -> tuple[str, ...]:
    """Members that may have gone down with the group."""
    return facts.unserved(group)


def put_apart(draft: StateDraft, apart: ServiceGroup | None) -> None:
    """A side that the rules keep apart is a group of its own (rule G9)."""
    if apart is not None and not draft.record(apart.uid).own:
        draft.put(apart.uid, GroupRecord(own=apart), "apart")
