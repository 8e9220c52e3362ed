"""What a mesh costs as it grows: up to 64 members with 2,016 channels on one machine.

    python bench/bench_mesh_size.py [--sizes 4,8,16,32,64] [--tls] [--plot mesh-size.svg]

All members of a group are in this process and share its event loop, on the loopback interface, over
plain TCP or, with a shared key, over TLS. For each size: the time until all are in one view and all
channels are up; the processor time, packets and bytes of an idle group; and the processor time of
messages that the members send in turn, each delivered by all. Processor time is of the whole
process, so that other programs on the machine change it little; times that somebody waits depend on
the load, which is printed.

A member of a group of n sends and takes n - 1 copies of what the others send, so its cost for each
delivered message must not grow with n, and that of its keep-alives at most in proportion to n.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from phalanx import blocking
from phalanx.config import CROWDED, SharedKey, Tls, mesh
from phalanx.transport.channel import Channel
from phalanx.transport.record_codec import BEAT, encode_control

PORT = 7200
FORM_SECONDS = 300.0
IDLE_SECONDS = 20.0
MESSAGES = 100
"""Of each member."""
BODY = b"x" * 100
WIDTH, HEIGHT, LEFT, BOTTOM = 480, 260, 60, 40
COLORS = ("#1f6feb", "#d9480f", "#2b8a3e")


class Cost(msgspec.Struct, frozen=True):
    """What a group of one size cost. Processor time is in seconds of this process."""

    members: int
    channels: int
    formed_s: float
    formed_cpu_s: float
    idle_cpu_ms: float
    """Of each member, in each second."""
    idle_packets: float
    """Copies of packets that each member sends, in each second."""
    idle_beats: float
    """Beats of channels that each member sends, in each second."""
    idle_bytes: float
    """Bytes of both, before encryption, of each member, in each second."""
    delivery_cpu_us: float
    """Of one message at one member: sending, taking and acknowledging it."""
    load: float


@contextmanager
def counted_channels() -> Iterator[Counter[str]]:
    """Counts what all channels of this process are given to send: bytes and beats."""
    counts: Counter[str] = Counter()
    put, beat = Channel.put, encode_control(BEAT)

    def counting(self: Channel, now: int, data: bytes, always: bool = False) -> bool:
        counts["bytes"] += len(data)
        counts["beats"] += data == beat
        return put(self, now, data, always)

    Channel.put = counting  # type: ignore[method-assign]
    try:
        yield counts
    finally:
        Channel.put = put  # type: ignore[method-assign]


@contextmanager
def group_of(n: int, tls: Tls | None, keep_alive_ms: int) -> Iterator[list[blocking.Group]]:
    """n members of one mesh; all know the first two addresses."""
    seeds = [f"127.0.0.1:{PORT}", f"127.0.0.1:{PORT + 1}"]
    settings = CROWDED | {"alive_idle_ns": keep_alive_ms * 1_000_000, "tls": tls}
    with ExitStack() as undo:
        members = []
        for i in range(n):
            config = mesh(*seeds, address="127.0.0.1", port=PORT + i, **settings)
            member = blocking.join(f"size-{n}", name=f"m{i:02}", config=config, receive=False)
            undo.callback(member.leave)
            members.append(member)
        yield members


def in_one_view(members: Sequence[blocking.Group]) -> bool:
    ids = {member.view.id for member in members}
    complete = all(member.complete for member in members)
    return len(ids) == 1 and len(members[0].view.members) == len(members) and complete


def channels_up(members: Sequence[blocking.Group]) -> int:
    """Ends of channels that are up."""
    counts = [member.network_counts for member in members]
    return sum(one.get("channel-up", 0) - one.get("channel-down", 0) for one in counts)


def wait_formed(members: Sequence[blocking.Group], seconds: float) -> None:
    n, end = len(members), time.monotonic() + seconds
    while not (in_one_view(members) and channels_up(members) == n * (n - 1)):
        if time.monotonic() > end:
            views = sorted({len(member.view.members) for member in members})
            raise click.ClickException(
                f"{n} members: {channels_up(members)} ends of channels, views of {views}"
            )
        time.sleep(0.05)


def frames_sent(members: Sequence[blocking.Group]) -> int:
    """Frames and unnumbered packets that left all members, once for each."""
    return sum(member._runner.transport.sent for member in members)  # type: ignore[attr-defined]


def count_packets(members: Sequence[blocking.Group]) -> None:
    """Let the transports count what they are given to send."""
    for member in members:
        transport: Any = member._runner.transport
        transport.sent, send = 0, transport.send

        def counting(now: int, packets: list[bytes], at: Any = transport, to: Any = send) -> None:
            at.sent += len(packets)
            to(now, packets)

        transport.send = counting


def measure(n: int, tls: Tls | None, keep_alive_ms: int) -> Cost:
    started, cpu = time.monotonic(), time.process_time()
    with group_of(n, tls, keep_alive_ms) as members:
        wait_formed(members, FORM_SECONDS)
        formed, formed_cpu = time.monotonic() - started, time.process_time() - cpu
        view = members[0].view.id
        count_packets(members)
        time.sleep(2.0)
        before, cpu, since = frames_sent(members), time.process_time(), time.monotonic()
        with counted_channels() as counts:
            time.sleep(IDLE_SECONDS)
        idle = time.monotonic() - since
        idle_cpu = time.process_time() - cpu
        packets = (frames_sent(members) - before) * (n - 1)
        cpu = time.process_time()
        receipts = [member.send(BODY) for _ in range(MESSAGES) for member in members]
        for receipt in receipts:
            receipt.stable(FORM_SECONDS)
        sending_cpu = time.process_time() - cpu
        if members[0].view.id != view:
            raise click.ClickException(f"{n} members: the view changed")
        return Cost(
            members=n,
            channels=n * (n - 1) // 2,
            formed_s=round(formed, 1),
            formed_cpu_s=round(formed_cpu, 1),
            idle_cpu_ms=round(1e3 * idle_cpu / idle / n, 2),
            idle_packets=round(packets / idle / n, 1),
            idle_beats=round(counts["beats"] / idle / n, 1),
            idle_bytes=round(counts["bytes"] / idle / n),
            delivery_cpu_us=round(1e6 * sending_cpu / MESSAGES / n / n, 1),
            load=_load(),
        )


def _load() -> float:
    return float(Path("/proc/loadavg").read_text().split()[0])


# ---------------------------------------------------------------------------- the plot


def plot(costs: Sequence[Cost]) -> str:
    """An SVG: each cost for one member, beside that of the smallest group; a straight line through
    the origin is growth in proportion to the group."""
    lines = {
        "idle processor time": [cost.idle_cpu_ms for cost in costs],
        "idle bytes": [cost.idle_bytes for cost in costs],
        "processor time of a delivery": [cost.delivery_cpu_us for cost in costs],
    }
    largest = max(cost.members for cost in costs)
    ratios = {name: [value / values[0] for value in values] for name, values in lines.items()}
    linear = largest / costs[0].members
    top = max(linear, *(max(values) for values in ratios.values()))

    def at(members: float, ratio: float) -> str:
        x = LEFT + members / largest * (WIDTH - LEFT - 10)
        y = HEIGHT - BOTTOM - ratio / top * (HEIGHT - BOTTOM - 10)
        return f"{x:.1f},{y:.1f}"

    box = f"0 0 {WIDTH} {HEIGHT + 70}"
    head = f'xmlns="http://www.w3.org/2000/svg" viewBox="{box}" font-family="sans-serif"'
    slope = f"{at(0, 0)} {at(largest, linear)}"
    out = [
        f'<svg {head} font-size="11">',
        f'<polyline fill="none" stroke="#999" stroke-dasharray="4" points="{slope}"/>',
    ]
    for cost in costs:
        x, y = at(cost.members, 0).split(",")
        out.append(f'<text x="{x}" y="{float(y) + 16}" text-anchor="middle">{cost.members}</text>')
    for share in (0.25, 0.5, 0.75, 1):
        y = at(0, top * share).split(",")[1]
        out.append(f'<text x="{LEFT - 6}" y="{y}" text-anchor="end">{top * share:.1f}</text>')
    for row, (name, values) in enumerate(ratios.items()):
        points = " ".join(at(c.members, v) for c, v in zip(costs, values, strict=True))
        out.append(
            f'<polyline fill="none" stroke="{COLORS[row]}" stroke-width="2" points="{points}"/>'
        )
        below = HEIGHT + 12 * row
        out.append(f'<text x="{LEFT}" y="{below}" fill="{COLORS[row]}">{name}</text>')
    note = f"for one member, as a multiple of that in a group of {costs[0].members}; "
    note += "dashed: in proportion to the group"
    out.append(f'<text x="{LEFT}" y="{HEIGHT + 40}" fill="#666">{note}</text></svg>')
    return "\n".join(out) + "\n"


@click.command()
@click.option("--sizes", default="4,8,16,32,64", help="Group sizes, divided by commas.")
@click.option("--tls", "is_encrypted", is_flag=True, help="Use TLS with a shared key.")
@click.option("--keep-alive", default=1000, help="Milliseconds between keep-alives; 1000.")
@click.option("--plot", "picture", type=click.Path(path_type=Path), help="Write an SVG there.")
@click.option("--json", "as_json", is_flag=True)
def main(
    sizes: str, is_encrypted: bool, keep_alive: int, picture: Path | None, as_json: bool
) -> None:
    """Measure meshes of growing size."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    costs = []
    for n in map(int, sizes.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            key = Path(folder) / "shared.key"
            key.write_text(random.SystemRandom().randbytes(32).hex())
            cost = measure(n, SharedKey(str(key)) if is_encrypted else None, keep_alive)
        costs.append(cost)
        row = msgspec.structs.asdict(cost)
        click.echo(json.dumps(row) if as_json else "  ".join(f"{k} {v}" for k, v in row.items()))
        sys.stdout.flush()
        if picture is not None:  # at once: a larger group may not form on a busy machine
            picture.write_text(plot(costs))


if __name__ == "__main__":
    main()
