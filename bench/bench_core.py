"""What a frame costs at one member, in memory: cost = a + b x messages in the frame.

Every member of a group floods agreed messages of 100 bytes: in each round each member seals one
frame of k messages, then receives the frames of all others, one step a frame. Only the first
member is timed: encoding its own frame, decoding, inserting, ordering and delivering all
frames, and cutting every body out. The fit over k gives the cost of a frame (a) and of a message
(b). Medians over slices of the run, since the machine has other things to do.

    python bench/bench_core.py [--members 2,4,8,16,32] [--seconds 3] [--json]
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
from time import perf_counter

from phalanx.config import Config, lan
from phalanx.core.effects import Datagrams, DeadlinePassed, Deliver, Effect, Submit, Transmit
from phalanx.core.ids import MemberId, boot_view
from phalanx.core.member import Member

MESSAGES = (1, 2, 5, 10, 20, 40, 70, 110)
SIZE = 100
ROUND_NS = 100_000
SLICES = 15


def flood(n: int, k: int, seconds: float, config: Config) -> tuple[float, float]:
    """Microseconds per frame at the first member: median over slices, and the least."""
    view = boot_view([MemberId(f"m{i:02}") for i in range(n)])
    members = [Member(m, view, "bench", config, i) for i, m in enumerate(view.members)]
    for member in members:
        member.start(0)
    bodies = [bytes([i % 256]) * SIZE for i in range(k)]
    flying: list[list[bytes]] = [[] for _ in range(n)]
    now, delivered, rounds = 0, 0, 0
    samples: list[float] = []
    for _ in range(SLICES):
        spent, frames, began = 0.0, 0, perf_counter()
        while perf_counter() - began < seconds / SLICES or frames < 4 * n:
            now += ROUND_NS
            rounds += 1
            sent: list[list[bytes]] = []
            for i, member in enumerate(members):
                before = perf_counter()
                effects: list[Effect] = []
                for j, packets in enumerate(flying):
                    if j != i and packets:
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
    return statistics.median(samples), min(samples)


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
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
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
    rows = []
    for n in map(int, args.members.split(",")):
        points = []
        for k in MESSAGES:
            median, least = flood(n, k, args.seconds, config)
            points.append((k, median))
            print(f"  n={n} k={k}: {median:.1f} us (least {least:.1f})", file=sys.stderr)
        a, b = fit(points)
        rows.append({"members": n, "a_us": round(a, 2), "b_us": round(b, 3), "points": points})
    if args.json:
        print(json.dumps({"python": platform.python_version(), "rows": rows}))
        return
    print(f"CPython {platform.python_version()}, agreed flood, {SIZE} B messages, one step a frame")
    print("members   a (us/frame)   b (us/message)   at 1     at 110")
    for row in rows:
        points = dict(row["points"])  # type: ignore[call-overload]
        print(
            f"{row['members']:7}   {row['a_us']:12.1f}   {row['b_us']:14.3f}"
            f"   {points[1]:6.1f}   {points[110]:6.1f}"
        )


if __name__ == "__main__":
    main()
