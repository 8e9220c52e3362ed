"""What a frame costs at one member, in memory: cost = a + b x messages in the frame.

Every member of a group floods agreed messages of 100 bytes: in each round each member seals one
frame of k messages, then receives the frames of all others. Only the first member is timed:
encoding its own frame, decoding, inserting, ordering and delivering all frames, and cutting
every body out. The fit over k gives the cost of a frame (a) and of a message (b).

Two ways of receiving: one step a frame (the dearest), and one step a round, as a driver does that
drains its socket. Two statistics over many short slices of the run: the median, and the 5th
percentile (`quiet`), which is what the code costs when neighbours leave the core alone. A fixed
loop timed in between (`machine`) says how steady the machine was: median over least, 1.0 is quiet.

    python bench/bench_core.py [--members 2,4,8,16,32] [--seconds 3] [--json]
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
from time import perf_counter
from typing import Any, NamedTuple

from phalanx.config import Config, lan
from phalanx.core.effects import Datagrams, DeadlinePassed, Deliver, Effect, Submit, Transmit
from phalanx.core.ids import MemberId, boot_view
from phalanx.core.member.member import Member

MESSAGES = (1, 2, 5, 10, 20, 40, 70, 110)
SIZE = 100
ROUND_NS = 100_000


class Point(NamedTuple):
    median: float
    quiet: float
    machine: float


def machine_loop() -> float:
    """Seconds that a fixed piece of work takes: a yardstick for the machine, not for us."""
    before = perf_counter()
    total = 0
    for i in range(30_000):
        total += i
    assert total
    return perf_counter() - before


def flood(n: int, k: int, seconds: float, config: Config, batched: bool) -> Point:
    """Microseconds per frame at the first member."""
    view = boot_view([MemberId(f"m{i:02}") for i in range(n)])
    members = [Member(m, view, "bench", config, i) for i, m in enumerate(view.members)]
    for member in members:
        member.start(0)
    bodies = [bytes([i % 256]) * SIZE for i in range(k)]
    flying: list[list[bytes]] = [[] for _ in range(n)]
    now, delivered, rounds = 0, 0, 0
    samples: list[float] = []
    yardstick: list[float] = []
    slices = 150 if n <= 8 else 40
    for _ in range(slices):
        yardstick.append(machine_loop())
        spent, frames, began = 0.0, 0, perf_counter()
        while perf_counter() - began < seconds / slices or frames < 2 * n:
            now += ROUND_NS
            rounds += 1
            sent: list[list[bytes]] = []
            for i, member in enumerate(members):
                arrived = [packets for j, packets in enumerate(flying) if j != i and packets]
                if batched or i:
                    arrived = [[p for packets in arrived for p in packets]] if arrived else []
                before = perf_counter()
                effects: list[Effect] = []
                for packets in arrived:
                    effects += member.step(now, Datagrams(packets))
                effects += member.step(now, Submit(bodies))
                deadline = member.deadline()
                if deadline is not None and deadline <= now:
                    effects += member.step(now, DeadlinePassed())
                if i == 0:
                    for effect in effects:
                        if type(effect) is Deliver:
                            delivered += len(effect.bodies())
                    spent += perf_counter() - before
                    frames += n
                sent.append([p for e in effects if type(e) is Transmit for p in e.packets])
            flying = sent
        samples.append(spent / frames * 1e6)
    expected = (rounds - 3) * n * k
    assert delivered >= expected, f"only {delivered} of {expected} messages were delivered"
    assert members[0].have[0] <= rounds + 1, "more than one frame a round"
    unrest = statistics.median(yardstick) / min(yardstick)
    return Point(statistics.median(samples), sorted(samples)[slices // 20], unrest)


def fit(points: list[tuple[int, float]]) -> tuple[float, float]:
    """Least squares of cost = a + b * k, each point weighed by 1/cost."""
    weights = [1 / cost for _, cost in points]
    total = sum(weights)
    mean_k = sum(w * k for w, (k, _) in zip(weights, points, strict=True)) / total
    mean_c = sum(w * c for w, (_, c) in zip(weights, points, strict=True)) / total
    over = sum(w * (k - mean_k) * (c - mean_c) for w, (k, c) in zip(weights, points, strict=True))
    under = sum(w * (k - mean_k) ** 2 for w, (k, _) in zip(weights, points, strict=True))
    b = over / under
    return mean_c - b * mean_k, b


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--members", default="2,4,8,16,32", help="group sizes (default %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="per point (default %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    args = parser.parse_args()
    config = lan(window_bytes_max=64 << 20, window_bytes_min=32 << 20)
    rows: list[dict[str, Any]] = []
    for n in map(int, args.members.split(",")):
        for batched in (False, True):
            points = {}
            for k in MESSAGES:
                points[k] = flood(n, k, args.seconds, config, batched)
                print(f"  n={n} k={k} batched={batched}: {points[k]}", file=sys.stderr)
            a_median, b_median = fit([(k, p.median) for k, p in points.items()])
            a_quiet, b_quiet = fit([(k, p.quiet) for k, p in points.items()])
            rows.append(
                {
                    "members": n,
                    "step": "round" if batched else "frame",
                    "a_quiet_us": round(a_quiet, 1),
                    "b_quiet_us": round(b_quiet, 3),
                    "a_median_us": round(a_median, 1),
                    "b_median_us": round(b_median, 3),
                    "machine": round(statistics.median(p.machine for p in points.values()), 2),
                    "points": {k: p._asdict() for k, p in points.items()},
                }
            )
    if args.json:
        print(json.dumps({"python": platform.python_version(), "rows": rows}))
        return
    print(f"CPython {platform.python_version()}, agreed flood, messages of {SIZE} B")
    print("                         quiet                  median")
    print("members  step per   a us/fr  b us/msg     a us/fr  b us/msg   machine")
    for row in rows:
        print(
            f"{row['members']:7}  {row['step']:8}"
            f"   {row['a_quiet_us']:7.1f}  {row['b_quiet_us']:8.3f}"
            f"     {row['a_median_us']:7.1f}  {row['b_median_us']:8.3f}   {row['machine']:7.2f}"
        )


if __name__ == "__main__":
    main()
