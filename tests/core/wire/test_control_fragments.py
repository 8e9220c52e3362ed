"""Unnumbered packets that no datagram holds."""

from __future__ import annotations

import random

from phalanx.config import lan
from phalanx.core.ids import MemberId, boot_view, digest_of
from phalanx.core.wire.control_fragments import BEGUN_MAX, BYTES_MAX, ControlFragmenter
from phalanx.core.wire.frames import Component
from phalanx.core.wire.packet_codec import PacketCodec
from phalanx.core.wire.packets import ControlFragment, JoinAttempt, Refusal, Relay

CODEC = PacketCodec("phalanx", "g")
CROWD = tuple(MemberId(f"member-{k:03}") for k in range(300))
HERE = boot_view(CROWD)
LARGE = JoinAttempt(CROWD[0], 1, Component(HERE.id, HERE.members, HERE.context), ())

WRONG = Refusal("malformed")


def made() -> ControlFragmenter:
    return ControlFragmenter(CODEC, lan())


def parts_of(packets: list[bytes]) -> list[ControlFragment]:
    parts = [CODEC.decode(data) for data in packets]
    assert all(isinstance(part, ControlFragment) for part in parts)
    return [part for part in parts if isinstance(part, ControlFragment)]


def test_what_fits_a_datagram_goes_as_it_is() -> None:
    small = Relay(*CROWD[:3])
    assert made().packets(small) == [CODEC.encode(small)]


def test_what_does_not_fit_is_put_together_in_any_order() -> None:
    packets = made().packets(LARGE)
    assert len(packets) > 2
    assert max(map(len, packets)) <= lan().datagram_bytes_max
    parts = parts_of(packets)
    for seed in range(5):
        random.Random(seed).shuffle(parts)
        here = made()
        assert [here.add(part) for part in [*parts[:-1], parts[0]]] == [None] * len(parts)
        assert here.add(parts[-1]) == LARGE
        assert here._begun == {}
        assert here._bytes == 0


def test_parts_that_do_not_make_what_they_name_are_nothing() -> None:
    parts = parts_of(made().packets(LARGE))
    here = made()
    for part in parts[:-1]:
        here.add(part)
    last = parts[-1]
    assert (
        here.add(ControlFragment(last.whole, last.index, last.count, last.piece[:-1] + b"!"))
        == WRONG
    )
    assert here.add(ControlFragment(last.whole, 3, 2, b"x")) == WRONG
    assert here.add(ControlFragment(last.whole, 0, 2, b"")) == WRONG
    assert here._begun == {}


def test_a_parcel_in_a_parcel_is_nothing() -> None:
    inner = made().packets(LARGE)[0]
    first, second = inner[:500], inner[500:]
    name = digest_of(b"parcel", inner)
    here = made()
    assert here.add(ControlFragment(name, 0, 2, first)) is None
    assert here.add(ControlFragment(name, 1, 2, second)) == WRONG


def test_parts_of_nothing_are_forgotten() -> None:
    here = made()
    for k in range(10 * BEGUN_MAX):
        here.add(ControlFragment(k.to_bytes(8, "big"), 0, 900, bytes(60_000 if k % 2 else 1)))
        assert len(here._begun) <= BEGUN_MAX
        assert here._bytes <= BYTES_MAX
