"""A member whose time stands still, its copies, and its normal form."""

from __future__ import annotations

from copy import deepcopy

import pytest

from phalanx.config import lan
from phalanx.core.effects import Datagrams, Effect, Submit, SuspectMember, Transmit, ViewInstalled
from phalanx.core.ids import MemberId, boot_view
from phalanx.explore.canonical_form import digest
from phalanx.explore.fast_copy import copied
from phalanx.explore.frozen_member import NOW, FrozenTimeMember, thawed

ADA, BEA = MemberId("ada"), MemberId("bea")


@pytest.fixture
def pair() -> list[FrozenTimeMember]:
    """Two members, each alone."""
    members = [FrozenTimeMember(me, boot_view([me]), lan(mode="flow")) for me in (ADA, BEA)]
    for member in members:
        member.start(NOW)
    return members


def packets(effects: list[Effect]) -> list[bytes]:
    return [packet for e in effects if isinstance(e, Transmit) for packet in e.packets]


def joined(pair: list[FrozenTimeMember]) -> list[FrozenTimeMember]:
    """The same two, in one view."""
    ada, bea = pair
    attempt = packets(ada.step(NOW, Datagrams([bea.hello()])))
    bea.step(NOW, Datagrams(attempt))
    proposal = packets(bea.pass_timer("collect"))
    answer = packets(ada.step(NOW, Datagrams(proposal))) or packets(ada.pass_timer("collect"))
    bea.step(NOW, Datagrams(answer))
    return pair


def test_two_that_hear_of_each_other_join(pair: list[FrozenTimeMember]) -> None:
    ada, bea = joined(pair)
    assert ada.view == bea.view
    assert ada.view.members == (ADA, BEA)


def test_nothing_is_said_unless_the_protocol_or_the_explorer_says_so(
    pair: list[FrozenTimeMember],
) -> None:
    ada, _ = joined(pair)
    assert ada.pass_timer("collect") == []
    assert ada.pass_timer("answer") == []
    assert ada.owes
    assert packets(ada.pass_timer("ack"))
    assert not ada.owes


def test_who_does_not_speak_in_time_is_dropped(pair: list[FrozenTimeMember]) -> None:
    ada, _ = joined(pair)
    assert ada.listens
    effects = ada.pass_timer("speak")
    assert any(isinstance(e, ViewInstalled) and e.view.members == (ADA,) for e in effects)


def test_a_copy_goes_on_like_the_original_and_leaves_it_alone(pair: list[FrozenTimeMember]) -> None:
    hello = pair[0].hello()
    for original in joined(pair):
        before = digest(original)
        told = []
        for member in [copied(original), thawed(original.frozen()), deepcopy(original), original]:
            assert digest(original) == before
            effects: list[Effect] = []
            for given in (Submit([b"x"]), SuspectMember(BEA if member.me == ADA else ADA)):
                effects += member.step(NOW, given)
            effects += member.step(NOW, Datagrams([hello]))
            told.append((effects, digest(member)))
        assert told == told[:1] * 4
        assert told[0][1] != before


def test_a_copy_shares_within_itself_what_the_original_shares(pair: list[FrozenTimeMember]) -> None:
    ada = copied(joined(pair)[0])
    assert ada._resources.foreign.kept() is ada._resources.past_frames.foreign
    assert ada._view_change._active is ada._active
    assert ada._active._sender is ada._sender
    assert ada._active.state.broadcast._responder._store is ada._active.state.broadcast.store
    assert ada._active.state.broadcast._responder._past is ada._resources.past_frames


def test_members_that_differ_in_times_and_statistics_only_are_the_same(
    pair: list[FrozenTimeMember],
) -> None:
    ada, bea = joined(pair)
    before = digest(ada)
    ada._active.state.ack_scheduler.stir()
    ada._active.state.broadcast.duplicates += 1
    ada._control_plane.detector.heard_ns[0] += 1
    ada._protocol._speak_until += 1
    ada._protocol._time._strain += 1
    assert digest(ada) == before
    assert digest(thawed(ada.frozen())) == before
    assert digest(bea) != before


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m._protocol.issued.append(m._protocol.unchanged),
        lambda m: setattr(m._protocol, "stage", "COLLECTING"),
        lambda m: m._protocol._suspects.add(BEA),
        lambda m: setattr(m._protocol, "_grace", True),
        lambda m: setattr(m._protocol, "_speak_until", 1 << 62),
        lambda m: setattr(m._protocol, "added_tomorrow", 1),
        lambda m: m._protocol._history._views.clear(),
        lambda m: m._protocol._statements._newest.clear(),
        lambda m: m._protocol._history._came_from.clear(),
        lambda m: m._resources.past_frames.foreign.update(m._resources.past_frames._generations[0]),
        lambda m: m._resources.foreign.fetch(NOW, BEA, 9),
        lambda m: m._active.state._proposed.add(1),
        lambda m: m._active.state.dag.have.__setitem__(0, 7),
        lambda m: setattr(m._sender.outbox, "following", 5),
    ],
)
def test_members_that_may_behave_otherwise_are_not_the_same(
    pair: list[FrozenTimeMember], change: object
) -> None:
    ada, _ = joined(pair)
    before = digest(ada)
    change(ada)  # type: ignore[operator]
    assert digest(ada) != before
