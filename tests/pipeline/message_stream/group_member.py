"""A member that a test kills: `python group_member.py GROUP NAME JOURNALS MEMBERS`.

It waits for so many members, then sends messages, whose bodies are their numbers, until the file
JOURNALS/stop exists; then it leaves. Its journal keeps bodies.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import phalanx
from phalanx import blocking

PAUSE_SECONDS = 0.03
WAIT_SECONDS = 60.0


def main() -> None:
    group, name, folder, members = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
    settings = phalanx.JournalSettings(bodies=True, flush_ns=10_000_000, segment_bytes=20_000)
    config = phalanx.local()
    with blocking.join(
        group, name=name, config=config, journal=folder, journal_settings=settings
    ) as member:
        member.wait_for(members, WAIT_SECONDS)
        number = 0
        while not (folder / "stop").exists():
            number += 1
            member.send(b"%d" % number)
            time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main()
