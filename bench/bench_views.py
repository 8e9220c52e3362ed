"""How long a change of view takes and what it costs, in simulation with LAN delays.

Default settings, links of 100 us with up to 100 us of jitter, light traffic. Per trial a group
boots together, then one member crashes (or a part is cut off and the cut heals); time runs
from the crash or the heal to the install of the next view at the last of those concerned.
Traffic of the change: packets and bytes that all members together sent from the first
proposal to the last install, without those that carry messages.

    python bench/bench_views.py [--members 4,16,64] [--trials 20] [--loss 0] [--json]
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
from random import Random
from typing import Any, ClassVar

import msgspec

from phalanx.config import Config
from phalanx.core.effects import Effect, Input, Transmit
from phalanx.core.ids import MemberId, View
from phalanx.core.member.member import Member
from phalanx.journal.schema import Event, ViewChangeStep, ViewInstalled
from phalanx.sim.scenario.model import (
    MS,
    SECOND,
    Crash,
    Heal,
    Network,
    Partition,
    Scenario,
    Traffic,
)
from phalanx.sim.world import World

Sent = list[tuple[int, int, int]]


class Counted(Member):
    """A member that notes when it sends how much."""

    sent: ClassVar[Sent] = []

    def step(self, now: int, given: Input) -> list[Effect]:
        effects = super().step(now, given)
        for effect in effects:
            if isinstance(effect, Transmit):
                size = sum(map(len, effect.packets))
                self.sent.append((now, len(effect.packets), size))
        return effects


def make(me: MemberId, view: View, group: str, config: Config, entropy: int) -> Counted:
    return Counted(me, view, group, config, entropy)


class Trial(msgspec.Struct):
    kind: str
    members: int
    seconds: float
    packets: int
    bytes: int
    views: int


def play(kind: str, n: int, seed: int, loss_ppm: int) -> Trial:
    dice = Random(f"{kind} {n} {seed}")
    names = tuple(f"m{i:02}" for i in range(n))
    at = SECOND + dice.randrange(SECOND)
    tables: dict[str, Any] = {}
    if kind == "crash":
        tables["crash"] = (Crash(member=dice.choice(names), at_ns=at),)
    else:
        cut = dice.sample(names, dice.randrange(1, n // 2 + 1))
        tables["partition"] = (Partition(at_ns=at, groups=(tuple(sorted(cut)),)),)
        at += 3 * SECOND + dice.randrange(SECOND)
        tables["heal"] = (Heal(at_ns=at),)
    scenario = Scenario(
        name=kind,
        seed=seed,
        members=names,
        steps_max=20_000_000,
        network=Network(delay_ns=100_000, jitter_ns=100_000, loss_ppm=loss_ppm),
        traffic=(Traffic(from_=names[0], every_ns=200 * MS, count=int(at / (200 * MS)) + 10),),
        **tables,
    )
    Counted.sent = []
    outcome = World(scenario, make).run()
    if outcome.exception or outcome.stuck:
        raise SystemExit(f"{kind} {n} {seed}: {outcome.exception or outcome.stuck}")
    return measure(kind, n, at, outcome.rows)


def measure(kind: str, n: int, at: int, rows: list[Event]) -> Trial:
    """From the fault or heal to the last install after it."""
    installs = [r.sim_ns or 0 for r in rows if isinstance(r, ViewInstalled) and r.cause != "boot"]
    after = [t for t in installs if t >= at]
    steps = [
        r.sim_ns or 0
        for r in rows
        if isinstance(r, ViewChangeStep) and r.action in ("FA", "START") and (r.sim_ns or 0) >= at
    ]
    first, last = min(steps), max(after)
    span = [(packets, size) for t, packets, size in Counted.sent if first <= t <= last]
    return Trial(
        kind,
        n,
        (last - at) / SECOND,
        sum(packets for packets, _ in span),
        sum(size for _, size in span),
        len(after),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", default="4,16,64")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--loss", type=int, default=0, help="parts per million")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = []
    if not args.json:
        print(f"Python {platform.python_version()}, loss {args.loss} ppm, {args.trials} trials")
        print(
            "kind   members   min s   p50 s   p90 s   max s   packets     bytes  packets/member^2"
        )
    for kind in ("crash", "heal"):
        for n in map(int, args.members.split(",")):
            trials = [play(kind, n, seed, args.loss) for seed in range(args.trials)]
            times = sorted(t.seconds for t in trials)
            packets = int(statistics.median(t.packets for t in trials))
            size = int(statistics.median(t.bytes for t in trials))
            row = {
                "kind": kind,
                "members": n,
                "min": times[0],
                "p50": times[len(times) // 2],
                "p90": times[len(times) * 9 // 10],
                "max": times[-1],
                "packets": packets,
                "bytes": size,
            }
            rows.append(row)
            if not args.json:
                print(
                    f"{kind:6} {n:7} {row['min']:7.3f} {row['p50']:7.3f} {row['p90']:7.3f} "
                    f"{row['max']:7.3f} {packets:9} {size:9} {packets / n / n:17.2f}"
                )
                sys.stdout.flush()
    if args.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
