"""Roles in a few members in memory: views that change nothing but roles, merges, crashes, joins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phalanx.core.effects import RolesInstalled, SetRole, SuspectMember, ViewInstalled
from phalanx.core.ids import MemberId

Build = Callable[..., Any]
A, B, C = (MemberId(name) for name in "abc")


def roles(group: Any, i: int) -> dict[str, str]:
    """What member i knows in its view: operations by name."""
    view = group.members[i].view.id
    found = [e for e in group.seen[i] if isinstance(e, RolesInstalled) and e.view == view]
    return {r.member.name: " ".join(r.operations) for e in found for r in e.roles}


def last_view(group: Any, i: int) -> ViewInstalled:
    return [e for e in group.seen[i] if isinstance(e, ViewInstalled)][-1]


def test_a_role_is_in_force_at_all_members_in_a_new_view_of_the_same_members(mesh: Build) -> None:
    group = mesh("abc")
    group.pump(100)
    group.step(0, SetRole(("read", "write")))
    assert not group.members[0].role_is_set
    group.pump(100)
    assert [roles(group, i) for i in range(3)] == [{"a": "read write"}] * 3
    assert len({group.members[i].view.id for i in range(3)}) == 1
    effect = last_view(group, 1)
    assert (effect.cause, effect.joined, effect.left) == ("role", (), ())
    assert group.members[0].role_is_set
    assert all(member.complete for member in group.members)


def test_setting_a_role_that_is_in_force_changes_no_view(mesh: Build) -> None:
    group = mesh("abc")
    group.pump(100)
    group.step(0, SetRole(()))
    group.pump(100)
    assert all(last_view(group, i).cause == "boot" for i in range(3))


def test_roles_that_are_set_at_once_come_into_one_view(mesh: Build) -> None:
    group = mesh("abc")
    group.pump(100)
    for i, name in enumerate(("read", "write", "audit")):
        group.step(i, SetRole((name,)))
    group.pump(100)
    assert [roles(group, i) for i in range(3)] == [{"a": "read", "b": "write", "c": "audit"}] * 3
    assert [len([e for e in group.seen[i] if isinstance(e, ViewInstalled)]) for i in range(3)] == [
        2
    ] * 3


def test_messages_are_sent_while_a_role_changes_and_none_is_lost(mesh: Build) -> None:
    group = mesh("abc")
    group.pump(100)
    for number in range(5):
        group.submit(1, f"{number}".encode())
        group.step(0, SetRole((f"v{number}",)))
    group.pump(300)
    assert [group.bodies(i) for i in range(3)] == [[b"0", b"1", b"2", b"3", b"4"]] * 3
    assert roles(group, 2) == {"a": "v4"}


def test_roles_travel_with_components_through_a_split_and_a_merge(mesh: Build) -> None:
    group = mesh("abcd")
    group.pump(100)
    group.step(0, SetRole(("first",)))
    group.pump(100)
    group.cut({0, 1}, {2, 3})
    group.pump(3000)
    group.step(1, SetRole(("second",)))
    group.step(2, SetRole(("third",)))
    group.pump(200)
    assert roles(group, 0) == {"a": "first", "b": "second"}
    assert roles(group, 3) == {"c": "third"}
    group.cut()
    group.pump(3000)
    together = {"a": "first", "b": "second", "c": "third"}
    assert [roles(group, i) for i in range(4)] == [together] * 4
    assert last_view(group, 0).cause == "join"


def test_a_member_that_joins_brings_its_role(mesh: Build) -> None:
    group = mesh("abc", alone=True)
    for i in range(3):
        group.step(i, SetRole((f"op{i}",)))
    group.pump(2000)
    assert [roles(group, i) for i in range(3)] == [{"a": "op0", "b": "op1", "c": "op2"}] * 3


def test_a_role_waits_until_the_member_has_its_name(mesh: Build) -> None:
    """Before that it sends no frame (rule L-16)."""
    group = mesh("a", alone=True)
    group.step(0, SetRole(("read",)))
    group.pump(50)
    assert roles(group, 0) == {}
    assert not group.members[0].role_is_set
    group.pump(200)
    assert roles(group, 0) == {"a": "read"}


def test_a_role_of_a_member_that_is_removed_is_gone(mesh: Build) -> None:
    group = mesh("abc")
    group.pump(100)
    group.step(2, SetRole(("read",)))
    group.pump(100)
    group.crash(2)
    group.step(0, SuspectMember(C))
    group.pump(100)
    assert [roles(group, i) for i in range(2)] == [{}, {}]
    assert last_view(group, 0).cause == "removal"


def test_a_member_alone_sets_its_role(mesh: Build) -> None:
    group = mesh("ab")
    group.pump(100)
    group.crash(1)
    group.step(0, SuspectMember(B))
    group.pump(100)
    group.step(0, SetRole(("read",)))
    group.pump(100)
    assert roles(group, 0) == {"a": "read"}
