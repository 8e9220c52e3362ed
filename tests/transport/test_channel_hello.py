"""Who may have a channel, and which of two stays."""

from __future__ import annotations

import msgspec
import pytest

from phalanx.config import Config, mesh
from phalanx.core.ids import MemberId
from phalanx.core.wire.packet_codec import PacketCodec
from phalanx.core.wire.packets import Fragment, Relay
from phalanx.core.wire.shared_settings import shared_digest
from phalanx.transport.channel_hello import (
    CHANNEL_VERSION,
    MAGIC,
    ONCE_NS,
    PEERS_MAX,
    ChannelHello,
    HelloRefusal,
    ToldPeer,
    decode_hello,
    decode_peers,
    decode_refusal,
    encode_hello,
    encode_peers,
    encode_refusal,
    judge_hello,
    newer_stays,
    own_hello,
    packet_prefixes,
)

CONFIG = mesh("127.0.0.1:7117")


def hello(name: str = "ada", config: Config = CONFIG, group: str = "g") -> ChannelHello:
    return own_hello(config, group, MemberId(name, 5), name.encode()[:8].ljust(8), 7117)


def test_a_hello_survives_the_wire() -> None:
    assert decode_hello(encode_hello(hello())) == hello()


def test_a_member_of_the_same_group_is_admitted() -> None:
    assert judge_hello(hello("ada"), hello("bea"), CONFIG) is None


@pytest.mark.parametrize(
    ("theirs", "reason", "text"),
    [
        (hello("bea", mesh("127.0.0.1:7117", cluster="other")), "cluster", "another cluster"),
        (hello("bea", group="h"), "group", "another group"),
        (
            hello("bea", mesh("127.0.0.1:7117", mode="hold")),
            "settings",
            "mode is 'hold' there, 'flow' here",
        ),
        (hello("ada"), "self", "it is this member"),
    ],
)
def test_a_hello_of_somebody_else_is_refused_with_a_reason(
    theirs: ChannelHello, reason: str, text: str
) -> None:
    refusal = judge_hello(hello("ada"), theirs, CONFIG)
    assert refusal is not None
    assert refusal.reason == reason
    assert text in refusal.text


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "malformed"),
        (b"GET / HTTP/1.1", "malformed"),
        (MAGIC, "version"),
        (MAGIC + bytes([CHANNEL_VERSION + 1]) + encode_hello(hello())[5:], "version"),
        (encode_hello(hello())[:-1], "malformed"),
        (encode_hello(hello()) + b"x", "malformed"),
        (encode_hello(msgspec.structs.replace(hello(), name="a\nb")), "malformed"),
        (encode_hello(msgspec.structs.replace(hello(), port=0)), "malformed"),
        (encode_hello(msgspec.structs.replace(hello(), name="x" * 200)), "malformed"),
    ],
)
def test_nothing_else_passes_for_a_hello(data: bytes, reason: str) -> None:
    refusal = decode_hello(data)
    assert isinstance(refusal, HelloRefusal)
    assert refusal.reason == reason


def test_refusals_and_reports_survive_the_wire_and_damage() -> None:
    refusal = HelloRefusal("cluster", "another")
    assert decode_refusal(encode_refusal(refusal)) == refusal
    assert decode_refusal(b"\xff").reason == "malformed"
    peers = [ToldPeer("bea", "10.0.0.2", 7117)]
    assert decode_peers(encode_peers(peers)) == peers
    assert decode_peers(b"\xff") is None
    assert decode_peers(encode_peers(peers * (PEERS_MAX + 1))) is None


def test_of_two_channels_opened_at_once_both_ends_keep_that_of_the_lower_name() -> None:
    ada, bea = hello("ada"), hello("bea")
    for older_is_adas in (True, False):
        at_ada = newer_stays(ada, bea, older_is_adas, not older_is_adas, 0)
        at_bea = newer_stays(bea, ada, not older_is_adas, older_is_adas, 0)
        # ada's channel stays: the newer one exactly if the older is bea's.
        assert at_ada is at_bea is (not older_is_adas)


def test_a_channel_that_was_up_gives_way_to_the_next_call() -> None:
    ada, bea = hello("ada"), hello("bea")
    assert newer_stays(ada, bea, True, False, ONCE_NS)
    assert newer_stays(ada, bea, False, False, 0)
    assert newer_stays(ada, bea, True, True, 0)


def test_all_packets_of_members_begin_with_the_prefixes_of_their_group() -> None:
    config = mesh("127.0.0.1:1")
    prefixes = packet_prefixes(config, "orders")
    codec = PacketCodec(config.cluster, "orders", shared_digest(config))
    fragment = codec.encode_fragment(Fragment(b"piece", b"8 bytes.", 1, 2, 3, 0, 1, 1))
    control = codec.encode(Relay(*(MemberId(name) for name in ("ada", "bea", "cyd"))))
    assert fragment.startswith(prefixes)
    assert control.startswith(prefixes)
    for other in (
        packet_prefixes(config, "others"),
        packet_prefixes(mesh("127.0.0.1:1", cluster="x"), "orders"),
        packet_prefixes(mesh("127.0.0.1:1", mode="hold"), "orders"),
    ):
        assert not fragment.startswith(other)
