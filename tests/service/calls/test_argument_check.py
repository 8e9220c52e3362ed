"""The table of calls, and the validation that follows from it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from phalanx.service.calls.argument_check import checked_call
from phalanx.service.calls.call_errors import (
    ERRORS,
    BadArgument,
    BadRule,
    Denied,
    ServiceError,
    TooLarge,
    UnknownError,
    error_from_wire,
)
from phalanx.service.calls.call_table import CALLS, COMMON_ERRORS
from phalanx.service.calls.rights import RIGHTS

GOOD: dict[str, dict[str, Any]] = {
    "create_group": {"name": "orders"},
    "set_group_attributes": {"group": "orders", "properties": {"a": 1}},
    "delete_group": {"group": "orders"},
    "set_member_attributes": {"group": "orders", "member": "m", "properties": {"right.send": True}},
    "split_group": {"group": "orders", "child_1": "a", "child_2": "b", "by": "x = 1"},
    "merge_group": {"group_1": "a", "group_2": "b", "new": "c"},
    "is_member": {"member": "m", "group": "orders", "view": "3:abcdef"},
    "get_view": {"group": "orders", "linear": True},
    "get_list": {"group": "orders", "selector": "x = 1"},
    "get_groups": {"level": 2},
    "get_member_attributes": {"group": "orders", "member": "m"},
    "get_group_attributes": {"group": "orders"},
    "get_sites": {"groups": ["a", "b"]},
    "get_gsites": {"group": "orders"},
    "send_msg": {"group": "orders", "body": b"x", "selector": ""},
    "join_group": {"name": "orders", "properties": {"site": "berlin"}},
    "leave_group": {"name": "orders", "member": "m"},
}


def test_the_table_has_the_seventeen_calls_of_the_paper() -> None:
    assert list(GOOD) == list(CALLS)
    assert len(CALLS) == 17


def test_all_errors_and_rights_of_the_table_exist() -> None:
    named = {code for spec in CALLS.values() for code in spec.errors} | set(COMMON_ERRORS)
    assert named == set(ERRORS)
    assert {spec.right for spec in CALLS.values() if spec.right} == set(RIGHTS) - {"admin"}


@pytest.mark.parametrize("call", CALLS)
def test_a_good_call_gets_its_defaults(call: str) -> None:
    checked = checked_call(call, GOOD[call])
    assert list(checked) == [argument.name for argument in CALLS[call].arguments]
    for argument in CALLS[call].arguments:
        if argument.name not in GOOD[call]:
            assert checked[argument.name] == argument.default


@pytest.mark.parametrize("call", CALLS)
def test_each_required_argument_is_required(call: str) -> None:
    for argument in CALLS[call].arguments:
        if argument.required:
            rest = {name: value for name, value in GOOD[call].items() if name != argument.name}
            with pytest.raises(BadArgument, match=f"{argument.name}: {call} needs it"):
                checked_call(call, rest)


@pytest.mark.parametrize("call", CALLS)
def test_no_argument_of_a_wrong_type_is_accepted(call: str) -> None:
    for argument in CALLS[call].arguments:
        with pytest.raises(BadArgument, match=re.escape(argument.name)):
            checked_call(call, GOOD[call] | {argument.name: 1.5})


@pytest.mark.parametrize("call", CALLS)
def test_an_unknown_argument_is_refused(call: str) -> None:
    with pytest.raises(BadArgument, match="has no such argument"):
        checked_call(call, GOOD[call] | {"wrong": 1})


@pytest.mark.parametrize(
    ("call", "change", "error", "message"),
    [
        ("create_group", {"name": ""}, BadArgument, "name must not be empty"),
        ("create_group", {"name": "a~b"}, BadArgument, "must not contain ~"),
        ("create_group", {"name": " a"}, BadArgument, "without spaces"),
        ("create_group", {"name": "a\nb"}, BadArgument, "printable"),
        ("create_group", {"name": "a" * 129}, TooLarge, "129 characters"),
        ("create_group", {"properties": {"survive": "size"}}, BadRule, "1:5"),
        ("get_list", {"selector": "x"}, BadRule, "1:2"),
        ("get_groups", {"level": 0}, BadArgument, "level must be"),
        ("get_groups", {"level": True}, BadArgument, "level must be"),
        ("get_groups", {"level": 17}, BadArgument, "from 1 to 16"),
        ("get_sites", {"groups": "a"}, BadArgument, "a list"),
        ("get_sites", {"groups": []}, BadArgument, "at least one"),
        ("get_sites", {"groups": ["a"] * 257}, TooLarge, "257 groups"),
        ("get_sites", {"groups": ["a", 1]}, BadArgument, re.escape("groups[1]")),
        ("send_msg", {"body": "text"}, BadArgument, "must be bytes"),
        ("send_msg", {"body": b"x" * 32_769}, TooLarge, "32769 bytes"),
        ("get_view", {"linear": 1}, BadArgument, "true or false"),
        ("get_view", {"group": "\ud800"}, BadArgument, "not UTF-8"),
        ("leave_group", {"selector": "x = 1"}, BadArgument, "either member or selector"),
        ("leave_group", {"member": None}, BadArgument, "either member or selector"),
    ],
)
def test_a_bad_value_is_refused_by_name(
    call: str, change: dict[str, Any], error: type[ServiceError], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        checked_call(call, GOOD[call] | change)
    assert type(caught.value) is error


def test_an_unknown_call_is_refused() -> None:
    with pytest.raises(BadArgument, match="no call 'fly'"):
        checked_call("fly", {})


@pytest.mark.parametrize("code", ERRORS)
def test_an_error_is_the_same_after_the_wire(code: str) -> None:
    error = ERRORS[code]("thing")
    again = error_from_wire(error.code, error.detail)
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert str(error).startswith(code)


def test_a_parse_error_keeps_its_place_over_the_wire() -> None:
    error = BadRule("expected )", 2, 7, (")",))
    assert str(error_from_wire(error.code, error.detail)) == str(error)


def test_an_error_of_a_newer_server_is_still_a_service_error() -> None:
    error = error_from_wire("quota", "disk")
    assert isinstance(error, UnknownError)
    assert str(error) == "quota(disk): unknown to this version of the client"


def test_a_denied_call_names_the_right() -> None:
    assert str(Denied("split")).startswith("denied(split): ")
