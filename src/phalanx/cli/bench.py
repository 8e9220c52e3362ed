"""`phalanx bench`: measure groups of processes on the loopback interface.

In a checkout, `bench/bench_real.py` measures the same in network namespaces and beside Corosync; it
takes its options from here.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from phalanx.benchmark.phalanx_system import Loopback, PhalanxSystem
from phalanx.benchmark.suite import Suite, SuiteRow, machine, summary, warning
from phalanx.benchmark.tables_text import closing, table
from phalanx.benchmark.trial import BenchmarkedSystem
from phalanx.cli.options import WholeNumber
from phalanx.config import MESSAGE_BYTES_LIMIT
from phalanx.core.effects import Service

KINDS = ("throughput", "latency", "failover", "idle")
SERVICES = tuple(service.name.lower() for service in Service)
MEMBERS_MAX = 32
SIZE_MIN = 8
EVERYBODY = 1 << 30

F = TypeVar("F", bound=Callable[..., Any])


class Several(click.ParamType[tuple[Any, ...]]):
    """One or more values of another type, separated by commas."""

    def __init__(self, of: click.ParamType[Any]) -> None:
        self._of = of
        self.name = f"{of.name},..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Any, ...]:
        if isinstance(value, tuple):
            return value
        return tuple(self._of.convert(part, param, ctx) for part in str(value).split(","))


class BenchOutput:
    """Progress on stderr, results on stdout: tables as they are measured, or one JSON object at the
    end."""

    def __init__(self, reference: str, as_json: bool) -> None:
        self._reference = reference
        self._json = as_json
        self._about = machine()

    def suite(self, *, seconds: float, trials: int) -> Suite:
        if text := warning(self._about["load_before"]):
            self.say(f"warning: {text}")
        warm = min(1.0, seconds / 2)
        return Suite(seconds=seconds, warm=warm, trials=trials, say=self.say, show=self.show)

    def say(self, text: str) -> None:
        click.echo(text, err=True)

    def show(self, title: str, rows: list[SuiteRow]) -> None:
        if not self._json:
            click.echo("\n".join([*table(title, rows, self._reference), ""]))

    def close(self, suite: Suite, **about: Any) -> None:
        """Print the rest, and exit with 1 if a trial failed or a guarantee was violated."""
        if self._json:
            click.echo(json.dumps(summary(suite, {**self._about, **about})))
        else:
            for line in closing(suite):
                click.echo(line)
        if suite.failures or suite.violated:
            raise click.exceptions.Exit(1)


def options(command: F) -> F:
    """The options that `phalanx bench` and `bench/bench_real.py` share."""
    members = Several(WholeNumber(2, MEMBERS_MAX))
    sizes = Several(WholeNumber(SIZE_MIN, MESSAGE_BYTES_LIMIT))
    services = Several(click.Choice(SERVICES))
    for option in reversed(
        [
            click.argument("what", nargs=-1, type=click.Choice(KINDS)),
            click.option("--members", type=members, default=(4,), help="Group sizes; default 4."),
            click.option(
                "--size",
                "sizes",
                type=sizes,
                default=(100,),
                help="Message sizes in bytes; default 100.",
            ),
            click.option(
                "--service",
                "services",
                type=services,
                default=("agreed",),
                help="Services; default agreed.",
            ),
            click.option(
                "--seconds",
                type=WholeNumber(1, 3600),
                default=3,
                help="Length of a trial; default 3.",
            ),
            click.option(
                "--trials",
                type=WholeNumber(1, 1000),
                default=3,
                help="Trials of each kind; default 3.",
            ),
            click.option(
                "--rate",
                type=WholeNumber(1, 10_000),
                default=200,
                help="Messages per second for latency; default 200.",
            ),
            click.option("--no-offload", is_flag=True, help="Do not use UDP_SEGMENT and UDP_GRO."),
            click.option(
                "--journal",
                type=click.Path(file_okay=False),
                metavar="DIR",
                help="Keep the journals in this directory.",
            ),
            click.option("--no-journal", is_flag=True, help="Write and check no journals."),
            click.option(
                "--json", "as_json", is_flag=True, help="Print one JSON object on stdout."
            ),
        ]
    ):
        command = option(command)
    return command


@click.command("bench")
@options
def bench(
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
) -> None:
    """Measure throughput, latency, failover and idle cost of groups on this machine.

    Members are processes that communicate over the loopback interface. WHAT is one or more of
    throughput, latency, failover and idle; by default all of them. Members write journals, which
    are checked after each trial and then removed, unless --journal names a directory for them.

    \b
    Example:
      phalanx bench throughput --members 2,4 --size 100,1000 --service agreed,safe
    """
    output = BenchOutput("phalanx", as_json)
    suite = output.suite(seconds=seconds, trials=trials)
    for n in members:
        place = Loopback(n)
        with journals(suite, journal, no_journal) as folder:
            system = PhalanxSystem("phalanx", place, journal=folder, offload=not no_offload)
            run_suite(suite, [system], what or KINDS, sizes, services, rate, trials, seconds)
    output.close(suite, network="loopback")


def run_suite(
    suite: Suite,
    systems: Sequence[BenchmarkedSystem],
    what: Sequence[str],
    sizes: Sequence[int],
    services: Sequence[str],
    rate: float,
    trials: int,
    seconds: float,
    network: Any = None,
) -> None:
    """Run the selected measurements on all systems."""
    for service in services:
        for size in sizes:
            if "throughput" in what:
                suite.throughput(systems, size, service)
            if "latency" in what:
                suite.latency(systems, size, service, rate, senders=1)
                suite.latency(systems, size, service, rate, senders=EVERYBODY)
    if "failover" in what:
        suite.failover(systems, trials, network)
    if "idle" in what:
        suite.idle(systems, seconds)


@contextmanager
def journals(suite: Suite, wanted: str | None, none: bool) -> Iterator[Path | None]:
    """The folder for journals: the one to keep, or a temporary one; None without journals."""
    if none:
        yield None
    elif wanted is None:
        with temporary_journals(suite) as folder:
            yield folder
    else:
        Path(wanted).mkdir(parents=True, exist_ok=True)
        yield Path(wanted)


@contextmanager
def temporary_journals(suite: Suite) -> Iterator[Path]:
    """A folder for journals, which is removed unless they show a violation."""
    folder = Path(tempfile.mkdtemp(prefix="phalanx-journals-"))
    try:
        yield folder
    finally:
        if not suite.violated:
            shutil.rmtree(folder, ignore_errors=True)
