"""A member of a group of the membership service, by the interface of its host:
`python examples/service.py /run/phalanx/mi-host-1.sock`. Ends when its membership is over."""

import asyncio
import sys

import phalanx.service


async def main() -> None:
    async with await phalanx.service.connect(sys.argv[1]) as service:
        joined = await service.join_group("orders", properties={"role": "db", "tier": 1})
        print("joined as", joined["member"], flush=True)
        async for notice in service.notices():
            print(notice.kind, *notice.members, flush=True)
            if notice.kind in ("excluded", "ended"):
                return


asyncio.run(main())
