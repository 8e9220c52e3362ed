"""Evaluation of partition rules: pure functions of one view of a group.

The result depends on nothing else, so that every mserver that has the view comes to the same
result, and a rule can be tried on the recorded views of a group (`phalanx ms rules replay`). A key
that a member does not have is not an error: its condition is false.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from phalanx.service.rules.rule_syntax import (
    MILLION,
    AllMatch,
    Always,
    AndRule,
    AnyMatch,
    AttributeValue,
    Comparison,
    Condition,
    CountIs,
    FractionIs,
    HasMember,
    Never,
    NotRule,
    OrRule,
    Rule,
    Selector,
    SizeIs,
)

_Ordered = TypeVar("_Ordered", int, str)


@dataclass(frozen=True, slots=True)
class PartMember:
    """What a rule sees of one member: its id, then other names such as its address; its
    attributes."""

    names: tuple[str, ...]
    attributes: Mapping[str, AttributeValue]


@dataclass(frozen=True, slots=True)
class GroupPart:
    """What a rule sees of one view of a group, or of what is left of it after a removal."""

    members: tuple[PartMember, ...]
    """In rank order."""
    size_largest: int
    """The largest size of the group since its last union."""


def evaluate(rule: Rule, group: GroupPart) -> bool:
    """Whether the rule holds for this part of the group."""
    match rule:
        case OrRule(terms):
            return any(evaluate(term, group) for term in terms)
        case AndRule(terms):
            return all(evaluate(term, group) for term in terms)
        case NotRule(term):
            return not evaluate(term, group)
        case Always():
            return True
        case Never():
            return False
        case SizeIs(comparison, size):
            return _holds(len(group.members), comparison, size)
        case FractionIs(comparison, millionths):
            # Of a group that never had members, the fraction is 0.
            largest = max(1, len(group.members), group.size_largest)
            return _holds(len(group.members) * MILLION, comparison, millionths * largest)
        case HasMember(name):
            return any(name in member.names for member in group.members)
        case CountIs(selector, comparison, count):
            found = sum(matches(selector, member.attributes) for member in group.members)
            return _holds(found, comparison, count)
        case AnyMatch(selector):
            return any(matches(selector, member.attributes) for member in group.members)
        case AllMatch(selector):
            return all(matches(selector, member.attributes) for member in group.members)


def matches(selector: Selector, attributes: Mapping[str, AttributeValue]) -> bool:
    """Whether attributes satisfy every condition of the selector."""
    return all(_satisfies(condition, attributes) for condition in selector)


def _satisfies(condition: Condition, attributes: Mapping[str, AttributeValue]) -> bool:
    value = attributes.get(condition.key)
    wanted = condition.value
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted and condition.comparison == "="
    if isinstance(value, int) and isinstance(wanted, int):
        return _holds(value, condition.comparison, wanted)
    if isinstance(value, str) and isinstance(wanted, str):
        return _holds(value, condition.comparison, wanted)
    return False


def _holds(left: _Ordered, comparison: Comparison, right: _Ordered) -> bool:
    match comparison:
        case "<":
            return left < right
        case "<=":
            return left <= right
        case "=":
            return left == right
        case ">=":
            return left >= right
        case ">":
            return left > right
