"""Checks from outside, by listening, that the members of a group have the same settings.

One member of each view sends HELLO about four times a second, and its packets carry a digest of the
settings that must agree. Members that differ form views of their own, so each view is heard.
"""

from __future__ import annotations

import select
from time import monotonic

from phalanx.config import Config
from phalanx.core.ids import MemberId
from phalanx.core.wire.packet_codec import PacketCodec
from phalanx.core.wire.packets import Hello, JoinAttempt, NameClaimed, Refusal
from phalanx.core.wire.shared_settings import COMBINATIONS, shared_digest
from phalanx.errors import ConfigurationError, NetworkError
from phalanx.transport.diagnostics import Diagnosis
from phalanx.transport.udp import open_udp

LISTEN_SECONDS = 2.0
NAMED_MAX = 8


def group_settings(config: Config, group: str, seconds: float = LISTEN_SECONDS) -> Diagnosis:
    """Compare the settings of the members of a group that can be heard from this machine."""
    check = "settings"
    try:
        heard, older = _listen(config, group, seconds)
    except (NetworkError, ConfigurationError) as error:
        return Diagnosis(check, "note", f"not checked: {error}")
    if not heard:
        text = f"no member of group {group!r} was heard in {seconds:g} s"
        if older:
            text += f"; {older} packets were of another protocol version"
        return Diagnosis(
            check, "note", text, "run this where its members run, and give its cluster"
        )
    if len(heard) == 1:
        ((digest, members),) = heard.items()
        return Diagnosis(check, "ok", f"{_described(digest)} at {_names(members)}")
    text = "; ".join(f"{_described(digest)} at {_names(heard[digest])}" for digest in sorted(heard))
    remedy = "give all members the same settings: those that differ form no view together"
    return Diagnosis(check, "problem", f"members of group {group!r} differ: {text}", remedy)


def _listen(config: Config, group: str, seconds: float) -> tuple[dict[bytes, set[MemberId]], int]:
    """The members heard, by the digest of their settings, and the number of packets of another
    protocol version."""
    ours = shared_digest(config)
    codec = PacketCodec(config.cluster, group, ours)
    heard: dict[bytes, set[MemberId]] = {}
    older = 0
    transport = open_udp(config, group)
    try:
        end = monotonic() + seconds
        while (left := end - monotonic()) > 0:
            select.select([transport], [], [], left)
            for packet in map(codec.decode, transport.receive(0)):
                match packet:
                    case (
                        Hello(sender=member)
                        | JoinAttempt(sender=member)
                        | NameClaimed(member=member)
                    ):
                        heard.setdefault(ours, set()).add(member)
                    case Refusal("settings", peer, settings) if peer is not None:
                        heard.setdefault(settings, set()).add(peer)
                    case Refusal("version"):
                        older += 1
    finally:
        transport.close()
    return heard, older


def _described(digest: bytes) -> str:
    values = COMBINATIONS.get(digest)
    if values is None:
        return "settings unknown to this release"
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _names(members: set[MemberId]) -> str:
    named = [str(member) for member in sorted(members)]
    more = f" and {len(named) - NAMED_MAX} more" if len(named) > NAMED_MAX else ""
    return ", ".join(named[:NAMED_MAX]) + more
