"""Whether the members of a group have the same settings: heard from outside, by listening.

A member says HELLO about four times a second for its view, and its packets name the settings that
must agree. Members that differ in one form views of their own, so each such view is heard.
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
    """What the members of a group that can be heard here have as settings that must agree."""
    check = "settings"
    try:
        heard, older = _listen(config, group, seconds)
    except (NetworkError, ConfigurationError) as error:
        return Diagnosis(check, "note", f"not checked: {error}")
    if not heard:
        told = f"no member of group {group!r} was heard in {seconds:g} s"
        if older:
            told += f"; {older} packets were of another protocol version"
        return Diagnosis(
            check, "note", told, "run this where its members run, and give its cluster"
        )
    if len(heard) == 1:
        ((digest, members),) = heard.items()
        return Diagnosis(check, "ok", f"{_described(digest)} at {_names(members)}")
    told = "; ".join(f"{_described(digest)} at {_names(heard[digest])}" for digest in sorted(heard))
    remedy = "give all members the same settings: those that differ form no view together"
    return Diagnosis(check, "problem", f"members of group {group!r} differ: {told}", remedy)


def _listen(config: Config, group: str, seconds: float) -> tuple[dict[bytes, set[MemberId]], int]:
    """Who was heard, by the digest of its settings, and how many packets had another version."""
    ours = shared_digest(config)
    codec = PacketCodec(config.cluster, group, ours)
    heard: dict[bytes, set[MemberId]] = {}
    older = 0
    link = open_udp(config, group)
    try:
        end = monotonic() + seconds
        while (left := end - monotonic()) > 0:
            select.select([link], [], [], left)
            for packet in map(codec.decode, link.receive(0)):
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
        link.close()
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
