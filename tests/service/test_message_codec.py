"""The codec of the service: whole messages come back, everything else is counted and refused."""

from __future__ import annotations

import random
from typing import get_args
from zlib import compress, crc32

import msgspec
import pytest
from msgspec.structs import replace

from phalanx.core.ids import MemberId
from phalanx.service import message_codec
from phalanx.service.entries import AddServer, ChangeId, PutGroup, SetChange
from phalanx.service.group_views import created, next_view
from phalanx.service.message_codec import MessageCodec
from phalanx.service.messages import (
    Commit,
    Initiate,
    Monitor,
    ServiceEnvelope,
    ServiceMessage,
    Unite,
)
from phalanx.service.set_state import founded, vid_after
from phalanx.service.values import GroupRecord, GroupView, ServiceGroup, Vid

A, B = MemberId("a"), MemberId("b", 2)
BASE = founded("top", (A, B), None)


def packed(codec: MessageCodec, envelope: ServiceEnvelope) -> bytes:
    data = codec.encode(envelope)
    assert data is not None
    return data


def a_commit() -> Commit:
    view = GroupView(Vid(1, b"12345678"), (), ("m1/1",), {"m1/1": None}, "create")
    group = ServiceGroup("u1", "x", "top", view, admitted={"m1": 1})
    entries = (AddServer(MemberId("c")), PutGroup("u1", GroupRecord(own=group), "create"))
    id_ = ChangeId(A, 1)
    members = (A, B, MemberId("c"))
    vid = vid_after((BASE.vid,), id_, entries, members)
    return Commit("top", (BASE.vid,), id_, entries, members, vid, state=BASE)


@pytest.mark.parametrize(
    "message",
    [
        a_commit(),
        Monitor("top", BASE.vid, BASE.vid, 7, (B,)),
        Initiate("top", BASE.vid, SetChange(ChangeId(A, 1), 3, (AddServer(B),))),
    ],
)
def test_a_message_comes_back_as_it_was(message: ServiceMessage) -> None:
    codec = MessageCodec("test")
    envelope = ServiceEnvelope(A, message)
    assert codec.decode(packed(codec, envelope)) == envelope
    assert codec.refused == {}


def test_every_message_has_a_tag_of_its_own() -> None:
    kinds = get_args(ServiceMessage)
    tags = [kind.__struct_config__.tag for kind in kinds]
    assert len(kinds) > 20
    assert len(set(tags)) == len(tags)


def test_what_is_no_message_of_this_cluster_is_counted_and_refused() -> None:
    codec = MessageCodec("test")
    whole = packed(codec, ServiceEnvelope(A, Monitor("top", BASE.vid, BASE.vid)))
    other = packed(MessageCodec("other"), ServiceEnvelope(A, Monitor("top", BASE.vid, BASE.vid)))
    for nonsense in (b"", b"\x00" + whole[1:], other, whole[:-1], whole[:-1] + b"\xff"):
        assert codec.decode(nonsense) is None
    assert codec.refused == {"short": 1, "version": 1, "cluster": 1, "damaged": 2}


def test_a_message_that_is_too_large_is_refused_before_it_is_read() -> None:
    codec = MessageCodec("test", bytes_max=64)
    assert codec.decode(bytes(65)) is None
    assert codec.refused == {"oversized": 1}


def test_well_packed_nonsense_is_refused() -> None:
    codec = MessageCodec("test")
    whole = packed(codec, ServiceEnvelope(A, Monitor("top", BASE.vid, BASE.vid)))
    for body in (b"\xc0", b"\x92" * 200, msgspec.msgpack.encode([["a", -1], ["monitor"]])):
        from zlib import crc32

        header = whole[:5] + crc32(body).to_bytes(4, "little")
        assert codec.decode(header + body) is None
    assert codec.refused == {"malformed": 3}


# ------------------------------------------------------------------ long messages


def a_state(views: int, attribute: str) -> ServiceEnvelope:
    """The state of a set with one group and a history of so many views."""
    group = created("u1", "x", "top", b"context")
    for n in range(views):
        group = next_view(group, (*group.view.members, f"a-host-of-the-lan-{n}/1"), "join", b"c")
    group = replace(group, attributes={m: {"k": attribute} for m in group.view.members})
    state = replace(BASE, groups={"u1": GroupRecord(own=group)})
    return ServiceEnvelope(A, Unite("top", BASE.vid, BASE.vid, state, None))


def test_a_long_message_is_compressed() -> None:
    codec, envelope = MessageCodec("test"), a_state(200, "")
    plain = len(msgspec.msgpack.encode(envelope))
    data = packed(codec, envelope)
    assert plain > 500_000 > 100_000 > len(data)
    assert codec.decode(data) == envelope


def test_a_message_that_nobody_would_take_is_counted_and_not_sent() -> None:
    codec = MessageCodec("test", bytes_max=20_000)
    noise = random.Random(1).randbytes(30_000).hex()
    assert codec.encode(a_state(1, noise)) is None
    assert codec.refused == {"unsendable": 1}


def test_what_is_not_the_whole_of_one_compressed_text_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codec = MessageCodec("test")
    head, body = (data := packed(codec, a_state(200, "")))[:9], data[9:]
    assert head[0] & 0x80
    for wrong in (body[:-1], body + b"x", b"x" + body, b"", compress(b"no message")):
        assert codec.decode(head[:5] + crc32(wrong).to_bytes(4, "little") + wrong) is None
    monkeypatch.setattr(message_codec, "PLAIN_BYTES_MAX", 100_000)
    assert codec.decode(data) is None, "a text that is longer than any message"
    assert codec.refused == {"malformed": 6}
