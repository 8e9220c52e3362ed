"""Settings that all members of a group share, and the digest of them that every packet carries.

A member that orders messages by another rule, or sends on during a view change where the others do
not, breaks what they promise. So packets name these settings beside cluster and group (`codec`),
and a packet that names others is refused before it is read: no statement, frame or proposal of such
a process reaches the protocol, and none in which a third member passes it on, for that one would
have to read it first. The table in docs/network.md says of every setting whether it must agree.

A digest tells that settings differ, not which. They have few values, so all combinations are listed
here by their digests.
"""

from __future__ import annotations

from itertools import product

from phalanx.config import Config
from phalanx.core.ids import digest_of

DIGEST_BYTES = 4
SHARED: dict[str, tuple[str | bool, ...]] = {
    "order": ("toto", "all-ack"),
    "early": (False, True),
    "mode": ("hold", "flow"),
}
"""Their names, and all the values that each can have."""


def shared_digest(config: Config) -> bytes:
    """Names the values of the settings that must agree (rule L-21)."""
    return _digest({name: getattr(config, name) for name in SHARED})


def _digest(values: dict[str, str | bool]) -> bytes:
    parts = (f"{name}={value}".encode() for name, value in values.items())
    return digest_of(b"settings", *parts)[:DIGEST_BYTES]


COMBINATIONS: dict[bytes, dict[str, str | bool]] = {
    _digest(values): values
    for values in (dict(zip(SHARED, chosen, strict=True)) for chosen in product(*SHARED.values()))
}
"""By digest, the values that it stands for."""


def differences(ours: Config, theirs: bytes) -> tuple[tuple[str, str], ...]:
    """The settings that differ, by name, each with the value that the digest stands for; empty for
    a digest that no combination known here has."""
    values = COMBINATIONS.get(theirs, {})
    return tuple(
        (name, str(value)) for name, value in values.items() if value != getattr(ours, name)
    )
