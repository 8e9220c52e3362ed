"""Real members in a mesh over TLS: on the loopback interface with injected faults, and in network
namespaces with faults of the network itself. Their journals are checked at the end."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.certificate_authority import Authority, shared_key
from tests.real.conftest import Theatre
from tests.real.mesh_members import (
    NAMES,
    SETTLE_SECONDS,
    Mesh,
    built,
    channels,
    checked,
    fully_connected,
    leave,
    network,
    talk,
    views,
)

from phalanx.config import SharedKey, mesh
from phalanx.harness.controller import MemberProcess, all_in_view, partition
from phalanx.journal import reader
from phalanx.journal import schema as ev

R = TypeVar("R", bound=ev.Row)


@pytest.fixture(params=["certificates", "key"])
def meshes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Mesh]:
    """Members that authenticate each other in either way."""
    if request.param == "key":
        key = SharedKey(shared_key(tmp_path))
        yield from checked(tmp_path, lambda name: key)
    else:
        yield from checked(tmp_path, Authority(tmp_path).issue)


@pytest.fixture
def one_mesh(tmp_path: Path) -> Iterator[Mesh]:
    yield from checked(tmp_path, Authority(tmp_path).issue)


def rows(mesh: Mesh, kind: type[R]) -> list[R]:
    """The rows of one table, of all members."""
    journals = reader.read_all([mesh.journals]).journals.values()
    return [row for rows in journals for row in rows if isinstance(row, kind)]


# ---------------------------------------------------------------------------- on one machine


def test_members_form_one_view_and_survive_a_kill(meshes: Mesh) -> None:
    members = meshes.start_all(4)
    talk(members)
    began = members[3].kill()
    rest = members[:3]
    ends = [member.in_view(NAMES[:3], SETTLE_SECONDS)["t_ns"] for member in rest]
    assert max(ends) - began < 5e9
    talk(rest)
    back = meshes.start("dov")
    back.joined()
    all_in_view([*rest, back], SETTLE_SECONDS)
    talk([*rest, back])
    leave([*rest, back])


def test_no_broken_channel_changes_the_view(one_mesh: Mesh) -> None:
    """Each channel of four members is closed in turn."""
    members = one_mesh.start_all(4)
    before = views(members)
    for i, j in ((i, j) for i, j in permutations(range(4), 2) if i < j):
        members[i].run("cut", addresses=[members[j].address])
        wait_for_channels(members[i], 2)
        talk(members, 10)
        members[i].run("heal")
        fully_connected(members)
    talk(members)
    assert views(members) == before
    leave(members)


def wait_for_channels(member: MemberProcess, count: int) -> None:
    end = time.monotonic() + 10
    while channels(member) != count:
        assert time.monotonic() < end, network(member)
        time.sleep(0.01)


@pytest.mark.slow
def test_no_channel_of_five_that_is_cut_both_ways_or_one_way_changes_the_view(
    one_mesh: Mesh,
) -> None:
    """Every one of the 10 channels, and each of its 20 directions, for 1.5 s."""
    members = one_mesh.start_all(5)
    before = views(members)
    for i, j in permutations(range(5), 2):
        for how in ("cut", "cut_from") if i < j else ("cut_from",):
            members[i].run(how, addresses=[members[j].address])
            end = time.monotonic() + 1.5
            while time.monotonic() < end:
                talk(members, 10)
            members[i].run("heal")
            fully_connected(members)
    talk(members)
    assert views(members) == before
    leave(members)


def test_a_channel_that_is_dead_one_way_changes_no_view(one_mesh: Mesh) -> None:
    members = one_mesh.start_all(3)
    before = views(members)
    members[0].run("cut_from", addresses=[members[1].address])
    end = time.monotonic() + 2  # longer than the time-out of the failure detector
    while time.monotonic() < end:
        talk(members, 10)
    assert views(members) == before
    members[0].run("heal")
    talk(members)
    leave(members)
    found = rows(one_mesh, ev.PeerSuspicion)
    relays = {(row.target, row.state, row.relay) for row in found if row.member == "ada"}
    assert ("bea", "SEMI", "cyd") in relays, "the journal names the member that relays"
    assert not [row for row in found if row.state == "FAULTY" and row.evidence == "SILENCE"]


def test_a_member_that_stands_still_delays_no_message_between_others(one_mesh: Mesh) -> None:
    members = one_mesh.start_all(4, fail_ns=5_000_000_000)
    ada, bea, _, dov = members
    talk(members)
    before, mark = views(members), len(ada.events)
    dov.freeze()
    ada.do("trickle", count=100, pause=0.002, service="causal")
    arrived, end = 0, time.monotonic() + 4
    while arrived < 100:
        assert time.monotonic() < end, f"{arrived} messages while dov stands still"
        arrived += len(bea.report()["latencies"].get("ada", ()))
        time.sleep(0.01)
    assert all(event["event"] != "sent" for event in ada.events[mark:]), "dov has them already"
    dov.thaw()
    ada.wait(lambda e: e["event"] == "sent", 30, mark, "dov has them too")
    assert views(members) == before
    talk(members)
    leave(members)


def test_a_member_joins_and_leaves_through_any_one_other(one_mesh: Mesh) -> None:
    """It knows an address at which nobody is, and one member. Later it reaches another one only,
    sends its last messages and leaves: all have them, and nobody waits for its silence."""
    members = one_mesh.start_all(3, fail_ns=20_000_000_000)
    nobody, one = f"{one_mesh.address('eli')}:7117", members[2].address
    dov = one_mesh.start("dov", peers=(nobody, one), fail_ns=20_000_000_000)
    dov.joined()
    everybody = [*members, dov]
    all_in_view(everybody, SETTLE_SECONDS)
    fully_connected(everybody)
    talk(everybody)
    before = [member.report()["delivered"]["AGREED"] for member in members]
    dov.run("cut", addresses=[members[0].address, members[2].address])
    wait_for_channels(dov, 1)
    mark = len(dov.events)
    dov.do("send", count=20, service="agreed")
    dov.wait(lambda e: e["event"] == "sent", 15, mark)
    began = time.monotonic()
    dov.leave()
    all_in_view(members, SETTLE_SECONDS)
    assert time.monotonic() - began < 15, "they waited until it was silent for too long"
    after = [member.report()["delivered"]["AGREED"] for member in members]
    assert after == [count + 20 for count in before]
    talk(members)
    leave(members)


def test_two_cliques_form_two_views_and_one_after_healing(one_mesh: Mesh) -> None:
    members = one_mesh.start_all(4)
    talk(members)
    sides = [members[:2], members[2:]]
    partition(sides)
    for side in sides:
        all_in_view(side, SETTLE_SECONDS)
        talk(side)
    for member in members:
        member.run("heal")
    all_in_view(members, SETTLE_SECONDS)
    talk(members)
    leave(members)
    found = rows(one_mesh, ev.ChannelReport)
    cut = {(row.member, row.peer) for row in found if row.op == "DOWN"}
    pairs = {(a, b) for a in NAMES[:2] for b in NAMES[2:4]}
    assert pairs | {(b, a) for a, b in pairs} <= cut, "each end of each channel that was cut"
    for pair in cut:
        ops = [row.op for row in found if (row.member, row.peer) == pair]
        assert ops.index("UP") < ops.index("DOWN"), "a channel breaks after it opened"
    assert {row.reason for row in found if row.op == "DOWN"} & {"fault injection"}


def test_members_restart_in_turn_and_nothing_is_lost(one_mesh: Mesh) -> None:
    members = one_mesh.start_all(5)
    for at, name in enumerate(NAMES):
        members[at].leave()
        rest = [member for member in members if member.name != name]
        all_in_view(rest, SETTLE_SECONDS)
        talk(rest, 20)
        members[at] = one_mesh.start(name)
        members[at].joined()
        all_in_view(members, SETTLE_SECONDS)
        talk(members, 20)
    leave(members)


def test_a_second_member_of_one_name_is_refused_by_the_group(one_mesh: Mesh) -> None:
    members = one_mesh.start_all(3)
    talk(members)
    config = mesh(members[0].address, address=one_mesh.address("eli"), tls=one_mesh._tls("bea"))
    part = {
        "group": members[0].part["group"],
        "name": "bea",
        "config": built(config),
    }
    double = MemberProcess(part)
    try:
        ended = double.wait(lambda e: e["event"] in ("refused", "stopped"), SETTLE_SECONDS)
        assert "another live process" in ended["error"]
    finally:
        double.close()
    talk(members)
    leave(members)


# ---------------------------------------------------------------------------- in namespaces


def start_mesh(theatre: Theatre, tmp_path: Path, **settings: Any) -> list[MemberProcess]:
    authority = Authority(tmp_path)
    members = []
    for i, name in enumerate(theatre.names):
        peers = [f"{theatre.lan.address(k)}:7117" for k in range(len(theatre.names))]
        config = mesh(*peers, tls=authority.issue(name), interface="eth0", **settings)
        members.append(theatre.start(i, config=built(config)))
    for member in members:
        member.joined()
    all_in_view(members)
    fully_connected(members)
    return members


@pytest.mark.parametrize("one_way", [False, True])
def test_a_link_that_the_network_cuts_changes_no_view(
    theatre: Theatre, tmp_path: Path, one_way: bool
) -> None:
    """Half-open connections: the network drops packets without a word."""
    members = start_mesh(theatre, tmp_path)
    talk(members)
    before = views(members)
    if one_way:
        theatre.lan.cut_one_way(0, 1)
    else:
        theatre.lan.cut(0, 1)
    end = time.monotonic() + 6  # longer than it takes to close the connection
    while time.monotonic() < end:
        talk(members, 20)
    assert views(members) == before
    assert channels(members[0]) == len(members) - 2
    theatre.lan.heal()
    fully_connected(members)
    talk(members)
    assert views(members) == before
    leave(members)


@pytest.mark.parametrize("theatre", [5], indirect=True)
def test_a_network_that_falls_apart_makes_two_views_and_heals_to_one(
    theatre: Theatre, tmp_path: Path
) -> None:
    members = start_mesh(theatre, tmp_path)
    theatre.lan.partition([0, 1, 2], [3, 4])
    for side in (members[:3], members[3:]):
        all_in_view(side, SETTLE_SECONDS)
        talk(side)
    theatre.lan.heal()
    all_in_view(members, SETTLE_SECONDS)
    talk(members)
    leave(members)


def test_a_mesh_that_loses_packets_loses_no_message(theatre: Theatre, tmp_path: Path) -> None:
    members = start_mesh(theatre, tmp_path)
    before = views(members)
    for i in range(len(members)):
        theatre.lan.lose(i, 0.02)
    talk(members)
    theatre.lan.heal()
    talk(members)
    assert views(members) == before
    leave(members)


def test_members_of_a_headless_service_find_each_other_by_dns(
    theatre: Theatre, tmp_path: Path
) -> None:
    """All members have one name as peers, and the name server changes its answers."""
    service, resolv = tmp_path / "service", tmp_path / "resolv.conf"
    lan, authority = theatre.lan, Authority(tmp_path)
    service.write_text(f"{lan.address(0)}\n{lan.address(1)}\n")
    resolv.write_text(f"nameserver {lan.address(3)}\noptions timeout:1 attempts:1\n")
    script = str(Path(__file__).with_name("dns_server.py"))
    command = [sys.executable, script, lan.address(3), "orders.default.svc", str(service)]
    server = lan.run(3, command, stdout=subprocess.PIPE)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    # `ip netns exec` has a mount namespace of its own.
    bind = f"mount --bind {shlex.quote(str(resolv))} /etc/resolv.conf"

    def start(i: int) -> MemberProcess:
        tls = authority.issue(theatre.names[i], "*")
        config = mesh("orders.default.svc:7117", tls=tls, interface="eth0")
        return theatre.start(i, ["sh", "-c", f'{bind} && exec "$@"', "sh"], config=built(config))

    members = [start(0), start(1)]
    for member in members:
        member.joined()
    all_in_view(members, SETTLE_SECONDS)
    members[0].leave()
    service.write_text(f"{lan.address(1)}\n{lan.address(2)}\n")
    members[0] = start(2)
    members[0].joined()
    all_in_view(members, SETTLE_SECONDS)
    members.append(start(0))
    members[2].joined()
    all_in_view(members, SETTLE_SECONDS)
    talk(members)
    leave(members)
