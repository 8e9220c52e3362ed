"""When a message may go up, and what happens to the rest when the view ends (rule D-10)."""

from __future__ import annotations

import random
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.core.broadcast.dag import Dag
from phalanx.core.delivery.delivery_queue import DeliveryQueue
from phalanx.core.delivery.total_order import AllAck, TotalOrder, ToTo
from phalanx.core.effects import Deliver, Region, Service
from phalanx.core.ids import MemberId, boot_view
from phalanx.core.wire.frame_codec import encode_tag
from phalanx.core.wire.frames import Frame, FrameKind, MessageRun

VIEW = boot_view([MemberId(name) for name in "abcdefgh"])
BASIC, CAUSAL, AGREED, SAFE = Service
Told = tuple[str, int, str, Region]


class Desk:
    """One member's order and cursor, fed by frames in an order that it could see."""

    def __init__(self, n: int, order: str = "toto", post_confirm: bool = False) -> None:
        members = VIEW.members[:n]
        view = boot_view(members)
        self.tag = encode_tag(view.id)
        self.dag = Dag(n)
        self.order: TotalOrder = ToTo(self.dag) if order == "toto" else AllAck(self.dag)
        self.queue = DeliveryQueue(0, view, self.dag, post_confirm)
        self.out: list[Deliver] = []

    def frame(self, node: Any, service: Service | None) -> Frame:
        """The frame of a node: one message of this service, or none."""
        before = self.dag.latest[node.sender]
        changed = [
            (q, v)
            for q, (v, b) in enumerate(zip(node.vector, before, strict=True))
            if v != b and q != node.sender
        ]
        runs = [] if service is None else [MessageRun(service, node.number, 1, None, 0, (0,))]
        ordered = service is not None and service >= AGREED
        return Frame(
            node.sender, node.number, FrameKind.DATA if runs else FrameKind.ACK, 0, b"", self.tag,
            tuple(q for q, _ in changed), tuple(v for _, v in changed), node.number, runs, None,
            b"", 0, ordered,
        )  # fmt: skip

    def enter(self, frame: Frame) -> None:
        self.dag.insert(frame)
        ordered = self.order.insert(frame)
        if frame.runs:
            self.queue.insert(frame, self.out)
        self.queue.advance(ordered, self.out)

    def close(self) -> tuple[int, int] | None:
        """The view ends: how many deliveries, of all, and positions come before the marker."""
        late: list[Deliver] = []
        marker = self.queue.close(self.order.close(), late)
        before = len(self.out)
        self.out += late
        return None if marker is None else (before + marker[0], marker[1])


def told(deliveries: Iterable[Deliver]) -> list[Told]:
    return [(d.sender.name, d.first, d.service.name, d.region) for d in deliveries]


REGULAR, TRANSITIONAL = Region.REGULAR, Region.TRANSITIONAL


@pytest.fixture
def enter(dags: Any) -> Any:
    """Frames by sender and number: whom they follow, and what service their message has."""

    def build(desk: Desk, *frames: tuple[int, tuple[int, ...], Service | None]) -> Desk:
        for sender, vector, service in frames:
            node = dags.node(sender, vector[sender], vector, service is not None)
            desk.enter(desk.frame(node, service))
        return desk

    return build


# ---------------------------------------------------------------------------- the marker


def test_a_view_that_ends_with_everything_delivered_has_no_marker(enter: Any) -> None:
    desk = enter(Desk(2), (0, (1, 0), SAFE), (1, (1, 1), None))
    assert told(desk.out) == [("a", 1, "SAFE", REGULAR)]
    assert desk.close() is None


def test_what_waits_only_for_its_place_leaves_without_a_marker(enter: Any) -> None:
    desk = enter(Desk(3), (1, (0, 1, 0), AGREED))
    assert desk.out == []
    assert desk.close() is None
    assert told(desk.out) == [("b", 1, "AGREED", REGULAR)]


def test_the_marker_stands_before_the_first_safe_message_that_is_not_stable(enter: Any) -> None:
    """Rule D-10."""
    desk = enter(
        Desk(3),
        (0, (1, 0, 0), AGREED),
        (0, (2, 0, 0), SAFE),
        (0, (3, 0, 0), AGREED),
        (1, (3, 1, 0), None),
    )
    assert told(desk.out) == [("a", 1, "AGREED", REGULAR)]
    assert desk.close() == (1, 1)
    assert told(desk.out) == [
        ("a", 1, "AGREED", REGULAR),
        ("a", 2, "SAFE", TRANSITIONAL),
        ("a", 3, "AGREED", TRANSITIONAL),
    ]
    assert [d.pos for d in desk.out] == [0, 1, 2]


def test_a_safe_message_that_is_stable_leaves_before_the_marker(enter: Any) -> None:
    """c has the first and not the second."""
    desk = enter(
        Desk(3),
        (0, (1, 0, 0), SAFE),
        (0, (2, 0, 0), SAFE),
        (1, (2, 1, 0), None),
        (2, (1, 0, 1), None),
    )
    assert desk.close() == (1, 1)
    assert told(desk.out) == [("a", 1, "SAFE", REGULAR), ("a", 2, "SAFE", TRANSITIONAL)]


def test_stability_is_judged_by_what_is_here_when_the_view_ends(enter: Any) -> None:
    """The last acknowledgement is in, the place of the message was not yet known."""
    desk = enter(
        Desk(3, "all-ack"),
        (1, (0, 1, 0), SAFE),
        (2, (0, 1, 1), SAFE),
        (0, (1, 1, 0), None),
        (1, (1, 2, 0), None),
    )
    assert desk.dag.stable[1] == 1
    assert desk.close() == (1, 1)
    assert told(desk.out) == [("b", 1, "SAFE", REGULAR), ("c", 1, "SAFE", TRANSITIONAL)]


def test_a_causal_message_behind_an_unstable_safe_one_is_transitional_others_are_not(
    enter: Any,
) -> None:
    desk = enter(
        Desk(3),
        (0, (1, 0, 0), SAFE),
        (0, (2, 0, 0), CAUSAL),
        (2, (0, 0, 1), CAUSAL),
    )
    assert desk.close() == (1, 0)
    assert told(desk.out) == [
        ("c", 1, "CAUSAL", REGULAR),
        ("a", 1, "SAFE", TRANSITIONAL),
        ("a", 2, "CAUSAL", TRANSITIONAL),
    ]


def test_a_basic_message_never_waits_for_the_end(enter: Any) -> None:
    """Rule D-2."""
    desk = enter(Desk(2), (0, (1, 0), SAFE), (0, (2, 0), BASIC))
    assert told(desk.out) == [("a", 2, "BASIC", REGULAR)]
    desk.close()
    assert told(desk.out)[1:] == [("a", 1, "SAFE", TRANSITIONAL)]


def test_with_post_confirm_an_own_causal_message_leaves_at_the_end_unconfirmed(enter: Any) -> None:
    desk = enter(Desk(2, post_confirm=True), (0, (1, 0), CAUSAL))
    assert desk.out == []
    assert desk.close() is None
    assert told(desk.out) == [("a", 1, "CAUSAL", REGULAR)]


def test_what_was_delivered_of_each_sender_is_its_last_message(enter: Any) -> None:
    desk = enter(Desk(3), (0, (1, 0, 0), CAUSAL), (0, (2, 0, 0), BASIC), (1, (0, 1, 0), SAFE))
    assert desk.queue.delivered() == {MemberId("a"): 2}
    desk.close()
    assert desk.queue.delivered() == {MemberId("a"): 2, MemberId("b"): 1}


def test_a_basic_message_that_left_early_counts_when_an_earlier_one_follows(enter: Any) -> None:
    """The merge report of another component would name it as delivered there alone."""
    desk = enter(Desk(2), (0, (1, 0), SAFE), (0, (2, 0), BASIC))
    assert desk.queue.delivered() == {MemberId("a"): 2}
    desk.close()
    assert [d.first for d in desk.out] == [2, 1]
    assert desk.queue.delivered() == {MemberId("a"): 2}


def test_what_is_here_and_waits_counts_as_reached(enter: Any) -> None:
    """It leaves before the next view is installed. The same for a frame that is held."""
    a, b = MemberId("a"), MemberId("b")
    desk = enter(Desk(2), (1, (0, 1), CAUSAL), (1, (0, 2), SAFE))
    assert desk.queue.delivered() == {b: 1}
    assert desk.queue.reached([]) == ({a: 0, b: 2}, {a: 0, b: 2})
    other = Desk(2)
    held = other.frame(SimpleNamespace(sender=1, number=3, vector=(0, 3)), CAUSAL)
    held.runs[0].to = (1,)
    assert desk.queue.reached([held]) == ({a: 0, b: 2}, {a: 0, b: 3}), "it is for b alone"


def test_a_message_for_others_is_known_once_it_has_been_passed_over(enter: Any) -> None:
    a, b = MemberId("a"), MemberId("b")
    desk = enter(Desk(2), (1, (0, 1), CAUSAL))
    frame = desk.frame(SimpleNamespace(sender=1, number=2, vector=(0, 2)), CAUSAL)
    frame.runs[0].to = (1,)
    desk.enter(frame)
    assert desk.queue.delivered() == {b: 1}
    assert desk.queue.reached([]) == ({a: 0, b: 1}, {a: 0, b: 2})


# ---------------------------------------------------------------------------- all alike


@pytest.mark.parametrize("order", ["toto", "all-ack"])
def test_members_that_end_a_view_with_the_same_frames_have_the_marker_in_one_place(
    dags: Any, order: str
) -> None:
    """Whatever each had delivered before: every message that is not basic has the same region and
    position everywhere, and all of them leave, in causal order."""
    rng = random.Random(19)
    markers = 0
    for _ in range(250):
        n = rng.randrange(2, 7)
        nodes = dags.random_nodes(rng, n, rng.randrange(6, 40))
        services = {
            (m.sender, m.number): rng.choice([None, BASIC, CAUSAL, AGREED, AGREED, SAFE, SAFE])
            for m in nodes
        }
        desks = []
        for _ in range(3):
            desk = Desk(n, order)
            for node in dags.random_extension(rng, nodes, n):
                desk.enter(desk.frame(node, services[node.sender, node.number]))
            marker = desk.close()
            markers += marker is not None
            regions = [d.region for d in desk.out if d.service is not BASIC]
            assert regions == sorted(regions), "nothing regular comes after the marker"
            desks.append(
                (
                    marker and marker[1],
                    sorted((*told([d])[0], d.pos) for d in desk.out if d.service is not BASIC),
                    [told([d]) for d in desk.out if d.pos is not None],
                )
            )
            all_left_in_causal_order(desk, nodes, services)
        assert desks[0] == desks[1] == desks[2]
    assert markers > 100


def all_left_in_causal_order(
    desk: Desk, nodes: list[Any], services: dict[tuple[int, int], Service | None]
) -> None:
    vectors = {(m.sender, m.number): m.vector for m in nodes}
    places = [(VIEW.members.index(d.sender), d.frame) for d in desk.out if d.service is not BASIC]
    assert sorted(places) == sorted(p for p in vectors if services[p] not in (None, BASIC))
    for index, place in enumerate(places):
        for sender, number in places[index + 1 :]:
            assert vectors[place][sender] < number, "it left before a message that it follows"
