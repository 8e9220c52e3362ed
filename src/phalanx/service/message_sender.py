"""Who may send which message about groups (docs/service/rules.md, bad input).

Without seals a datagram is as trustworthy as the network. What can be checked is checked before a
machine acts on a message: servers and interfaces are those of the configuration, an interface
speaks for itself only, and a path leads through configured sets. The rest is dropped and counted.
"""

from __future__ import annotations

from phalanx.service.group_messages import (
    Advance,
    Ask,
    ChooseHome,
    DirectiveAck,
    GroupCall,
    GroupDataAck,
    GroupMessage,
    HeldGroup,
    QueryReply,
    Resolve,
    Resolved,
    Tell,
)
from phalanx.service.set_tree import SetTree
from phalanx.service.values import Gid, interface_of


class MessageSenders:
    """Of one cluster."""

    def __init__(self, topology: SetTree) -> None:
        self._homes = topology.homes
        self._sets = topology.sets
        self._servers = {name for plan in topology.sets.values() for name in plan.members}

    def problem(self, sender: Gid, message: GroupMessage) -> str:
        """Why a message to a server is dropped; empty if it is not."""
        if sender.name in self._homes:
            return "" if self._is_own(sender.name, message) else "not-of-sender"
        if sender.name not in self._servers:
            return "unknown-sender"
        match message:
            case Ask(path=path):
                known = all(step.set in self._sets for step in path)
            case Tell(served=served):
                known = all(each.interface in self._homes for each in served)
            case Advance(moved=moved):
                known = moved.interface in self._homes
            case Resolve(interface=interface, call=call):
                known = interface.name == call.interface
            case Resolved(interface):
                known = interface.name in self._homes
            case HeldGroup(group=group):
                known = group.scope in self._sets
            case QueryReply() | DirectiveAck() | ChooseHome() | GroupCall():
                known = False
            case _:
                known = True
        return "" if known else "unknown-place"

    def _is_own(self, interface: str, message: GroupMessage) -> bool:
        """Whether an interface may say this."""
        match message:
            case QueryReply(served=served):
                return served.interface == interface
            case DirectiveAck(moved=moved):
                return moved.interface == interface
            case ChooseHome(interface=name) | GroupCall(interface=name):
                return name == interface
            case HeldGroup(interface=name, group=group):
                return name == interface and group.scope in self._sets
            case GroupDataAck(members=members):
                return all(interface_of(member) == interface for member in members)
            case _:
                return False
