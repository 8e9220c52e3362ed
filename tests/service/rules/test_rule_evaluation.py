"""Partition rules over views of a group: what holds, and what an absent key means."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.service.rules.rule_evaluation import GroupPart, PartMember, evaluate, matches
from phalanx.service.rules.rule_parser import parse_rule, parse_selector

MEMBERS = (
    PartMember(("u1.1", "ada"), {"role": "db", "tier": 1, "up": True}),
    PartMember(("u1.2", "ben"), {"role": "web", "tier": 2, "up": False}),
    PartMember(("u1.3", "cid"), {"role": "web"}),
)
GROUP = GroupPart(MEMBERS, 5)


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        ("always", True),
        ("never", False),
        ("not never", True),
        ("size = 3", True),
        ("size > 3", False),
        ("size < 3", False),
        ("size <= 3 and size >= 3", True),
        ("fraction > 0.5", True),
        ("fraction = 0.6", True),
        ("fraction > 0.6", False),
        ("fraction >= 0.600001", False),
        ("has ada", True),
        ("has 'u1.2'", True),
        ("has dora", False),
        ("count(role = web) = 2", True),
        ("count(role = web, tier = 2) = 1", True),
        ("any(tier >= 2)", True),
        ("any(tier > 2)", False),
        ("all(role >= 'a')", True),
        ("all(tier >= 1)", False),
        ("any(nonesuch = 1)", False),
        ("any(nonesuch < 1)", False),
        ("any(role = 1)", False),
        ("any(tier = '1')", False),
        ("any(up = true)", True),
        ("any(up = 1)", False),
        ("any(tier = true)", False),
        ("never or size = 3", True),
        ("never or size = 3 and never", False),
    ],
)
def test_a_rule_holds_for_a_view_or_not(rule: str, holds: bool) -> None:
    assert evaluate(parse_rule(rule), GROUP) is holds


@pytest.mark.parametrize(
    ("rule", "holds"),
    [("all(tier = 1)", True), ("any(tier = 1)", False), ("fraction = 0", True), ("size = 0", True)],
)
def test_a_part_without_members(rule: str, holds: bool) -> None:
    assert evaluate(parse_rule(rule), GroupPart((), 0)) is holds


def test_exactly_half_is_not_more_than_half() -> None:
    half = GroupPart(MEMBERS[:2], 4)
    assert evaluate(parse_rule("fraction = 0.5"), half)
    assert not evaluate(parse_rule("fraction > 0.5"), half)


values = st.one_of(st.text("axé", max_size=2), st.integers(-2, 2), st.booleans())
facts = st.builds(
    GroupPart,
    st.lists(
        st.builds(PartMember, st.just(("m",)), st.dictionaries(st.sampled_from("abc"), values)),
        max_size=4,
    ).map(tuple),
    st.integers(0, 6),
)


@settings(deadline=None)
@given(facts, st.integers(0, 5))
def test_disjoint_parts_never_both_have_more_than_half(group: GroupPart, cut: int) -> None:
    """The use of `survive = fraction > 0.5`: at most one part goes on."""
    rule = parse_rule("fraction > 0.5")
    largest = max(group.size_largest, len(group.members))
    left = GroupPart(group.members[:cut], largest)
    right = GroupPart(group.members[cut:], largest)
    assert not (evaluate(rule, left) and evaluate(rule, right))


@settings(deadline=None)
@given(facts, st.sampled_from(["a = 1", "b < 1", "a = x, c >= 0", "b = true"]))
def test_any_all_and_count_agree(group: GroupPart, selector: str) -> None:
    count = sum(matches(parse_selector(selector), m.attributes) for m in group.members)
    assert evaluate(parse_rule(f"any({selector})"), group) == (count > 0)
    assert evaluate(parse_rule(f"all({selector})"), group) == (count == len(group.members))
    assert evaluate(parse_rule(f"count({selector}) = {count}"), group)
    assert not evaluate(parse_rule(f"count({selector}) = {count + 1}"), group)
