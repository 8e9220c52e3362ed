"""Short names of members: what people read."""

from __future__ import annotations

from phalanx.core.ids import MemberId
from phalanx.runtime.short_names import INCARNATIONS_MAX, NAMES_MAX, ShortNames, of_labels


def test_a_name_stands_alone_until_a_second_incarnation_appears() -> None:
    names = ShortNames()
    first, second = MemberId("ada", 1763355123456), MemberId("ada", 1763355127890)
    assert names.of(first) == "ada"
    assert names.of(second) == "ada.7890"
    assert names.of(first) == "ada.3456"
    assert names.listed([first, MemberId("bea", 3)]) == "ada.3456, bea"


def test_counted_incarnations_appear_whole() -> None:
    names = ShortNames([("ada", 1), ("ada", 2)])
    assert names.name("ada", 2) == "ada.2"


def test_incarnation_1_is_the_name_alone() -> None:
    names = ShortNames([("ada", 1), ("ada", 2)])
    assert names.name("ada", 1) == "ada"


def test_members_in_a_text_are_written_short() -> None:
    names = of_labels(["ada.1763355123456", "ada.1763355127890", "a-b.7", "1.2", "no-number"])
    assert names.in_text("ada.1763355123456#5 of ada.1763355127890, a-b.7: x-a-b.7 a-b.71") == (
        "ada.3456#5 of ada.7890, a-b: x-a-b.7 a-b.71"
    )
    assert names.in_text("1.2 installs view 1.2:5f0c1a2b") == "1 installs view 1.2:5f0c1a2b"
    assert ShortNames().in_text("nobody.1 is known") == "nobody.1 is known"


def test_as_many_digits_as_tell_the_incarnations_apart() -> None:
    names = ShortNames([("ada", 1763355123456), ("ada", 1763355223456)])
    assert names.name("ada", 1763355123456) == "ada.123456"


def test_an_output_without_end_does_not_fill_the_memory() -> None:
    names = ShortNames((f"host-{pid}", 1) for pid in range(NAMES_MAX + 10))
    for incarnation in range(INCARNATIONS_MAX + 10):
        names.name("ada", 10_000 + incarnation)
    assert len(names._known) <= NAMES_MAX
    assert len(names._known["ada"]) <= INCARNATIONS_MAX
