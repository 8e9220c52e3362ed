"""Frames between client and interface: whole, bounded, and refused when they are none."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.mserver.client_messages import (
    FRAME_BYTES_MAX,
    BadFrame,
    CallReply,
    ClientCall,
    ClientGoodbye,
    ClientHello,
    FrameReader,
    InterfaceWelcome,
    MemberNotice,
    NoticesSeen,
    ToClient,
    ToInterface,
    frame_of,
    to_client,
    to_interface,
)

UP: list[ToInterface] = [
    ClientHello(1, "token-of-a", {"h/1": 3}),
    ClientCall(7, "send_msg", {"group": "orders", "body": b"\x00\xff"}, 500),
    NoticesSeen("h/1", 4),
    ClientGoodbye(),
]
DOWN: list[ToClient] = [
    InterfaceWelcome(1, "h", ("h/1",)),
    CallReply(7, "denied", "send"),
    CallReply(8, result={"properties": {"tier": 1, "up": True}}),
    MemberNotice("h/1", 1, "view", "u", "1:ab", "", ("h/1",), "join"),
]


@pytest.mark.parametrize("size", [1, 3, 7, 10_000])
def test_messages_come_back_from_pieces_of_any_size(size: int) -> None:
    reader = FrameReader()
    stream = b"".join(frame_of(message) for message in UP)
    bodies = [b for at in range(0, len(stream), size) for b in reader.take(stream[at : at + size])]
    assert [to_interface(body) for body in bodies] == UP
    bodies = FrameReader().take(b"".join(frame_of(message) for message in DOWN))
    assert [to_client(body) for body in bodies] == DOWN


def test_a_frame_that_is_too_long_is_refused_before_it_is_read() -> None:
    with pytest.raises(BadFrame, match="a frame of"):
        FrameReader().take((FRAME_BYTES_MAX + 1).to_bytes(4, "big"))


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", b"\x91\xa5hello", frame_of(DOWN[0])[4:], b"\x93\xa4seen\xa1x\xff"]
)
def test_what_is_no_message_of_a_client_is_refused(body: bytes) -> None:
    with pytest.raises(BadFrame):
        to_interface(body)


@settings(deadline=None)
@given(st.binary(max_size=64))
def test_any_bytes_are_a_message_or_refused(body: bytes) -> None:
    for decode in (to_interface, to_client):
        try:
            decode(body)
        except BadFrame:
            continue
