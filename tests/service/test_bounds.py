"""Values at the bounds of the service: refused with an error, and never part of a change that other
servers could not read."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.sim.service.calm_service import CalmService

from phalanx.core.ids import MemberId
from phalanx.service import call_desk, group_calls
from phalanx.service.group_views import created, next_view
from phalanx.service.set_state import founded
from phalanx.service.state_draft import StateDraft
from phalanx.service.values import MEMBERS_OF_A_GROUP_MAX, GroupRecord, PartitionRules


def a_draft() -> StateDraft:
    return StateDraft(founded("s", [MemberId("m")], None))


def test_an_entry_that_no_server_could_read_is_left_out() -> None:
    draft = a_draft()
    group = created("u", "x", "s", b"c")
    draft.put("u", GroupRecord(replace(group, rules=PartitionRules(survive="s" * 257))), "create")
    draft.register_as("n" * 257, "u")
    assert (draft.entries, draft.state.groups, draft.left_out) == ([], {}, 2)
    draft.put("u", GroupRecord(group), "create")
    assert len(draft.entries) == 1


def test_a_view_with_more_members_than_a_group_may_have_is_left_out() -> None:
    draft = a_draft()
    full = [f"i{n}/1" for n in range(MEMBERS_OF_A_GROUP_MAX)]
    group = next_view(created("u", "x", "s", b"c"), full, "join", b"c")
    draft.put("u", GroupRecord(group), "create")
    more = next_view(group, [*full, "one/1"], "join", b"c")
    draft.put("u", GroupRecord(more), "join")
    assert draft.left_out == 1
    assert draft.record("u").own == group


def test_a_group_that_is_full_refuses_joins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_calls, "MEMBERS_OF_A_GROUP_MAX", 1)
    service = CalmService()
    service.call("create", "m0", "orders", properties={"scope": "M0"})
    service.join("m0", "orders")
    again = service.call("join", "m2", "orders", create="false")
    assert again.error == "too-large(group: 1 members)"


def test_members_of_a_group_have_a_bounded_size_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_calls, "GROUP_ATTRIBUTE_BYTES_MAX", 100)
    service = CalmService()
    service.call("create", "m0", "orders", properties={"scope": "M0"})
    service.join("m0", "orders", role="x" * 80)
    properties = {"role": "x" * 80}
    again = service.call("join", "m2", "orders", create="false", properties=properties)
    assert again.error == "too-large(group: 100 bytes of attributes of all members)"
    assert service.join("m2", "orders")


def test_a_set_that_is_full_refuses_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call_desk, "GROUPS_MAX", 1)
    service = CalmService()
    assert service.call("create", "m0", "one", properties={"scope": "M0"}).error == ""
    refused = service.call("create", "m0", "two", properties={"scope": "M0"})
    assert refused.error == "too-large(set: 1 groups)"
