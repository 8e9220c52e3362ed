"""Settings that must agree: members that differ in one never come into one view, and each is told
who the other is and what differs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from phalanx.config import Config, Mode, Order, lan
from phalanx.core.effects import Effect, Refused, SettingsDiffer, ViewInstalled
from phalanx.core.ids import MemberId, ViewId, boot_view
from phalanx.core.member.member import Member
from phalanx.core.wire.packet_codec import PacketCodec
from phalanx.core.wire.packets import Fragment, Hello, NameClaimed, NameHeld, Refusal
from phalanx.core.wire.settings_mismatch import PEERS_MAX, REPEAT_NS, SettingsMismatches
from phalanx.core.wire.shared_settings import COMBINATIONS, SHARED, differences, shared_digest

Build = Callable[..., Any]
Mesh = Any
OTHERS = {"order": "all-ack", "early": True, "mode": "flow"}
ADA, BOB = MemberId("ada"), MemberId("bob")
NETWORK = Path(__file__).parents[3] / "docs" / "network.md"


def group_of(mesh: Build, settings: list[dict[str, Any]]) -> Mesh:
    """Members that start alone, each with its own settings."""
    group = mesh("a", alone=True, config=lan(**settings[0]))
    for i, own in enumerate(settings[1:], 1):
        me = MemberId("abcdefgh"[i])
        group.add(Member(me, boot_view([me]), "g", lan(**own), 50 + i))
    return group


def members_seen(effects: list[Effect]) -> set[str]:
    return {
        member.name
        for effect in effects
        if isinstance(effect, ViewInstalled)
        for member in effect.view.members
    }


def told(effects: list[Effect]) -> list[SettingsDiffer]:
    return [effect for effect in effects if isinstance(effect, SettingsDiffer)]


# ---------------------------------------------------------------------------- which they are


def test_every_setting_stands_once_in_the_table_of_what_must_agree() -> None:
    table = NETWORK.read_text(encoding="utf-8").partition("## Settings that must agree")[2]
    rows = [line.split("|")[1:3] for line in table.partition("\n## ")[0].splitlines()]
    rows = [row for row in rows if len(row) == 2 and "`" in row[0]]
    listed = [(name, row[1].strip()) for row in rows for name in re.findall(r"`(\w+)`", row[0])]
    assert sorted(name for name, _ in listed) == sorted(Config.__struct_fields__)
    assert {name for name, must in listed if must == "yes"} == set(SHARED)
    assert {must for _, must in listed} == {"yes", "to meet", "no"}


def test_each_combination_of_shared_settings_has_a_digest_of_its_own() -> None:
    changed = {shared_digest(lan(**{name: value})) for name, value in OTHERS.items()}
    assert set(OTHERS) == set(SHARED)
    assert len(changed | {shared_digest(lan())}) == len(SHARED) + 1
    assert len(COMBINATIONS) == 8
    assert changed <= COMBINATIONS.keys()


def test_all_values_that_a_shared_setting_can_have_are_listed() -> None:
    assert SHARED["order"] == get_args(Order)
    assert SHARED["mode"] == get_args(Mode)
    for name, values in SHARED.items():
        assert all(shared_digest(lan(**{name: value})) in COMBINATIONS for value in values)


def test_other_settings_do_not_count() -> None:
    ours = msgspec.structs.asdict(lan())
    for name, value in ours.items():
        if name not in SHARED and type(value) is int:
            assert shared_digest(Config(**{**ours, name: value + 1})) == shared_digest(lan())


def test_differences_are_named_with_the_values_of_the_other() -> None:
    theirs = lan(order="all-ack", mode="flow")
    assert differences(lan(), shared_digest(theirs)) == (("order", "all-ack"), ("mode", "flow"))
    assert differences(lan(), shared_digest(lan(early=True))) == (("early", "True"),)
    assert differences(lan(), b"what") == ()


# ---------------------------------------------------------------------------- one view


@pytest.mark.parametrize(("name", "value"), OTHERS.items())
def test_members_that_differ_in_a_shared_setting_are_never_in_one_view(
    mesh: Build, name: str, value: object
) -> None:
    group = group_of(mesh, [{}, {name: value}, {}, {name: value}])
    group.pump(5000)
    assert [members_seen(effects) for effects in group.seen] == [
        {"a", "c"},
        {"b", "d"},
        {"a", "c"},
        {"b", "d"},
    ]
    for i, others in enumerate(["bd", "ac", "bd", "ac"]):
        assert {differ.peer.name for differ in told(group.seen[i])} == set(others)
        assert {n for differ in told(group.seen[i]) for n, _ in differ.theirs} == {name}
        assert Refused in {type(e) for e in group.seen[i] if getattr(e, "reason", "") == "settings"}


def test_a_member_that_comes_back_with_other_settings_stays_out_of_the_view_it_was_in(
    mesh: Build,
) -> None:
    """Its former life is known to all; packets of that life may still be on their way."""
    group = group_of(mesh, [{}, {}, {}])
    late: list[bytes] = []

    def carry(i: int, j: int, packet: bytes) -> list[bytes]:
        if i == 2:
            late.append(packet)
        return [packet]

    group.carry = carry
    group.pump(3000)
    assert group.views(0)[-1] == "abc"
    group.crash(2)
    again = MemberId("c", 2)
    second = group.add(Member(again, boot_view([again]), "g", lan(order="all-ack"), 9))
    for i in (0, 1, second):
        group.inboxes[i] += late[-200:]
    group.pump(5000)
    assert group.views(0)[-1] == group.views(1)[-1] == "ab"
    assert group.views(second) == ["c"]
    assert {differ.peer for differ in told(group.seen[0])} == {again}


def test_equal_settings_are_not_reported(mesh: Build) -> None:
    group = group_of(mesh, [{"hello_ns": 100_000_000}, {}])
    group.pump(2000)
    assert group.views(0)[-1] == "ab"
    assert not told(group.seen[0])


# ---------------------------------------------------------------------------- packets


def test_a_packet_of_other_settings_is_refused_with_the_name_of_its_sender() -> None:
    theirs = shared_digest(lan(order="all-ack"))
    here, there = PacketCodec("c", "g"), PacketCodec("c", "g", theirs)
    view = ViewId(0, 0, bytes(8))
    for packet in (Hello(ADA, 1, view, ()), NameClaimed(ADA, 7)):
        assert here.decode(there.encode(packet)) == Refusal("settings", ADA, theirs)
    assert here.decode(there.encode(NameHeld(ADA, 7))) == Refusal("settings")
    fragment = Fragment(b"piece", bytes(8), 0, 0, 1, 0, 1, 0)
    assert here.decode(there.encode_fragment(fragment)) == Refusal("settings")
    assert PacketCodec("c", "g", theirs).decode(there.encode(NameClaimed(ADA, 7))) == NameClaimed(
        ADA, 7
    )


def test_no_damaged_packet_is_taken_for_one_of_other_settings() -> None:
    codec = PacketCodec("c", "g")
    packet = codec.encode(NameClaimed(ADA, 7))
    reasons = set()
    for bit in range(len(packet) * 8):
        data = bytearray(packet)
        data[bit // 8] ^= 1 << bit % 8
        refusal = codec.decode(bytes(data))
        assert isinstance(refusal, Refusal)
        assert refusal.peer is None
        reasons.add(refusal.reason)
    assert "settings" not in reasons


# ---------------------------------------------------------------------------- reports


def test_a_peer_is_reported_once_a_minute() -> None:
    mismatches = SettingsMismatches(lan())
    refusal = Refusal("settings", ADA, shared_digest(lan(mode="flow")))
    assert mismatches.heard(0, refusal) == SettingsDiffer(ADA, (("mode", "flow"),))
    assert mismatches.heard(REPEAT_NS - 1, refusal) is None
    assert mismatches.heard(1, Refusal("settings", BOB, refusal.settings)) is not None
    assert mismatches.heard(REPEAT_NS, refusal) is not None
    assert mismatches.heard(2 * REPEAT_NS, Refusal("settings")) is None, "nobody is named"


def test_a_peer_that_changes_its_settings_is_reported_again() -> None:
    mismatches = SettingsMismatches(lan())
    for name, value in OTHERS.items():
        refusal = Refusal("settings", ADA, shared_digest(lan(**{name: value})))
        assert mismatches.heard(0, refusal) is not None


def test_invented_peers_make_a_bounded_number_of_reports() -> None:
    mismatches, digest = SettingsMismatches(lan()), shared_digest(lan(mode="flow"))
    peers = (MemberId(f"m{i}") for i in itertools.count())
    heard = [mismatches.heard(5, Refusal("settings", next(peers), digest)) for _ in range(500)]
    assert sum(one is not None for one in heard) == PEERS_MAX
    assert mismatches.heard(5 + REPEAT_NS, Refusal("settings", ADA, digest)) is not None
