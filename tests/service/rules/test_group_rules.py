"""The rules of a group as its servers ask them."""

from __future__ import annotations

import pytest

from phalanx.service.calls.attributes import encoded_attributes
from phalanx.service.rules.group_rules import may_merge, merges, survives
from phalanx.service.values import GroupView, PartitionRules, ServiceGroup, Vid


def group(members: str, **rules: str) -> ServiceGroup:
    view = GroupView(Vid(3, bytes(8)), (), tuple(members), {}, "join")
    attributes = {
        "a": encoded_attributes({"role": "db", "tier": 1}),
        "b": encoded_attributes({"up": True}),
    }
    return ServiceGroup(
        "u",
        "orders",
        "top",
        view,
        rules=PartitionRules(**rules),
        original_size=4,
        attributes=attributes,
    )


@pytest.mark.parametrize(
    ("rule", "left", "goes_on"),
    [
        ("always", "", True),
        ("fraction > 0.5", "abc", True),
        ("fraction > 0.5", "cd", False),
        ("any(role = db, tier = 1)", "a", True),
        ("any(role = db, tier = 1)", "bcd", False),
        ("any(up = true)", "bd", True),
        ("has c", "ab", False),
        ("size >", "", True),
    ],
)
def test_a_part_of_a_group_goes_on_by_its_rule(rule: str, left: str, goes_on: bool) -> None:
    assert survives(group("abcd", survive=rule), left) is goes_on


def test_both_sides_must_agree_about_themselves_and_the_other() -> None:
    plain = group("cd")
    assert may_merge(group("ab"), plain)
    assert merges(group("ab", merge="size >= 2"))
    assert not merges(group("ab", merge="size > 2"))
    for rules in ({"merge": "size > 2"}, {"merge_with": "has a"}):
        side = group("ab", **rules)
        assert not may_merge(side, plain)
        assert not may_merge(plain, side)
    assert may_merge(group("ab", merge_with="has c"), plain)


def test_the_default_of_every_rule_is_to_go_on_and_to_merge() -> None:
    side = group("ab")
    assert survives(side, "")
    assert may_merge(side, side)
