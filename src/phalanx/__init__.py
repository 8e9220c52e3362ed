"""Phalanx: Python processes that act as one group.

    import asyncio, phalanx

    async def main() -> None:
        async with phalanx.join("orders") as group:
            await group.send(b"hello", phalanx.AGREED)
            async for event in group:
                match event:
                    case phalanx.View(members=members):
                        print("view", *members)
                    case phalanx.Message(sender=sender, body=body):
                        print(sender, body)

    asyncio.run(main())

Processes that join a group agree on who is in it, and deliver the same messages in the same order
between the same changes of membership. `phalanx.blocking` has the same names without asyncio.
"""

from phalanx import blocking
from phalanx.api.asyncio_group import Group, Receipt, join
from phalanx.config import (
    Certificates,
    Config,
    SharedKey,
    crowded,
    lan,
    local,
    mesh,
    unicast,
)
from phalanx.core.effects import Service
from phalanx.core.ids import MemberId, ViewId
from phalanx.errors import NotDelivered, NotEverywhere, PhalanxError
from phalanx.journal.settings import JournalSettings
from phalanx.runtime.events import (
    Batch,
    Event,
    EventsLost,
    Merged,
    MergedComponent,
    Message,
    MessageRange,
    Messages,
    NotSent,
    Transitional,
    View,
)
from phalanx.runtime.receipt_tracker import Outcome

BASIC = Service.BASIC
CAUSAL = Service.CAUSAL
AGREED = Service.AGREED
SAFE = Service.SAFE

__all__ = [
    "AGREED",
    "BASIC",
    "CAUSAL",
    "SAFE",
    "Batch",
    "Certificates",
    "Config",
    "Event",
    "EventsLost",
    "Group",
    "JournalSettings",
    "MemberId",
    "Merged",
    "MergedComponent",
    "Message",
    "MessageRange",
    "Messages",
    "NotDelivered",
    "NotEverywhere",
    "NotSent",
    "Outcome",
    "PhalanxError",
    "Receipt",
    "Service",
    "SharedKey",
    "Transitional",
    "View",
    "ViewId",
    "blocking",
    "crowded",
    "join",
    "lan",
    "local",
    "mesh",
    "unicast",
]
