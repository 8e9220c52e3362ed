"""Who hears whom: literal tables and times, literal answers."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from phalanx.sim.connectivity import components, severed
from phalanx.sim.scenario.model import Cut, Heal, Partition, Scenario

ABCD = ("a", "b", "c", "d")


def down(now: int, **tables: Any) -> str:
    """The pairs that are severed, sender first."""
    is_severed = severed(Scenario(members=ABCD, **tables), now)
    return " ".join(a + b for a, b in permutations(ABCD, 2) if is_severed(a, b))


SPLIT = Partition(at_ns=10, groups=(("a", "b"),))


@pytest.mark.parametrize(
    ("now", "tables", "expected"),
    [
        (9, {"partition": (SPLIT,)}, ""),
        (10, {"partition": (SPLIT,)}, "ac ad bc bd ca cb da db"),
        (99, {"partition": (SPLIT,), "heal": (Heal(at_ns=20),)}, ""),
        (10, {"partition": (SPLIT,), "heal": (Heal(at_ns=10),)}, "ac ad bc bd ca cb da db"),
        (
            30,
            {"partition": (SPLIT, Partition(at_ns=20, groups=(("b", "c", "d"),)))},
            "ab ac ad ba ca da",
        ),
        (
            30,
            {"partition": (Partition(at_ns=20, groups=(("b", "c", "d"),)), SPLIT)},
            "ab ac ad ba ca da",
        ),
        (5, {"cut": (Cut(at_ns=5, from_=("a",), to=("b",)),)}, "ab"),
        (5, {"cut": (Cut(at_ns=5, from_=("a",), to=("b",), both=True),)}, "ab ba"),
        (5, {"cut": (Cut(at_ns=5, from_=("a",)),)}, "ab ac ad"),
        (9, {"cut": (Cut(at_ns=5, for_ns=5, to=("d",)),)}, "ad bd cd"),
        (10, {"cut": (Cut(at_ns=5, for_ns=5, to=("d",)),)}, ""),
        (10, {"cut": (Cut(at_ns=5, to=("d",)),), "heal": (Heal(at_ns=9),)}, ""),
        (10, {"cut": (Cut(at_ns=9, to=("d",)),), "heal": (Heal(at_ns=9),)}, "ad bd cd"),
    ],
)
def test_what_is_severed_when(now: int, tables: dict[str, Any], expected: str) -> None:
    assert down(now, **tables) == expected


def test_a_cut_outlives_the_partition_after_it() -> None:
    cut = Cut(at_ns=5, from_=("a",), to=("b",))
    assert "ab" in down(20, cut=(cut,), partition=(SPLIT,)).split()


def test_components_are_found_over_others_and_keep_their_order() -> None:
    edges = [{1, 2}, {2, 5}, {3, 4}]
    assert components([5, 1, 2, 3, 4, 6], lambda a, b: {a, b} in edges) == [[5, 1, 2], [3, 4], [6]]


def test_who_is_not_there_connects_nobody() -> None:
    edges = [{1, 2}, {2, 5}]
    assert components([1, 5], lambda a, b: {a, b} in edges) == [[1], [5]]
