"""Messages between a client and its interface, in frames on a stream.

    length u32, big-endian | msgpack of one message

A client names itself by a token that it keeps while it lives, so that it can come back to a
restarted interface. Each member of a client gets its notices in the order of their numbers; the
client acknowledges them, and after a reconnection the interface repeats those that were not.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from phalanx.service.calls.call_errors import TooLarge

CLIENT_VERSION = 1
FRAME_BYTES_MAX = 1 << 20

Token = Annotated[str, msgspec.Meta(min_length=8, max_length=64)]
Text = Annotated[str, msgspec.Meta(max_length=1024)]
Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 62) - 1)]


class ClientHello(msgspec.Struct, frozen=True, array_like=True, tag="hello"):
    """The first message of a connection. `seen`: for each member of this client, the number of the
    last notice that the application has got."""

    version: int
    token: Token
    seen: dict[Text, Count] = {}


class ClientCall(msgspec.Struct, frozen=True, array_like=True, tag="call"):
    """A call. The same number again, also on another connection, is the same call."""

    number: Count
    call: Text
    arguments: dict[Text, Any]
    timeout_ms: Annotated[int, msgspec.Meta(ge=1, le=3_600_000)] = 10_000


class NoticesSeen(msgspec.Struct, frozen=True, array_like=True, tag="seen"):
    """The application has got all notices of a member up to this number."""

    member: Text
    number: Count


class ClientGoodbye(msgspec.Struct, frozen=True, array_like=True, tag="goodbye"):
    """The client ends: its members leave their groups."""


class InterfaceWelcome(msgspec.Struct, frozen=True, array_like=True, tag="welcome"):
    """The answer to `ClientHello`: the interface, and the members that it holds for the client."""

    version: int
    interface: Text
    members: tuple[Text, ...] = ()


class CallReply(msgspec.Struct, frozen=True, array_like=True, tag="reply"):
    """The result of a call, or the name and detail of its error."""

    number: Count
    error: Text = ""
    detail: Text = ""
    result: dict[Text, Any] = {}


NoticeKind = Literal["view", "excluded", "ended", "message"]


class MemberNotice(msgspec.Struct, frozen=True, array_like=True, tag="notice"):
    """A notification of one member: a new view, the end of its membership, or a message."""

    member: Text
    number: Count
    kind: NoticeKind
    uid: Text
    vid: Text = ""
    previous: Text = ""
    members: tuple[Text, ...] = ()
    cause: Text = ""
    sender: Text = ""
    body: bytes = b""


class ClientRefused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """The interface closes the connection, and why."""

    reason: Text


ToInterface = ClientHello | ClientCall | NoticesSeen | ClientGoodbye
ToClient = InterfaceWelcome | CallReply | MemberNotice | ClientRefused

_encode = msgspec.msgpack.Encoder().encode
_decode_to_interface = msgspec.msgpack.Decoder(ToInterface).decode
_decode_to_client = msgspec.msgpack.Decoder(ToClient).decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError, ValueError)


class BadFrame(Exception):
    """The other end of a stream has sent what is no message."""


def frame_of(message: ToInterface | ToClient) -> bytes:
    """The bytes of a message on the stream."""
    body = _encode(message)
    assert len(body) <= FRAME_BYTES_MAX, "a frame beyond its bound"
    return len(body).to_bytes(4, "big") + body


def reply_frame(reply: CallReply) -> bytes:
    """The bytes of a reply; `too-large` in place of a result that no frame can carry."""
    body = _encode(reply)
    if len(body) > FRAME_BYTES_MAX:
        detail = f"a result of {len(body)} bytes, at most {FRAME_BYTES_MAX}: ask for less at once"
        return frame_of(CallReply(reply.number, TooLarge.code, detail))
    return frame_of(reply)


def to_interface(body: bytes) -> ToInterface:
    """The message of a client. BadFrame if it is none."""
    try:
        message: ToInterface = _decode_to_interface(body)
    except _UNREADABLE as error:
        raise BadFrame(str(error)) from None
    return message


def to_client(body: bytes) -> ToClient:
    """The message of an interface. BadFrame if it is none."""
    try:
        message: ToClient = _decode_to_client(body)
    except _UNREADABLE as error:
        raise BadFrame(str(error)) from None
    return message


class FrameReader:
    """Cuts a stream into the bodies of its frames. BadFrame for one that is too long."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def take(self, data: bytes) -> list[bytes]:
        """The bodies that this part of the stream completes."""
        self._buffer += data
        out: list[bytes] = []
        while len(self._buffer) >= 4:
            length = int.from_bytes(self._buffer[:4], "big")
            if length > FRAME_BYTES_MAX:
                raise BadFrame(f"a frame of {length} bytes")
            if len(self._buffer) < 4 + length:
                break
            out.append(bytes(self._buffer[4 : 4 + length]))
            del self._buffer[: 4 + length]
        return out
