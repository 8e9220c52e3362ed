"""What the `sim` commands say: to people, or as one JSON object."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import click

from phalanx.errors import EventFileError
from phalanx.journal import eventfile
from phalanx.journal.events import Event
from phalanx.sim import show
from phalanx.sim.checkers import Report, check
from phalanx.sim.generate import random_scenario
from phalanx.sim.run import RunResult, digest_of_rows, run
from phalanx.sim.scenariofile import to_toml
from phalanx.sim.shrink import fails_like, shrink
from phalanx.sim.story import story, violation_story
from phalanx.sim.sweep import Tally, broken_by


def tell(result: RunResult, as_json: bool) -> None:
    """The verdict on one run, and exit 1 if it failed."""
    if as_json:
        click.echo(json.dumps(show.summary(result)))
    else:
        _say(show.totals(result))
        _say(["", "guarantees (times put to the test)", *show.verdicts(result.report)])
        if result.exception:
            _say(["  violated                exception"])
        _say(["", *story(result)] if result.failed else [])
    if result.failed:
        raise click.exceptions.Exit(1)


def tell_sweep(facts: dict[str, Any]) -> None:
    _say(
        [
            f"{facts['runs']:,} runs, {facts['violations']:,} violations, {facts['stuck']:,} stuck",
            f"{facts['simulated_seconds']:,.1f} s simulated in {facts['wall_seconds']:,.1f} s",
            f"{facts['seeds_per_second']:,.1f} seeds/s",
            f"slowest: seed {facts['slowest_seed']}, {facts['slowest_seed_seconds']:.2f} s",
            "faults: " + ", ".join(f"{k} {n:,}" for k, n in facts["faults"].items()),
            "times put to the test:",
        ]
    )
    for name, row in facts["properties"].items():
        found = f"  VIOLATED {row['violated']:,} times" if row["violated"] else ""
        _say([f"  {row['evaluated']:>13,}  {name}{found}"])
    if facts["never_evaluated"]:
        _say(["never put to the test: " + ", ".join(facts["never_evaluated"])])


def tell_failure(seed: int, members: tuple[int, int], mutant: str | None, small: bool) -> None:
    """The lowest failing seed, the line that replays it and its story, on stderr."""
    scenario = random_scenario(seed, *members)
    with broken_by(mutant):
        result = run(scenario)
        lines = [f"lowest failing seed: {seed} ({', '.join(result.signature)})"]
        lines += [f"replay: {replay_line(seed, members, mutant)}", *story(result)]
        if small:
            shrunk = shrink(scenario, fails_like(result))
            lines += ["", f"# smaller, after {shrunk.runs} runs:", to_toml(shrunk.scenario)]
    for line in lines:
        click.echo(line, err=True)


def replay_line(seed: int, members: tuple[int, int], mutant: str | None) -> str:
    broken = f" --mutant {mutant}" if mutant else ""
    return f"phalanx sim replay --seed {seed} --members {members[0]}:{members[1]}{broken}"


def check_events(file: str, as_json: bool) -> None:
    """Judge the rows of a file again."""
    header, rows = eventfile.read(file)
    try:
        report = check(rows, expect_liveness=bool(header.get("settled")))
    except ValueError as error:
        raise EventFileError(file, None, str(error), "give the rows of one run") from error
    digest = digest_of_rows(rows)
    if as_json:
        facts = {
            "rows": len(rows),
            "digest": digest,
            "as_recorded": digest == header.get("digest"),
            "violated": list(report.violated),
            "properties": show.properties(report),
        }
        click.echo(json.dumps(facts))
    else:
        same = "as recorded" if digest == header.get("digest") else "NOT the recorded one"
        _say([f"{file}: {len(rows):,} rows, digest {digest}, {same}", *show.verdicts(report)])
        _say(_stories(rows, report))
    if report.violated:
        raise click.exceptions.Exit(1)


def _stories(rows: Sequence[Event], report: Report) -> list[str]:
    lines: list[str] = []
    for violation in report.violations[:2]:
        lines += ["", str(violation), *violation_story(rows, violation)]
    return lines


def manifest(result: RunResult) -> dict[str, Any]:
    return {
        "name": result.scenario.name,
        "seed": result.seed,
        "digest": result.digest,
        "settled": not result.stuck and result.exception is None,
        "scenario": to_toml(result.scenario),
    }


class Progress:
    """One line on stderr that is written over and over."""

    def __init__(self, runs: int) -> None:
        self._runs = runs
        self._started = perf_counter()

    def __call__(self, tally: Tally) -> None:
        rate = tally.runs / max(perf_counter() - self._started, 1e-9)
        left = (self._runs - tally.runs) / max(rate, 1e-9)
        text = f"{tally.runs}/{self._runs} runs, {tally.failed_runs} failed, {left:.0f} s left"
        click.echo(f"\r{text:<70}", err=True, nl=False)

    def close(self) -> None:
        click.echo("\r" + " " * 70 + "\r", err=True, nl=False)


class CannotWrite(click.ClickException):
    """A file that was asked for cannot be written."""

    exit_code = 2


def write_or_explain(path: str, action: Callable[[], object]) -> None:
    """Do something that writes `path`; if it fails, say so in one line."""
    try:
        action()
    except OSError as error:
        problem = f"{path}: {error.strerror}; choose a place that can be written"
        raise CannotWrite(problem) from None


def _say(lines: list[str]) -> None:
    for line in lines:
        click.echo(line)
