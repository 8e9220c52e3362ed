"""Calls that no client sends: each is refused by name, and changes nothing."""

from __future__ import annotations

import json

import pytest
from tests.sim.service.calm_service import CalmService

from phalanx.core.ids import MemberId
from phalanx.service.call_problem import call_problem, clipped
from phalanx.service.calls.attributes import encoded_attributes
from phalanx.service.effects import Ignored
from phalanx.service.group_messages import CallKind, CallResult, GroupCall, Resolve, Resolved
from phalanx.service.inputs import CallSubmitted, MessageReceived
from phalanx.service.values import TEXT_LENGTH_MAX
from phalanx.sim.service.group_rest import last_states


def properties(**given: str | int | bool) -> dict[str, str]:
    return {"properties": json.dumps(encoded_attributes(given))}


BAD: list[tuple[CallKind, str, str, dict[str, str], str]] = [
    ("create", "new", "", properties(survive="size >"), "bad-rule("),
    ("create", "new", "", properties(merge_with="perhaps"), "bad-rule("),
    ("create", "new", "", properties(a="x" * 5000), "too-large("),
    ("create", "new", "", {"properties": "{"}, "bad-argument(properties"),
    ("create", "new", "", {"properties": "[1]"}, "bad-argument(properties"),
    ("create", "new", "", {"properties": '{"a": 1}'}, "bad-argument(properties"),
    ("create", "a~b", "", {}, "bad-argument(name"),
    ("create", "x" * 200, "", {}, "too-large(name"),
    ("create", "", "", {}, "bad-argument(name"),
    ("set_group", "g", "", properties(survive="("), "bad-rule("),
    ("set_group", "g", "", properties(**{f"k{n}": 1 for n in range(65)}), "too-large("),
    ("set_member", "g", "m0/1", properties(**{"right.fly": True}), "bad-argument("),
    ("join", "g", "m1/1", {}, "bad-argument(member"),
    ("join", "g", "m0", {}, "bad-argument(member"),
    ("join", "g", "m0/9", properties(**{"right.join": "yes"}), "bad-argument("),
    ("split", "g", "", {"child_1": "a", "child_2": "b", "by": "role ="}, "bad-argument(by"),
    ("split", "g", "", {"child_1": "a"}, "bad-argument(child_2"),
    ("merge", "g", "", {"group_2": "h", "new": "~"}, "bad-argument(new"),
    ("send", "g", "", {"body": "not base64!"}, "bad-argument(body"),
    ("send", "g", "", {"body": "QUFB" * 20_000}, "too-large(body"),
    ("send", "g", "", {"body": "aGk=", "selector": ">>"}, "bad-argument(selector"),
    ("read", "g", "", {"call": "get_list", "selector": "a b c"}, "bad-argument(selector"),
    ("read", "g", "", {"call": "get_list", "x": "y" * 300_000}, "too-large(arguments"),
]


@pytest.fixture(scope="module")
def service() -> CalmService:
    service = CalmService()
    service.call("create", "m0", "g", properties={"scope": "L0"})
    service.join("m0", "g")
    service.run(2)
    return service


@pytest.mark.parametrize(("kind", "name", "member", "arguments", "error"), BAD)
def test_a_call_that_cannot_be_carried_out_is_refused_by_the_first_server(
    service: CalmService,
    kind: CallKind,
    name: str,
    member: str,
    arguments: dict[str, str],
    error: str,
) -> None:
    before = last_states(service.world)["L0"]
    call = GroupCall("c/99", kind, "m0", name, member, "L0", "", arguments, "u99")
    home = service.world.servers["p0"].machine
    assert home is not None
    request = Resolve("L0", MemberId("a0"), MemberId("m0"), call)
    done = home.step(service.world.now, MessageReceived(MemberId("a0"), request))
    counted = [effect for effect in done if isinstance(effect, Ignored)]
    assert [effect.reason for effect in counted] == ["bad-call"]
    (reply,) = [e.message for e in done if hasattr(e, "message")]
    assert isinstance(reply, Resolved)
    assert reply.result.error.startswith(error), reply.result.error
    assert len(reply.result.error) <= TEXT_LENGTH_MAX
    assert last_states(service.world)["L0"] == before


def test_a_call_of_an_interface_that_is_not_configured_is_refused(service: CalmService) -> None:
    call = GroupCall("c/1", "create", "m99", "new", scope="L0")
    assert call_problem(call, service.world.topology).startswith("bad-argument(interface")


@pytest.mark.parametrize(
    ("kind", "arguments", "error"),
    [
        ("delete", {}, "no-such-group(nothing)"),
        ("split", {"child_1": "a", "child_2": "b"}, "no-such-group(nothing)"),
        ("send", {"body": "aGk="}, "no-such-group(nothing)"),
        ("leave", {"selector": "a = 1"}, "no-such-group(nothing)"),
        ("join", {"create": "false"}, "no-such-group(nothing)"),
        ("read", {"call": "get_view"}, "no-such-group(nothing)"),
        ("read", {"call": "get_everything"}, "no-such-group(nothing)"),
    ],
)
def test_a_group_that_nobody_has_is_named_in_the_refusal(
    service: CalmService, kind: CallKind, arguments: dict[str, str], error: str
) -> None:
    assert service.call(kind, "m0", "nothing", given=arguments).error == error


def test_the_uid_and_the_view_of_another_cluster_are_refused(service: CalmService) -> None:
    gone = service.read("get_view", "m0", "other-cluster-7f/1")
    assert gone.error == "no-such-group(other-cluster-7f/1)"
    view = service.read("is_member", "m0", "g", member="m0/1", view="7:abcdef")
    assert view.error == "unknown-view(7:abcdef)"
    call = service.read("get_everything", "m0", "g")
    assert call.error == "bad-argument(no call get_everything)"


def test_a_long_refusal_is_clipped_to_what_a_message_carries(service: CalmService) -> None:
    long = service.call("leave", "m0", "g", selector=f'role = "{"x" * 240}"')
    assert long.error.startswith('no-such-member(role = "xxx')
    assert len(long.error) == TEXT_LENGTH_MAX
    assert clipped("short") == "short"


def test_an_interface_with_too_many_open_calls_refuses_more(service: CalmService) -> None:
    machine = service.world.interfaces["m3"].machine
    assert machine is not None
    refused = []
    for number in range(16_385):
        call = GroupCall(f"flood/{number}", "read", "m3", "g", arguments={"call": "get_view"})
        done = machine.step(service.world.now, CallSubmitted(call))
        refused += [e.result for e in done if hasattr(e, "result")]
    assert refused == [CallResult("flood/16384", error="unavailable(too many open calls)")]
