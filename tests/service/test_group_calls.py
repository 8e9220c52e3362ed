"""The seventeen calls as the servers answer them: results, rights and errors of each."""

from __future__ import annotations

import json

import pytest
from tests.sim.service.calm_service import CalmService

from phalanx.service.group_messages import CallResult


def values(result: CallResult) -> dict[str, object]:
    assert not result.error, result.error
    return {key: json.loads(text) for key, text in result.values.items()}


def two_members(service: CalmService, scope: str = "M0") -> tuple[str, str, str]:
    """A group that the client of m0 creates, with members at m0 and m2."""
    uid = service.call("create", "m0", "orders", properties={"scope": scope}).uid
    return uid, service.join("m0", "orders", role="db"), service.join("m2", "orders", role="web")


# ---------------------------------------------------------------------- create and change


def test_create_group_registers_a_name_in_its_scope() -> None:
    service = CalmService()
    done = service.call("create", "m0", "orders", properties={"scope": "M0", "tier": 1})
    assert (done.error, done.uid) == ("", "u1-")
    assert done.vid is not None
    assert service.names("M0") == {"orders": done.uid}
    again = service.call("create", "m2", "orders", properties={"scope": "M0"})
    assert again.error == "name-in-use(orders)"
    assert service.call("create", "m2", "orders", properties={"scope": "L1"}).error == ""
    wide = service.call("create", "m2", "orders", properties={"scope": "T"})
    assert wide.error == "name-in-use(orders)"  # L1 and M0 are on the way
    assert service.call("create", "m3", "orders", properties={"scope": "T"}).error == ""


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ({"scope": "nowhere"}, "bad-scope(no set nowhere)"),
        ({"scope": "M1"}, "bad-scope(M1 is not above m0)"),
        ({"scope": "M0", "membership_scope": "T"}, "bad-scope(T is not below M0)"),
        ({"scope": "M0", "membership_scope": "L9"}, "bad-scope(no set L9)"),
    ],
)
def test_create_group_refuses_scopes_that_do_not_fit(
    properties: dict[str, str | int | bool], error: str
) -> None:
    assert CalmService().call("create", "m0", "orders", properties=properties).error == error


def test_set_group_attributes_needs_the_right_attr() -> None:
    service = CalmService()
    service.call("create", "m0", "orders", properties={"scope": "T", "tier": 1})
    assert service.call("set_group", "m3", "orders", properties={"tier": 2}).error == "denied(attr)"
    done = service.call("set_group", "m0", "orders", properties={"hot": True}, removed=("tier",))
    assert done.vid is not None
    found = service.read("get_group_attributes", "m3", "orders")
    assert values(found)["properties"] == {"scope": "T", "hot": True}


def test_delete_group_ends_it_and_frees_the_name() -> None:
    service = CalmService()
    _, member, _ = two_members(service)
    assert service.call("delete", "m2", "orders").error == "denied(delete)"
    done = service.call("delete", "m0", "orders")
    assert done.vid is not None
    service.run(2)
    assert service.held(member).over
    assert service.names("M0") == {}
    assert service.read("get_view", "m0", "orders").error == "no-such-group(orders)"


def test_set_member_attributes_needs_attr_and_rights_need_admin() -> None:
    service = CalmService()
    _, mine, other = two_members(service)

    def refused(interface: str, member: str, **properties: str | bool) -> str:
        return service.call("set_member", interface, "orders", member, properties=properties).error

    assert refused("m2", other, role="x") == ""  # its own
    assert refused("m2", mine, role="x") == "denied(attr)"
    assert refused("m2", other, **{"right.attr": True}) == "denied(admin)"
    assert refused("m0", other, **{"right.attr": True}) == ""
    assert refused("m2", mine, role="x") == ""
    assert refused("m0", "m9/9", role="x") == "no-such-member(m9/9)"
    found = service.read("get_member_attributes", "m3", "orders", member=mine)
    assert found.error == "no-such-group(orders)"  # m3 is outside its scope
    found = service.read("get_member_attributes", "m2", "orders", member=mine)
    assert values(found)["properties"] == {"role": "x"}


def test_split_group_takes_alternate_ranks_or_a_selector() -> None:
    service = CalmService()
    two_members(service)
    assert service.call("split", "m2", "orders", child_1="a", child_2="b").error == "denied(split)"
    same = service.call("split", "m0", "orders", child_1="a", child_2="a")
    assert same.error == "name-in-use(a)"
    service.call("create", "m1", "b", properties={"scope": "M0"})
    taken = service.call("split", "m0", "orders", child_1="a", child_2="b")
    assert taken.error == "name-in-use(b)"
    done = service.call("split", "m0", "orders", child_1="web", child_2="db", by='role = "web"')
    service.run(4)
    web, db = (service.group(done.values[key])[1] for key in ("uid_1", "uid_2"))
    assert [m.partition("~")[0] for m in web.view.members] == ["m2/1"]
    assert [m.partition("~")[0] for m in db.view.members] == ["m0/1"]
    assert service.held(web.view.members[0]).view == web.view


def test_merge_group_needs_the_right_in_both_and_one_scope() -> None:
    service = CalmService()
    uid, _, _ = two_members(service)
    service.call("create", "m2", "bills", properties={"scope": "M0"})
    service.call("create", "m0", "wide", properties={"scope": "T"})

    def refused(group_1: str, group_2: str, new: str = "all") -> str:
        return service.call("merge", "m0", group_1, group_2=group_2, new=new).error

    assert refused("orders", "bills") == "denied(merge)"
    assert refused("orders", "wide") == "scope-mismatch(T)"
    assert refused("orders", "nothing") == "no-such-group(nothing)"
    assert refused("orders", "orders") == f"no-such-group({uid})"
    service.call("set_group", "m2", "bills", properties={"default_rights": "join, merge"})
    assert refused("orders", "bills", "wide") == ""  # another scope
    service.run(4)
    merged = service.names("M0")["wide"]
    assert len(service.group(merged)[1].view.members) == 2


def test_the_id_of_a_member_does_not_grow_with_every_split() -> None:
    service = CalmService()
    service.call("create", "m0", "g0", properties={"scope": "L0"})
    service.join("m0", "g0")
    for n in range(3):
        done = service.call("split", "m0", f"g{n}", child_1=f"g{n + 1}", child_2=f"h{n + 1}")
        assert not done.error
        service.run(3)
    (member,) = service.group(service.names("L0")["g3"])[1].view.members
    assert member.count("~") == 1
    assert not service.held(member).over
    assert service.held(member).view is not None


# ---------------------------------------------------------------------- query


def test_is_member_and_get_view_name_ranks() -> None:
    service = CalmService()
    _, mine, other = two_members(service)
    seen = service.read("get_view", "m2", "orders")
    assert values(seen) == {"members": [mine, other], "ranks": {mine: 0, other: 1}}
    assert seen.vid == service.held(mine).view.vid  # type: ignore[union-attr]
    found = service.read("is_member", "m2", "orders", member=other)
    assert values(found) == {"is_member": True, "rank": 1}
    found = service.read("is_member", "m2", "orders", member="m1/1")
    assert values(found) == {"is_member": False, "rank": None}


def test_earlier_views_are_named_by_their_ids() -> None:
    service = CalmService()
    _, mine, other = two_members(service)
    first = next(v for v in service.group("u1-")[1].history if v.members == (mine,))
    found = service.read("is_member", "m2", "orders", member=other, view=str(first.vid))
    assert values(found)["is_member"] is False
    found = service.read("get_list", "m2", "orders", view=str(first.vid))
    assert values(found)["members"] == [mine]
    unknown = service.read("get_list", "m2", "orders", view="9:000000")
    assert unknown.error == "unknown-view(9:000000)"


def test_get_list_selects_by_attributes() -> None:
    service = CalmService()
    _, mine, other = two_members(service)
    assert values(service.read("get_list", "m0", "orders"))["members"] == [mine, other]
    found = service.read("get_list", "m0", "orders", selector='role = "web"')
    assert values(found)["members"] == [other]


def test_get_groups_lists_what_the_set_on_a_level_owns() -> None:
    service = CalmService()
    uid, mine, _ = two_members(service)
    service.call("create", "m0", "near", properties={"scope": "L0", "tier": 1})
    found = service.read("get_groups", "m1", level="2")
    assert values(found) == {"names": ["orders"], "uids": [uid]}
    found = service.read("get_groups", "m1", level="1", selector="tier = 1")
    assert values(found)["names"] == ["near"]
    found = service.read("get_groups", "m1", level="2", member=mine)
    assert values(found)["names"] == ["orders"]
    found = service.read("get_groups", "m1", level="2", member="m1/7")
    assert values(found)["names"] == []
    assert service.read("get_groups", "m1", level="4").error == "bad-level(4)"


def test_sites_name_interface_server_set_and_address() -> None:
    service = CalmService()
    service.call("create", "m0", "orders", properties={"scope": "M0"})
    service.join("m2", "orders")
    done = service.call("join", "m0", "orders", client="d", address="10.0.0.1:80", create="false")
    service.run(1)
    here = {"member": done.values["member"], "interface": "m0", "mserver": "a0", "set": "L0"}
    found = service.read("get_gsites", "m1", "orders", selector='address = "10.0.0.1:80"')
    assert values(found)["sites"] == [here | {"address": "10.0.0.1:80"}]
    service.call("create", "m0", "bills", properties={"scope": "M0"})
    found = service.read("get_sites", "m1", groups='["orders", "bills"]')
    sites = values(found)["sites"]
    assert isinstance(sites, list)
    assert [site["interface"] for site in sites] == ["m2", "m0"]
    found = service.read("get_sites", "m1", groups='["orders", "nothing"]')
    assert found.error == "no-such-group(nothing)"


def test_reads_need_the_right_read() -> None:
    service = CalmService()
    service.call("create", "m0", "orders", properties={"scope": "M0", "default_rights": "join"})
    for what in ("get_view", "get_list", "get_group_attributes", "get_gsites"):
        assert service.read(what, "m2", "orders").error == "denied(read)"
        assert service.read(what, "m0", "orders").error == ""
    assert values(service.read("get_groups", "m2", level="2"))["names"] == []


def test_a_linear_read_waits_for_an_answer_of_the_whole_set() -> None:
    service = CalmService()
    _, mine, other = two_members(service)
    found = service.read("get_view", "m1", "orders", linear="true")
    assert values(found)["members"] == [mine, other]
    service.world.crash(service.world.servers["t0"])  # a member of the owning set
    plain = service.submit("read", "m1", "orders", call="get_view")
    linear = service.submit("read", "m1", "orders", call="get_view", linear="true")
    service.run(0.2)
    assert linear not in service.answers
    assert not service.answer(linear).error  # once the set goes on without it
    assert not service.answer(plain).error


# ---------------------------------------------------------------------- communicate


def test_send_msg_addresses_who_matches() -> None:
    service = CalmService()
    two_members(service)
    done = service.call("send", "m1", "orders", body="aGk=")
    assert values(done) == {"addressed": 2, "answered": 2}
    done = service.call("send", "m1", "orders", body="aGk=", selector='role = "db"')
    assert values(done) == {"addressed": 1, "answered": 1}
    assert service.call("send", "m1", "orders", body="aGk=", selector="a = 1").error == "no-match"
    service.call("set_group", "m0", "orders", properties={"default_rights": "read"})
    assert service.call("send", "m1", "orders", body="aGk=").error == "denied(send)"


# ---------------------------------------------------------------------- join and leave


def test_join_group_creates_a_group_that_does_not_exist() -> None:
    service = CalmService()
    first, second = (
        service.submit("join", interface, "orders", create="true") for interface in ("m0", "m3")
    )
    results = [service.answer(first), service.answer(second)]
    assert len({result.uid for result in results}) == 1  # a race, then both joined
    service.run(2)
    assert len(service.group(results[0].uid)[1].view.members) == 2


def test_join_group_is_refused_outside_the_membership_scope_and_without_the_right() -> None:
    service = CalmService()
    properties: dict[str, str | int | bool] = {"scope": "T", "membership_scope": "L0"}
    service.call("create", "m0", "orders", properties=properties)
    assert service.call("join", "m2", "orders", create="false").error == "out-of-scope(L0)"
    service.call("set_group", "m0", "orders", properties={"default_rights": "read"})
    assert service.call("join", "m1", "orders", create="false").error == "denied(join)"
    assert service.call("join", "m0", "orders", create="false").error == ""


def test_leave_group_takes_a_member_or_a_selector() -> None:
    service = CalmService()
    _, mine, other = two_members(service)
    assert service.call("leave", "m2", "orders", mine).error == "denied(admin)"
    assert service.call("leave", "m2", "orders", other).error == ""
    gone = service.call("leave", "m2", "orders", "m2/77")
    assert gone.error == "no-such-member(m2/77)"
    left = service.call("leave", "m0", "orders", selector='role = "db"')
    assert left.vid is not None
    service.run(2)
    assert service.group("u1-")[1].view.members == ()
    assert service.held(mine).over
