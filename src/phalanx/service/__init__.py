"""The wide-area membership service of S3: groups whose members are on many local networks.

    import phalanx.service

    async with await phalanx.service.connect("/run/phalanx/host-1.sock") as service:
        joined = await service.join_group("orders", properties={"role": "db", "tier": 1})
        async for notice in service.notices():
            print(notice.kind, notice.vid, notice.members)

`connect_blocking` is the same for programs without asyncio. docs/service/clients.md describes both,
docs/service/calls.md every call.

This file is the face of the service. The modules beside it are pure (time comes in as `now`,
effects are returned), so clients are imported only when one of their names is used.
docs/service/design.md lists the modules; docs/service/rules.md says which rule is where and what
shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from phalanx.service.calls.call_errors import (
    BadArgument,
    BadLevel,
    BadRule,
    BadScope,
    Denied,
    NameTaken,
    NoMatch,
    NoSuchGroup,
    NoSuchMember,
    NotWhole,
    OutOfScope,
    ScopeMismatch,
    ServiceError,
    TooLarge,
    Unavailable,
    UnknownView,
)
from phalanx.service.rules.rule_syntax import AttributeValue, Condition

if TYPE_CHECKING:
    from phalanx.mserver.asyncio_client import ServiceClient, connect
    from phalanx.mserver.blocking_client import BlockingServiceClient, connect_blocking
    from phalanx.mserver.client_messages import MemberNotice

__all__ = [
    "AttributeValue",
    "BadArgument",
    "BadLevel",
    "BadRule",
    "BadScope",
    "BlockingServiceClient",
    "Condition",
    "Denied",
    "MemberNotice",
    "NameTaken",
    "NoMatch",
    "NoSuchGroup",
    "NoSuchMember",
    "NotWhole",
    "OutOfScope",
    "ScopeMismatch",
    "ServiceClient",
    "ServiceError",
    "TooLarge",
    "Unavailable",
    "UnknownView",
    "connect",
    "connect_blocking",
]


def __getattr__(name: str) -> Any:
    """The clients, imported with their first use."""
    if name in ("ServiceClient", "connect"):
        from phalanx.mserver import asyncio_client

        return getattr(asyncio_client, name)
    if name in ("BlockingServiceClient", "connect_blocking"):
        from phalanx.mserver import blocking_client

        return getattr(blocking_client, name)
    if name == "MemberNotice":
        from phalanx.mserver.client_messages import MemberNotice

        return MemberNotice
    raise AttributeError(f"module 'phalanx.service' has no attribute {name!r}")
