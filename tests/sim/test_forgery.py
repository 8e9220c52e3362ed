"""Forged packets: well formed, of every kind there is, and never in the name of a member."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any, get_args

import msgspec
import pytest

from phalanx.core import frames
from phalanx.core.codec import Codec
from phalanx.core.frames import Fragment, Refusal
from phalanx.core.framing import decode_frame
from phalanx.core.ids import MemberId, boot_view, table_digest
from phalanx.sim.forgery import Forger
from phalanx.sim.garbage import ARCHIVE_MAX, Archive

VIEW = boot_view([MemberId(name) for name in ("ada", "bea", "cyd")])


@pytest.fixture(scope="module")
def packets() -> list[Any]:
    forger = Forger(Random("test"), "phalanx", "sim", VIEW)
    codec = Codec("phalanx", "sim")
    return [codec.decode(forger.packet()) for _ in range(3000)]


def test_every_kind_of_packet_is_forged_so_that_it_can_be_read(packets: list[Any]) -> None:
    kinds = Counter(type(packet) for packet in packets)
    assert [k for k in (*get_args(frames.Plain), Fragment) if kinds[k] < 20] == []
    assert {p.reason for p in packets if isinstance(p, Refusal)} == {"malformed"}
    assert kinds[Refusal] < 600


def test_frames_hold_control_messages_that_can_be_read(packets: list[Any]) -> None:
    forged = [p for p in packets if isinstance(p, Fragment)]
    read = [decode_frame(p.sender, p.number, p.piece, 0, p.table, 9) for p in forged]
    assert sum(not isinstance(frame, Refusal) for frame in read) > 200


def test_nobody_speaks_in_the_name_of_a_member(packets: list[Any]) -> None:
    for packet in packets:
        for field in ("sender", "member"):
            speaker = getattr(packet, field, None)
            if isinstance(speaker, MemberId):
                assert speaker.name not in ("ada", "bea", "cyd"), packet
    tables = {p.table for p in packets if isinstance(p, Fragment)}
    assert table_digest(VIEW.members) not in tables


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
    archive = Archive()
    for n in range(100_000):
        archive.append(n.to_bytes(4, "big"))
    times = [int.from_bytes(packet, "big") for packet in archive.kept]
    assert ARCHIVE_MAX // 4 <= len(times) < ARCHIVE_MAX
    assert times[0] == 0
    assert times[-1] > 99_000
    assert len({b - a for a, b in pairwise(times)}) == 1
