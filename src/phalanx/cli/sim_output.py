"""Output of the `sim` commands: as text, or as one JSON object."""

from __future__ import annotations

import json
import os
import shlex
import sys
from time import perf_counter
from typing import Any

import click

from phalanx.sim.generators import scenario_of
from phalanx.sim.render import summary as show
from phalanx.sim.render.narrative import story
from phalanx.sim.run import RunResult, run
from phalanx.sim.scenario.toml_file import to_toml
from phalanx.sim.shrink import fails_like, shrink
from phalanx.sim.sweep import Seeds, Tally, broken_by
from phalanx.verify.render.verdict_table import verdict_line, verdicts

WIDTH = 80


def print_result(result: RunResult, as_json: bool) -> None:
    """Print the verdict on one run; exit with 1 if it failed."""
    if as_json:
        click.echo(json.dumps(show.summary(result)))
    else:
        _print_lines(show.totals(result))
        _print_lines(["", *verdicts(result.report)])
        if result.exception:
            _print_lines([verdict_line("violated", 1, 1, "exception")])
        _print_lines(["", *story(result)] if result.failed else [])
    if result.failed:
        raise click.exceptions.Exit(1)


def print_sweep(facts: dict[str, Any]) -> None:
    """Print the summed results of a sweep."""
    faults = ", ".join(f"{kind} {count:,}" for kind, count in facts["faults"].items())
    lines = [
        f"{facts['runs']:,} runs, {facts['violations']:,} violations, {facts['stuck']:,} stuck",
        f"{facts['simulated_seconds']:,.1f} s simulated in {facts['wall_seconds']:,.1f} s",
        f"{facts['seeds_per_second']:,.1f} seeds/s",
    ]
    if facts["slowest_seed"] is not None:
        slowest, seconds = facts["slowest_seed"], facts["slowest_seed_seconds"]
        lines.append(f"slowest: seed {slowest}, {seconds:.2f} s")
    lines.append(f"faults: {faults or 'none'}")
    if facts["cases"]:
        cases = ", ".join(f"{case} {count:,}" for case, count in facts["cases"].items())
        lines.append(f"cases: {cases}")
    if facts["never_happened"]:
        lines.append("never happened: " + ", ".join(facts["never_happened"]))
    lines.append("times put to the test:")
    for name, row in facts["properties"].items():
        found = f"  VIOLATED {row['violated']:,} times" if row["violated"] else ""
        lines.append(f"  {row['evaluated']:>13,}  {name}{found}")
    if facts["never_evaluated"]:
        lines.append("never put to the test: " + ", ".join(facts["never_evaluated"]))
    _print_lines(lines)


def print_failure(tally: Tally, seeds: Seeds, mutant: str | None, small: bool) -> None:
    """Print the lowest failing seed, the command that replays it and its story, on stderr.

    After an interrupt, print only the seed and the command: the story needs another run.
    """
    seed = tally.lowest_failing_seed
    assert seed is not None
    lines = [f"lowest failing seed: {seed} ({', '.join(tally.lowest_failure)})"]
    lines.append(f"replay: {replay_line(seed, seeds, mutant)}")
    if not tally.interrupted:
        scenario = scenario_of(seed, seeds.lo, seeds.hi, seeds.kind)
        with broken_by(mutant):
            result = run(scenario)
            lines += story(result)
            if small and result.failed:
                shrunk = shrink(scenario, fails_like(result))
                lines += ["", f"# smaller, after {shrunk.runs} runs; save it as small.toml, then:"]
                lines += [f"#   {run_line('small.toml', mutant)}", to_toml(shrunk.scenario)]
    for line in lines:
        click.echo(line, err=True)


def replay_line(seed: int, seeds: Seeds, mutant: str | None) -> str:
    """The command that plays a seed of a sweep again."""
    kind = "" if seeds.kind == "membership" else f" --kind {seeds.kind}"
    group = f"--members {seeds.lo}:{seeds.hi}"
    return f"phalanx sim replay --seed {seed} {group}{kind}{_broken(mutant)}"


def run_line(file: str, mutant: str | None) -> str:
    """The command that plays a scenario of a file."""
    return f"phalanx sim run {shlex.quote(file)}{_broken(mutant)}"


def _broken(mutant: str | None) -> str:
    return f" --mutant {mutant}" if mutant else ""


class ProgressLine:
    """A progress line on stderr that overwrites itself, never wider than the terminal."""

    def __init__(self, runs: int) -> None:
        self._runs = runs
        self._started = perf_counter()

    def __call__(self, tally: Tally) -> None:
        rate = tally.runs / max(perf_counter() - self._started, 1e-9)
        left = (self._runs - tally.runs) / max(rate, 1e-9)
        text = f"{tally.runs}/{self._runs} runs, {tally.failed_runs} failed, {left:.0f} s left"
        width = self._width()
        click.echo(f"\r{text[:width]:<{width}}", err=True, nl=False)

    def close(self) -> None:
        click.echo("\r" + " " * self._width() + "\r", err=True, nl=False)

    def _width(self) -> int:
        """One column less than the terminal: some terminals wrap after a full line."""
        try:
            columns = os.get_terminal_size(sys.stderr.fileno()).columns
        except (OSError, ValueError):
            columns = 0
        return max(1, min(columns or WIDTH, WIDTH) - 1)


def _print_lines(lines: list[str]) -> None:
    for line in lines:
        click.echo(line)
