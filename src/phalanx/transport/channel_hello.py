"""The handshake of a channel: both ends introduce themselves before any packet is exchanged.

The first record of each end is a hello: magic and version, then one msgpack array. It names
cluster, group and the settings that must agree by their digests, as packets do, and the member with
its incarnation and its port. The end that was called answers with its own hello or with a refusal.
Later records report the peers that a member is connected to. Pure.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from phalanx.config import Config
from phalanx.core.ids import Counter, MemberId, Name, digest_of
from phalanx.core.wire.packet_codec import HEADER_BYTES, VERSION, PacketCodec
from phalanx.core.wire.packets import Fragment, Relay
from phalanx.core.wire.shared_settings import differences, shared_digest

MAGIC = b"PHXM"
CHANNEL_VERSION = 1
CHECK_BYTES = 4
"""The end of a packet's header, its checksum."""
PEERS_MAX = 128
"""Peers that one report lists."""

Digest = Annotated[bytes, msgspec.Meta(min_length=1, max_length=16)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65_535)]
Host = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class ToldPeer(msgspec.Struct, frozen=True, array_like=True):
    """A connected peer, as one member reports it to another."""

    name: Name
    host: Host
    port: Port


ToldPeers = Annotated[list[ToldPeer], msgspec.Meta(max_length=PEERS_MAX)]


class ChannelHello(msgspec.Struct, frozen=True, array_like=True):
    """What a member says about itself when a channel opens."""

    cluster: Digest
    group: Digest
    settings: Digest
    name: Name
    incarnation: Counter
    nonce: Digest
    """Drawn at the start of the process, so that a member recognises itself and its namesakes."""
    port: Port
    """Where it accepts channels."""

    @property
    def key(self) -> tuple[str, int, bytes]:
        """Names this process; orders the two ends of a channel."""
        return self.name, self.incarnation, self.nonce


class HelloRefusal(msgspec.Struct, frozen=True, array_like=True):
    """Why a hello was refused."""

    reason: Annotated[str, msgspec.Meta(max_length=32)]
    text: Annotated[str, msgspec.Meta(max_length=512)] = ""


_encode = msgspec.msgpack.Encoder().encode
_decode_hello = msgspec.msgpack.Decoder(ChannelHello).decode
_decode_refusal = msgspec.msgpack.Decoder(HelloRefusal).decode
_decode_peers = msgspec.msgpack.Decoder(ToldPeers).decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError, ValueError)
_VERSIONS = bytes([CHANNEL_VERSION, VERSION])


def own_hello(config: Config, group: str, me: MemberId, nonce: bytes, port: int) -> ChannelHello:
    """The hello of this member."""
    return ChannelHello(
        cluster=digest_of(b"cluster", config.cluster.encode()),
        group=digest_of(b"group", config.cluster.encode(), group.encode()),
        settings=shared_digest(config),
        name=me.name,
        incarnation=me.incarnation,
        nonce=nonce,
        port=port,
    )


def packet_prefixes(config: Config, group: str) -> tuple[bytes, ...]:
    """What all packets between members of this group begin with: one for each kind of packet. Peers
    with another version, cluster, group or settings are not admitted."""
    codec = PacketCodec(config.cluster, group, shared_digest(config))
    somebody = MemberId("a")
    fragment = codec.encode_fragment(Fragment(b"", bytes(8), 0, 0, 1, 0, 1, 0))
    control = codec.encode(Relay(somebody, somebody, somebody))
    return tuple(packet[: HEADER_BYTES - CHECK_BYTES] for packet in (fragment, control))


def encode_hello(hello: ChannelHello) -> bytes:
    return MAGIC + _VERSIONS + _encode(hello)


def decode_hello(data: bytes) -> ChannelHello | HelloRefusal:
    """The hello, or why it cannot be used. Never raises."""
    if data[: len(MAGIC)] != MAGIC:
        return HelloRefusal("malformed", "it is not a member of a mesh")
    versions = data[len(MAGIC) : len(MAGIC) + len(_VERSIONS)]
    if versions != _VERSIONS:
        return HelloRefusal("version", f"versions {list(versions)} there, {list(_VERSIONS)} here")
    try:
        hello = _decode_hello(data[len(MAGIC) + len(_VERSIONS) :])
        MemberId(hello.name, hello.incarnation)  # checks the characters of the name
    except _UNREADABLE:
        return HelloRefusal("malformed", "its hello cannot be decoded")
    return hello


def judge_hello(own: ChannelHello, theirs: ChannelHello, config: Config) -> HelloRefusal | None:
    """Why this member forms no channel with that one; None if it does."""
    if theirs.cluster != own.cluster:
        return HelloRefusal("cluster", "it is a member of another cluster")
    if theirs.group != own.group:
        return HelloRefusal("group", "it is a member of another group")
    if theirs.settings != own.settings:
        named = [
            f"{name} is {value!r} there, {str(getattr(config, name))!r} here"
            for name, value in differences(config, theirs.settings)
        ]
        return HelloRefusal("settings", "; ".join(named) or "settings unknown to this release")
    if theirs.nonce == own.nonce:
        return HelloRefusal("self", "it is this member")
    return None


def encode_refusal(refusal: HelloRefusal) -> bytes:
    return _encode(refusal)


def decode_refusal(data: bytes) -> HelloRefusal:
    """The refusal of a peer; one that cannot be decoded is malformed."""
    try:
        return _decode_refusal(data)
    except _UNREADABLE:
        return HelloRefusal("malformed", "its refusal cannot be decoded")


def encode_peers(peers: list[ToldPeer]) -> bytes:
    return _encode(peers)


def decode_peers(data: bytes) -> list[ToldPeer] | None:
    """The peers that another member reports; None if they cannot be decoded."""
    try:
        return _decode_peers(data)
    except _UNREADABLE:
        return None


def newer_stays(
    own: ChannelHello, theirs: ChannelHello, older_is_ours: bool, newer_is_ours: bool, age_ns: int
) -> bool:
    """Which of two channels between the same members stays; both ends decide alike. Of two that
    were opened at once, the one that the lower name opened stays. An older one that has been up for
    ONCE_NS was not opened at once: the peer opens another only because it lost that one."""
    if older_is_ours == newer_is_ours or age_ns >= ONCE_NS:
        return True
    return newer_is_ours == (own.key < theirs.key)


ONCE_NS = 1_000_000_000
