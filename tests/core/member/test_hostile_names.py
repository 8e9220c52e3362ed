"""A forger that hears everything takes the names of members: it makes up views with later processes
of their names, makes members leave their group, and answers every claim with its number.

Nobody can tell such packets from true ones while they come. They must stop no process that was a
member, whichever way the forger parts it from its group first (rule L-17); and when the forger
ends, the members come together again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.core.forged_packets import body, forged, made_up

from phalanx.config import Config, SharedKey, lan
from phalanx.core.effects import (
    Datagrams,
    LeaveRequest,
    NameContested,
    Service,
    Stopped,
    SuspectMember,
    Transmit,
    ViewInstalled,
)
from phalanx.core.ids import MemberId, boot_view
from phalanx.core.member.member import Member
from phalanx.core.membership.name_claim import CLAIMS, CONTESTED_PERIODS
from phalanx.core.membership.proposals import component_of
from phalanx.core.wire.frames import Propose
from phalanx.core.wire.packet_codec import PacketCodec
from phalanx.core.wire.packets import (
    ControlPacket,
    Hello,
    JoinAttempt,
    NameClaimed,
    NameHeld,
)
from phalanx.core.wire.shared_settings import shared_digest

MS = 1_000_000
A, B, C, D = (MemberId(name) for name in "abcd")
MALLORY = MemberId("mallory")
LATER = 9
FREE_MS = CLAIMS * CONTESTED_PERIODS * lan().hello_ns // MS + 1_000
Build = Callable[..., Any]
Attack = Callable[[Any, "Forger"], None]


def codec_of(config: Config) -> PacketCodec:
    return PacketCodec("phalanx", "g", shared_digest(config))


class Forger:
    """Sends to all members, and answers each claim that it hears in the name of a later process."""

    def __init__(self, group: Any, config: Config) -> None:
        self.group = group
        self.codec = codec_of(config)
        self.read = [len(effects) for effects in group.seen]
        self.claims = 0

    def send(self, *packets: ControlPacket) -> None:
        for i in range(len(self.group.members)):
            self.group.step(i, Datagrams([self.codec.encode(packet) for packet in packets]))

    def answer(self) -> None:
        for i, effects in enumerate(self.group.seen):
            new, self.read[i] = effects[self.read[i] :], len(effects)
            for effect in new:
                for packet in effect.packets if isinstance(effect, Transmit) else ():
                    claim = self.codec.decode(packet)
                    if isinstance(claim, NameClaimed):
                        self.claims += 1
                        later = MemberId(claim.member.name, LATER)
                        self.send(NameHeld(later, claim.nonce))


def later_namesakes(group: Any, forger: Forger) -> None:
    """A view of later processes of all names wants to join (rule L-19)."""
    members = tuple(m.me for m in group.members)
    where = made_up([MemberId(m.name, LATER) for m in members])
    for namesake in where.members:
        forger.send(JoinAttempt(namesake, 1, where, members), NameHeld(namesake, 0))


def a_group_with_a_later_namesake(group: Any, forger: Forger) -> None:
    """A stranger's view with a later b wants to join: the others are to leave b out (N.3)."""
    where = made_up([MemberId("b", LATER), MALLORY])
    members = tuple(m.me for m in group.members)
    forger.send(Hello(MALLORY, 1, where.view, members), JoinAttempt(MALLORY, 1, where, members))
    forger.send(NameHeld(MemberId("b", LATER), 0))


def left_out_by_all(group: Any, forger: Forger) -> None:
    """A proposal in the name of each other member leaves a member out."""
    for i, member in enumerate(group.members):
        members, home = member.view.members, component_of(member.view)
        rank = members.index(member.me)
        for other in (m for m in members if m != member.me):
            number = member.have[members.index(other)] + 1
            proposal = body((home,), [(0, rank)])
            group.step(i, Datagrams(forged(forger.codec, other, number, home, proposal, Propose())))
    forger.send(*(NameHeld(MemberId(m.me.name, LATER), 0) for m in group.members))


def cut_off_meanwhile(group: Any, forger: Forger) -> None:
    """The network parts the members, as it may; the forger only answers."""
    if len(group.members[0].view.members) > 1:
        for i, member in enumerate(group.members):
            for other in group.members:
                if other is not member:
                    group.step(i, SuspectMember(other.me))
    group.cut(*({i} for i in range(len(group.members))))
    forger.send(*(NameHeld(MemberId(m.me.name, LATER), 0) for m in group.members))


ATTACKS = (later_namesakes, a_group_with_a_later_namesake, left_out_by_all, cut_off_meanwhile)


def attacked(group: Any, config: Config, attack: Attack, ms: int = 8_000) -> None:
    """Play an attack over and over, for some seconds."""
    forger = Forger(group, config)
    for at in range(0, ms, 20):
        if at % 200 == 0:
            attack(group, forger)
        forger.answer()
        group.pump(20)


def all_of(group: Any, kind: type) -> list[Any]:
    return [effect for effects in group.seen for effect in effects if isinstance(effect, kind)]


@pytest.mark.parametrize("mode", ["hold", "flow"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_forger_that_answers_every_claim_stops_no_member(
    mesh: Build, attack: Attack, mode: str
) -> None:
    config = lan(mode=mode)
    group = mesh("abcd", config)
    group.pump(300)
    attacked(group, config, attack)
    assert not all_of(group, Stopped)
    group.cut()
    group.pump(FREE_MS + 20_000)
    assert {group.views(i)[-1] for i in range(4)} == {"abcd"}
    assert {m for e in all_of(group, ViewInstalled) for m in e.view.members} == {A, B, C, D}
    group.submit(0, b"after all", service=Service.SAFE)
    group.pump(200)
    assert [group.bodies(i)[-1] for i in range(4)] == [b"after all"] * 4


def test_the_attacks_reach_the_names_of_members(mesh: Build) -> None:
    """Where the network is said to be closed to others, the same packets stop members."""
    for attack in ATTACKS:
        group = mesh("abcd", lan(trusted=True))
        group.pump(300)
        attacked(group, lan(), attack)
        assert Stopped("name-in-use") in all_of(group, Stopped), attack
    group = mesh("abcd")
    group.pump(300)
    attacked(group, lan(), later_namesakes)
    assert all_of(group, NameContested)


# ------------------------------------------------------------------ the life of a contested member


def replaced(mesh: Build, config: Config) -> tuple[Any, int]:
    """a hangs and is removed; a later process takes its name and its place; then a goes on."""
    group = mesh("abc", config)
    group.pump(1_000)
    group.cut({1, 2})
    group.pump(3_000)
    later = MemberId("a", 2)
    twin = group.add(Member(later, boot_view([later]), "g", config, 9))
    group.cut({1, 2, twin}, {0})
    group.pump(2_000)
    group.cut()
    group.pump(5_000)
    return group, twin


def contests(group: Any, i: int) -> list[MemberId | None]:
    return [e.rival for e in group.seen[i] if isinstance(e, NameContested)]


def test_a_member_that_was_replaced_stays_alone_and_says_so(mesh: Build) -> None:
    group, twin = replaced(mesh, lan())
    later = MemberId("a", 2)
    assert not all_of(group, Stopped)
    assert contests(group, 0) == [later]
    assert group.views(0)[-1] == "a"
    assert group.members[1].view.members == group.members[twin].view.members == (later, B, C)
    views = [len(group.views(i)) for i in range(4)]
    group.pump(60_000)
    assert [len(group.views(i)) for i in range(4)] == views, "nobody installs needless views"
    assert contests(group, 0) == [later], "one report is enough"


def test_it_works_alone_meanwhile(mesh: Build) -> None:
    group, _ = replaced(mesh, lan())
    group.submit(0, b"alone", service=Service.SAFE)
    group.pump(500)
    assert group.bodies(0)[-1] == b"alone"
    assert b"alone" not in group.bodies(1)


def test_it_returns_when_its_name_is_free(mesh: Build) -> None:
    group, twin = replaced(mesh, lan())
    group.crash(twin)
    group.pump(FREE_MS + 5_000)
    assert contests(group, 0) == [MemberId("a", 2), None]
    assert group.members[0].view.members == (A, B, C)
    group.submit(0, b"back", service=Service.SAFE)
    group.pump(200)
    assert [group.bodies(i)[-1] for i in range(3)] == [b"back"] * 3


def test_it_claims_its_name_at_a_bounded_rate(mesh: Build) -> None:
    group, _ = replaced(mesh, lan())
    before = len(group.seen[0])
    group.pump(60_000)
    sent = [p for e in group.seen[0][before:] if isinstance(e, Transmit) for p in e.packets]
    claims = [p for p in map(codec_of(lan()).decode, sent) if isinstance(p, NameClaimed)]
    others = [p for p in map(codec_of(lan()).decode, sent) if isinstance(p, Hello | JoinAttempt)]
    assert 50 <= len(claims) <= 62
    assert not others, "it looks for nobody"


def test_it_can_leave(mesh: Build) -> None:
    group, _ = replaced(mesh, lan())
    group.step(0, LeaveRequest())
    group.pump(5_000)
    assert [e.reason for e in group.seen[0] if isinstance(e, Stopped)] == ["left"]


@pytest.mark.parametrize(
    "config", [lan(trusted=True), lan(network="mesh", peers=("h:1",), tls=SharedKey("key"))]
)
def test_it_stops_where_packets_come_from_members_only(mesh: Build, config: Config) -> None:
    group, twin = replaced(mesh, config)
    later = MemberId("a", 2)
    assert [e.reason for e in group.seen[0] if isinstance(e, Stopped)] == ["name-in-use"]
    assert not [e for e in group.seen[twin] if isinstance(e, Stopped)]
    assert group.members[1].view.members == group.members[twin].view.members == (later, B, C)


def test_a_process_that_no_group_has_accepted_stops(mesh: Build) -> None:
    group = mesh("ab")
    group.pump(300)
    again = MemberId("a", 2)
    second = group.add(Member(again, boot_view([again]), "g", lan(), 9))
    group.pump(3_000)
    assert [e.reason for e in group.seen[second] if isinstance(e, Stopped)] == ["name-in-use"]
