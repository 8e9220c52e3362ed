"""A change of a group's scope: the group goes to its next scope, and gets it with its name."""

from __future__ import annotations

from tests.sim.service.calm_service import CalmService

from phalanx.sim.service.group_rest import last_states


def test_a_wider_scope_lets_members_from_outside_join() -> None:
    service = CalmService()
    uid = service.call("create", "m0", "orders", properties={"scope": "M0"}).uid
    member = service.join("m0", "orders")
    assert service.call("join", "m3", "orders", create="false").error == "no-such-group(orders)"
    done = service.call("set_group", "m0", "orders", properties={"scope": "T"})
    assert not done.error
    assert done.vid is not None
    service.run(8)
    assert service.names("T") == {"orders": uid}
    assert service.names("M0") == {}
    where, own = service.group(uid)
    assert (where, own.scope, own.pin, own.goal) == ("L0", "T", None, None)
    assert service.held(member).view == own.view
    other = service.join("m3", "orders")
    assert service.group(uid)[1].view.members == (member, other)


def test_a_narrower_scope_frees_the_name_above() -> None:
    service = CalmService()
    uid = service.call("create", "m0", "orders", properties={"scope": "T"}).uid
    member = service.join("m0", "orders")
    assert not service.call("set_group", "m0", "orders", properties={"scope": "L0"}).error
    service.run(10)
    assert service.names("L0") == {"orders": uid}
    assert service.names("T") == service.names("M0") == {}
    assert service.group(uid)[1].view.members == (member,)
    other = service.call("create", "m3", "orders", properties={"scope": "T"})
    assert not other.error
    assert service.call("join", "m1", "orders", create="false").uid == uid  # the nearer one
    assert service.call("join", "m2", "orders", create="false").uid == other.uid


def test_a_group_without_members_changes_its_scope() -> None:
    service = CalmService()
    uid = service.call("create", "m0", "orders", properties={"scope": "M0"}).uid
    for scope in ("T", "L0", "M0"):
        assert not service.call("set_group", "m0", uid, properties={"scope": scope}).error
        service.run(10)
        assert {n: service.names(n) for n in ("T", "M0", "L0") if service.names(n)} == {
            scope: {"orders": uid}
        }
        assert service.group(uid)[0] == scope


def test_a_scope_that_does_not_fit_is_refused() -> None:
    service = CalmService()
    service.call("create", "m0", "orders", properties={"scope": "M0"})
    service.join("m0", "orders")
    service.join("m2", "orders")
    service.call("create", "m0", "taken", properties={"scope": "M0"})
    service.call("create", "m0", "taken", properties={"scope": "L0"}, client="other")

    def refused(name: str, **properties: str) -> str:
        return service.call("set_group", "m0", name, properties=dict(properties)).error

    assert refused("orders", scope="nowhere") == "bad-scope(no set nowhere)"
    assert refused("orders", scope="M1") == "bad-scope(M1 is neither above nor below M0)"
    assert refused("orders", scope="L0") == "bad-scope(m2/1 is outside L0)"
    assert refused("orders", membership_scope="T") == "bad-scope(T is not below M0)"
    assert service.call("set_group", "m0", "orders", removed=("scope",)).error.startswith("bad-")
    other = service.call("create", "m3", "orders", properties={"scope": "T"})
    assert not other.error
    assert refused("orders", scope="T") == "bad-scope(T has another group orders)"
    service.run(12)
    assert service.names("M0")["orders"] != other.uid  # the group is back in its scope
    assert not service.group(service.names("M0")["orders"])[1].pin
    assert service.join("m1", "orders")


def test_a_membership_scope_stays_within_the_scope() -> None:
    service = CalmService()
    properties: dict[str, str | int | bool] = {"scope": "T", "membership_scope": "M0"}
    service.call("create", "m0", "orders", properties=properties)
    error = service.call("set_group", "m0", "orders", properties={"scope": "L0"}).error
    assert error == "bad-scope(M0 is not below L0)"
    both: dict[str, str | int | bool] = {"scope": "L0", "membership_scope": "L0"}
    assert not service.call("set_group", "m0", "orders", properties=both).error
    assert service.call("join", "m3", "orders", create="false").error == "no-such-group(orders)"


def test_a_part_of_the_network_that_missed_the_change_gives_its_group_up() -> None:
    service = CalmService()
    uid = service.call("create", "m0", "orders", properties={"scope": "L0"}).uid
    cut_off = [service.world.hosts[name] for name in ("a1", "m1")]
    for host in cut_off:
        host.side = 1
    service.run(8)
    assert not service.call("set_group", "m0", "orders", properties={"scope": "T"}).error
    service.run(6)
    for host in cut_off:
        host.side = 0
    service.run(15)
    states = last_states(service.world)
    owners = [name for name, state in states.items() if (r := state.groups.get(uid)) and r.own]
    assert len(owners) == 1
    assert service.group(uid)[1].scope == "T"
    assert [name for name, state in states.items() if state.names] == ["T"]
