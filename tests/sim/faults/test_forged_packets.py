"""Forged packets: well formed, of every kind there is, and never in the name of a member."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any, get_args

import msgspec
import pytest

from phalanx.core.ids import MemberId, boot_view
from phalanx.core.membership.announcement import sender_of, statement_of
from phalanx.core.wire import packets as wire
from phalanx.core.wire.frame_codec import decode_frame
from phalanx.core.wire.frames import Frame
from phalanx.core.wire.packet_codec import PacketCodec
from phalanx.core.wire.packets import Fragment, Refusal
from phalanx.sim.faults.corruption import ARCHIVE_MAX, PacketLog
from phalanx.sim.faults.forged_packets import PacketForger

VIEW = boot_view([MemberId(name) for name in ("ada", "bea", "cyd")])


@pytest.fixture(scope="module")
def packets() -> list[Any]:
    forger = PacketForger(Random("test"), PacketCodec("phalanx", "sim"), VIEW)
    codec = PacketCodec("phalanx", "sim")
    return [codec.decode(forger.packet()) for _ in range(3000)]


def test_every_kind_of_packet_is_forged_so_that_it_can_be_read(packets: list[Any]) -> None:
    kinds = Counter(type(packet) for packet in packets)
    assert [k for k in (*get_args(wire.ControlPacket), Fragment) if kinds[k] < 20] == []
    assert {p.reason for p in packets if isinstance(p, Refusal)} == {"malformed"}
    assert kinds[Refusal] < 600


def test_frames_hold_control_messages_that_can_be_read(packets: list[Any]) -> None:
    assert len(_read(packets)) > 200


def _read(packets: list[Any]) -> list[Frame]:
    forged = [p for p in packets if isinstance(p, Fragment)]
    read = [decode_frame(p.sender, p.number, p.piece, 0, p.table, 9) for p in forged]
    return [frame for frame in read if not isinstance(frame, Refusal)]


def test_forged_proposals_name_the_views_that_there_are(packets: list[Any]) -> None:
    """They leave members out and count others; some say so of this very view."""
    said = [statement_of(f, who) for f in _read(packets) if (who := sender_of(f)) is not None]
    proposals = [s.proposal for s in said if s.proposal is not None]
    assert len(proposals) > 100
    real = [p for p in proposals if VIEW.id in p.components]
    assert sum(bool(p.left_out) for p in real) > 20
    assert sum(VIEW.id in p.live for p in real) > 20


def test_nobody_speaks_in_the_name_of_a_member(packets: list[Any]) -> None:
    for packet in packets:
        for field in ("sender", "member"):
            speaker = getattr(packet, field, None)
            if isinstance(speaker, MemberId):
                assert speaker.name not in ("ada", "bea", "cyd"), packet
    senders = [sender_of(frame) for frame in _read(packets)]
    assert sum(sender is not None for sender in senders) > 300
    assert not {sender.name for sender in senders if sender} & {"ada", "bea", "cyd"}


def test_members_are_named_next_to_strangers(packets: list[Any]) -> None:
    texts = [str(msgspec.to_builtins(p)) for p in packets if not isinstance(p, Refusal)]
    assert sum("ada" in text for text in texts) > 100
    assert sum("mallory" in text for text in texts) > 300


def test_no_forged_view_is_one_that_was_installed(packets: list[Any]) -> None:
    views = [p.view for p in packets if hasattr(p, "view")]
    assert len(views) > 100
    assert VIEW.id not in views
    assert max(view.joins for view in views) == (1 << 32) - 1


def test_an_archive_keeps_packets_of_all_times_evenly() -> None:
    archive = PacketLog()
    for n in range(100_000):
        archive.append(n.to_bytes(4, "big"))
    times = [int.from_bytes(packet, "big") for packet in archive.kept]
    assert ARCHIVE_MAX // 4 <= len(times) < ARCHIVE_MAX
    assert times[0] == 0
    assert times[-1] > 99_000
    assert len({b - a for a, b in pairwise(times)}) == 1
