"""Datagrams of every bad kind at real members that go on talking: nothing may break.

Three member processes on the loopback interface say messages all the time. A fourth socket hears
their packets and sends bad ones to the group, as fast as they take them: random bytes, real packets
cut short, with bits flipped, replayed, of another cluster, another group, another version.

Afterwards: every member still lives and is in one view with the others, has counted what it
refused by kind, delivered what was sent and nothing else (the journals are checked, with digests
of all bodies), and has not grown.

    python bench/fuzz.py [--datagrams 1000000] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import struct
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from phalanx.core.wire.packet_codec import HEADER_BYTES, VERSION
from phalanx.harness.controller import MemberProcess, all_in_view
from phalanx.transport.addresses import group_address
from phalanx.verify.evidence import violations_in

PORT = 7117
KINDS = ("random", "truncated", "flipped", "replayed", "cluster", "group", "version")
BURST = 200
KEPT = 4096


class Fuzzer:
    """Hears real packets and makes bad ones of them."""

    def __init__(self, group: str, seed: int) -> None:
        self._rng = random.Random(seed)
        self._target = (group_address("phalanx", group), PORT)
        local = socket.inet_aton("127.0.0.1")
        self._ear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._ear.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._ear.bind(self._target)
        member = struct.pack("4s4s", socket.inet_aton(self._target[0]), local)
        self._ear.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
        self._ear.setblocking(False)
        self._mouth = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._mouth.bind(("127.0.0.1", 0))
        self._mouth.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, local)
        self._mouth.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
        self._own = self._mouth.getsockname()
        self._real: list[bytes] = []
        self.sent: Counter[str] = Counter()

    def listen(self) -> None:
        while True:
            try:
                data, source = self._ear.recvfrom(65_536)
            except BlockingIOError:
                return
            if source != self._own:
                if len(self._real) < KEPT:
                    self._real.append(data)
                else:
                    self._real[self._rng.randrange(KEPT)] = data

    def burst(self, count: int) -> None:
        for _ in range(count):
            kind = self._rng.choice(KINDS)
            self._mouth.sendto(self._bad(kind), self._target)
            self.sent[kind] += 1

    def _bad(self, kind: str) -> bytes:
        rng = self._rng
        if kind == "random" or not self._real:
            return rng.randbytes(rng.choice((0, 1, 17, 18, 45, 100, 1400)))
        real = bytearray(rng.choice(self._real))
        match kind:
            case "truncated":
                return bytes(real[: rng.randrange(len(real))])
            case "flipped":
                for _ in range(rng.randint(1, 8)):
                    real[rng.randrange(len(real))] ^= 1 << rng.randrange(8)
            case "cluster":
                real[2 + rng.randrange(4)] ^= rng.randint(1, 255)
            case "group":
                real[6 + rng.randrange(8)] ^= rng.randint(1, 255)
            case "version":
                real[0] = rng.choice(
                    [version for version in (0, 2, 3, 4, 255) if version != VERSION]
                )
        return bytes(real)

    def close(self) -> None:
        self._ear.close()
        self._mouth.close()


def campaign(datagrams: int, seed: int, folder: Path, progress: bool) -> dict[str, Any]:
    group = f"fuzz-{os.getpid()}"
    config = {"interface": "127.0.0.1", "hops": 0}
    members = [
        MemberProcess(
            {
                "group": group,
                "name": name,
                "config": config,
                "journal": str(folder),
                "journal_settings": {"digests": True},
            }
        )
        for name in ("ada", "bea", "cyd")
    ]
    fuzzer = Fuzzer(group, seed)
    began = time.monotonic()
    try:
        for member in members:
            member.joined()
        all_in_view(members)
        before: list[int] = []
        while sum(fuzzer.sent.values()) < datagrams:
            for member in members:
                member.do("send", count=5, service="agreed")
                member.do("send", count=1, service="safe", stable=True)
            for _ in range(10):
                fuzzer.listen()
                fuzzer.burst(min(BURST, datagrams - sum(fuzzer.sent.values())))
            reports = [member.report(60) for member in members]
            if not before and sum(fuzzer.sent.values()) * 4 > datagrams:
                before = [report["rss_kb"] for report in reports]
            if progress:
                print(f"\r{sum(fuzzer.sent.values()):,}", end="", file=sys.stderr)
        all_in_view(members, 60)
        left = [member.leave(60) for member in members]
    finally:
        fuzzer.close()
        for member in members:
            member.close()
    return {
        "datagrams": sum(fuzzer.sent.values()),
        "sent": dict(fuzzer.sent),
        "refused": {m.name: told["refused"] for m, told in zip(members, left, strict=True)},
        "delivered": {m.name: told["delivered"] for m, told in zip(members, left, strict=True)},
        "views": {m.name: len(m.views) for m in members},
        "rss_kb_at_a_quarter": before,
        "rss_kb": [told["rss_kb"] for told in left],
        "violations": violations_in(folder),
        "seconds": round(time.monotonic() - began, 1),
    }


def main() -> None:
    assert HEADER_BYTES == 22, "the places of cluster and group in a packet have moved"
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--datagrams", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="phalanx-fuzz-") as folder:
        found = campaign(given.datagrams, given.seed, Path(folder), sys.stderr.isatty())
    if given.json:
        print(json.dumps(found))
    else:
        for key, value in found.items():
            print(f"{key:22} {value}")
    sys.exit(1 if found["violations"] else 0)


if __name__ == "__main__":
    main()
