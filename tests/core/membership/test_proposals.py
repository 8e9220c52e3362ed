"""Proposals: their order, the views they make, and bytes that hold none."""

from __future__ import annotations

import copy

import msgspec
import pytest
from tests.core.forged_packets import body, made_up

from phalanx.core.ids import INCARNATION_MAX, MEMBERS_MAX, NUMBER_MAX, MemberId, ViewId, boot_view
from phalanx.core.membership.proposals import (
    EPOCH_MAX,
    LEFT_OUT_BYTES,
    SMALL,
    Proposal,
    component_of,
    epoch,
    fits,
    is_view,
    proposal_of,
    read_proposal,
)
from phalanx.core.roles import OPERATION_BYTES_MAX, OPERATIONS_MAX, Role
from phalanx.core.wire.frame_codec import encode_frame
from phalanx.core.wire.frames import (
    PROPOSAL_BYTES_MAX,
    Announce,
    Component,
    DeliveredVector,
    FrameKind,
    ProposalBody,
    Propose,
    encode_proposal,
)
from phalanx.core.wire.packet_codec import FRAGMENT_HEADER_BYTES
from phalanx.core.wire.packets import FRAGMENTS_MAX

A, B, C, D = (MemberId(name) for name in "abcd")
PAIR, LONE = component_of(boot_view([A, B])), component_of(boot_view([C]))
LATE = made_up([D], joins=3, removals=2)


def out_of(component: Component, *members: MemberId) -> list[tuple[MemberId, ViewId]]:
    return [(member, component.view) for member in members]


# ---------------------------------------------------------------------------- values


def test_the_entries_are_the_members_of_the_components_that_are_not_left_out() -> None:
    made = proposal_of([PAIR, LONE], out_of(PAIR, B))
    assert made.entries == {A: PAIR.view, C: LONE.view}
    assert made.view.members == (A, C)


def test_a_component_is_live_while_one_of_its_entries_remains() -> None:
    assert set(proposal_of([PAIR, LONE]).live) == {PAIR.view, LONE.view}
    assert proposal_of([PAIR, LONE], out_of(LONE, C)).live == (PAIR.view,)


def test_proposals_are_equal_by_value() -> None:
    one = proposal_of([PAIR, LONE], out_of(PAIR, B))
    two = proposal_of([LONE, PAIR], out_of(PAIR, B))
    assert one == two
    assert hash(one) == hash(two)
    assert (one.digest, one.encoded, one.view) == (two.digest, two.encoded, two.view)


def test_proposals_that_differ_only_in_what_they_leave_out_make_different_views() -> None:
    """The members are the same, but the components are not."""
    one, two = proposal_of([PAIR]), proposal_of([PAIR, LONE], out_of(LONE, C))
    assert one.view.members == two.view.members
    assert one != two
    assert one.view.id != two.view.id


def test_a_proposal_is_compared_with_other_things_without_an_error() -> None:
    assert proposal_of([PAIR]) != "a proposal"


def test_proposals_are_ordered_by_inclusion_of_both_sets() -> None:
    small = proposal_of([PAIR])
    with_c, without_b = proposal_of([PAIR, LONE]), proposal_of([PAIR], out_of(PAIR, B))
    both = proposal_of([PAIR, LONE], out_of(PAIR, B))
    for lesser in (small, with_c, without_b, both):
        assert lesser <= both
        assert small <= lesser
    assert not with_c <= without_b
    assert not without_b <= with_c
    assert not both <= with_c


def test_a_copy_of_a_proposal_is_equal_to_it() -> None:
    made = proposal_of([PAIR, LONE], out_of(PAIR, B))
    other = copy.deepcopy(made)
    assert other == made
    assert (other.entries, other.live) == (made.entries, made.live)


# ---------------------------------------------------------------------------- epochs


@pytest.mark.parametrize(
    ("components", "left_out", "expected"),
    [
        ([PAIR], [], (0, 1)),
        ([PAIR], out_of(PAIR, B), (0, 1)),
        ([PAIR, LONE], [], (1, 0)),
        ([PAIR, LATE], [], (4, 0)),
        ([LATE], [], (3, 3)),
        ([PAIR, LATE], out_of(LATE, D), (0, 1)),
        ([LONE, LATE], out_of(LONE, C), (3, 3)),
    ],
    ids=[
        "nothing changes",
        "a removal",
        "a join",
        "a join with a later epoch",
        "a second removal",
        "a join whose other side is gone",
        "a join of which only the later side is left",
    ],
)
def test_the_epoch_of_a_view_is_above_those_of_its_live_components(
    components: list[Component],
    left_out: list[tuple[MemberId, ViewId]],
    expected: tuple[int, int],
) -> None:
    made = proposal_of(components, left_out)
    assert epoch(made.view.id) == expected
    assert all(epoch(view) < expected for view in made.live)


def test_epochs_stay_within_what_the_wire_can_hold() -> None:
    last = made_up([A], joins=EPOCH_MAX, removals=EPOCH_MAX)
    assert epoch(proposal_of([last]).view.id) == (EPOCH_MAX, EPOCH_MAX)
    assert epoch(proposal_of([last, LONE]).view.id) == (EPOCH_MAX, 0)


# ---------------------------------------------------------------------------- from the wire


@pytest.mark.parametrize(
    "made",
    [
        proposal_of([PAIR]),
        proposal_of([PAIR, LONE, LATE]),
        proposal_of([PAIR, LONE], [*out_of(PAIR, A), *out_of(LONE, C)]),
    ],
    ids=["one component", "three components", "entries left out"],
)
def test_a_proposal_is_read_as_it_was_written(made: Proposal) -> None:
    read = read_proposal(made.encoded)
    assert read == made
    assert read is not None
    assert (read.entries, read.left_out, read.live) == (made.entries, made.left_out, made.live)


def test_the_view_that_a_proposal_makes_is_a_component_of_the_next() -> None:
    following = component_of(proposal_of([PAIR, LONE]).view)
    assert is_view(following)
    assert read_proposal(proposal_of([following]).encoded) is not None


CROWD = tuple(MemberId(f"m{k:04}") for k in range(MEMBERS_MAX + 1))
FIRST, SECOND = sorted((PAIR, LONE), key=lambda c: c.view)
AGAIN = made_up([A, D])
REBORN = made_up([MemberId("a", 2)])
DEAD = b"\xff" * 40


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        b"nonsense",
        DEAD,
        msgspec.msgpack.encode([1, 2]),
        body([]),
        body([SECOND, FIRST]),
        body([PAIR, PAIR]),
        body([PAIR], [(0, 1), (0, 0)]),
        body([PAIR], [(0, 1), (0, 1)]),
        body([PAIR], [(1, 0)]),
        body([PAIR], [(0, 2)]),
        body([PAIR], [(0, (1 << 63) - 1)]),
        body([PAIR], [(-1, 0)]),
        body([PAIR, AGAIN]),
        body([PAIR, REBORN]),
        body([made_up(CROWD)]),
        body([made_up(CROWD[:-1]), made_up([CROWD[-1]], joins=2)]),
        body([made_up([m]) for m in CROWD]),
        body([PAIR], [(0, 0)] * (4 * MEMBERS_MAX + 1)),
        body([msgspec.structs.replace(PAIR, members=())]),
        body([msgspec.structs.replace(PAIR, members=(B, A))]),
        body([msgspec.structs.replace(PAIR, view=ViewId(0, 0, b"made up!"))]),
    ],
    ids=[
        "nothing",
        "nonsense",
        "bytes of no meaning",
        "something else",
        "no components",
        "components out of order",
        "a component twice",
        "entries out of order",
        "an entry twice",
        "an entry of no component",
        "an entry of nobody",
        "an entry far beyond the list",
        "a negative index",
        "a member with two entries",
        "a name with two entries",
        "a component too large",
        "a view too large",
        "too many components",
        "too many left out",
        "a component of nobody",
        "members out of order",
        "a made-up view",
    ],
)
def test_bytes_that_hold_no_possible_proposal_are_refused(encoded: bytes) -> None:
    assert read_proposal(encoded) is None


def test_two_listings_of_a_name_are_possible_if_one_is_left_out() -> None:
    assert read_proposal(body([PAIR, AGAIN], [(0, 0)])) is not None
    assert read_proposal(body([PAIR, REBORN], [(0, 0)])) is not None


def test_the_body_on_the_wire_names_left_out_entries_by_their_places() -> None:
    made = proposal_of([PAIR, LONE], out_of(PAIR, B))
    order = [c.view for c in (FIRST, SECOND)]
    told = msgspec.msgpack.decode(made.encoded, type=ProposalBody)
    assert told == ProposalBody((FIRST, SECOND), ((order.index(PAIR.view), 1),))


# ---------------------------------------------------------------------------- names of views


@pytest.mark.parametrize(
    "true",
    [
        PAIR,
        component_of(proposal_of([PAIR, LONE]).view),
        component_of(proposal_of([PAIR], out_of(PAIR, B)).view),
    ],
    ids=["boot", "join", "removal"],
)
def test_a_view_has_the_id_that_its_members_and_context_give_it(true: Component) -> None:
    assert is_view(true)
    for wrong in (
        {"members": (D,)},
        {"context": b"another!"},
        {"view": ViewId(7, 0, b"another!")},
        {"members": ()},
        {"members": (*true.members, true.members[-1])},
        {"members": (*true.members[1:], true.members[0], D)},
    ):
        assert not is_view(msgspec.structs.replace(true, **wrong))


def test_a_view_of_no_epoch_is_a_boot() -> None:
    joined = component_of(proposal_of([PAIR, LONE]).view)
    assert not is_view(msgspec.structs.replace(joined, view=ViewId(0, 0, joined.view.digest)))
    assert not is_view(msgspec.structs.replace(PAIR, view=ViewId(0, 1, PAIR.view.digest)))


def test_a_proposal_that_lists_more_members_than_fit_is_refused() -> None:
    """However many of them it leaves out."""
    parts = [made_up([MemberId(f"{part}-{k:04}") for k in range(1024)]) for part in range(5)]
    out = [(member, part.view) for part in parts for member in part.members[1:]]
    assert read_proposal(proposal_of(parts[:4], out[: 4 * 1023]).encoded) is not None
    assert read_proposal(proposal_of(parts, out).encoded) is None


# ---------------------------------------------------------------------------- sizes


def long_named(count: int) -> tuple[MemberId, ...]:
    """Members whose names are as long as there can be."""
    return tuple(MemberId("\U0001f600" * 124 + f"{k:04}", INCARNATION_MAX) for k in range(count))


def test_the_largest_announcement_fits_in_the_fragments_of_the_smallest_datagrams() -> None:
    most = (NUMBER_MAX,) * MEMBERS_MAX
    said = Propose(DeliveredVector(long_named(MEMBERS_MAX), most, most, most))
    announce = Announce(bytes(PROPOSAL_BYTES_MAX), most, *(NUMBER_MAX,) * 2, most, most, said)
    everybody = tuple(range(MEMBERS_MAX))
    payload = encode_frame(FrameKind.PROPOSE, 1, bytes(16), everybody, most, 1, [], announce)
    piece = 256 - FRAGMENT_HEADER_BYTES
    assert -(-len(payload) // piece) <= FRAGMENTS_MAX


def test_few_members_fit_whatever_their_names_and_roles() -> None:
    names = long_named(SMALL)
    operations = tuple(f"{k:02}".ljust(OPERATION_BYTES_MAX, "x") for k in range(OPERATIONS_MAX))
    roles = tuple(Role(member, INCARNATION_MAX, operations) for member in names)
    each = [Component(ViewId(1, k, b"12345678"), (m,)) for k, m in enumerate(names)]
    size = len(encode_proposal(each, (), roles)) + sum(
        len(msgspec.msgpack.encode(r)) for r in roles
    )
    assert size + SMALL * (LEFT_OUT_BYTES + 9) <= PROPOSAL_BYTES_MAX


def test_members_with_long_names_fit_as_far_as_their_proposal_can_be_sent() -> None:
    large = made_up(long_named(MEMBERS_MAX))
    assert fits([large], 0)
    assert read_proposal(proposal_of([large]).encoded) is not None
    other = made_up([MemberId(m.name + "x"[: 128 - len(m.name)], 1) for m in large.members], 2)
    out = [(member, other.view) for member in other.members]
    assert not fits([large, other], len(out))
    assert read_proposal(proposal_of([large, other], out).encoded) is None


def test_a_left_out_entry_takes_no_more_than_there_is_room_for() -> None:
    assert len(msgspec.msgpack.encode((MEMBERS_MAX, MEMBERS_MAX))) <= LEFT_OUT_BYTES
