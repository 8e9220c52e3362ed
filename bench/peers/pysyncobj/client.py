"""One member of a PySyncObj cluster for `bench_mesh.py`: floods replicated operations and counts
those that are applied here. Needs only pysyncobj; speaks the lines of `phalanx.benchmark.worker`.

    python client.py '{"i": 0, "nodes": ["127.0.0.1:7117", ...], "size": 100, "ahead": 2000}'
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

from pysyncobj import (  # type: ignore[import-not-found, unused-ignore]
    SyncObj,
    SyncObjConf,
    replicated,
)


class Counted(SyncObj):  # type: ignore[misc, unused-ignore]
    def __init__(self, own: str, others: list[str], password: str | None) -> None:
        conf = SyncObjConf(
            password=password, connectionRetryTime=0.2, logCompactionMinEntries=100_000
        )
        super().__init__(own, others, conf)
        self.applied = 0
        self.size = 0

    @replicated  # type: ignore[misc, untyped-decorator, unused-ignore]
    def put(self, body: bytes) -> None:
        self.applied += 1
        self.size += len(body)


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> None:
    plan = json.loads(sys.argv[1])
    nodes, i = plan["nodes"], plan["i"]
    cluster = Counted(nodes[i], nodes[:i] + nodes[i + 1 :], plan.get("password"))
    end = time.monotonic() + 30
    while not (cluster.isReady() and cluster.getStatus()["partner_nodes_count"] == len(nodes) - 1):
        if time.monotonic() > end:
            sys.exit("no leader")
        time.sleep(0.01)
    say({"view": [f"m{k}" for k in range(len(nodes))], "at": time.monotonic_ns()})
    line = sys.stdin.readline()
    if not line:
        os._exit(0)
    begin, finish = map(int, line.split())
    body = b"x" * plan["size"]
    room = threading.Semaphore(plan["ahead"])
    over = threading.Event()

    def flood() -> None:
        while not over.is_set():
            room.acquire()
            cluster.put(body, callback=lambda result, error: room.release())

    threading.Thread(target=flood, daemon=True).start()
    time.sleep(max(0, begin - time.monotonic_ns()) / 1e9)
    before, at = cluster.applied, time.monotonic_ns()
    time.sleep(max(0, finish - time.monotonic_ns()) / 1e9)
    count, ns = cluster.applied - before, time.monotonic_ns() - at
    over.set()
    say({"result": {"messages": count, "bytes": count * plan["size"], "sent": 0, "ns": ns}})
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
