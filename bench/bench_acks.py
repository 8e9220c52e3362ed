"""What acknowledgements cost: frames, packets and steps per message, and the latency they buy.

Groups in the simulator, on a network with a delay of 100 to 150 us: some members send 100
messages a second each, at uneven distances, all agreed or all safe; the others are silent. After
a warm-up every frame without messages or control (`acks`), every packet and every step of a
member is counted and divided by the messages sent in that time; times pass from submission to
delivery, at every member, the sender included. All but the wall time depends on the options
alone. A packet counts once, however many members receive it; a step counts at each of them.
Steps take no time unless `--step-us` says so; what arrives during a step is taken in the next.

    python bench/bench_acks.py [--members 4,16,32,64] [--senders 1,4,8] [--ms 400] [--step-us 0]
        [--json]
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from time import perf_counter
from typing import Any

from phalanx.config import Config
from phalanx.core.effects import Accepted, Deliver, Effect, Input, Transmit
from phalanx.core.ids import MemberId, View
from phalanx.core.member.member import Member
from phalanx.core.wire.frame_codec import decode_frame
from phalanx.core.wire.frames import Frame, FrameKind
from phalanx.core.wire.packets import Fragment
from phalanx.sim.scenario.model import MS, Network, Peculiarity, Scenario, Spoken, Traffic
from phalanx.sim.world import World

WARM_NS = 100 * MS
GAP_NS, JITTER_NS = 5 * MS, 10 * MS
"""Between two messages of a sender lie 5 to 15 ms."""
SERVICES: tuple[Spoken, ...] = ("agreed", "safe")


class Counts:
    """What the members of one run did after the warm-up."""

    def __init__(self, until: int) -> None:
        self.until = until
        self.acks = self.packets = self.steps = self.messages = 0
        self.submitted: dict[tuple[MemberId, int], int] = {}
        self.latencies: list[int] = []

    def counts(self, now: int) -> bool:
        return WARM_NS <= now < self.until


class CountedMember(Member):
    """A member that counts what it sends and when it delivers."""

    def __init__(
        self, counts: Counts, me: MemberId, view: View, group: str, config: Config, entropy: int
    ) -> None:
        super().__init__(me, view, group, config, entropy)
        self._counts = counts

    def step(self, now: int, given: Input) -> list[Effect]:
        counts = self._counts
        effects = super().step(now, given)
        within = counts.counts(now)
        counts.steps += within
        for effect in effects:
            if isinstance(effect, Transmit) and within:
                counts.packets += len(effect.packets)
                counts.acks += sum(map(self._is_ack, effect.packets))
            elif isinstance(effect, Accepted) and within:
                counts.messages += 1
                counts.submitted[self.me, effect.first] = now
            elif isinstance(effect, Deliver):
                for number in range(effect.first, effect.last + 1):
                    sent = counts.submitted.get((effect.sender, number))
                    if sent is not None:
                        counts.latencies.append(now - sent)
        return effects

    def _is_ack(self, packet: bytes) -> bool:
        """Whether a packet is a new frame of this member with acknowledgements only."""
        frame = self._codec.decode(packet)
        if not isinstance(frame, Fragment) or frame.repeat:
            return False
        read = decode_frame(
            frame.sender, frame.number, frame.piece, 0, frame.table, len(self.view.members)
        )
        return isinstance(read, Frame) and read.kind == FrameKind.ACK


def play(
    members: int, senders: int, service: Spoken, span_ns: int, step_ns: int = 0
) -> dict[str, Any]:
    """One group: its costs per message, and the times in microseconds."""
    names = tuple(f"m{i:02}" for i in range(members))
    speaking = [names[i * members // senders] for i in range(senders)]
    until = WARM_NS + span_ns
    traffic = tuple(
        Traffic(
            from_=name,
            at_ns=20 * MS + 1_300_000 * i,
            every_ns=GAP_NS,
            jitter_ns=JITTER_NS,
            count=until // (GAP_NS + JITTER_NS // 2),
            size=100,
            service=service,
        )
        for i, name in enumerate(speaking)
    )
    scenario = Scenario(
        members=names,
        network=Network(delay_ns=100_000, jitter_ns=50_000),
        traffic=traffic,
        member=tuple(Peculiarity(name=name, cpu_ns=step_ns) for name in names if step_ns),
        steps_max=100_000_000,
    )
    counts = Counts(until)

    def make(me: MemberId, view: View, group: str, config: Config, entropy: int) -> CountedMember:
        return CountedMember(counts, me, view, group, config, entropy)

    started = perf_counter()
    outcome = World(scenario, make).run()
    assert outcome.stuck is None, outcome.stuck
    assert outcome.exception is None, outcome.exception
    latencies = sorted(counts.latencies)
    assert len(latencies) == counts.messages * members, "a message was not delivered everywhere"
    return {
        "members": members,
        "senders": senders,
        "service": service,
        "messages": counts.messages,
        "acks": round(counts.acks / counts.messages, 1),
        "packets": round(counts.packets / counts.messages, 1),
        "steps": round(counts.steps / counts.messages),
        "p50_us": latencies[len(latencies) // 2] // 1000,
        "p99_us": latencies[len(latencies) * 99 // 100] // 1000,
        "wall_s": round(perf_counter() - started, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--members", default="4,16,32,64", help="group sizes (default %(default)s)")
    parser.add_argument(
        "--senders", default="1,4,8", help="100 messages a second each (default %(default)s)"
    )
    parser.add_argument(
        "--ms", type=int, default=400, help="simulated time that counts (default %(default)s)"
    )
    parser.add_argument(
        "--step-us", type=int, default=0, help="what a step of a member takes (default 0)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    args = parser.parse_args()
    rows = []
    for members in map(int, args.members.split(",")):
        for senders in sorted({min(int(s), members) for s in args.senders.split(",")}):
            for service in SERVICES:
                rows.append(play(members, senders, service, args.ms * MS, args.step_us * 1000))
                print(f"  {rows[-1]}", file=sys.stderr)
    if args.json:
        print(json.dumps({"python": platform.python_version(), "rows": rows}))
        return
    print("members  senders  service  acks/msg  packets/msg  steps/msg   p50 us   p99 us")
    for row in rows:
        print(
            f"{row['members']:7}  {row['senders']:7}  {row['service']:7}"
            f"  {row['acks']:8.1f}  {row['packets']:11.1f}  {row['steps']:9}"
            f"  {row['p50_us']:7}  {row['p99_us']:7}"
        )


if __name__ == "__main__":
    main()
