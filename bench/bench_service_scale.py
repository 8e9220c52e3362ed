"""What a change of membership costs in the wide-area service as interfaces become more, and what it
costs in one flat group.

    python bench/bench_service_scale.py [--sizes 10,100,1000,10000] [--flat 10,100] [--plot FILE]

The service runs in simulation: the machines of the product for servers in four levels of sets, for
homes and for interfaces; messages take 100 to 200 us. In a tree of each size there is a group with
a member at the interfaces of one LAN, one with a member at those of one building (a set of level
2), and one with a member in each LAN. Changes, one after another: a member joins, it leaves, the
interface of a member crashes; the home of a LAN crashes, and the parent of a building.

Time runs from the call or the crash until the last member concerned has its next view; for the
crash of a server, which changes no group, until every interface is polled on a whole way of
servers that are up.

Each message counts once for each receiver. Polls go on whether anything changes or not (Ask, Query,
QueryReply, reports of answers, the ring of monitors, announcements): they are counted in each
second of an idle tree. Everything else is the cost of a change.

In a flat group every interface is a member: the product's group for one broadcast domain, in its
own simulator, with the same delays (`bench_views.py`). A packet is counted once for each receiver
too, as it would have to be sent where there is no broadcast.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

if not __package__:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import click
import msgspec
from bench.flat_group import FlatCost, documented, flat
from bench.scale_world import SECOND, SHAPES, CountingWorld, spanned, tree_of

from phalanx.service.group_messages import CallKind, GroupCall
from phalanx.service.inputs import CallSubmitted
from phalanx.service.service_times import MILLISECOND
from phalanx.service.values import GroupView
from phalanx.sim.run import without_garbage_collection

CHANGE_SECONDS = 30
IDLE_SECONDS = 2
QUIET_NS = 400 * MILLISECOND
"""After the last message of a change, so that what follows from it is counted."""


# ---------------------------------------------------------------------------- changes


class ChangeCost(msgspec.Struct, frozen=True):
    """What one change cost. `parts`: its messages by kind."""

    interfaces: int
    servers: int
    group: str
    members: int
    change: str
    time_ms: float
    messages: int
    excluded: int
    """Members told that their membership is over, although their interface is up."""
    parts: dict[str, int]
    real_s: float


class IdleCost(msgspec.Struct, frozen=True):
    """Messages of an idle tree in each second, and those that the busiest server takes or sends."""

    interfaces: int
    servers: int
    polls: float
    busiest: float
    parts: dict[str, float]
    real_s: float


class ScaleRun:
    """A tree of one size with its groups."""

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self.topology = tree_of(SHAPES[size])
        self.rng = Random(seed)
        self.world = CountingWorld(self.rng, self.topology)
        self._number = 0

    @property
    def servers(self) -> int:
        return len(self.world.servers)

    def call(self, kind: CallKind, interface: str, name: str, **more: Any) -> str:
        self._number += 1
        id_ = f"c{interface}/{self._number}"
        call = GroupCall(id_, kind, interface, name, new_uid=f"g{self._number}-", **more)
        self.world.submit(self.world.interfaces[interface], CallSubmitted(call, 60 * SECOND))
        return id_

    def until(self, done: Callable[[], bool], seconds: int, what: str) -> None:
        end = self.world.now + seconds * SECOND
        while not done():
            if self.world.now >= end or self.world.is_broken:
                found = [*self.world.checks.violations, *self.world.group_checks.violations]
                raise click.ClickException(f"{self.size} interfaces: {what}: {found or 'late'}")
            self.world.run_until(self.world.now + 10 * MILLISECOND)

    def create(self, name: str, members: Sequence[str]) -> str:
        """A group with a member at each of these interfaces; its uid."""
        scope = {"scope": "T", "arguments": {"properties": '{"default_rights": "\\"admin\\""}'}}
        first = self.call("create", members[0], name, **scope)
        self.until(lambda: first in self.world.answers, 20, f"no group {name}")
        uid = self.world.answers[first].result.uid
        joins = [self.join(name, interface) for interface in members]
        self.until(lambda: all(j in self.world.answers for j in joins), 300, f"joins of {name}")
        self.until(lambda: self.has_whole_view(uid, len(members)), 60, f"view of {name}")
        return uid

    def join(self, name: str, interface: str) -> str:
        return self.call("join", interface, name, arguments={"create": "false"})

    def members(self, uid: str) -> Iterator[tuple[str, GroupView]]:
        """Members with their views, at interfaces that are up."""
        for host in self.world.interfaces.values():
            if host.machine is not None:
                for member, held in host.machine.book.members.items():
                    if held.uid == uid and not held.over and held.view is not None:
                        yield member, held.view

    def has_whole_view(self, uid: str, count: int) -> bool:
        """All members are in one view, with as many as there should be."""
        vids = set()
        found = 0
        for _, view in self.members(uid):
            vids.add(view.vid)
            found += 1
            if len(view.members) != count:
                return False
        return found == count and len(vids) == 1

    def rest(self) -> None:
        self.until(lambda: self.world.now - self.world.changed_at > QUIET_NS, 120, "no rest")

    def is_polled(self, since: int) -> bool:
        """Every interface that is up hears of a whole way of servers that are up, asked since."""
        world = self.world
        for host in world.interfaces.values():
            if host.machine is None:
                continue
            path = host.machine.home.path
            if len(path) < len(SHAPES[self.size]) - 1 or path[0].asked < since:
                return False
            if not all(world.servers[step.speaker.name].is_up for step in path):
                return False
        return True

    def measure(
        self,
        group: str,
        uid: str,
        change: str,
        count: int,
        begin: Callable[[], object],
        done: Callable[[], bool] | None = None,
    ) -> ChangeCost:
        """From a change to a whole view of `count` members, or to what `done` waits for."""
        self.rest()
        self.world.run_until(self.world.now + self.rng.randrange(SECOND // 4))
        self.world.reset()
        started, real = self.world.now, time.process_time()
        self.world.changed_at = started
        begin()
        self.until(
            done or (lambda: self.has_whole_view(uid, count)), CHANGE_SECONDS, f"{change} {group}"
        )
        last = self.world.now
        if done is None:
            there = {member for member, _ in self.members(uid)}
            last = max(at for member, (at, _) in self.world.noticed.items() if member in there)
        self.rest()
        return ChangeCost(
            self.size,
            self.servers,
            group,
            count,
            change,
            round((last - started) / MILLISECOND, 1),
            sum(self.world.changes.values()),
            sum(view is None for _, view in self.world.noticed.values()) - (change == "leave"),
            dict(sorted(self.world.changes.items())),
            round(time.process_time() - real, 1),
        )

    def idle(self) -> IdleCost:
        self.rest()
        self.world.reset()
        real = time.process_time()
        self.world.run_until(self.world.now + IDLE_SECONDS * SECOND)
        parts = {k: n / IDLE_SECONDS for k, n in sorted(self.world.polls.items())}
        took = round(time.process_time() - real, 1)
        busiest = max(self.world.load[name] for name in self.world.servers) / IDLE_SECONDS
        return IdleCost(self.size, self.servers, sum(parts.values()), busiest, parts, took)


KINDS = ("LAN", "building", "all")


def play(
    size: int, seed: int, report: Callable[[str], None], kinds: Sequence[str] = KINDS
) -> Iterator[ChangeCost | IdleCost]:
    """A tree, then one group after another, and its changes one after another."""
    run = ScaleRun(size, seed)
    run.world.run_until(SECOND)
    report(
        f"{size} interfaces, {run.servers} servers: up, {time.process_time():.0f} s of processor"
    )
    yield run.idle()
    places = {kind: spanned(run.topology, kind) for kind in kinds}
    uids: dict[str, str] = {}
    for kind, names in places.items():
        uids[kind] = run.create(kind, names)
        report(f"group {kind} of {len(names)}, {time.process_time():.0f} s of processor")
        yield from _changes(run, kind, uids[kind], names)
    if "building" not in places:
        return
    building = places["building"]
    home = run.topology.homes[building[0]]
    parent = run.topology.sets[run.topology.set_of_interface(building[0])].parent
    assert parent is not None
    for change, server in (("home crash", home), ("parent crash", parent)):
        yield _server_crash(run, uids["building"], len(building), change, server)


def _changes(run: ScaleRun, kind: str, uid: str, names: list[str]) -> Iterator[ChangeCost]:
    world, n = run.world, len(names)
    chosen = run.rng.choice(names)
    yield run.measure(kind, uid, "join", n + 1, lambda: run.join(kind, chosen))
    leaver = max(m for m, _ in run.members(uid) if m.rpartition("/")[0] == chosen)

    def leave() -> None:
        run.call("leave", chosen, uid, member=leaver)

    yield run.measure(kind, uid, "leave", n, leave)
    victim = world.interfaces[chosen]
    yield run.measure(kind, uid, "interface crash", n - 1, lambda: world.crash(victim))
    world.start(victim)
    run.rest()
    run.join(kind, chosen)
    run.until(lambda: run.has_whole_view(uid, n), CHANGE_SECONDS, "join again")


def _server_crash(run: ScaleRun, uid: str, count: int, change: str, name: str) -> ChangeCost:
    """Its interfaces find another home, its sets another parent; no view changes."""
    world, server, since = run.world, run.world.servers[name], 0

    def crash() -> None:
        nonlocal since
        since = world.now
        world.crash(server)

    done = lambda: run.is_polled(since) and run.has_whole_view(uid, count)  # noqa: E731
    cost = run.measure("building", uid, change, count, crash, done)
    world.start(server)
    run.until(lambda: name in world.servers and not _absent(run), 60, f"{name} comes back")
    return cost


def _absent(run: ScaleRun) -> bool:
    """Whether a server is missing in a set that it is configured for."""
    for server in run.world.servers.values():
        assert server.machine is not None
        for name in run.topology.sets_of(server.name):
            log = server.machine.logs.get(name)
            if log is None or len(log.state.view) != len(run.topology.sets[name].members):
                return True
    return False


# ---------------------------------------------------------------------------- the plot

WIDTH, HEIGHT, LEFT, BOTTOM = 480, 280, 60, 40
COLORS = {"LAN": "#1f6feb", "building": "#2b8a3e", "all": "#7048e8", "flat": "#d9480f"}


def plot(costs: Sequence[ChangeCost], flats: Sequence[FlatCost]) -> str:
    """An SVG: messages of a crash, both axes logarithmic; the flat group is dashed where it is not
    measured but calculated."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for cost in costs:
        if cost.change == "interface crash":
            lines.setdefault(cost.group, []).append((cost.interfaces, cost.messages))
    sizes = sorted({size for line in lines.values() for size, _ in line})
    measured = [(each.members, each.copies) for each in flats if each.change == "crash"]
    formula = [(size, float(documented(size))) for size in sizes]
    top = math.log10(max(y for line in [*lines.values(), formula] for _, y in line))
    first, last = math.log10(sizes[0]), math.log10(sizes[-1])

    def at(size: float, count: float) -> str:
        x = LEFT + (math.log10(size) - first) / max(last - first, 1e-9) * (WIDTH - LEFT - 30)
        y = HEIGHT - BOTTOM - math.log10(max(count, 1)) / top * (HEIGHT - BOTTOM - 10)
        return f"{x:.1f},{y:.1f}"

    def line(points: Sequence[tuple[int, float]], color: str, dashes: str = "") -> str:
        where = " ".join(at(*point) for point in points)
        return f'<polyline fill="none" stroke="{color}" stroke-width="2"{dashes} points="{where}"/>'

    box = f"0 0 {WIDTH} {HEIGHT + 80}"
    head = f'xmlns="http://www.w3.org/2000/svg" viewBox="{box}" font-family="sans-serif"'
    out = [f'<svg {head} font-size="11">']
    for size in sizes:
        x = at(size, 1).split(",")[0]
        y = HEIGHT - BOTTOM + 16
        out.append(f'<text x="{x}" y="{y}" text-anchor="middle">{size:,}</text>')
    for power in range(0, math.ceil(top) + 1, 2):
        height = at(sizes[0], 10**power).split(",")[1]
        out.append(f'<text x="{LEFT - 6}" y="{height}" text-anchor="end">{10**power:,}</text>')
    out.append(line(formula, COLORS["flat"], ' stroke-dasharray="4"'))
    if measured:
        out.append(line(measured, COLORS["flat"]))
    names = {
        "LAN": "service: the group of one LAN",
        "building": "service: the group of one building",
        "all": "service: a group with one member in each LAN",
        "flat": "one flat group of all interfaces (dashed: calculated)",
    }
    for row, (name, text) in enumerate(names.items()):
        if name in lines:
            out.append(line(lines[name], COLORS[name]))
        out.append(f'<text x="{LEFT}" y="{HEIGHT + 12 * row}" fill="{COLORS[name]}">{text}</text>')
    note = "messages after the crash of one interface, by the number of interfaces"
    out.append(f'<text x="{LEFT}" y="{HEIGHT + 60}" fill="#666">{note}</text></svg>')
    return "\n".join(out) + "\n"


# ---------------------------------------------------------------------------- the command


def numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",") if each]


@click.command()
@click.option("--sizes", default="10,100,1000", help="Interfaces: 10, 100, 1000, 10000.")
@click.option("--flat", "flat_sizes", default="10,32,100", help="Members of the flat group.")
@click.option("--groups", default=",".join(KINDS), help="Groups: LAN, building, all.")
@click.option("--trials", default=5, help="Trials of each change of the flat group; 5.")
@click.option("--seed", default=1)
@click.option("--plot", "picture", type=click.Path(path_type=Path), help="Write an SVG there.")
@click.option("--json", "as_json", is_flag=True)
def main(
    sizes: str,
    flat_sizes: str,
    groups: str,
    trials: int,
    seed: int,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Measure changes of membership in trees of growing size, and in a flat group."""
    costs: list[ChangeCost] = []
    flats: list[FlatCost] = []

    def show(cost: ChangeCost | IdleCost | FlatCost) -> None:
        row = msgspec.structs.asdict(cost)
        if as_json:
            click.echo(json.dumps({"kind": type(cost).__name__, **row}))
        else:
            click.echo("  ".join(f"{k} {v}" for k, v in row.items() if k != "parts"))
        sys.stdout.flush()
        if picture is not None and any(cost.change == "interface crash" for cost in costs):
            picture.write_text(plot(costs, flats))

    for n in numbers(flat_sizes):
        for change in ("join", "crash"):
            flats.append(flat(n, change, trials))
            show(flats[-1])
    for size in numbers(sizes):
        if size not in SHAPES:
            raise click.ClickException(
                f"no tree of {size} interfaces: {', '.join(map(str, SHAPES))}"
            )
        with without_garbage_collection():
            progress = lambda text: click.echo(text, err=True)  # noqa: E731
            for cost in play(size, seed, progress, [k for k in KINDS if k in groups]):
                if isinstance(cost, ChangeCost):
                    costs.append(cost)
                show(cost)


if __name__ == "__main__":
    main()
