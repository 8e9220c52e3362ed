"""The mesh: beside multicast, fan-out and PySyncObj, and around broken channels.

    python bench/bench_mesh.py compare --trials 3 [--pysyncobj PYTHON]
    python bench/bench_mesh.py failover --trials 50
    python bench/bench_mesh.py links --members 5
    python bench/bench_mesh.py breaks --seconds 60

`compare` measures throughput and latency; members run in network namespaces, or on the loopback
interface where that is not permitted. `links` cuts every channel in turn, and each direction of it,
while members send; `breaks` closes one channel each second, at random. Both count view changes and
check the journals. All members use TLS with a shared key, except where it says plain.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import permutations
from pathlib import Path
from statistics import median
from typing import Any

if not __package__:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import click
import msgspec
from bench.bench_real import _network
from bench.peers.pysyncobj.pysyncobj_system import PySyncObjSystem

from phalanx.benchmark.phalanx_system import BenchPlace, PhalanxSystem
from phalanx.benchmark.trial import BenchmarkedSystem
from phalanx.benchmark.usage import load
from phalanx.cli.bench import EVERYBODY, BenchOutput, temporary_journals
from phalanx.config import MESH, SharedKey
from phalanx.harness.controller import MemberProcess, all_in_view
from phalanx.harness.demo_script import NAMES, mesh_config
from phalanx.journal import reader
from phalanx.verify.evidence import judge

RATE = 200


@click.group()
def main() -> None:
    """Measure the mesh."""


def _systems(place: BenchPlace, folder: Path, journal: Path | None) -> list[BenchmarkedSystem]:
    key = folder / "shared.key"
    key.write_text(random.SystemRandom().randbytes(32).hex())
    tls = SharedKey(str(key))
    return [
        PhalanxSystem("multicast", place, journal=journal),
        PhalanxSystem("fan-out", place, journal=journal, network="fanout"),
        PhalanxSystem("mesh, TLS", place, journal=journal, **MESH, tls=tls),
        PhalanxSystem("mesh, plain", place, journal=journal, **MESH, insecure=True),
    ]


@main.command()
@click.option("--members", default=4)
@click.option("--size", default=100)
@click.option("--seconds", default=4)
@click.option("--trials", default=3)
@click.option("--pysyncobj", metavar="PYTHON", help="An interpreter that has the package.")
@click.option("--json", "as_json", is_flag=True)
def compare(
    members: int, size: int, seconds: int, trials: int, pysyncobj: str | None, as_json: bool
) -> None:
    """Throughput and latency beside multicast, fan-out and PySyncObj."""
    output = BenchOutput("mesh, TLS", as_json)
    suite = output.suite(seconds=seconds, trials=trials)
    with (
        _network(members, output) as (place, _),
        tempfile.TemporaryDirectory() as folder,
        temporary_journals(suite) as journal,
    ):
        systems = _systems(place, Path(folder), None)
        peers: list[BenchmarkedSystem] = []
        if pysyncobj is not None:
            peers.append(PySyncObjSystem("PySyncObj", place, pysyncobj))
        suite.throughput([*systems, *peers], size, "agreed")
        journalled = _systems(place, Path(folder), journal)
        for senders in (1, EVERYBODY):
            suite.latency(journalled, size, "agreed", RATE, senders)
    output.close(suite)


@main.command()
@click.option("--members", default=4)
@click.option("--trials", default=50)
@click.option("--json", "as_json", is_flag=True)
def failover(members: int, trials: int, as_json: bool) -> None:
    """From kill -9 to the new view at the last survivor."""
    output = BenchOutput("mesh, TLS", as_json)
    suite = output.suite(seconds=1, trials=1)
    with (
        _network(members, output) as (place, lan),
        tempfile.TemporaryDirectory() as folder,
        temporary_journals(suite) as journal,
    ):
        suite.failover(_systems(place, Path(folder), journal)[2:3], trials, lan)
    output.close(suite)


# ---------------------------------------------------------------------------- broken channels


class MeshRun:
    """Members on the loopback interface, and what their journals prove."""

    def __init__(self, folder: Path, n: int) -> None:
        self.folder = folder
        config_of = mesh_config(folder, "bench-mesh")
        self.members = [
            MemberProcess(
                {
                    "group": "bench-mesh",
                    "name": name,
                    "config": msgspec.to_builtins(config_of(name)),
                    "journal": str(folder / "journals"),
                }
            )
            for name in NAMES[:n]
        ]

    def begin(self) -> None:
        for member in self.members:
            member.joined()
        all_in_view(self.members, 30)
        self.connected()
        self._views = self._count_views()

    def connected(self) -> None:
        """Wait until all channels are up."""
        end = time.monotonic() + 30
        for member in self.members:
            while self.channels(member) != len(self.members) - 1:
                if time.monotonic() > end:
                    raise click.ClickException("the members are not connected")
                time.sleep(0.01)

    @staticmethod
    def channels(member: MemberProcess) -> int:
        counts = member.report()["network"]
        return int(counts.get("channel-up", 0) - counts.get("channel-down", 0))

    def _count_views(self) -> int:
        return sum(len(member.views) for member in self.members)

    @property
    def view_changes(self) -> int:
        return self._count_views() - self._views

    def exchange(self, service: str, count: int, pause: float) -> None:
        """Every member sends stamped messages; returns when they are everywhere."""
        marks = [len(member.events) for member in self.members]
        for member in self.members:
            member.do("trickle", count=count, pause=pause, service=service)
        for member, mark in zip(self.members, marks, strict=True):
            member.wait(lambda e: e["event"] == "sent", 60, mark, "all is sent")

    def latencies(self, receiver: int) -> dict[str, list[int]]:
        """Nanoseconds from send to delivery since the last report, by sender."""
        found: dict[str, list[int]] = self.members[receiver].report()["latencies"]
        return found

    def verdict(self) -> str:
        for member in self.members:
            member.leave()
        (evidence,) = judge(reader.read_all([self.folder / "journals"]))
        report = evidence.report
        checked = report.properties["virtual-synchrony"].evaluated
        return f"{len(report.violations)} violations, virtual-synchrony checked {checked} times"


@contextmanager
def _run(n: int) -> Iterator[MeshRun]:
    folder = Path(tempfile.mkdtemp(prefix="phalanx-mesh-"))
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        run = MeshRun(folder, n)
        for member in run.members:
            undo.callback(member.close)
        run.begin()
        yield run


@main.command()
@click.option("--members", default=5)
@click.option("--count", default=300, help="Messages of each member while a channel is cut.")
@click.option("--json", "as_json", is_flag=True)
def links(members: int, count: int, as_json: bool) -> None:
    """Cut every channel in turn, and each direction of it."""
    times: dict[str, list[int]] = {"direct": [], "relayed, both ways": [], "relayed, one way": []}
    cuts, load_before = 0, load()
    with _run(members) as run:
        run.exchange("causal", count, 0.005)
        for i in range(members):
            for sender, values in run.latencies(i).items():
                times["direct"] += values if sender != NAMES[i] else []
        for i, j in permutations(range(members), 2):
            for how in ("cut", "cut_from") if i < j else ("cut_from",):
                run.members[i].run(how, addresses=[run.members[j].address])
                run.exchange("causal", count, 0.005)
                kind = "relayed, both ways" if how == "cut" else "relayed, one way"
                times[kind] += run.latencies(i).get(NAMES[j], [])
                run.members[i].run("heal")
                run.connected()
                for member in run.members:
                    member.report()  # forget the latencies of this cut
                cuts += 1
                text = f"{how} {NAMES[i]} {NAMES[j]}: {run.view_changes} view changes"
                click.echo(text, err=True)
        changes = run.view_changes
        verdict = run.verdict()
    found: dict[str, Any] = {
        "members": members,
        "cuts": cuts,
        "view_changes": changes,
        "verdict": verdict,
        "load_before": load_before,
        "latency_ms": {kind: _summary(values) for kind, values in times.items()},
    }
    click.echo(json.dumps(found) if as_json else json.dumps(found, indent=2))
    raise click.exceptions.Exit(1 if changes or not verdict.startswith("0 ") else 0)


def _summary(values: list[int]) -> dict[str, float]:
    values = sorted(values)
    return {
        "messages": len(values),
        "p50": round(median(values) / 1e6, 2),
        "p99": round(values[int(len(values) * 0.99)] / 1e6, 2),
        "max": round(values[-1] / 1e6, 2),
    }


@main.command()
@click.option("--members", default=4)
@click.option("--seconds", default=60)
@click.option("--seed", default=1)
@click.option("--json", "as_json", is_flag=True)
def breaks(members: int, seconds: int, seed: int, as_json: bool) -> None:
    """Close one channel each second, at random, for 0.3 s, while all members flood."""
    dice, broken, load_before = random.Random(seed), 0, load()
    with _run(members) as run:
        marks = [len(member.events) for member in run.members]
        for member in run.members:
            member.do("flood", seconds=seconds, size=100, service="agreed")
        end = time.monotonic() + seconds
        while (began := time.monotonic()) < end:
            one, two = dice.sample(run.members, 2)
            one.run("cut", addresses=[two.address])
            broken += 1
            time.sleep(0.3)
            one.run("heal")
            time.sleep(max(0.0, began + 1 - time.monotonic()))
        sent = [
            member.wait(lambda e: e["event"] == "sent", 60, mark)["count"]
            for member, mark in zip(run.members, marks, strict=True)
        ]
        run.exchange("safe", 1, 0)
        delivered = [member.report()["delivered"].get("AGREED", 0) for member in run.members]
        changes = run.view_changes
        verdict = run.verdict()
    found = {
        "members": members,
        "seconds": seconds,
        "breaks": broken,
        "share_of_channels_per_second": round(broken / seconds / (members * (members - 1) / 2), 3),
        "view_changes": changes,
        "sent": sum(sent),
        "delivered": delivered,
        "messages_per_second": round(sum(sent) / seconds),
        "verdict": verdict,
        "load_before": load_before,
    }
    click.echo(json.dumps(found) if as_json else json.dumps(found, indent=2))
    complete = all(count == sum(sent) for count in delivered)
    raise click.exceptions.Exit(0 if complete and not changes and verdict[:2] == "0 " else 1)


if __name__ == "__main__":
    main()
