"""False removals: how often would the failure detector remove a member that lives?

The product's `FailureDetector` and nothing else of a member: each of a small idle group sends a
keep-alive when `Pulse` would (250 ms after its last), every packet is lost at every receiver
with the chance given, probes are answered when they arrive, and one member stops for half the
time-out again and again, at random, with everything that was sent to it waiting. No frame is
recovered and no probe is passed on by a helper, which in a group would only help. A verdict on
a living member is a false removal; the run reports how many there were in how many hours.

    python bench/bench_detector.py [--hours 500] [--members 3] [--loss 50000] [--seed 1] [--json]
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from heapq import heappop, heappush
from itertools import count
from random import Random
from time import perf_counter
from typing import Any

from phalanx.config import MS, lan
from phalanx.core.failure_detector import FailureDetector, Probing
from phalanx.core.ids import MemberId
from phalanx.core.prng import Prng

SECOND = 1_000_000_000
DELAY = 150_000
KEEP_ALIVE, CHECK, PAUSE, RESUME, PROBE, ANSWER = range(6)


class Idle:
    """A group that says nothing but that it is there."""

    def __init__(self, members: int, loss_ppm: int, seed: int) -> None:
        self.config = lan()
        self.rng = Random(seed)
        self.loss = loss_ppm / 1_000_000
        self.ids = [MemberId(f"m{i}") for i in range(members)]
        self.detectors = [FailureDetector(self.config, Prng(seed * 97 + i)) for i in range(members)]
        self.heap: list[tuple[int, int, int, int, Any]] = []
        self.tick = count()
        self.paused_until = [0] * members
        self.inbox: list[list[tuple[int, int, Any]]] = [[] for _ in range(members)]
        self.false = 0
        self.suspected = 0
        self.pauses = 0
        for i, detector in enumerate(self.detectors):
            detector.reset(0, self.ids, i)
            self.push(self.rng.randrange(250 * MS), KEEP_ALIVE, i, None)
            self.push(detector.deadline(), CHECK, i, None)
        self.push(self.rng.randrange(10 * SECOND), PAUSE, members - 1, None)

    def push(self, at: int, kind: int, member: int, data: Any) -> None:
        heappush(self.heap, (at, next(self.tick), kind, member, data))

    def run(self, until: int) -> None:
        heap, rng, loss, idle = self.heap, self.rng.random, self.loss, self.config.alive_idle_ns
        n = len(self.ids)
        while heap[0][0] < until:
            now, _, kind, member, data = heappop(heap)
            if now < self.paused_until[member] and kind in (KEEP_ALIVE, CHECK):
                self.push(self.paused_until[member], kind, member, data)
            elif kind == KEEP_ALIVE:
                for other in range(n):
                    if other != member and rng() >= loss:
                        if self.paused_until[other] > now:
                            self.inbox[other].append((KEEP_ALIVE, member, None))
                        else:
                            heard = self.detectors[other]
                            heard.heard_ns[member] = heard.direct_ns[member] = now + DELAY
                self.push(now + idle, KEEP_ALIVE, member, None)
            elif kind == CHECK:
                self.check(now, member)
            elif kind == PAUSE:
                self.pauses += 1
                self.paused_until[member] = now + self.config.fail_ns // 2
                self.push(self.paused_until[member], RESUME, member, None)
                later = now + SECOND + self.rng.randrange(60 * SECOND)
                self.push(later, PAUSE, member, None)
            elif kind == RESUME:
                waiting, self.inbox[member] = self.inbox[member], []
                for what, sender, nonce in waiting:
                    self.arrive(now, what, member, sender, nonce)
            elif now < self.paused_until[member]:
                self.inbox[member].append((kind, *data))
            else:
                self.arrive(now, kind, member, *data)

    def check(self, now: int, member: int) -> None:
        detector = self.detectors[member]
        for step in detector.check(now):
            if isinstance(step, Probing):
                if self.rng.random() >= self.loss:
                    self.push(now + DELAY, PROBE, step.slot, (member, step.nonce))
            elif step.state == "FAULTY":
                self.false += 1
                detector.ignore(step.slot)
                detector.reset(now, self.ids, member)
            elif step.state == "SUSPECTED":
                self.suspected += 1
        self.push(max(detector.deadline(), now + 1), CHECK, member, None)

    def arrive(self, now: int, kind: int, member: int, sender: int, nonce: int) -> None:
        detector = self.detectors[member]
        if kind == PROBE:
            if self.rng.random() >= self.loss:
                self.push(now + DELAY, ANSWER, sender, (member, nonce))
        elif kind == ANSWER:
            detector.alive(now, sender, nonce)
        else:
            detector.heard_ns[sender] = detector.direct_ns[sender] = now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=int, default=500, help="member-hours")
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--loss", type=int, default=50_000, help="parts per million")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    started = perf_counter()
    group = Idle(args.members, args.loss, args.seed)
    end = args.hours * 3600 * SECOND // args.members
    done = 0
    try:
        for part in range(1, 1001):
            group.run(end * part // 1000)
            done = args.hours * part // 1000
            if sys.stderr.isatty():
                print(f"\r{done} hours, {group.false} false", end="", file=sys.stderr)
    except KeyboardInterrupt:
        pass  # what was played counts
    facts = {
        "member_hours": done,
        "members": args.members,
        "loss_ppm": args.loss,
        "pauses": group.pauses,
        "suspicions": group.suspected,
        "false_removals": group.false,
        "wall_seconds": round(perf_counter() - started, 1),
        "python": platform.python_version(),
    }
    print(json.dumps(facts) if args.json else "\n".join(f"{k}: {v}" for k, v in facts.items()))


if __name__ == "__main__":
    main()
