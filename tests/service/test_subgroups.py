"""Subgroups: their members are members of the parent group, and are excluded with it."""

from __future__ import annotations

from tests.sim.service.calm_service import CalmService


def a_subgroup(service: CalmService) -> tuple[str, str]:
    """A group of the client `c` of m0, and a subgroup; both uids."""
    group = service.call("create", "m0", "orders", properties={"scope": "M0"})
    sub = service.call("create", "m0", "urgent", properties={"parent_group": "orders"})
    assert not sub.error
    return group.uid, sub.uid


def test_a_subgroup_has_the_scope_of_its_parent_and_names_it() -> None:
    service = CalmService()
    group, sub = a_subgroup(service)
    own = service.group(sub)[1]
    assert (own.scope, own.parent_group) == ("M0", group)
    found = service.read("get_group_attributes", "m2", "urgent")
    assert found.values["properties"] == '{"parent_group": "orders"}'


def test_only_clients_with_a_member_in_the_parent_join_a_subgroup() -> None:
    service = CalmService()
    group, sub = a_subgroup(service)
    refused = service.call("join", "m2", "urgent", create="false")
    assert refused.error == f"out-of-scope(parent group {group})"
    service.join("m2", "orders", client="else")
    assert service.call("join", "m2", "urgent", create="false").error == refused.error
    parent = service.join("m2", "orders")
    member = service.join("m2", "urgent")
    assert service.held(member).parent == parent
    assert service.group(sub)[1].view.members == (member,)


def test_a_member_that_leaves_the_parent_leaves_the_subgroup() -> None:
    service = CalmService()
    _, sub = a_subgroup(service)
    stays = service.join("m0", "orders"), service.join("m0", "urgent")
    goes = service.join("m2", "orders"), service.join("m2", "urgent")
    assert not service.call("leave", "m2", "orders", goes[0]).error
    service.run(3)
    assert service.group(sub)[1].view.members == (stays[1],)
    assert service.held(goes[1]).over


def test_a_member_that_an_admin_removes_from_the_parent_is_excluded_from_the_subgroup() -> None:
    service = CalmService()
    _, sub = a_subgroup(service)
    member = service.join("m2", "orders")
    service.join("m2", "urgent")
    assert not service.call("leave", "m0", "orders", member).error  # m0 has created the group
    service.run(3)
    assert service.group(sub)[1].view.members == ()


def test_the_end_of_the_parent_excludes_all_members_of_the_subgroup() -> None:
    service = CalmService()
    _, sub = a_subgroup(service)
    for interface in ("m0", "m1", "m2"):
        service.join(interface, "orders")
        service.join(interface, "urgent")
    assert not service.call("delete", "m0", "orders").error
    service.run(4)
    assert service.group(sub)[1].view.members == ()


def test_the_interface_remembers_after_a_restart_with_whom_a_member_is_excluded() -> None:
    service = CalmService()
    _, sub = a_subgroup(service)
    parent = service.join("m2", "orders")
    member = service.join("m2", "urgent")
    host = service.world.interfaces["m2"]
    service.world.crash(host)
    service.world.start(host)
    assert service.held(member).parent == parent
    assert not service.call("leave", "m0", "orders", parent).error
    service.run(4)
    assert service.group(sub)[1].view.members == ()


def test_who_may_create_a_subgroup() -> None:
    service = CalmService()
    service.call("create", "m0", "orders", properties={"scope": "M0"})

    def refused(interface: str, **properties: str) -> str:
        return service.call("create", interface, "urgent", properties=dict(properties)).error

    assert refused("m2", parent_group="orders") == "denied(split)"
    assert refused("m0", parent_group="nothing") == "no-such-group(nothing)"
    assert refused("m0", parent_group="orders", scope="T").startswith("bad-scope(T is not in M0")
    assert service.call("create", "m2", "orders2", properties={"scope": "M0"}).error == ""
    change = service.call("set_group", "m2", "orders2", properties={"parent_group": "orders"})
    assert change.error.startswith("bad-argument(properties.parent_group")
    assert refused("m0", parent_group="orders", scope="L0") == ""


def test_a_split_subgroup_still_goes_with_its_parent() -> None:
    service = CalmService()
    group, _ = a_subgroup(service)
    for interface in ("m0", "m2"):
        service.join(interface, "orders")
        service.join(interface, "urgent")
    done = service.call("split", "m0", "urgent", child_1="a", child_2="b")
    assert not done.error
    service.run(3)
    halves = [service.group(done.values[key])[1] for key in ("uid_1", "uid_2")]
    assert [len(half.view.members) for half in halves] == [1, 1]
    assert {half.parent_group for half in halves} == {group}
    assert not service.call("delete", "m0", "orders").error
    service.run(4)
    halves = [service.group(done.values[key])[1] for key in ("uid_1", "uid_2")]
    assert [half.view.members for half in halves] == [(), ()]
