"""Histories of groups: chains of directives, members admitted once, unions (rules G3, G4, G9)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from phalanx.service import group_union, group_views
from phalanx.service.group_union import joined
from phalanx.service.group_views import (
    created,
    directive_after,
    fits,
    is_excluded,
    may_admit,
    next_view,
)
from phalanx.service.set_names import name_wanted, names_united
from phalanx.service.values import ServiceGroup, Vid

EMPTY = created("g1", "x", "T", b"start")


def grown(group: ServiceGroup, *members: str, at: bytes = b"") -> ServiceGroup:
    for number, member in enumerate(members):
        more = (*group.view.members, member)
        group = next_view(group, more, "join", at + bytes([number]))
    return group


def without(group: ServiceGroup, *gone: str, at: bytes = b"") -> ServiceGroup:
    rest = [m for m in group.view.members if m not in gone]
    return next_view(group, rest, "fail", at)


def chain(group: ServiceGroup, member: str, last: Vid | None) -> list[Vid]:
    """The views that a member installs until it has all."""
    out = []
    while (view := directive_after(group, member, last)) is not None:
        out.append(view.vid)
        last = view.vid
    return out


def test_a_member_is_told_every_view_from_its_own_to_the_current_one() -> None:
    group = grown(EMPTY, "m1/1", "m2/1", "m3/1")
    assert [vid.number for vid in chain(group, "m1/1", None)] == [2, 3, 4]
    assert [vid.number for vid in chain(group, "m3/1", None)] == [4]
    assert directive_after(group, "m1/1", group.view.vid) is None


def test_a_member_that_was_removed_is_excluded_and_its_id_is_not_admitted_again() -> None:
    before = grown(EMPTY, "m1/1", "m2/1")
    after = without(before, "m2/1")
    assert is_excluded(after, "m2/1", before.view.vid)
    assert not is_excluded(after, "m1/1", before.view.vid)
    assert not may_admit(after, "m2/1")
    assert may_admit(after, "m2/2")


def test_two_sides_of_a_fork_never_make_one_view() -> None:
    whole = grown(EMPTY, "m1/1", "m2/1")
    assert without(whole, "m2/1", at=b"a").view.vid != without(whole, "m2/1", at=b"b").view.vid


def test_a_member_that_went_another_way_does_not_fit() -> None:
    whole = grown(EMPTY, "m1/1", "m2/1")
    one, other = without(whole, "m2/1", at=b"a"), without(whole, "m1/1", at=b"b")
    assert not fits(one, "m1/1", other.view.vid)
    assert not is_excluded(one, "m2/1", other.view.vid)


def test_a_union_takes_every_member_from_its_own_side() -> None:
    whole = grown(EMPTY, "m1/1", "m2/1")
    one, other = without(whole, "m2/1", at=b"a"), without(whole, "m1/1", at=b"b")
    both, apart = joined(one, other, b"union")
    assert apart is None
    assert both.view.parts == {"m1/1": one.view.vid, "m2/1": other.view.vid}
    assert both.view.vid.number == 1 + max(one.view.vid.number, other.view.vid.number)
    assert joined(both, both, b"again")[0].view == both.view


def test_a_side_that_is_behind_brings_back_its_members_from_where_they_are() -> None:
    old = grown(EMPTY, "m1/1", "m2/1")
    new = without(old, "m2/1")
    both, _ = joined(old, new, b"union")
    assert both.view.parts == {"m1/1": new.view.vid, "m2/1": old.view.vid}


def test_members_keep_their_attributes_in_a_union() -> None:
    """Each side has dropped those of the members that it lost, and changed its own."""
    start = replace(
        grown(EMPTY, "m1/1", "m2/1", "m3/1"),
        attributes={"m1/1": {"note": "1"}, "m2/1": {"right.admin": "true"}},
    )
    one = replace(without(start, "m2/1", "m3/1", at=b"1"), attributes={"m1/1": {"note": "7"}})
    other = replace(
        without(start, "m1/1", at=b"2"),
        attributes={"m2/1": {"right.admin": "true"}, "m3/1": {"note": "3"}},
    )
    whole = {"m1/1": {"note": "7"}, "m2/1": {"right.admin": "true"}, "m3/1": {"note": "3"}}
    for sides in ((one, other), (other, one)):
        assert joined(*sides, b"union")[0].attributes == whole
    back, _ = joined(start, one, b"union")
    assert back.view.members == ("m1/1", "m2/1", "m3/1")
    assert back.attributes == {"m1/1": {"note": "7"}, "m2/1": {"right.admin": "true"}}


def test_a_rule_keeps_two_sides_apart_under_two_names() -> None:
    whole = grown(EMPTY, "m1/1", "m2/1", "m3/1")
    one, other = without(whole, "m3/1", at=b"a"), without(whole, "m1/1", "m2/1", at=b"b")
    kept, apart = joined(one, other, b"union", merges=lambda one, other: False)
    assert kept.uid == "g1"
    assert kept.view.members == ("m1/1", "m2/1")
    assert apart is not None
    assert len(apart.view.members) == 1
    assert is_excluded(kept, "m3/1", other.view.vid)


def test_deleted_wins_over_a_side_that_lives_and_split_does_not() -> None:
    live = grown(EMPTY, "m1/1")
    deleted = replace(without(live, "m1/1", at=b"d"), ended="delete")
    split = replace(without(live, "m1/1", at=b"s"), ended="split")
    assert joined(live, deleted, b"")[0].ended == "delete"
    assert joined(split, live, b"")[0] == live


def test_names_of_two_components_are_told_apart() -> None:
    assert names_united({"x": "g2"}, {"x": "g1"}) == {"x": "g1", "x~g2": "g2"}
    assert names_united({"x~g1": "g1"}, {"x": "g1"}) == {"x": "g1"}
    entry = name_wanted({"x": "g0"}, EMPTY)
    assert entry is not None
    assert entry.name == "x~g1"
    assert name_wanted({"x": "g1"}, EMPTY) is None


class Sides:
    """Two sides of a fork of one group. Each serves the members on its side, and makes a view only
    of members that it serves (rule G2); members install what their side sends (rule G4)."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.count = 0
        self.groups: list[ServiceGroup] = [EMPTY]
        self.side: dict[str, int] = {}
        self.installed: dict[str, list[Vid]] = {}

    def run(self) -> None:
        for _ in range(60):
            self.rng.choice(
                (self.join, self.join, self.leave, self.tell, self.tell, self.fork_or_unite)
            )()
        for member in sorted(self.installed):
            self.tell_all(member)

    def context(self) -> bytes:
        self.count += 1
        return self.count.to_bytes(4, "big")

    def decide(self, side: int, members: list[str], cause: str) -> None:
        self.groups[side] = next_view(self.groups[side], members, cause, self.context())

    def join(self) -> None:
        side = self.rng.randrange(len(self.groups))
        member = f"m{self.count}/{self.count + 1}"
        self.side[member] = side
        self.installed[member] = []
        self.decide(side, [*self.groups[side].view.members, member], "join")

    def leave(self) -> None:
        side = self.rng.randrange(len(self.groups))
        members = list(self.groups[side].view.members)
        if members:
            members.remove(self.rng.choice(members))
            self.decide(side, members, "leave")

    def fork_or_unite(self) -> None:
        if len(self.groups) == 2:
            for member in sorted(self.installed):
                self.tell_all(member)  # settled: every member has what its side has decided
            served = [m for m, side in self.side.items() if side == 1]
            both, _ = joined(self.groups[0], self.groups[1], self.context(), served)
            self.groups = [both]
            self.side = dict.fromkeys(self.side, 0)
            return
        whole = self.groups[0]
        self.groups = [whole, whole]
        for member in whole.view.members:
            self.side[member] = self.rng.randrange(2)
        for side in (0, 1):
            mine = [m for m in whole.view.members if self.side[m] == side]
            self.decide(side, mine, "fail")

    def tell(self) -> None:
        if self.installed:
            self.tell_one(self.rng.choice(sorted(self.installed)))

    def tell_all(self, member: str) -> None:
        while self.tell_one(member):
            pass

    def tell_one(self, member: str) -> bool:
        have = self.installed[member]
        view = directive_after(self.groups[self.side[member]], member, have[-1] if have else None)
        if view is None:
            return False
        assert view.parts[member] == (have[-1] if have else None), "P1"
        assert not have or view.vid.number > have[-1].number, "P3"
        have.append(view.vid)
        return True

    def check(self) -> None:
        views = {v.vid: v for g in self.groups for v in (*g.history, g.view)}
        follows: dict[Vid, dict[str, Vid]] = {}
        for member, have in self.installed.items():
            for before, after in pairwise(have):
                for other, theirs in follows.get(before, {}).items():
                    mutual = other in views[after].members and member in views[theirs].members
                    assert theirs == after or not mutual, "P2"
                follows.setdefault(before, {})[member] = after
        for group in self.groups:
            for member in group.view.members:
                if self.groups[self.side[member]] is group:
                    assert self.installed[member][-1] == group.view.vid, "P7"


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_members_of_a_group_that_forks_and_unites_skip_no_view(first: int) -> None:
    """P1, P2, P3 at every directive; P7 at the end."""
    for seed in range(first, first + 50):
        sides = Sides(seed)
        sides.run()
        sides.check()


def lower_number(preds: Any) -> int:
    """Mutant number-reuse: a union numbers its view 1 + one side."""
    return 1 + min((vid.number for vid in preds), default=0)


def all_from_one_side(*args: Any) -> tuple[ServiceGroup, None]:
    """All members of the union come from the first side."""
    union, _ = JOINED(*args)
    parts = dict.fromkeys(union.view.members, args[0].view.vid)
    return replace(union, view=replace(union.view, parts=parts)), None


JOINED: Callable[..., tuple[ServiceGroup, ServiceGroup | None]] = group_union.joined


@pytest.mark.parametrize(
    ("name", "broken"), [("number_after", lower_number), ("joined", all_from_one_side)]
)
def test_a_broken_union_is_found(
    name: str, broken: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner: Any = group_views if name == "number_after" else sys.modules[__name__]
    monkeypatch.setattr(owner, name, broken)
    with pytest.raises(AssertionError):
        test_members_of_a_group_that_forks_and_unites_skip_no_view(0)
