"""Whether a call may do what it asks for, by the rights of the client's members."""

from __future__ import annotations

from phalanx.service.calls.attributes import decoded_attributes
from phalanx.service.calls.rights import has_right
from phalanx.service.group_messages import GroupCall
from phalanx.service.values import ServiceGroup


def client_of(call: GroupCall) -> str:
    """The client that makes a call: ids of calls begin with its token."""
    return f"{call.interface} {call.id.rpartition('/')[0]}"


def may(call: GroupCall, own: ServiceGroup, right: str) -> bool:
    """Whether one of the client's members in the group, or anybody, has the right."""
    properties = decoded_attributes(own.properties)
    creator = own.creator == client_of(call)
    mine = [m for m in call.callers if m in own.view.members]
    if not mine:
        return has_right(right, properties, None, creator=creator)
    return any(
        has_right(right, properties, decoded_attributes(own.attributes.get(m, {})), creator=creator)
        for m in mine
    )
