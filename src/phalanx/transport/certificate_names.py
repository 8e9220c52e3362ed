"""Which member a certificate names.

The names of a certificate are its DNS names (subject alternative names) or, if it has none, its
common name. A member's name must equal one of them, upper and lower case included. A `*` in the
first label of a DNS name stands for one or more characters other than a dot: `worker-*` names
`worker-7`, `*.orders.svc` names `ada.orders.svc` but not `ada.eu.orders.svc`, and `*` names every
member whose name has no dot. A common name has no wildcards. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any


def names_of(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """The names in a certificate, as `SSLSocket.getpeercert` returns it; a common name is marked by
    a leading `=`, so that its characters are taken as they are."""
    alternative = tuple(
        name for kind, name in certificate.get("subjectAltName", ()) if kind == "DNS"
    )
    if alternative:
        return alternative
    return tuple(
        f"={value}"
        for relative in certificate.get("subject", ())
        for kind, value in relative
        if kind == "commonName"
    )


def is_named(member: str, names: Sequence[str]) -> bool:
    """Whether one of the names is the member's."""
    return any(_fits(member, name) for name in names)


def shown(names: Sequence[str]) -> str:
    """The names for people."""
    return ", ".join(repr(name.removeprefix("=")) for name in names) or "nobody"


def _fits(member: str, name: str) -> bool:
    if name.startswith("="):
        return member == name[1:]
    first, dot, rest = name.partition(".")
    if first.count("*") != 1 or "*" in rest:
        return member == name
    before, _, after = first.partition("*")
    pattern = f"{re.escape(before)}[^.]+{re.escape(after + dot + rest)}"
    return re.fullmatch(pattern, member) is not None
