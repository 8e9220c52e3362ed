"""How long after the last row of a violated view is on disk `phalanx watch` reports the violation.

Simulated groups write journals live, a portion of their rows every so often. In each group one
member does not deliver one message. The delay is taken from the moment at which the row that closes
the violated view was appended to the last of the journals that matter, to the alert on the standard
output of `phalanx watch --json`.

    python bench/bench_watch.py [--groups 20] [--members 5] [--rounds 40] [--pause 0.5] [--every 1]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

if not __package__:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.bench_live_ingest import simulated_groups

from phalanx.journal.blocks import rows_block
from phalanx.journal.schema import Deliver, Event, ViewInstalled
from phalanx.journal.segment import Header
from phalanx.journal.segment_file import SegmentFile

Journal = tuple[Header, list[Event]]
GRACE_S = 15.0
"""Views with a member that crashed are incomplete, and judged after so long."""
LAST_S = 300.0
"""How long the last alerts are waited for."""


def lose_messages(made: list[Journal]) -> set[str]:
    """In each group in which that is possible, one member lacks a delivery of another that leaves
    the view for the same one: virtual synchrony is violated. Returns these groups."""
    moves: dict[tuple[str, str, str], set[str]] = {}
    for header, rows in made:
        installs = [row.view for row in rows if isinstance(row, ViewInstalled)]
        for view, then in pairwise(installs):
            moves.setdefault((header.group, view, then), set()).add(header.member)
    together: dict[tuple[str, str], set[str]] = {}
    for (group, view, _), who in moves.items():
        if len(who) > len(together.get((group, view), ())):
            together[group, view] = who
    done: set[str] = set()
    for header, rows in made:
        at = None if header.group in done else _lost(header, rows, together)
        if at is not None:
            done.add(header.group)
            del rows[at]
            for number in range(at, len(rows)):
                rows[number] = msgspec.structs.replace(rows[number], lseq=number + 1)
    return done


def _lost(
    header: Header, rows: list[Event], together: dict[tuple[str, str], set[str]]
) -> int | None:
    for at, row in enumerate(rows):
        if isinstance(row, Deliver) and row.service != "BASIC" and row.to is None:
            who = together.get((header.group, row.view), set())
            if header.member in who and row.sender in who and row.sender != header.member:
                return at
    return None


class Alerts(threading.Thread):
    """Reads the standard output of the watch, and notes when each violation came."""

    def __init__(self, output: Any) -> None:
        super().__init__(daemon=True)
        self._output = output
        self.violations: dict[tuple[str, str], float] = {}
        self.status: dict[tuple[str, str], str] = {}
        self.verdicts = 0

    def run(self) -> None:
        for line in self._output:
            now = time.monotonic()
            event = json.loads(line)
            if event["event"] == "verdict":
                verdict = event["unit"]["verdict"]
                self.status.setdefault((verdict["group"], verdict["view"]), verdict["status"])
                self.verdicts += 1
            if event["event"] == "raised" and event["alert"]["kind"] == "violation":
                key = event["alert"]["group"], event["alert"]["subject"]
                self.violations.setdefault(key, now)


def closing_row(rows: list[Event], view: str) -> int | None:
    """The place of the row with which a member leaves a view; None if it never was in it."""
    inside = False
    for at, row in enumerate(rows):
        if isinstance(row, ViewInstalled):
            if inside:
                return at
            inside = row.view == view
    return len(rows) - 1 if inside else None


def measure(
    place: Path, groups: int, members: int, rounds: int, pause: float, every: float
) -> dict[str, Any]:
    made = simulated_groups(groups, members)
    broken = lose_messages(made)
    for header, _ in made:
        header.config.pop("truth", None)
    (place / "journals").mkdir()
    live = [(SegmentFile(place / "journals", header), header, rows) for header, rows in made]
    command = [sys.executable, "-m", "phalanx.cli.main", "watch", str(place / "journals")]
    command += ["--into", str(place / "lake"), "--every", str(every), "--open-every", "0", "--json"]
    command += ["--grace", str(GRACE_S), "--silent", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    alerts = Alerts(process.stdout)
    alerts.start()
    written: dict[tuple[str, int], float] = {}
    begin = time.monotonic()
    for turn in range(rounds):
        for file, header, rows in live:
            low, high = len(rows) * turn // rounds, len(rows) * (turn + 1) // rounds
            if high > low:
                file.append(rows_block(rows[low:high]), rows[low:high])
                now = time.monotonic()
                for at in range(low, high):
                    written[header.journal, at] = now
        time.sleep(max(0.0, begin + (turn + 1) * pause - time.monotonic()))
    wrote = time.monotonic() - begin
    until = time.monotonic() + LAST_S
    while len({group for group, _ in alerts.violations}) < len(broken) and time.monotonic() < until:
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    for file, _, _ in live:
        file.abandon()
    delays: dict[str, list[float]] = {}
    for (group, view), told in alerts.violations.items():
        ends = [
            written[header.journal, place_of]
            for _, header, rows in live
            if header.group == group and (place_of := closing_row(rows, view)) is not None
        ]
        delays.setdefault(alerts.status[group, view], []).append(told - max(ends))
    return {
        "groups": groups,
        "journals": len(live),
        "rows": sum(len(rows) for _, _, rows in live),
        "rows_per_s": round(sum(len(rows) for _, _, rows in live) / wrote),
        "verdicts": alerts.verdicts,
        "violations": len(alerts.violations),
        "groups_broken": len(broken),
        "groups_found": len({group for group, _ in alerts.violations}),
        "delay_s": {status: _spread(some) for status, some in sorted(delays.items())},
        "grace_s": GRACE_S,
        "every_s": every,
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "seconds": round(time.monotonic() - begin, 1),
        "load": [round(load, 1) for load in os.getloadavg()],
    }


def _spread(delays: list[float]) -> dict[str, float]:
    found = sorted(delays)
    middle = found[len(found) // 2]
    return {"count": len(found), "least": found[0], "median": middle, "most": found[-1]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--pause", type=float, default=0.5)
    parser.add_argument("--every", type=float, default=1.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        print(json.dumps(measure(Path(place), **vars(given)), indent=2))


if __name__ == "__main__":
    main()
