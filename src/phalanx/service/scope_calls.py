"""Calls that change names: delete, split and merge (rule N3).

They run in the scope set of the group. Elsewhere the call pins the group, which makes its owners
hand it up and keeps it there; the pin is a lease that repetitions of the call renew.
"""

from __future__ import annotations

from msgspec.structs import replace

from phalanx.core.ids import digest_of
from phalanx.service.call_outcomes import WAITS, CallNeedsPin, CallOutcome
from phalanx.service.call_rights import may
from phalanx.service.group_messages import CallResult, GroupCall
from phalanx.service.group_reads import selected
from phalanx.service.group_views import created, next_view, with_view
from phalanx.service.set_facts import SetFacts
from phalanx.service.state_draft import StateDraft
from phalanx.service.values import NO_RECORD, GroupRecord, ServiceGroup, SetState

SCOPE_CALLS = ("delete", "split", "merge")


def new_uids(call: GroupCall) -> tuple[str, ...]:
    """The groups that the call makes."""
    match call.kind:
        case "split":
            return (f"{call.new_uid}a", f"{call.new_uid}b")
        case "merge":
            return (f"{call.new_uid}c",)
        case _:
            return ()


def scope_call_result(call: GroupCall, stable: SetState) -> CallResult | None:
    """The result, if the groups that the call makes exist in the stable state of the scope."""
    uids = new_uids(call)
    if not uids or any(uid not in stable.groups for uid in uids):
        return None
    if call.kind == "merge":
        return CallResult(call.id, uids[0])
    return CallResult(call.id, values={"uid_1": uids[0], "uid_2": uids[1]})


def scope_call_refusal(call: GroupCall, own: ServiceGroup, state: SetState) -> str:
    """What the scope of the group refuses: names in use, another group that cannot be merged."""
    names = _new_names(call)
    if len(set(names)) != len(names):
        return f"name-in-use({names[0]})"
    if call.kind == "merge" and call.arguments.get("scope_2", own.scope) != own.scope:
        return f"scope-mismatch({call.arguments['scope_2']})"
    if call.kind == "merge" and call.arguments.get("parent_2", "") != (own.parent_group or ""):
        return "scope-mismatch(they are subgroups of different groups)"
    if state.set != own.scope:
        return ""
    going = {own.uid}
    if call.kind == "merge":
        name = call.arguments.get("group_2", "")
        other = uid_named(state, name)
        peer = state.groups.get(other, NO_RECORD).own
        if not other or other == own.uid or (peer is not None and peer.ended is not None):
            return f"no-such-group({name})"
        if peer is not None and peer.scope != own.scope:
            return f"scope-mismatch({peer.scope})"
        if peer is not None and not may(call, peer, "merge"):
            return "denied(merge)"
        going.add(other)
    for name in names:
        if state.names.get(name, own.uid) not in going:
            return f"name-in-use({name})"
    return ""


WHOLE_GRACES = 3
"""For which a split or a merge waits for members; G2 removes them after one or two."""


def not_whole(call: GroupCall, own: ServiceGroup, facts: SetFacts, since: int) -> str:
    """The refusal of a split or a merge that has waited too long for members that are not served:
    it would settle which of the new groups they belong to without them."""
    if call.kind == "delete" or facts.now - since < WHOLE_GRACES * facts.times.grace_ns:
        return ""
    lost = facts.unserved(own)
    if call.kind == "merge" and facts.name == own.scope:
        other = uid_named(facts.state, call.arguments.get("group_2", ""))
        peer = facts.state.groups.get(other, NO_RECORD).own
        lost = (*lost, *(facts.unserved(peer) if peer is not None else ()))
    return f"not-whole({lost[0]})" if lost else ""


def _new_names(call: GroupCall) -> tuple[str, ...]:
    match call.kind:
        case "split":
            return (call.arguments.get("child_1", ""), call.arguments.get("child_2", ""))
        case "merge":
            return (call.arguments.get("new", ""),)
        case _:
            return ()


def uid_named(state: SetState, name: str) -> str:
    """The group with a name, or with the uid, in the scope of a set; empty if there is none."""
    if name in state.names:
        return state.names[name]
    return name if name in state.groups else ""


def carry_out_in_scope(
    call: GroupCall, own: ServiceGroup, facts: SetFacts, draft: StateDraft
) -> CallOutcome:
    """Pin the group if it is elsewhere; in its scope make the whole change with one entry list."""
    if own.pin not in (None, call.id):
        return WAITS
    if facts.name != own.scope:
        if own.pin is None:
            pin(draft, own.uid, call.id)
        return WAITS
    if call.kind == "delete":
        end(draft, own, "delete")
        return WAITS
    if call.kind == "split":
        if new_uids(call)[0] not in draft.state.groups:
            _split(call, own, draft)
        return WAITS
    return _merge(call, own, facts, draft)


def pin(draft: StateDraft, uid: str, call_id: str) -> None:
    """Hold a group in its scope, for one call."""
    record = draft.record(uid)
    if record.own is not None and record.own.pin is None:
        draft.put(uid, replace(record, own=replace(record.own, pin=call_id)), "pin")


def end(draft: StateDraft, own: ServiceGroup, why: str) -> None:
    """A group ends: null membership, and its name is free."""
    last = next_view(own, (), why, draft.context)
    assert why in ("delete", "split", "merge")
    over = replace(last, ended=why, pin=None, goal=None, want=None, attributes={})
    draft.put(own.uid, replace(draft.record(own.uid), own=over), why)
    draft.free(own.uid)


def _split(call: GroupCall, own: ServiceGroup, draft: StateDraft) -> None:
    members, by = own.view.members, call.arguments.get("by", "")
    first = selected(own, members, by) if by else list(members[::2])
    second = [m for m in members if m not in first]
    end(draft, own, "split")
    for uid, name, chosen in zip(new_uids(call), _new_names(call), (first, second), strict=True):
        _found(draft, uid, name, own, chosen, {})


def _merge(call: GroupCall, own: ServiceGroup, facts: SetFacts, draft: StateDraft) -> CallOutcome:
    other = uid_named(draft.state, call.arguments.get("group_2", ""))
    record = draft.record(other)
    peer = record.own
    if other == own.uid or (peer is None and (record.pends or not record.below)):
        return WAITS
    if own.pin is None:
        pin(draft, own.uid, call.id)
    if peer is None:
        return CallNeedsPin(record.below[0], other)
    own = draft.record(own.uid).own or own
    if peer.ended is not None or peer.scope != own.scope or not may(call, peer, "merge"):
        return WAITS
    if peer.pin not in (None, call.id) or record.below or record.pends or facts.unserved(peer):
        return WAITS
    end(draft, own, "merge")
    end(draft, peer, "merge")
    both = [*own.view.members, *(m for m in peer.view.members if m not in own.view.members)]
    attributes = {**peer.attributes, **own.attributes}
    _found(draft, new_uids(call)[0], _new_names(call)[0], own, both, attributes)
    return WAITS


def _found(
    draft: StateDraft,
    uid: str,
    name: str,
    template: ServiceGroup,
    members: list[str],
    attributes: dict[str, dict[str, str]],
) -> None:
    """A group whose members come from another one; each gets a new id (rule G3)."""
    suffix = digest_of(uid.encode()).hex()[:6]
    known = attributes or template.attributes
    new = created(uid, name, template.scope, draft.context, template)
    named = {m: f"{m.partition('~')[0]}~{suffix}" for m in members}
    parts = dict.fromkeys(named.values())
    view = with_view(new, tuple(parts), parts, (new.view.vid,), "born", draft.context)
    view = replace(
        view,
        original_size=len(parts),
        attributes={named[m]: known[m] for m in members if m in known},
    )
    draft.put(uid, GroupRecord(own=view), "born")
    draft.register_as(name, uid)
