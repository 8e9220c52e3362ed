"""An interface whose group has no owner any more, while that is claimed (rules C5, G10)."""

from __future__ import annotations

import pytest

from phalanx.core.ids import MemberId
from phalanx.service.effects import (
    Answer,
    DurableRecord,
    HeldHistory,
    HeldMembership,
    InterfaceRecord,
)
from phalanx.service.group_messages import CallResult, GroupCall
from phalanx.service.group_views import created, next_view
from phalanx.service.inputs import CallSubmitted, MessageReceived
from phalanx.service.member_interface import MemberInterface
from phalanx.service.service_times import ServiceTimes
from phalanx.service.set_tree import ConfiguredSet, SetTree

TREE = SetTree(
    {
        "top": ConfiguredSet("top", 2, ("t",)),
        "lan": ConfiguredSet("lan", 1, ("t", "a", "b"), "top", "t"),
    },
    {"h": "a"},
)
GROUP = next_view(created("u1", "orders", "top", b"start"), ("h/1",), "join", b"")


def answers(call_name: str, *, over: bool = False) -> list[str]:
    """What a client of a member of orders is answered, when nobody has a group of that name."""
    held = HeldMembership("h/1", "u1", "client-1/1", GROUP.view, over)
    records: list[DurableRecord] = [InterfaceRecord("h", 1, "a", 1), held, HeldHistory(GROUP)]
    interface = MemberInterface("h", TREE, records, ServiceTimes(), 0)
    call = GroupCall("client-1/2", "read", "h", call_name, arguments={"call": "get_view"})
    interface.step(1, CallSubmitted(call))
    refused = CallResult(call.id, error=f"no-such-group({call_name})")
    effects = interface.step(2, MessageReceived(MemberId("a"), refused))
    return [each.result.error for each in effects if isinstance(each, Answer)]


@pytest.mark.parametrize("name", ["orders", "u1"])
def test_a_group_with_members_here_is_not_denied(name: str) -> None:
    """All servers that had the group are gone at once; those that remain know of none."""
    assert answers(name) == []


def test_a_group_that_is_over_or_was_never_here_is_denied() -> None:
    assert answers("orders", over=True) == ["no-such-group(orders)"]
    assert answers("bills") == ["no-such-group(bills)"]
