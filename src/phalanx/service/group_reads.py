"""Queries: answers from one group as its owner has it, and lists of groups of a set."""

from __future__ import annotations

import json
from collections.abc import Sequence

from phalanx.service.call_outcomes import CallDone, CallOutcome, CallRefused
from phalanx.service.call_rights import may
from phalanx.service.calls.attributes import decoded_attributes
from phalanx.service.group_messages import CallResult, GroupCall
from phalanx.service.rules.rule_evaluation import matches
from phalanx.service.rules.rule_parser import parse_selector
from phalanx.service.set_tree import SetTree
from phalanx.service.values import GroupView, ServiceGroup, SetState, interface_of

ADDRESS = "address"
"""The attribute of a member that holds the address of its join."""


def read_group(call: GroupCall, own: ServiceGroup, topology: SetTree) -> CallOutcome:
    """The answer of a query about one group."""
    if not may(call, own, "read"):
        return CallRefused("denied(read)")
    match call.arguments.get("call", ""):
        case "get_view":
            members = own.view.members
            ranks = {member: rank for rank, member in enumerate(members)}
            listed, ranked = json.dumps(list(members)), json.dumps(ranks)
            return _done(call, own, True, members=listed, ranks=ranked)
        case "is_member":
            view = view_named(own, call.arguments.get("view", ""))
            if view is None:
                return _unknown_view(call)
            there = call.member in view.members
            rank = view.members.index(call.member) if there else None
            return _done(call, own, is_member=json.dumps(there), rank=json.dumps(rank))
        case "get_list":
            view = view_named(own, call.arguments.get("view", ""))
            if view is None:
                return _unknown_view(call)
            found = selected(own, view.members, call.arguments.get("selector", ""))
            return _done(call, own, members=json.dumps(found))
        case "get_member_attributes":
            if call.member not in own.view.members:
                return CallRefused(f"no-such-member({call.member})")
            return _done(call, own, properties=_plain(own.attributes.get(call.member, {})))
        case "get_group_attributes":
            return _done(call, own, properties=_plain(own.properties))
        case "get_sites" | "get_gsites":
            found = selected(own, own.view.members, call.arguments.get("selector", ""))
            return _done(call, own, sites=json.dumps(sites_of(own, found, topology)))
        case other:
            return CallRefused(f"bad-argument(no call {other:.40})")


def check_group(call: GroupCall, own: ServiceGroup, topology: SetTree) -> CallOutcome:
    """What has to be known of a second group before a call is made: of the parent of a subgroup,
    of the other side of a merge."""
    if own.ended is not None:
        return CallRefused(f"no-such-group({call.name})")
    right = call.arguments.get("right", "")
    if not may(call, own, right):
        return CallRefused(f"denied({right})")
    if call.scope and not topology.is_at_or_above(own.scope, call.scope):
        return CallRefused(
            f"bad-scope({call.scope} is not in {own.scope}, the scope of the parent)"
        )
    return _done(call, own, scope=own.scope, parent=own.parent_group or "")


def list_groups(call: GroupCall, state: SetState) -> CallOutcome:
    """The groups that a set owns, those with a member or with attributes only if asked for."""
    names, uids = [], []
    registered = {uid: name for name, uid in state.names.items()}
    conditions = parse_selector(call.arguments.get("selector", ""))
    for uid in sorted(state.groups):
        own = state.groups[uid].own
        if own is None or own.ended is not None or not may(call, own, "read"):
            continue
        if call.member and call.member not in own.view.members:
            continue
        if matches(conditions, decoded_attributes(own.properties)):
            names.append(registered.get(uid, own.name))
            uids.append(uid)
    values = {"names": json.dumps(names), "uids": json.dumps(uids)}
    return CallDone(CallResult(call.id, values=values))


def selected(own: ServiceGroup, members: Sequence[str], selector: str) -> list[str]:
    """The members whose attributes match, in rank order."""
    conditions = parse_selector(selector)
    return [
        m for m in members if matches(conditions, decoded_attributes(own.attributes.get(m, {})))
    ]


def view_named(own: ServiceGroup, text: str) -> GroupView | None:
    """The current view, or the one of the history whose id is this."""
    if not text:
        return own.view
    return next((v for v in (own.view, *own.history) if text == str(v.vid)), None)


def sites_of(own: ServiceGroup, members: Sequence[str], topology: SetTree) -> list[dict[str, str]]:
    """Interface, LAN mserver and set of each member, and the address that it gave when it
    joined."""
    sites = []
    for member in members:
        interface = interface_of(member)
        lan = topology.homes.get(interface, "")
        at = topology.set_of_interface(interface) if lan else ""
        site = {"member": member, "interface": interface, "mserver": lan, "set": at}
        address = decoded_attributes(own.attributes.get(member, {})).get(ADDRESS)
        sites.append(site | ({ADDRESS: address} if isinstance(address, str) else {}))
    return sites


def _unknown_view(call: GroupCall) -> CallRefused:
    return CallRefused(f"unknown-view({call.arguments.get('view', '')})")


def _plain(texts: dict[str, str]) -> str:
    return json.dumps(decoded_attributes(texts), ensure_ascii=False)


def _done(call: GroupCall, own: ServiceGroup, with_vid: bool = False, **values: str) -> CallDone:
    vid = own.view.vid if with_vid else None
    return CallDone(CallResult(call.id, own.uid, vid=vid, values=values))
