"""What a journal costs: encoding, reading back, the caller of `write`, and the journal's thread.

Rows are those of a member of four under load: mostly deliveries of ranges, with sends, submissions
and receipts between them. `block` rows at a time are encoded, as many as come in one flush. Then a
real journal is fed at a given rate, and the processor time of its thread is read from the
system: as a share of one core, it is what journalling takes from the member.

    python bench/bench_journal.py [--rate 5000] [--seconds 3] [--json]
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from phalanx.core.ids import MemberId
from phalanx.journal import reader
from phalanx.journal import schema as ev
from phalanx.journal.blocks import parse, rows_block
from phalanx.journal.columns import unpack
from phalanx.journal.settings import JournalSettings
from phalanx.journal.writer import Journal

BLOCKS = (10, 100, 500, 4000)
SENDERS = ("ada", "bea", "cyd", "dov")
VID = "3.1:0123456789abcdef"


def rows_of(count: int) -> list[ev.Event]:
    """What ada writes while everybody floods: of twenty rows two are sends, one a receipt."""
    rows: list[ev.Event] = []
    numbers = dict.fromkeys(SENDERS, 0)
    pos = 0
    for lseq in range(1, count + 1):
        common: dict[str, Any] = {"run": "bench", "profile": "T", "group": "g", "member": "ada"}
        common |= {"incarnation": 1, "lseq": lseq, "step": (lseq + 3) // 4}
        common |= {"t_ns": 10**15 + lseq * 200_000 + (lseq * 7919) % 100_000}
        sender, kind = SENDERS[lseq % 4], lseq % 20
        first = numbers[sender] + 1
        last = first + (lseq * 31) % 60
        told: dict[str, Any] = {"first": first, "last": last, "service": "AGREED"}
        placed: dict[str, Any] = {"view": VID, "phase": 0, "frame": lseq}
        if kind in (3, 13):
            deps: dict[str, Any] = {"dep_senders": list(SENDERS[1:]), "dep_incarnations": [1, 1, 1]}
            deps |= {"dep_numbers": [numbers[s] for s in SENDERS[1:]]}
            rows.append(ev.Sent(**common, **told, **placed, **deps))
        elif kind == 7:
            rows.append(
                ev.Stable(**common, sender="ada", sender_incarnation=1, upto=last, view=VID)
            )
        else:
            numbers[sender] = last
            place: dict[str, Any] = {
                "origin": VID,
                "region": "REGULAR",
                "pos": pos,
                "batch": lseq // 3,
            }
            pos += last - first + 1
            place |= {"sender": sender, "sender_incarnation": 1}
            rows.append(ev.Deliver(**common, **told, **placed, **place))
    return rows


def encoding(rows: list[ev.Event], block: int) -> dict[str, float]:
    """Per row: microseconds to encode and to read back, and bytes."""
    writing, reading, size = [], [], 0
    for at in range(0, len(rows) - block + 1, block):
        some = rows[at : at + block]
        began = time.perf_counter()
        data = rows_block(some)
        writing.append((time.perf_counter() - began) / block * 1e6)
        began = time.perf_counter()
        (found,) = parse(data, 0)
        unpack(getattr(found, "body", b""), "ada", 1, "g")
        reading.append((time.perf_counter() - began) / block * 1e6)
        size += len(data)
    encode = statistics.median(writing)
    return {
        "block": block,
        "encode_us": encode,
        "rows_per_second": 1e6 / encode,
        "decode_us": statistics.median(reading),
        "bytes": size / (len(writing) * block),
    }


def feeding(rate: int, seconds: float) -> dict[str, float]:
    """A journal that gets four rows a step at this rate: the share of a core of its thread, and
    nanoseconds that `write` takes from its caller."""
    rows = rows_of(int(rate * seconds))
    steps = [rows[i : i + 4] for i in range(0, len(rows), 4)]
    took: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(
            Path(folder),
            cluster="bench",
            group="g",
            member=MemberId("ada"),
            config={},
            settings=JournalSettings(),
        )
        (thread,) = [t for t in threading.enumerate() if t.name == "phalanx-journal"]
        assert thread.ident is not None
        clock = time.pthread_getcpuclockid(thread.ident)
        began = time.perf_counter()
        for i, step in enumerate(steps):
            before = time.perf_counter_ns()
            journal.write(step)
            took.append(time.perf_counter_ns() - before)
            due = began + (i + 1) * 4 / rate
            if (left := due - time.perf_counter()) > 0.001:
                time.sleep(left)
        wall, busy = time.perf_counter() - began, time.clock_gettime(clock)
        journal.close()
        reading = reader.read_all([folder])
        assert len(reading.rows) == len(rows), "rows were lost"
        size = sum(s.size for s in reading.segments)
    return {
        "rate": len(rows) / wall,
        "thread_percent_of_a_core": 100 * busy / wall,
        "write_ns_median": statistics.median(took),
        "write_ns_p99": statistics.quantiles(took, n=100)[98],
        "bytes": size / len(rows),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rate", type=int, default=5000, help="rows a second")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = rows_of(40_000)
    table = [encoding(rows, block) for block in BLOCKS]
    fed = feeding(options.rate, options.seconds)
    if options.json:
        machine = f"{platform.python_version()} on {platform.machine()}"
        print(json.dumps({"python": machine, "encoding": table, "feeding": fed}))
        return
    print("rows a block   encode us/row   rows/s encoded   decode us/row   bytes/row")
    for line in table:
        print(
            f"{line['block']:12}   {line['encode_us']:13.2f}   {line['rows_per_second']:14,.0f}   "
            f"{line['decode_us']:13.2f}   {line['bytes']:9.1f}"
        )
    print(
        f"fed {fed['rate']:,.0f} rows/s: the thread takes {fed['thread_percent_of_a_core']:.2f} % "
        f"of a core, {fed['bytes']:.1f} bytes/row; a call of write takes "
        f"{fed['write_ns_median']:.0f} ns, p99 {fed['write_ns_p99']:.0f} ns"
    )


if __name__ == "__main__":
    main()
