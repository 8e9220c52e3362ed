"""Searches that end, what they find when a rule is broken, and that reduction loses nothing.

Checked in every search: J0 to J8, JE, JO, JT, JX (`phalanx.explore.member_history`, `settling`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from phalanx.core.effects import Service
from phalanx.core.membership.instructions import Instruction, Met
from phalanx.core.membership.protocol import MembershipProtocol
from phalanx.explore.search import Search, SearchLimits, SearchResult
from phalanx.explore.state_space import Options
from phalanx.sim.mutants import MUTANTS
from phalanx.sim.mutants.mutant import Patch

TOGETHER = ((0, 1),)


def searched(
    options: Options, reduction: bool = True, limits: SearchLimits | None = None
) -> SearchResult:
    return Search(options, reduction).run(limits or SearchLimits())


def test_two_members_with_a_suspicion_and_a_message_are_searched_to_the_end() -> None:
    result = searched(Options(members=2, attempts=2, suspicions=1, data=1))
    assert result.complete
    assert result.violations == []
    assert result.states > 2_000
    assert result.ends > 100


@pytest.mark.parametrize(
    "options",
    [
        Options(members=1, data=2),
        Options(members=2, attempts=2, losses=1),
        Options(members=2, attempts=2, crashes=1),
        Options(members=2, start=TOGETHER, attempts=2, suspicions=1, timeouts=1),
        Options(members=2, start=TOGETHER, crashes=1, data=1, mode="flow"),
        Options(members=2, start=TOGETHER, suspicions=1, data=1, young=True),
        Options(members=2, start=TOGETHER, suspicions=1, data=2, service=Service.SAFE),
        Options(members=3, start=((0, 1, 2),), crashes=1),
    ],
)
def test_small_groups_are_searched_to_the_end(options: Options) -> None:
    result = searched(options)
    assert result.complete
    assert result.violations == []
    assert result.states > 1


@pytest.mark.parametrize(
    "options",
    [
        Options(members=2, attempts=2, suspicions=1),
        Options(members=2, start=TOGETHER, attempts=1, suspicions=1, data=1, mode="flow"),
        Options(members=3, start=((0, 1, 2),), suspicions=1),
        Options(members=3, start=((0, 1), (2,)), attempts=2),
    ],
)
def test_reduction_reaches_every_end(options: Options) -> None:
    reduced, whole = searched(options), searched(options, reduction=False)
    assert reduced.complete
    assert whole.complete
    assert reduced.ends == whole.ends
    assert reduced.counts == whole.counts == {}
    assert reduced.states < whole.states


@contextmanager
def broken(*patches: Patch) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for owner, name, by in patches:
            patch.setattr(owner, name, by)
        yield


def mutant(name: str) -> tuple[Patch, ...]:
    return MUTANTS[name].patches


def never_met(self: MembershipProtocol, now: int, given: Met) -> list[Instruction]:
    """Nobody is worth joining."""
    return []


NOBODY_JOINS: Patch = (MembershipProtocol, "_on_met", never_met)
THREE = ((0, 1, 2),)

BROKEN: dict[str, tuple[tuple[Patch, ...], Options, set[str]]] = {
    "nobody is joined": (
        (NOBODY_JOINS,),
        Options(members=2, start=TOGETHER, suspicions=1),
        {"J8"},
    ),
    "sends in a change though it should hold": (
        mutant("sends-while-held"),
        Options(members=2, attempts=2, data=1),
        {"J3s"},
    ),
    "frames of a change belong to the view that ends": (
        mutant("phase-not-taken-over"),
        Options(members=3, start=THREE, suspicions=2, data=1, mode="flow"),
        {"J2"},
    ),
    "a view ends with all that is here": (
        mutant("no-closing-cut"),
        Options(members=3, start=THREE, suspicions=2, data=1, mode="flow"),
        {"J2"},
    ),
    "what enters is delivered at once": (
        mutant("everything-delivered-early"),
        Options(members=3, start=THREE, suspicions=2, data=1, mode="flow"),
        {"J2"},
    ),
    "a closing frame counts without its past": (
        mutant("closing-frame-on-arrival"),
        Options(members=3, start=THREE, suspicions=2),
        {"JX"},
    ),
    "a view has the epoch of its newest component": (
        mutant("epoch-not-raised"),
        Options(members=2, attempts=2, suspicions=1),
        {"JE"},
    ),
    "a view is named by its epoch alone": (
        mutant("view-id-reused"),
        Options(members=2, start=TOGETHER, attempts=1, suspicions=1),
        {"JT"},
    ),
    "everybody came along": (
        mutant("transitional-set-of-all"),
        Options(members=2, attempts=2),
        {"JT"},
    ),
}
LIMITS = SearchLimits(states=4_000)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_found_with_and_without_reduction(name: str) -> None:
    patches, options, checks = BROKEN[name]
    with broken(*patches):
        found = [searched(options, reduction, LIMITS) for reduction in (True, False)]
    for result in found:
        assert set(result.counts) >= checks
        assert {v.check for v in result.violations} == set(result.counts)
    if all(result.complete for result in found):
        assert set(found[0].counts) == set(found[1].counts)


def test_an_exception_of_the_core_is_found_with_the_way_to_it() -> None:
    def fails(self: MembershipProtocol, now: int, given: object) -> None:
        raise AssertionError("on purpose")

    with broken((MembershipProtocol, "_on_attempted", fails)):
        result = searched(Options(members=2, attempts=2), limits=SearchLimits(violations=1))
    (violation,) = result.violations
    assert violation.check == "JX"
    assert "on purpose" in violation.text
    assert [action[0] for action in violation.path[:3]] == ["settle", "attempt", "deliver"]
    assert not result.complete


def test_limits_end_a_search_that_is_not_complete() -> None:
    result = searched(Options(members=2, attempts=2, suspicions=1), limits=SearchLimits(states=50))
    assert not result.complete
    assert 50 <= result.states < 100


def test_the_first_of_each_kind_is_a_shortest_way() -> None:
    with broken(NOBODY_JOINS):
        result = searched(Options(members=2, start=TOGETHER, suspicions=1))
    (violation,) = result.violations
    assert violation.check == "J8"
    words = [action[0] for action in violation.path]
    assert words[0] == "break"
    assert words[-1] == "settle"
