"""Replay of a rule over the recorded views of a group: what it would have decided, and where.

A `survive` rule is asked after a removal that no member asked for. Which views these are follows
from the views themselves: a member of the view before is missing, and the cause is not a leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from phalanx.service.rules.rule_evaluation import GroupPart, PartMember, evaluate
from phalanx.service.rules.rule_syntax import AttributeValue, Rule

LEAVE_CAUSES = ("leave", "delete", "split", "merge")
"""Causes of removals of which a rule is not asked."""
UNION_CAUSES = ("union", "merge")
"""Causes after which the largest size counts anew."""


@dataclass(frozen=True, slots=True)
class RecordedView:
    """One view of a group, with the attributes of its members as far as they are known."""

    uid: str
    vid: str
    members: tuple[str, ...]
    cause: str
    attributes: Mapping[str, Mapping[str, AttributeValue]]


@dataclass(frozen=True, slots=True)
class ReplayedView:
    """What a rule says of one view."""

    uid: str
    vid: str
    cause: str
    size: int
    size_largest: int
    removed: tuple[str, ...]
    """Members of the view before that are missing."""
    asked: bool
    """Whether a group with this rule would have been asked here."""
    holds: bool


def replay(rule: Rule, views: Iterable[RecordedView]) -> list[ReplayedView]:
    """The views in their order, each with what the rule says of it. Groups do not mix."""
    out: list[ReplayedView] = []
    before: dict[str, tuple[str, ...]] = {}
    largest: dict[str, int] = {}
    for view in views:
        size = len(view.members)
        removed = tuple(m for m in before.get(view.uid, ()) if m not in view.members)
        union = view.cause in UNION_CAUSES
        most = size if union else max(size, largest.get(view.uid, 0))
        before[view.uid], largest[view.uid] = view.members, most
        members = tuple(PartMember((m,), view.attributes.get(m, {})) for m in view.members)
        holds = evaluate(rule, GroupPart(members, most))
        asked = bool(removed) and view.cause not in LEAVE_CAUSES
        out.append(ReplayedView(view.uid, view.vid, view.cause, size, most, removed, asked, holds))
    return out
