"""Attributes and rights: what is refused, by which error, and what a right follows from."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.service.calls.attributes import (
    changed_attributes,
    check_group_changes,
    check_member_changes,
    decoded_attributes,
    encoded_attributes,
)
from phalanx.service.calls.call_errors import BadArgument, BadRule, ServiceError, TooLarge
from phalanx.service.calls.rights import RIGHTS, has_right


def test_values_are_strings_whole_numbers_and_truth() -> None:
    given = {"site": "berlin", "tier": -3, "up": True, "old": None, "right.send": False}
    checked = check_member_changes("properties", given)
    assert checked == given
    assert {key: type(value) for key, value in checked.items()} == {
        key: type(value) for key, value in given.items()
    }


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ([("a", 1)], BadArgument, "properties must be a mapping"),
        ({"": 1}, BadArgument, "key ''"),
        ({"a b": 1}, BadArgument, "key 'a b'"),
        ({1: 1}, BadArgument, "key 1"),
        ({"é": 1}, BadArgument, "key 'é'"),
        ({"a" * 65: 1}, TooLarge, "65 characters, at most 64"),
        ({"a": 1.5}, BadArgument, "properties.a must be a string"),
        ({"a": [1]}, BadArgument, "properties.a must be a string"),
        ({"a": b"x"}, BadArgument, "properties.a must be a string"),
        ({"a": 1 << 63}, TooLarge, "properties.a"),
        ({"a": "\ud800"}, BadArgument, "not UTF-8"),
        ({f"k{n}": 1 for n in range(65)}, TooLarge, "65 keys, at most 64"),
        ({"a": "x" * 4096}, TooLarge, "4097 bytes, at most 4096"),
        ({"a": "é" * 2048}, TooLarge, "4097 bytes"),
        ({"right.fly": True}, BadArgument, "no such right"),
        ({"right.admin": "yes"}, BadArgument, "must be true or false"),
    ],
)
def test_bad_changes_name_the_field(
    changes: object, error: type[ServiceError], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        check_member_changes("properties", changes)
    assert type(caught.value) is error


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"survive": "size >"}, BadRule, "1:7: expected a whole number"),
        ({"merge": 1}, BadArgument, "properties.merge must be a string"),
        ({"scope": True}, BadArgument, "properties.scope must be a string"),
        ({"default_rights": "read, fly"}, BadArgument, "no right 'fly'"),
    ],
)
def test_attributes_of_a_group_that_the_service_reads_are_checked(
    changes: Mapping[str, object], error: type[ServiceError], message: str
) -> None:
    with pytest.raises(error, match=message):
        check_group_changes("properties", changes)


def test_the_largest_attributes_are_accepted() -> None:
    assert check_group_changes("p", {f"k{n:02}": n for n in range(64)})
    assert check_group_changes("p", {"a": "x" * 4095})


def test_limits_hold_for_the_attributes_after_a_change() -> None:
    before = {f"k{n}": n for n in range(64)}
    assert len(changed_attributes("p", before, {"k0": None, "new": 1})) == 64
    with pytest.raises(TooLarge):
        changed_attributes("p", before, {"new": 1})
    assert before["k0"] == 0


texts = st.text('a1"\\é😀{[', max_size=4)
values = st.one_of(texts, st.integers(-(1 << 62), 1 << 62), st.booleans())


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from("abc"), values))
def test_encoded_attributes_keep_their_types(attributes: dict[str, str | int | bool]) -> None:
    assert repr(decoded_attributes(encoded_attributes(attributes))) == repr(attributes)


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", "1.5", "[" * 100_000, "NaN"])
def test_a_text_that_is_no_value_stands_for_itself(text: str) -> None:
    assert decoded_attributes({"a": text}) == {"a": text}


@pytest.mark.parametrize("right", RIGHTS)
def test_everyone_may_read_join_and_send(right: str) -> None:
    everyone = right in ("read", "join", "send")
    assert has_right(right, {}, None) is everyone
    assert has_right(right, {}, {}) is everyone
    assert has_right(right, {"default_rights": ""}, None) is False
    assert has_right(right, {"default_rights": right}, None) is True
    assert has_right(right, {"default_rights": ""}, None, creator=True) is True
    assert has_right(right, {}, {f"right.{right}": True}) is True
    assert has_right(right, {"default_rights": "admin"}, None) is True


def test_a_member_can_lose_a_right_that_everyone_has_but_not_one_of_an_admin() -> None:
    assert not has_right("send", {}, {"right.send": False})
    assert has_right("send", {}, {"right.send": False, "right.admin": True})
    assert not has_right("attr", {}, {"right.attr": "yes"})
