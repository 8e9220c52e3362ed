"""Phalanx as it is used: processes, sockets, a network; beside Corosync, in one run.

Members run in network namespaces on one bridge, MTU 1500 (`namespaces.py`); where that is not
permitted they run on the loopback interface, without a peer. All systems take turns, trial by
trial; results are medians, and what counts is the ratio. `--headline` is what `make bench` shows,
in under 20 minutes.

    python bench/bench_real.py --headline
    python bench/bench_real.py throughput --members 2,4,8 --size 100,1000,10000 --against corosync
    python bench/bench_real.py failover --trials 20 --against corosync --json
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

if not __package__:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import click
from bench.namespaces import Lan, LanError, available
from bench.peers.corosync import corosync

from phalanx.benchmark.phalanx_system import BenchPlace, Loopback, PhalanxSystem
from phalanx.benchmark.suite import Suite
from phalanx.benchmark.trial import BenchmarkedSystem
from phalanx.cli.bench import (
    EVERYBODY,
    KINDS,
    BenchOutput,
    journals,
    options,
    run_suite,
    temporary_journals,
)
from phalanx.errors import PhalanxError

HEADLINE_SECONDS = 4
HEADLINE_TRIALS = 3
HEADLINE_CHANGES = 10
IDLE_SECONDS = 20
RATE = 200


@click.command("bench_real")
@options
@click.option("--against", type=click.Choice(["corosync"]), help="Measure this peer as well.")
@click.option("--wire", is_flag=True, help="Cut every packet at the card, as a wire would.")
@click.option("--loss", type=click.FloatRange(0, 50), default=0.0, help="Percent; with --wire.")
@click.option("--headline", is_flag=True, help="What `make bench` shows; only --json counts.")
def main(
    what: tuple[str, ...],
    members: tuple[int, ...],
    sizes: tuple[int, ...],
    services: tuple[str, ...],
    seconds: int,
    trials: int,
    rate: int,
    no_offload: bool,
    journal: str | None,
    no_journal: bool,
    as_json: bool,
    against: str | None,
    wire: bool,
    loss: float,
    headline: bool,
) -> None:
    """Measure groups in network namespaces, beside Corosync if asked to."""
    output = BenchOutput("corosync" if against or headline else "phalanx", as_json)
    peer = _peer(output, against, headline)
    if headline:
        suite = output.suite(seconds=HEADLINE_SECONDS, trials=HEADLINE_TRIALS)
        with _network(4, output) as (place, lan):
            _headline(suite, place, lan, peer)
    else:
        suite = output.suite(seconds=seconds, trials=trials)
        for n in members:
            with (
                _network(n, output, wire or loss > 0, loss) as (place, lan),
                journals(suite, journal, no_journal) as folder,
            ):
                ours = PhalanxSystem("phalanx", place, journal=folder, offload=not no_offload)
                systems: list[BenchmarkedSystem] = [ours, *_beside(lan, peer)]
                kinds = what or KINDS
                run_suite(
                    suite, systems, kinds, sizes, services, rate, trials, seconds, network=lan
                )
    about = {"network": "loopback" if available() else "namespaces", "wire": wire, "loss": loss}
    output.close(suite, **about, **({"corosync": corosync.version()} if peer else {}))


def _headline(suite: Suite, place: BenchPlace, lan: Lan | None, peer: bool) -> None:
    ours = PhalanxSystem("phalanx", place)
    plain = PhalanxSystem("phalanx, no offload", place, offload=False)
    peers = _beside(lan, peer)
    for size in (100, 1000, 10_000):
        suite.throughput([ours, plain, *peers], size, "agreed")
    with temporary_journals(suite) as folder:
        kept = PhalanxSystem("phalanx, journal", place, journal=folder)
        suite.throughput([ours, kept], 100, "agreed")
        kept = PhalanxSystem("phalanx", place, journal=folder)
        for senders in (1, EVERYBODY):
            suite.latency([kept, *peers], 100, "agreed", RATE, senders)
        suite.failover([kept, *peers], HEADLINE_CHANGES, lan)
        suite.idle([kept, *peers], IDLE_SECONDS)


def _beside(lan: Lan | None, peer: bool) -> list[BenchmarkedSystem]:
    return [corosync.Corosync(lan)] if peer and lan else []


@contextmanager
def _network(
    n: int, output: BenchOutput, wire: bool = False, loss: float = 0.0
) -> Iterator[tuple[BenchPlace, Lan | None]]:
    """A network of our own where that is permitted, or else the loopback interface."""
    reason = available()
    if reason and wire:
        raise click.ClickException(f"--wire and --loss need a network of their own: {reason}")
    if reason:
        output.say(f"on the loopback interface: {reason}")
        yield Loopback(n), None
        return
    with Lan(n, offload=not wire) as lan:
        for i in range(n):
            lan.lose(i, loss / 100)
        yield lan, lan


def _peer(output: BenchOutput, against: str | None, headline: bool) -> bool:
    """Whether Corosync takes part. If it was asked for by name, it must."""
    if against is None and not headline:
        return False
    reason = available() or corosync.missing()
    if reason and against:
        raise click.ClickException(f"--against {against}: {reason}")
    if reason:
        output.say(f"Phalanx alone: {reason}")
    return not reason


def _interrupted(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _interrupted)  # so that namespaces and daemons are taken away
    try:
        main()
    except (PhalanxError, LanError) as error:
        sys.exit(f"bench_real: {error}")
