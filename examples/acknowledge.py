"""Answers a request only when every member of the group has it.

    python examples/acknowledge.py ada     # and bea, cyd in other terminals
    > debit 100
    stored at ada bea cyd

A member that is cut off or fails before it has acknowledged is named instead.
"""

from __future__ import annotations

import asyncio
import sys

import phalanx


async def store(group: phalanx.Group, request: str) -> str:
    """What to answer to a request."""
    receipt = await group.send(request.encode(), phalanx.SAFE)
    try:
        outcome = await receipt.stable()
    except phalanx.NotEverywhere as error:
        return f"in doubt: {' '.join(member.name for member in error.missing)} may not have it"
    return f"stored at {' '.join(member.name for member in outcome.members)}"


async def apply_all(group: phalanx.Group) -> None:
    """Apply the requests of all members, in one order."""
    async for event in group:
        if isinstance(event, phalanx.Message):
            print(f"[{event.sender.name}] {event.body.decode()}", flush=True)


async def main() -> None:
    async with phalanx.join("ledger", name=sys.argv[1]) as group:
        await group.settled()
        applying = asyncio.create_task(apply_all(group))
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(await store(group, line.strip()), flush=True)
    await applying


if __name__ == "__main__":
    asyncio.run(main())
