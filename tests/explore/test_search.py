"""Searches that end, what they find when a rule is broken, and that reduction loses nothing.

Checked in every search: J0 to J8, JE, JO, JT, JX (`phalanx.explore.histories`, `settling`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from phalanx.core.effects import Service
from phalanx.core.frames import Context
from phalanx.core.ids import MemberId, ViewId
from phalanx.core.membership.contexts import Members, Reach, extend, ranked
from phalanx.core.membership.kernel import Kernel
from phalanx.core.membership.ledger import Ledger
from phalanx.core.speaker import Speaker
from phalanx.explore.search import Limits, Result, Search
from phalanx.explore.world import Options

TOGETHER = ((0, 1),)


def searched(options: Options, reduction: bool = True, limits: Limits | None = None) -> Result:
    return Search(options, reduction).run(limits or Limits())


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
    ],
)
def test_reduction_reaches_every_end(options: Options) -> None:
    reduced, whole = searched(options), searched(options, reduction=False)
    assert reduced.complete
    assert whole.complete
    assert reduced.ends == whole.ends
    assert reduced.counts == whole.counts == {}
    assert reduced.states < whole.states


Patch = tuple[type, str, Any]


@contextmanager
def broken(*patches: Patch) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for cls, method, by in patches:
            patch.setattr(cls, method, by)
        yield


def one_voice_is_enough(self: Ledger, context: Context, digest: bytes, out: Members) -> bool:
    """A fault set is closed as soon as anybody has named it."""
    named = self._faults.get(digest, {}).values()
    return bool(context.boot) and any(out in sets for sets in named)


def what_is_here_closes(self: Ledger, digest: bytes, rest: Members, out: Members) -> Reach:
    closing: Reach = {}
    for member in ranked(rest):
        found = self._closing_frame(digest, member, out)
        extend(closing, {} if found is None else found[1])
    return closing


def never_late(self: Kernel) -> list[MemberId]:
    return []


def never_foreign(self: Kernel, member: MemberId, view: ViewId) -> None:
    """Nobody is worth joining."""


def sends_on(self: Speaker) -> bool:
    return True


BROKEN: dict[str, tuple[tuple[Patch, ...], Options, set[str]]] = {
    "nobody is joined": (
        ((Kernel, "foreign", never_foreign),),
        Options(members=2, start=TOGETHER, suspicions=1),
        {"J8"},
    ),
    "nobody is ever late": (
        ((Kernel, "_unanswered", never_late),),
        Options(members=2, attempts=2),
        {"J4"},
    ),
    "sends in a change though it should hold": (
        ((Speaker, "_may_send", sends_on),),
        Options(members=2, attempts=2, data=1),
        {"J3s"},
    ),
    "one voice closes a view": (
        ((Ledger, "is_closed", one_voice_is_enough), (Ledger, "closing", what_is_here_closes)),
        Options(members=3, start=((0, 1, 2),), suspicions=1, data=1),
        {"J2"},
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_found_with_and_without_reduction(name: str) -> None:
    patches, options, checks = BROKEN[name]
    with broken(*patches):
        found = [searched(options, reduction, Limits(states=1_500)) for reduction in (True, False)]
    for result in found:
        assert set(result.counts) >= checks
        assert {v.check for v in result.violations} == set(result.counts)
    if all(result.complete for result in found):
        assert set(found[0].counts) == set(found[1].counts)


def test_an_exception_of_the_core_is_found_with_the_way_to_it() -> None:
    def fails(self: Kernel, entry: object, said: object) -> None:
        raise AssertionError("on purpose")

    with broken((Kernel, "_handle", fails)):
        result = searched(Options(members=2, attempts=2), limits=Limits(violations=1))
    (violation,) = result.violations
    assert violation.check == "JX"
    assert "on purpose" in violation.text
    assert [action[0] for action in violation.path[:3]] == ["settle", "attempt", "deliver"]
    assert not result.complete


def test_limits_end_a_search_that_is_not_complete() -> None:
    result = searched(Options(members=2, attempts=2, suspicions=1), limits=Limits(states=50))
    assert not result.complete
    assert 50 <= result.states < 100


def test_the_first_of_each_kind_is_a_shortest_way() -> None:
    with broken((Kernel, "foreign", never_foreign)):
        result = searched(Options(members=2, start=TOGETHER, suspicions=1))
    (violation,) = result.violations
    assert violation.check == "J8"
    words = [action[0] for action in violation.path]
    assert words[0] == "break"
    assert words[-1] == "settle"
