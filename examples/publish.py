"""A member that only sends: lines of its input become messages for whoever is in the group.

    tail -f access.log | python examples/publish.py

It keeps no events, so it need not read them, and it never holds the others up.
"""

from __future__ import annotations

import sys

import phalanx


def main() -> None:
    with phalanx.blocking.join("log", receive=False) as group:
        group.settled()
        receipt = None
        for line in sys.stdin.buffer:
            receipt = group.send(line.rstrip(b"\n"))
        if receipt is not None:
            outcome = receipt.delivered(10, allow_missing=True)
            print(f"the last line was delivered by {len(outcome.members)} members", file=sys.stderr)


if __name__ == "__main__":
    main()
