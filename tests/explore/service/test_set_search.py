"""The log of a set through every order of messages, and broken rules found.

Two members each want one change at the same base. The first search is that of a run without faults;
the others add a crash, lost messages, a union, suspicions of members that are alive, and restarts.
Each broken rule is found by the search that shows why the rule is there.
"""

from __future__ import annotations

import pytest

from phalanx.explore.service.set_search import search_set
from phalanx.explore.service.set_space import SetSearchOptions
from phalanx.sim.service.service_mutants import service_mutant

ELECTIONS = SetSearchOptions(3, starters=(0, None), early=1, restarts=1)
"""A member waits too short a time for a commit, and one restarts."""


@pytest.mark.parametrize(
    "options",
    [
        SetSearchOptions(3),
        SetSearchOptions(3, starters=(1, 2)),
        SetSearchOptions(3, starters=(2, 0)),
        SetSearchOptions(3, crashes=1),
        SetSearchOptions(3, losses=1),
        SetSearchOptions(3, others=1),
        SetSearchOptions(2, starters=(0, None), suspicions=2, restarts=1),
        ELECTIONS,
    ],
)
def test_no_order_of_messages_violates_a_rule(options: SetSearchOptions) -> None:
    result = search_set(options, 120)
    assert result.complete
    assert result.ends > 0
    assert result.violations == {}


@pytest.mark.parametrize(
    ("mutant", "options", "found"),
    [
        ("printed-priority", SetSearchOptions(3), "SPLIT"),
        ("in-progress-first", SetSearchOptions(3), "SPLIT"),
        ("stable-at-once", SetSearchOptions(2), "C4"),
        ("no-view-ids", SetSearchOptions(2, losses=2), "DIV"),
        ("no-view-ids", SetSearchOptions(2, losses=2), "LAG"),
        ("two-phase-election", ELECTIONS, "GP"),
        ("kept-answers", SetSearchOptions(3, suspicions=1), "GP"),
        ("forgotten-promise", SetSearchOptions(3, (0, None), suspicions=1, restarts=1), "GP"),
        ("union-any-time", SetSearchOptions(3, (1, None), others=2, early=2), "GP"),
    ],
)
def test_a_broken_rule_is_found(mutant: str, options: SetSearchOptions, found: str) -> None:
    with service_mutant(mutant):
        result = search_set(options, 120, found)
    assert found in result.violations
    assert result.paths[found]


def test_a_search_that_has_no_time_says_that_it_is_not_complete() -> None:
    assert not search_set(SetSearchOptions(4, crashes=1), 0).complete
