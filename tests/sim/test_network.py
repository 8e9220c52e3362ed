"""Links: what they do to packets, by literal packets and arrival times."""

from __future__ import annotations

from typing import Any

from phalanx.sim.network import Links, chance
from phalanx.sim.run_outcome import FAULTS
from phalanx.sim.scenario.model import (
    Burst,
    Crash,
    Cut,
    Heal,
    LinkSettings,
    Network,
    Partition,
    Scenario,
)

Arrival = tuple[int, int, list[bytes]]


def links(network: Network, **more: Any) -> tuple[Links, list[Arrival], dict[str, int]]:
    scenario = Scenario(members=("a", "b", "c"), network=network, **more)
    arrivals: list[Arrival] = []
    faults = dict.fromkeys(FAULTS, 0)
    post = lambda at, to, packets: arrivals.append((at, to, packets))  # noqa: E731
    return Links(scenario, post, faults), arrivals, faults


def test_a_broadcast_reaches_everybody_else_after_the_delay() -> None:
    net, arrivals, _ = links(Network(delay_ns=100))
    net.broadcast(1000, 1, [b"x", b"y"])
    assert arrivals == [(1100, 0, [b"x", b"y"]), (1100, 2, [b"x", b"y"])]


def test_loopback_brings_a_members_packets_back_to_it() -> None:
    net, arrivals, _ = links(Network(delay_ns=100, loopback=True))
    net.broadcast(0, 1, [b"x"])
    assert [to for _, to, _ in arrivals] == [0, 1, 2]


def test_a_link_that_loses_everything_delivers_nothing_and_counts() -> None:
    net, arrivals, faults = links(Network(loss_ppm=1_000_000))
    net.broadcast(0, 0, [b"x", b"y"])
    assert arrivals == []
    assert faults["loss"] == 4


def test_losses_come_about_as_often_as_asked_for() -> None:
    net, _, faults = links(Network(loss_ppm=300_000))
    for now in range(5000):
        net.broadcast(now, 0, [b"x"])
    assert 2800 < faults["loss"] < 3200


def test_jitter_delays_but_keeps_the_order_of_a_link() -> None:
    net, arrivals, faults = links(Network(delay_ns=10, jitter_ns=1000))
    for now in range(200):
        net.broadcast(now, 0, [b"%d" % now])
    to_b = [(at, packets) for at, to, packets in arrivals if to == 1]
    assert [at for at, _ in to_b] == sorted(at for at, _ in to_b)
    assert [packets for _, packets in to_b] == [[b"%d" % now] for now in range(200)]
    assert max(at for at, _ in to_b) > 300
    assert faults["jitter"] == 400


def test_a_direction_that_comes_and_goes_is_counted_if_it_loses_something_each_time() -> None:
    cuts = [Cut(at_ns=t, for_ns=10, from_=("a",), to=("b",)) for t in (100, 200, 300)]
    both = [Cut(at_ns=t, for_ns=10, from_=("b",), to=("c",), both=True) for t in (100, 200, 300)]
    net, _, _ = links(Network(), cut=(*cuts, *both))
    for now in (100, 110, 200, 210, 300):
        net.change_weather(now)
        for sender in range(3):
            net.broadcast(now, sender, [b"x"])
    assert net.flapped() == 0
    net.change_weather(310)
    assert net.flapped() == 1


def test_reordering_lets_later_packets_overtake() -> None:
    net, arrivals, faults = links(Network(delay_ns=10, reorder_ppm=300_000, late_ns=50))
    for now in range(100):
        net.broadcast(now, 0, [b"%d" % now])
    to_b = [at for at, to, _ in arrivals if to == 1]
    assert to_b != sorted(to_b)
    assert len(to_b) == 100
    assert faults["reorder"] > 10


def test_a_duplicate_is_a_second_arrival_of_the_same_packet() -> None:
    net, arrivals, faults = links(Network(duplicate_ppm=1_000_000))
    net.broadcast(0, 0, [b"x"])
    assert [(to, packets) for _, to, packets in arrivals] == [
        (1, [b"x"]),
        (1, [b"x"]),
        (2, [b"x"]),
        (2, [b"x"]),
    ]
    assert faults["duplicate"] == 2


def test_spaced_packets_of_one_transmission_arrive_one_by_one() -> None:
    net, arrivals, _ = links(Network(delay_ns=100, spacing_ns=7))
    net.broadcast(0, 0, [b"x", b"y"])
    assert [a for a in arrivals if a[1] == 1] == [(100, 1, [b"x"]), (107, 1, [b"y"])]


def test_a_link_table_changes_only_the_links_it_names() -> None:
    slow = LinkSettings(from_=("a",), to=("c",), delay_ns=900)
    net, arrivals, _ = links(Network(delay_ns=100), link=(slow,))
    net.broadcast(0, 0, [b"x"])
    net.broadcast(0, 2, [b"y"])
    assert [(at, to) for at, to, _ in arrivals] == [(100, 1), (900, 2), (100, 0), (100, 1)]


def test_a_burst_raises_losses_while_it_lasts_and_only_where_it_hits() -> None:
    burst = Burst(at_ns=10, for_ns=5, to=("b",))
    net, arrivals, faults = links(Network(delay_ns=1), burst=(burst,))
    for now in (9, 10, 14, 15):
        net.change_weather(now)
        net.broadcast(now, 0, [b"x"])
    assert [at for at, to, _ in arrivals if to == 1] == [10, 16]
    assert [at for at, to, _ in arrivals if to == 2] == [10, 11, 15, 16]
    assert faults["burst"] == 2
    assert faults["loss"] == 0


def test_what_is_cut_is_lost_and_counted_apart_until_it_is_healed() -> None:
    split = Partition(at_ns=10, groups=(("a",),))
    net, arrivals, faults = links(
        Network(delay_ns=1, loss_ppm=0), partition=(split,), heal=(Heal(at_ns=20),)
    )
    for now in (9, 10, 19, 20):
        net.change_weather(now)
        net.broadcast(now, 0, [b"x"])
        net.broadcast(now, 1, [b"y"])
    assert [(at, to) for at, to, packets in arrivals if packets == [b"x"]] == [
        (10, 1), (10, 2), (21, 1), (21, 2),
    ]  # fmt: skip
    assert len([at for at, to, packets in arrivals if packets == [b"y"]]) == 6
    assert faults["cut_off"] == 6
    assert faults["loss"] == 0


def test_machines_are_linked_only_if_both_ways_are_open() -> None:
    dead = LinkSettings(from_=("a",), to=("b",), loss_ppm=1_000_000)
    cut = Cut(at_ns=5, from_=("c",), to=("b",))
    net, _, _ = links(Network(), link=(dead,), cut=(cut,))
    assert [net.linked(*pair) for pair in ((0, 1), (1, 0), (1, 2), (2, 0), (0, 0))] == [
        False, False, True, True, True,
    ]  # fmt: skip
    net.change_weather(5)
    assert not net.linked(1, 2)


def test_a_crash_takes_back_the_end_of_what_is_under_way_on_each_link() -> None:
    lost = set()
    for seed in range(40):
        crash = Crash(member="a", at_ns=50, lose=True)
        net, arrivals, faults = links(Network(delay_ns=30), crash=(crash,), seed=seed)
        for now in (10, 30, 40):
            net.broadcast(now, 0, [b"%d" % now, b"+"])
        net.lose_flying(50, 0)
        kept = [[packets[:1] for _, to, packets in arrivals if to == i] for i in (1, 2)]
        for link in kept:
            assert link[0] == [b"10"]
            assert link[1:] in ([[b"30"], [b"40"]], [[b"30"], []], [[], []])
        assert faults["crash_loss"] == 2 * sum(link.count([]) for link in kept)
        lost.add(tuple(link.count([]) for link in kept))
    assert len(lost) == 9


def test_dropping_a_member_leaves_the_dice_of_other_links_as_they_were() -> None:
    def lost(members: tuple[str, ...]) -> list[int]:
        arrivals: list[int] = []
        scenario = Scenario(members=members, network=Network(loss_ppm=500_000))
        net = Links(
            scenario,
            lambda at, to, _: arrivals.append(at) if to == 1 else None,
            dict.fromkeys(FAULTS, 0),
        )
        for now in range(50):
            net.broadcast(now, 0, [b"x"])
        return arrivals

    assert lost(("a", "b", "c")) == lost(("a", "b"))


def test_chances_are_exact_at_both_ends() -> None:
    assert chance(0) == 0
    assert chance(1) >= 1
    assert chance(1_000_000) == 1 << 20


def test_a_break_of_a_channel_loses_the_end_of_what_is_under_way_in_the_broken_direction() -> None:
    lost = set()
    for seed in range(40):
        cut = Cut(at_ns=50, from_=("a",), to=("b",))
        network = Network(delay_ns=30, channels=True)
        net, arrivals, faults = links(network, cut=(cut,), seed=seed)
        for now in (10, 30, 40):
            net.broadcast(now, 0, [b"%d" % now])
            net.broadcast(now, 1, [b"back"])
        net.change_weather(50)
        net.change_weather(55)
        kept = [packets for _, to, packets in arrivals if to == 1]
        assert kept in ([[b"10"], [b"30"], [b"40"]], [[b"10"], [b"30"], []], [[b"10"], [], []])
        assert faults["break_loss"] == kept.count([])
        assert all(packets for _, to, packets in arrivals if to != 1)
        lost.add(kept.count([]))
    assert lost == {0, 1, 2}
