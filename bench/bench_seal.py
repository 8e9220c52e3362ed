"""What seals and multicast cost the membership service: one packet, the start, and an idle campus.

    python bench/bench_seal.py [--seconds 20] [--trials 3] [--json]

`packet`: microseconds to seal and to open a packet of an idle service (200 B) and a full fragment,
and to refuse a forged one. `key`: milliseconds to read a key file. `campus`: eleven LANs, three
buildings and the campus as 25 processes on addresses of the loopback interface; seconds until all
sets are whole, CPU seconds of all processes until then, and the share of one core that they use
when nothing happens; plain, sealed, and sealed with multicast in all sets (one building mserver
is reached by copies). Close other programs first.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from phalanx.harness.campus_config import Campus, campus_config
from phalanx.harness.loopback_host import loopback_host
from phalanx.harness.service_processes import ServiceProcesses
from phalanx.mserver.cluster_keys import KeyRing
from phalanx.mserver.packet_seal import PacketSeal
from phalanx.mserver.peer_sessions import PeerSessions

SIZES = (200, 1165)
ROUNDS = 20_000
A, B = ("10.0.0.1", 1), ("10.0.0.2", 2)


def packet_costs(folder: Path) -> dict[str, float]:
    """Microseconds of each step, the best of five runs."""
    key = folder / "key"
    key.write_text(secrets.token_hex(32))
    began = time.perf_counter()
    ring = KeyRing(key, "bench")
    out = {"key_ms": (time.perf_counter() - began) * 1e3}
    a, b = (
        PeerSessions(PacketSeal(ring, secrets.token_bytes(16)), lambda: secrets.token_bytes(16))
        for _ in "ab"
    )
    [ask] = a.hold(0, B, b"")
    [reply] = b.take(0, A, ask).replies
    b.take(0, A, a.take(0, B, reply).replies[0])
    for size in SIZES:
        body = bytes(size)
        packets: list[bytes] = []
        seal = best(lambda: packets.append(a.sealed(body)))  # noqa: B023
        fresh = iter(packets)
        opened = best(lambda: b.take(1, A, next(fresh)))  # noqa: B023
        forged = packets[-1][:-1] + bytes([packets[-1][-1] ^ 1])
        refused = best(lambda: b.take(1, A, forged))  # noqa: B023
        out |= {f"seal_{size}_us": seal, f"open_{size}_us": opened, f"forged_{size}_us": refused}
    return out


def best(action: Callable[[], object]) -> float:
    found = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(ROUNDS // 5):
            action()
        found.append((time.perf_counter() - began) / (ROUNDS // 5))
    return min(found) * 1e6


def campus_costs(folder: Path, *, sealed: bool, multicast: bool, seconds: float) -> list[float]:
    """Seconds until the campus is whole, CPU seconds until then, per cent of a core when idle."""
    campus = Campus()
    (folder / "cluster.key").write_text(secrets.token_hex(32))
    text = campus_config(
        campus,
        lambda name: loopback_host(campus.machines.index(name)),
        key="cluster.key" if sealed else "",
        multicast=multicast,
        fan_out="building-3",
    )
    (folder / "service.toml").write_text(text)
    processes = ServiceProcesses(folder / "service.toml", folder / "s")
    try:
        processes.start(*processes.names)
        whole = processes.wait_whole(seconds=120)
        first = cpu_seconds(processes)
        time.sleep(2.0)  # the last changes settle
        before, began = cpu_seconds(processes), time.monotonic()
        time.sleep(seconds)
        used = cpu_seconds(processes) - before
        return [whole, first, 100 * used / (time.monotonic() - began)]
    finally:
        processes.close()


def cpu_seconds(processes: ServiceProcesses) -> float:
    """User and system time of all processes so far."""
    ticks = 0
    for process in processes.processes.values():
        text = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii")
        fields = text.rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        costs = packet_costs(Path(folder))
    ways = {
        "plain": {"sealed": False, "multicast": False},
        "sealed": {"sealed": True, "multicast": False},
        "sealed, multicast": {"sealed": True, "multicast": True},
    }
    trials: dict[str, list[list[float]]] = {way: [] for way in ways}
    for _ in range(given.trials):
        for way, how in ways.items():
            with tempfile.TemporaryDirectory() as folder:
                row = campus_costs(Path(folder), seconds=given.seconds, **how)
                trials[way].append(row)
    found = {"packet": {name: [round(value, 2)] for name, value in costs.items()}}
    for way, rows in trials.items():
        columns = zip(*rows, strict=True)
        found[way] = {
            name: [round(value, 2) for value in sorted(each)]
            for name, each in zip(("whole_s", "start_cpu_s", "idle_percent"), columns, strict=True)
        }
    if given.json:
        print(json.dumps(found))
        return
    for part, values in found.items():
        print(part)
        for name, each in values.items():
            print(f"  {name:<16} {statistics.median(each):8.2f}  of {each}")


if __name__ == "__main__":
    main()
