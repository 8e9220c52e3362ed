"""Forged packets whose numbers leave no room for the numbers that follow from them, and forged
fragments: members count them, go on, and are readable to each other afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.core.forged_packets import body, forged, made_up

from phalanx.core.effects import Datagrams, Refused, Service, SuspectMember, ViewInstalled
from phalanx.core.ids import NUMBER_MAX, MemberId, View, ViewId, view_digest
from phalanx.core.membership.proposals import component_of, named_roles, proposal_of
from phalanx.core.roles import Role
from phalanx.core.wire.frame_codec import encode_frame, encode_tag
from phalanx.core.wire.frames import (
    Announce,
    Component,
    DeliveredVector,
    FrameKind,
    MessageRun,
    Propose,
)
from phalanx.core.wire.packet_codec import PacketCodec
from phalanx.core.wire.packets import Fragment, Hello

CODEC = PacketCodec("phalanx", "g")
Build = Callable[..., Any]
A, B, C = (MemberId(name) for name in "abc")


def data(view: View, number: int, first: int, count: int = 1) -> bytes:
    """The payload of a frame of c with empty basic messages."""
    run = MessageRun(Service.BASIC, first, count, None, 0, (0,) * count)
    tag = encode_tag(view.id)
    return encode_frame(FrameKind.DATA, 0, tag, [], [], first, [(run, [b""] * count)])


def fragments(view: View, number: int, pieces: Sequence[bytes]) -> list[bytes]:
    """The packets of a frame of c that is cut into these pieces."""
    return [
        CODEC.encode_fragment(Fragment(piece, view.id.digest, 2, 2, number, i, len(pieces), 0))
        for i, piece in enumerate(pieces)
    ]


def refused(group: Any, i: int) -> Counter[str]:
    found: Counter[str] = Counter()
    for effect in group.seen[i]:
        if isinstance(effect, Refused):
            found[effect.reason] += effect.count
    return found


@pytest.mark.parametrize(("first", "count"), [((1 << 64) - 1, 2), (1 << 63, 1), (NUMBER_MAX, 1)])
def test_a_message_beyond_all_numbers_is_refused_and_the_next_view_comes(
    mesh: Build, first: int, count: int
) -> None:
    """Its number would stand in the next proposal, which nobody could read."""
    group = mesh("abc")
    group.pump(300)
    number = group.members[0].have[2] + 1
    lie = fragments(
        group.members[0].view, number, [data(group.members[0].view, number, first, count)]
    )
    for i in (0, 1):
        group.step(i, Datagrams(lie))
    assert refused(group, 0)["malformed"] == 1
    group.crash(2)
    group.pump(5_000)
    assert group.views(0)[-1] == group.views(1)[-1] == "ab"


def test_the_last_message_number_that_there_can_be_does_no_harm(mesh: Build) -> None:
    group = mesh("abc")
    group.pump(300)
    view, number = group.members[0].view, group.members[0].have[2] + 1
    lie = fragments(view, number, [data(view, number, NUMBER_MAX - 1)])
    for i in (0, 1):
        group.step(i, Datagrams(lie))
    group.crash(2)
    group.pump(5_000)
    assert group.views(0)[-1] == group.views(1)[-1] == "ab"


def test_a_frame_whose_first_piece_is_empty_is_refused(mesh: Build) -> None:
    """A holder would repeat it as one packet that no network carries."""
    group = mesh("abc")
    group.pump(300)
    view, number = group.members[0].view, group.members[0].have[2] + 1
    payload = data(view, number, 1, 3000)
    cuts = [payload[at : at + 1400] for at in range(0, len(payload), 1400)]
    group.step(0, Datagrams(fragments(view, number, [b"", *cuts])))
    assert refused(group, 0)["conflict"] == 1
    assert group.members[0].have[2] == number - 1


def test_a_role_with_a_forged_serial_does_not_come_into_force(mesh: Build) -> None:
    """The serial is in force in a view that nobody knows; one above it cannot be sent."""
    group = mesh("abc")
    group.pump(300)
    base, roles = component_of(group.members[0].view), (Role(A, (1 << 63) - 1, ("x",)),)
    digest = view_digest(b"context8", (A,), named_roles(roles))
    unknown = Component(ViewId(0, 1, digest), (A,), b"context8", roles)
    lie = proposal_of((base, unknown), [(A, unknown.view)], roles)
    number = group.members[0].have[2] + 1
    vector = (0, 0, number)
    packets = forged(CODEC, C, number, base, lie.encoded, Propose(), vector=vector)
    for i in (0, 1):
        group.step(i, Datagrams(packets))
    group.crash(2)
    group.pump(10_000)
    assert group.views(0)[-1] == group.views(1)[-1] == "ab"
    assert group.members[0]._protocol.base.roles == ()


def test_a_proposal_is_answered_though_a_forged_hello_seems_newer(mesh: Build) -> None:
    """Its frame would be dropped once all have it, and be missing when the proposal closes."""
    group = mesh("abc", alone=True)
    group.pump(6_000)
    view = group.members[0].view
    base, number = component_of(view), group.members[0].have[2] + 1
    group.crash(2)
    hello = CODEC.encode(Hello(C, 1 << 40, ViewId(0, 0, b"whatever"), ()))
    proposal = body([base], [(0, 1)])
    vector = tuple(number if member == C else 0 for member in view.members)
    issue = forged(CODEC, C, number, base, proposal, Propose(), vector=vector)
    group.step(0, Datagrams([hello, *issue]))
    assert group.members[0]._protocol.phase == 1 or group.members[0].view.id != view.id
    group.step(0, SuspectMember(B))
    group.pump(5_000)
    assert any(isinstance(effect, ViewInstalled) for effect in group.seen[0])


def test_an_announcement_that_cannot_be_is_refused_in_a_quiet_group_too(mesh: Build) -> None:
    """Members in a change refuse it: else some would have the frame and others never."""
    group = mesh("abc")
    group.pump(300)
    view, number = group.members[0].view, group.members[0].have[2] + 1
    vector = (0, 0, number)
    for proposal, reason in ((body([made_up([A, B, C], 0, 1)]), "impossible"), (None, None)):
        announce = Announce(proposal or body([component_of(view)]), vector)
        tag = encode_tag(view.id)
        payload = encode_frame(FrameKind.ACK, 0, tag, [], [], 1, [], announce)
        group.step(0, Datagrams(fragments(view, number, [payload])))
        assert refused(group, 0) == ({"impossible": 1})
        assert group.members[0].have[2] == number - (reason is not None)


def test_no_number_of_a_report_is_beyond_what_can_be_sent() -> None:
    most = NUMBER_MAX - 1
    assert DeliveredVector((A,), (most,), (NUMBER_MAX,), (0,)).is_possible
    assert not DeliveredVector((A,), (NUMBER_MAX,)).is_possible
    assert not DeliveredVector((A,), (most,), (), (1,)).is_possible
    assert not DeliveredVector((A,), (1,), (1, 1)).is_possible
    assert not DeliveredVector((A,), (1,), (), (0, 0)).is_possible
