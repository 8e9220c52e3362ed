"""Names of members and views: their order, their text, their bytes, their digests."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.core.ids import (
    INCARNATION_MAX,
    MEMBERS_MAX,
    NAME_LENGTH_MAX,
    MemberId,
    View,
    ViewId,
    boot_view,
    digest_of,
    encode_member,
)

A, B, C = MemberId("a"), MemberId("b"), MemberId("c")

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=NAME_LENGTH_MAX).filter(
    str.isprintable
)
counters = st.integers(0, INCARNATION_MAX)
members = st.builds(MemberId, names, counters)
groups = st.lists(members, min_size=1, max_size=8, unique_by=lambda m: m.name)


# ---------------------------------------------------------------------------- text and order


def test_ids_read_well() -> None:
    assert str(MemberId("a", 3)) == "a.3"
    assert str(ViewId(2, 1, bytes(range(8)))) == "2.1:0001020304050607"


def test_members_rank_by_name_then_incarnation() -> None:
    a2, a10, b1 = MemberId("a", 2), MemberId("a", 10), MemberId("b", 1)
    assert sorted([b1, a10, a2]) == [a2, a10, b1]


def test_views_compare_by_epoch_before_digest() -> None:
    low, high = bytes(8), b"\xff" * 8
    assert ViewId(0, 0, high) < ViewId(0, 1, low) < ViewId(1, 0, low) < ViewId(1, 0, high)


def test_two_lives_of_one_name_are_two_members() -> None:
    assert MemberId("a", 1) != MemberId("a", 2)
    assert len({MemberId("a", 1), MemberId("a", 2), MemberId("a", 1)}) == 2


# ---------------------------------------------------------------------------- bytes


@given(members)
def test_a_member_survives_a_round_trip(member: MemberId) -> None:
    assert msgspec.msgpack.decode(encode_member(member), type=MemberId) == member


@given(groups)
def test_a_view_survives_a_round_trip(group: list[MemberId]) -> None:
    view = boot_view(group)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(view), type=View) == view


@pytest.mark.parametrize(
    "nonsense",
    [
        ["", 1],
        ["x" * (NAME_LENGTH_MAX + 1), 1],
        ["a", -1],
        ["a", INCARNATION_MAX + 1],
        ["a", "1"],
        [1, "a"],
        [],
    ],
)
def test_a_member_that_cannot_be_is_refused_when_decoded(nonsense: list[object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(nonsense), type=MemberId)


@pytest.mark.parametrize("length", [0, 7, 9])
def test_a_view_id_has_eight_bytes_of_digest(length: int) -> None:
    raw = msgspec.msgpack.encode([0, 0, bytes(length)])
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(raw, type=ViewId)


# ---------------------------------------------------------------------------- digests


def test_digests_are_the_same_in_every_process_and_release() -> None:
    # Members compare digests on the wire: a change here is a new protocol version.
    assert digest_of().hex() == "e4a6a0577479b2b4"
    assert digest_of(b"ab", b"c").hex() == "f798052e5fb10633"
    assert str(boot_view((A, B)).id) == "0.0:9be0cf3395ba5612"


def test_parts_of_a_digest_do_not_run_together() -> None:
    cuts = [(b"abc",), (b"ab", b"c"), (b"a", b"bc"), (b"", b"abc"), (b"abc", b"")]
    assert len({digest_of(*parts) for parts in cuts}) == len(cuts)
    assert digest_of() != digest_of(b"")


# ---------------------------------------------------------------------------- the boot view


@given(groups, st.randoms(use_true_random=False))
def test_members_that_boot_with_one_list_in_any_order_hold_one_view(
    group: list[MemberId], chance: Random
) -> None:
    shuffled = list(group)
    chance.shuffle(shuffled)
    assert boot_view(tuple(shuffled)) == boot_view(group)


@given(groups, groups)
def test_boot_views_of_different_members_have_different_names(
    one: list[MemberId], other: list[MemberId]
) -> None:
    same = sorted(one) == sorted(other)
    assert (boot_view(one).id == boot_view(other).id) is same
    assert (boot_view(one).context == boot_view(other).context) is same


def test_a_boot_view_ranks_its_members_and_starts_the_first_epoch() -> None:
    view = boot_view([C, A, B])
    assert view.members == (A, B, C)
    assert [view.rank(m) for m in (A, B, C)] == [0, 1, 2]
    assert (view.id.joins, view.id.removals) == (0, 0)
    assert view.id.digest != view.context


def test_another_incarnation_makes_another_boot_view() -> None:
    assert boot_view([A, B]).id != boot_view([A, MemberId("b", 2)]).id


def test_a_stranger_has_no_rank() -> None:
    with pytest.raises(ValueError, match="not in tuple"):
        boot_view([A, B]).rank(C)


def test_a_view_has_at_least_one_member() -> None:
    with pytest.raises(ValueError, match="at least one member"):
        boot_view([])


def test_a_view_holds_each_name_once() -> None:
    with pytest.raises(ValueError, match="each name once"):
        boot_view([A, B, A])
    with pytest.raises(ValueError, match="each name once"):
        boot_view([MemberId("a", 1), MemberId("a", 2)])


def test_a_view_has_a_largest_size() -> None:
    crowd = [MemberId(f"m{n}") for n in range(MEMBERS_MAX + 1)]
    assert len(boot_view(crowd[:-1]).members) == MEMBERS_MAX
    with pytest.raises(ValueError, match=f"at most {MEMBERS_MAX} members, not {MEMBERS_MAX + 1}"):
        boot_view(crowd)


@pytest.mark.parametrize("name", ["", "x" * (NAME_LENGTH_MAX + 1), "two\nlines", "\ud800"])
def test_a_name_that_could_not_travel_is_refused_at_once(name: str) -> None:
    with pytest.raises(ValueError, match="member name"):
        MemberId(name)


def test_an_incarnation_is_never_negative() -> None:
    with pytest.raises(ValueError, match="incarnation"):
        MemberId("ada", -1)
