"""Calls that change one group, at the set that owns it.

Each call is looked at twice: `call_result` finds its effect in the stable state (rule C4: only then
is it answered), `carry_out` makes the change on a draft. A call that is repeated finds its effect
and changes nothing.
"""

from __future__ import annotations

import json

from msgspec.structs import replace

from phalanx.service.call_outcomes import WAITS, CallDone, CallOutcome
from phalanx.service.call_rights import client_of, may
from phalanx.service.calls.attributes import changed_attributes, decoded_attributes
from phalanx.service.calls.call_errors import TooLarge
from phalanx.service.group_duties import release_up
from phalanx.service.group_messages import CallResult, GroupCall
from phalanx.service.group_moves import admitted
from phalanx.service.group_reads import ADDRESS, selected
from phalanx.service.group_views import created, may_admit, next_view
from phalanx.service.set_facts import SetFacts
from phalanx.service.set_tree import SetTree
from phalanx.service.state_draft import StateDraft
from phalanx.service.values import (
    MEMBERS_OF_A_GROUP_MAX,
    NO_RECORD,
    GroupRecord,
    PartitionRules,
    ServiceGroup,
    interface_of,
)

RULES = ("survive", "merge", "merge_with")
GROUP_ATTRIBUTE_BYTES_MAX = 1 << 20
"""Attributes of all members of a group: a message has to hold the whole group (a union, a move)."""
Texts = dict[str, str]


# ------------------------------------------------------------------ create


def create_refusal(call: GroupCall, topology: SetTree) -> str:
    """What is wrong with the scopes of a new group; empty if nothing is."""
    if call.scope not in topology.sets:
        return f"bad-scope(no set {call.scope})"
    if not topology.spans(call.scope, call.interface):
        return f"bad-scope({call.scope} is not above {call.interface})"
    if "parent_group" in properties_of(call) and not call.arguments.get("parent"):
        return "bad-argument(properties.parent_group: the parent was not checked)"
    return membership_scope_refusal(properties_of(call), call.scope, topology)


def membership_scope_refusal(properties: Texts, scope: str, topology: SetTree) -> str:
    """The membership scope lies at the scope or below it (rule N5)."""
    inner = _text(properties.get("membership_scope", ""))
    if not inner:
        return ""
    if inner not in topology.sets:
        return f"bad-scope(no set {inner})"
    return "" if scope in topology.path(inner) else f"bad-scope({inner} is not below {scope})"


def create_group(call: GroupCall, draft: StateDraft) -> None:
    """Registration and creation are one change of the scope set (rule N1)."""
    properties = {k: v for k, v in properties_of(call).items() if v}
    parent = call.arguments.get("parent") or None
    new = created(call.new_uid, call.name, call.scope, draft.context)
    new = replace(new, creator=client_of(call), parent_group=parent)
    new = with_properties(new, properties)
    draft.put(call.new_uid, GroupRecord(own=new), "create")
    draft.register_as(call.name, call.new_uid)


def with_properties(group: ServiceGroup, properties: Texts) -> ServiceGroup:
    """The group with these properties, rules and membership scope among them."""
    rules = {key: _text(properties[key]) for key in RULES if key in properties}
    return replace(
        group,
        properties=properties,
        rules=PartitionRules(**rules),
        membership_scope=_text(properties.get("membership_scope", "")) or None,
    )


def properties_of(call: GroupCall) -> Texts:
    """The attributes that a call names, as JSON texts; an empty text removes one."""
    try:
        found = json.loads(call.arguments.get("properties", "{}"))
    except ValueError:
        return {}
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}


def text_property(call: GroupCall, key: str) -> str:
    """One attribute that a call names, if it is a string; else empty."""
    return _text(properties_of(call).get(key, ""))


def _text(encoded_text: str) -> str:
    try:
        value = json.loads(encoded_text)
    except ValueError:
        return ""
    return value if isinstance(value, str) else ""


# ------------------------------------------------------------------ the effect of a call


def call_result(call: GroupCall, own: ServiceGroup) -> CallResult | None:
    """The result, if the effect of the call is in this stable group; else None."""
    members = own.view.members
    match call.kind:
        case "join":
            done = call.member in members
        case "leave":
            gone = call.member and call.member not in members
            done = bool(gone) and (own.ended is not None or not may_admit(own, call.member))
        case "delete":
            done = own.ended is not None
        case "set_group":
            done = _changed(own.properties, properties_of(call)) == own.properties
        case "set_member":
            mine = own.attributes.get(call.member, {})
            done = call.member in members and _changed(mine, properties_of(call)) == mine
        case _:
            done = False
    if not done:
        return None
    values = {}
    if call.kind == "join":
        values = {"member": call.member, "members": json.dumps(list(members))}
    return CallResult(call.id, own.uid, vid=own.view.vid, values=values)


def _changed(before: Texts, changes: Texts) -> Texts:
    after = {**before, **{k: v for k, v in changes.items() if v}}
    return {k: v for k, v in after.items() if changes.get(k) != ""}


# ------------------------------------------------------------------ refusals


def refusal(call: GroupCall, own: ServiceGroup, facts: SetFacts) -> str:
    """Why the owner refuses a call; empty if it does not."""
    if own.ended is not None:
        return f"no-such-group({call.name or own.name})"
    match call.kind:
        case "join":
            return _join_refusal(call, own, facts)
        case "leave":
            return _leave_refusal(call, own)
        case "delete" | "split" | "merge":
            return "" if may(call, own, call.kind) else f"denied({call.kind})"
        case "set_group":
            return _set_group_refusal(call, own, facts)
        case "set_member":
            return _set_member_refusal(call, own)
        case _:
            return "bad-argument(call)"


def _join_refusal(call: GroupCall, own: ServiceGroup, facts: SetFacts) -> str:
    inner = own.membership_scope or own.scope
    if not facts.topology.spans(inner, call.interface):
        return f"out-of-scope({inner})"
    if not may(call, own, "join"):
        return "denied(join)"
    texts = attributes_of_join(call)
    if problem := _size_problem({}, texts) or _group_size_problem(own, texts):
        return problem
    if len(own.view.members) >= MEMBERS_OF_A_GROUP_MAX:
        return f"too-large(group: {MEMBERS_OF_A_GROUP_MAX} members)"
    if not may_admit(own, call.member):
        return "member-used"  # the interface takes another number (rule G3)
    return _parent_refusal(call, own, facts)


def _parent_refusal(call: GroupCall, own: ServiceGroup, facts: SetFacts) -> str:
    """A subgroup admits clients that have a member in its parent. The interface knows its members
    and names that one; a set that owns both groups sees whether it is still there."""
    if own.parent_group is None:
        return ""
    member = call.arguments.get("parent_member", "")
    if not member:
        return f"needs-parent({own.parent_group})"
    parent = facts.state.groups.get(own.parent_group, NO_RECORD).own
    if member in call.callers and (parent is None or member in parent.view.members):
        return ""
    return f"out-of-scope(parent group {own.parent_group})"


def _leave_refusal(call: GroupCall, own: ServiceGroup) -> str:
    leaving = leavers(call, own)
    if not leaving:
        return f"no-such-member({call.member or call.arguments.get('selector', '')})"
    foreign = [m for m in leaving if m not in call.callers]
    return "denied(admin)" if foreign and not may(call, own, "admin") else ""


def leavers(call: GroupCall, own: ServiceGroup) -> list[str]:
    """The members that a call of leave_group means."""
    if call.member:
        return [call.member] if call.member in own.view.members else []
    return selected(own, own.view.members, call.arguments.get("selector", ""))


def _set_group_refusal(call: GroupCall, own: ServiceGroup, facts: SetFacts) -> str:
    if not may(call, own, "attr"):
        return "denied(attr)"
    changes = properties_of(call)
    if "parent_group" in changes:
        return "bad-argument(properties.parent_group: a subgroup keeps its parent)"
    scope = _text(changes["scope"]) if "scope" in changes else own.scope
    if scope != own.scope:
        problem = _new_scope_refusal(scope, own, facts)
        if problem:
            return problem
    inner_after = _changed(own.properties, changes).get("membership_scope", "")
    problem = membership_scope_refusal({"membership_scope": inner_after}, scope, facts.topology)
    inner = _text(changes.get("membership_scope", ""))
    if not problem and inner:
        outside = [m for m in own.view.members if not facts.topology.spans(inner, interface_of(m))]
        problem = f"bad-scope({outside[0]} is outside {inner})" if outside else ""
    return problem or _size_problem(own.properties, changes)


def _new_scope_refusal(scope: str, own: ServiceGroup, facts: SetFacts) -> str:
    """A scope fits that lies above or below the old one, spans all members, and has no other group
    of that name (rules N1, N5)."""
    topology = facts.topology
    if scope not in topology.sets:
        return f"bad-scope(no set {scope})"
    if not topology.is_at_or_above(scope, own.scope):
        if not topology.is_at_or_above(own.scope, scope):
            return f"bad-scope({scope} is neither above nor below {own.scope})"
    outside = [m for m in own.view.members if not topology.spans(scope, interface_of(m))]
    if outside:
        return f"bad-scope({outside[0]} is outside {scope})"
    if facts.name == scope and facts.state.names.get(own.name, own.uid) != own.uid:
        return f"bad-scope({scope} has another group {own.name})"
    return ""


def scope_wanted(call: GroupCall, own: ServiceGroup) -> str:
    """The scope that a call gives to a group; empty if it keeps its own."""
    scope = _text(properties_of(call).get("scope", "")) if call.kind == "set_group" else ""
    return scope if scope != own.scope else ""


def _set_member_refusal(call: GroupCall, own: ServiceGroup) -> str:
    if call.member not in own.view.members:
        return f"no-such-member({call.member})"
    changes = properties_of(call)
    if any(key.startswith("right.") for key in changes) and not may(call, own, "admin"):
        return "denied(admin)"
    if call.member not in call.callers and not may(call, own, "attr"):
        return "denied(attr)"
    problem = _size_problem(own.attributes.get(call.member, {}), changes)
    return problem or _group_size_problem(own, changes)


def _group_size_problem(own: ServiceGroup, more: Texts) -> str:
    """All members of a group together: whoever takes the group over takes all of it."""
    size = sum(map(_size_of, own.attributes.values()))
    if more and size + _size_of(more) > GROUP_ATTRIBUTE_BYTES_MAX:
        return f"too-large(group: {GROUP_ATTRIBUTE_BYTES_MAX} bytes of attributes of all members)"
    return ""


def _size_of(texts: Texts) -> int:
    return sum(len(key) + len(text) for key, text in texts.items())


def _size_problem(before: Texts, changes: Texts) -> str:
    decoded = decoded_attributes({k: v for k, v in changes.items() if v})
    removed = {k: None for k, v in changes.items() if not v}
    try:
        changed_attributes("properties", decoded_attributes(before), {**decoded, **removed})
    except TooLarge as error:
        return f"too-large({error.detail})"
    return ""


# ------------------------------------------------------------------ changes


def change_scope(
    call: GroupCall, own: ServiceGroup, facts: SetFacts, draft: StateDraft
) -> CallOutcome:
    """Names change: the group is pinned, comes to its next scope, and gets it there together with
    its name (rule N3). It has a view of its own, so that interfaces learn of the scope."""
    goal, record = scope_wanted(call, own), draft.record(own.uid)
    if own.pin not in (None, call.id):
        return WAITS
    if (own.pin, own.goal) != (call.id, goal):
        draft.put(own.uid, replace(record, own=replace(own, pin=call.id, goal=goal)), "pin")
    elif facts.name == goal:
        changed = with_properties(own, _changed(own.properties, properties_of(call)))
        changed = replace(changed, scope=goal, pin=None, goal=None)
        changed = next_view(changed, own.view.members, "scope", draft.context)
        draft.put(own.uid, replace(record, own=changed), "scope")
        draft.register(changed)
    return WAITS


def carry_out(
    call: GroupCall, own: ServiceGroup, facts: SetFacts, draft: StateDraft
) -> CallOutcome:
    """Make the change that the call asks for, if nothing stands in its way."""
    record = draft.record(own.uid)
    match call.kind:
        case "join":
            _join(call, own, facts, draft)
        case "leave":
            gone = leavers(call, own)
            if gone:
                left = [m for m in own.view.members if m not in gone]
                rest = next_view(own, left, "leave", draft.context)
                kept = {m: a for m, a in own.attributes.items() if m not in gone}
                draft.put(own.uid, replace(record, own=replace(rest, attributes=kept)), "leave")
                if not call.member:  # the members that match cannot be recognized again
                    return CallDone(CallResult(call.id, own.uid, vid=rest.view.vid))
        case "set_group":
            properties = _changed(own.properties, properties_of(call))
            if properties != own.properties:
                changed = with_properties(own, properties)
                draft.put(own.uid, replace(record, own=changed), "set_group")
        case "set_member":
            mine = own.attributes.get(call.member, {})
            changed_texts = _changed(mine, properties_of(call))
            if changed_texts != mine:
                attributes = {**own.attributes, call.member: changed_texts}
                changed = replace(own, attributes=attributes)
                draft.put(own.uid, replace(record, own=changed), "set_member")
        case _:
            pass
    return WAITS


def attributes_of_join(call: GroupCall) -> Texts:
    """The attributes of a new member; its address is one of them."""
    properties = {k: v for k, v in properties_of(call).items() if v}
    address = call.arguments.get(ADDRESS, "")
    return {ADDRESS: json.dumps(address), **properties} if address else properties


def _join(call: GroupCall, own: ServiceGroup, facts: SetFacts, draft: StateDraft) -> None:
    if not may_admit(own, call.member) or own.pin is not None:
        return
    attributes = dict(own.attributes)
    properties = attributes_of_join(call)
    if properties:
        attributes[call.member] = properties
    wanting = replace(own, attributes=attributes)
    record = draft.record(own.uid)
    if not facts.spans(call.interface):
        if own.want is None:
            wanting = replace(wanting, want=call.member)
            draft.put(own.uid, replace(record, own=wanting), "want")
            release_up(draft, own.uid)
    elif facts.is_sole_owner(own) and facts.serves_interface(call.interface):
        grown = admitted(wanting, call.member, draft.context)
        draft.put(own.uid, replace(record, own=grown), "join")
