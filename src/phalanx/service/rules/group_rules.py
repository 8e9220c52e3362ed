"""The partition rules of a group, asked of its views (S3 III.C).

`survives` is asked of what is left after a removal of members that could not be reached. `merges`
is asked of one side of a union about itself, `may_merge` of both about themselves and each other.
All are pure, so that every server that has the group comes to the same result.

A rule is checked when a call sets it. A text that is none can only come from a server of another
version; the group then goes on and merges, as it would without a rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from phalanx.service.calls.attributes import decoded_attributes
from phalanx.service.calls.call_errors import BadRule
from phalanx.service.rules.rule_evaluation import GroupPart, PartMember, evaluate
from phalanx.service.rules.rule_parser import parse_rule
from phalanx.service.rules.rule_syntax import Always, Rule
from phalanx.service.values import ServiceGroup

PARSED_MAX = 1024
"""Parsed rules that are remembered."""


def survives(group: ServiceGroup, left: Iterable[str]) -> bool:
    """Whether the part of the group with these members goes on."""
    return evaluate(_parsed(group.rules.survive), _part(group, left))


def merges(group: ServiceGroup) -> bool:
    """Whether this side of a union agrees, by its rule about itself."""
    return evaluate(_parsed(group.rules.merge), _part(group, group.view.members))


def may_merge(one: ServiceGroup, other: ServiceGroup) -> bool:
    """Whether two sides of a group become one: each by its rule about itself and its rule about the
    other."""
    return all(
        merges(own) and evaluate(_parsed(own.rules.merge_with), _part(peer, peer.view.members))
        for own, peer in ((one, other), (other, one))
    )


@lru_cache(PARSED_MAX)
def _parsed(text: str) -> Rule:
    try:
        return parse_rule(text)
    except BadRule:
        return Always()


def _part(group: ServiceGroup, members: Iterable[str]) -> GroupPart:
    present = tuple(
        PartMember((member,), decoded_attributes(group.attributes.get(member, {})))
        for member in members
    )
    return GroupPart(present, group.original_size)
