"""Three members that greet each other: `python examples/hello.py ada`, then bea, then cyd."""

import asyncio
import sys

import phalanx


async def main() -> None:
    async with phalanx.join("orders", name=sys.argv[1]) as group:
        await group.wait_for(members=3)
        await group.send(b"hello from " + sys.argv[1].encode(), phalanx.AGREED)
        async for event in group:
            match event:
                case phalanx.View(members=members):
                    print("view", *(member.name for member in members), flush=True)
                case phalanx.Message(sender=sender, body=body):
                    print(sender.name, body, flush=True)


asyncio.run(main())
