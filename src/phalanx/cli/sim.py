"""`phalanx sim`: simulate the protocol, from one scenario to sweeps of seeds."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import perf_counter

import click
import msgspec
from click.core import ParameterSource

from phalanx.cli.options import (
    JOBS_MAX,
    MEMBERS_MAX,
    SEED_MAX,
    IntRange,
    WholeNumber,
    check_places,
    write_or_explain,
)
from phalanx.cli.sim_event_files import check_events, manifest
from phalanx.cli.sim_output import (
    ProgressLine,
    print_failure,
    print_result,
    print_sweep,
    replay_line,
    run_line,
)
from phalanx.cli.sim_service import service
from phalanx.explore.random_walk import play
from phalanx.journal import jsonl as eventfile
from phalanx.sim.demo import INTRODUCTION, demo_scenario
from phalanx.sim.generators import KINDS, MEMBERS, Kind, scenario_of
from phalanx.sim.journal_export import write_journals
from phalanx.sim.mutation_testing import run_mutants
from phalanx.sim.render import summary as show
from phalanx.sim.run import run
from phalanx.sim.scenario.model import STEPS_MAX, Scenario
from phalanx.sim.scenario.toml_file import load, to_toml
from phalanx.sim.shrink import fails_like, shrink
from phalanx.sim.sweep import Seeds, broken_by, sweep
from phalanx.verify.render.timeline import changes

_MEMBERS = click.option(
    "--members",
    type=IntRange(1, MEMBERS_MAX, closed=True),
    metavar="LO:HI",
    help="Group sizes, both included. Default 3:16 (few groups over 8); fixed 2:16, storm 3:5.",
)
_KIND = click.option(
    "--kind",
    type=click.Choice(list(KINDS)),
    default="membership",
    help="Faults: members come and go (membership, the default), view changes overlap (storm), "
    "channels between members break (mesh), or all members stay in one view (fixed).",
)
_SEED = WholeNumber(0, SEED_MAX)
_SEEDS = IntRange(0, SEED_MAX, closed=False)
_JOBS = click.option("--jobs", type=WholeNumber(1, JOBS_MAX), help="Processes; all cores.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
_MUTANT = click.option("--mutant", metavar="NAME", help="Break one rule of the protocol first.")


@click.group(invoke_without_command=True)
@click.pass_context
def sim(ctx: click.Context) -> None:
    """Simulate the protocol under virtual time and check every guarantee.

    \b
    Example:
      phalanx sim sweep --seeds 0:100
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


sim.add_command(service)


@sim.command("run")
@click.argument("scenario_file", metavar="SCENARIO.toml", type=click.Path())
@click.option("--seed", type=_SEED, help="Instead of the scenario's own seed.")
@click.option("--events", type=click.Path(), metavar="FILE", help="Write what members saw there.")
@click.option(
    "--journals",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write it there as journals of the members, for `phalanx check` and the pipeline.",
)
@_MUTANT
@_JSON
def run_command(
    scenario_file: str,
    seed: int | None,
    events: str | None,
    journals: Path | None,
    mutant: str | None,
    as_json: bool,
) -> None:
    """Play one scenario.

    \b
    Examples:
      phalanx sim run scenarios/lossy.toml --seed 7 --events events.jsonl
      phalanx sim run scenarios/lossy.toml --journals journals/
    """
    check_places(events)
    _check_mutant(mutant)
    scenario = load(scenario_file)
    if seed is not None:
        scenario = msgspec.structs.replace(scenario, seed=seed)
    with broken_by(mutant):
        result = run(scenario)
    if events is not None:
        header = manifest(result, mutant)
        write_or_explain(events, lambda: eventfile.write(events, header, result.rows))
    if journals is not None:
        write_or_explain(str(journals), lambda: write_journals(result, journals))
    print_result(result, as_json)


@sim.command("sweep")
@click.option(
    "--seeds",
    type=_SEEDS,
    required=True,
    metavar="A:B",
    help="Seeds from A up to, not including, B.",
)
@_MEMBERS
@_KIND
@_JOBS
@_MUTANT
@click.option("--until-failure", is_flag=True, help="Stop soon after the first failure.")
@click.option("--shrink/--no-shrink", "small", default=False, help="Make the failure smaller.")
@click.option(
    "--journals",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the journals of all runs there, as exported Parquet, for the pipeline.",
)
@_JSON
def sweep_command(
    seeds: tuple[int, int],
    members: tuple[int, int] | None,
    kind: Kind,
    jobs: int | None,
    mutant: str | None,
    until_failure: bool,
    small: bool,
    journals: Path | None,
    as_json: bool,
) -> None:
    """Play a random scenario for each seed, on all cores.

    \b
    Examples:
      phalanx sim sweep --seeds 0:1000
      phalanx sim sweep --kind fixed --seeds 0:5000 --members 2:8 --json
    """
    _check_mutant(mutant)
    started = perf_counter()
    chosen = Seeds(*seeds, *(members or MEMBERS[kind]), kind)
    watch = ProgressLine(seeds[1] - seeds[0]) if sys.stderr.isatty() else None
    try:
        tally = sweep(chosen, jobs, mutant, until_failure, watch, journals)
    finally:
        if watch is not None:
            watch.close()
    facts = tally.summary(perf_counter() - started)
    lowest = tally.lowest_failing_seed
    if lowest is not None:
        facts["replay"] = replay_line(lowest, chosen, mutant)
    if as_json:
        click.echo(json.dumps(facts))
    else:
        print_sweep(facts)
    if lowest is not None:
        print_failure(tally, chosen, mutant, small)
    if tally.interrupted:
        raise click.Abort
    if tally.failed_runs:
        raise click.exceptions.Exit(1)


@sim.command("replay")
@click.argument("file", required=False, type=click.Path())
@click.option("--seed", type=_SEED, help="A seed of a sweep.")
@_MEMBERS
@_KIND
@_MUTANT
@click.option(
    "--steps", type=WholeNumber(1, STEPS_MAX), metavar="N", help="Stop after so many steps."
)
@click.option("--save", type=click.Path(), metavar="FILE.toml", help="Write the scenario there.")
@click.option(
    "--shrink", "small", type=click.Path(), metavar="FILE.toml", help="Write a smaller failure."
)
@_JSON
@click.pass_context
def replay_command(
    ctx: click.Context,
    file: str | None,
    seed: int | None,
    members: tuple[int, int] | None,
    kind: Kind,
    mutant: str | None,
    steps: int | None,
    save: str | None,
    small: str | None,
    as_json: bool,
) -> None:
    """Look at one run again: a seed of a sweep, or a FILE of events.

    \b
    Examples:
      phalanx sim replay --seed 4711 --members 3:8 --save failing.toml
      phalanx sim replay events.jsonl
    """
    if (file is None) == (seed is None):
        raise click.UsageError("give either a FILE of events or --seed N")
    if file is not None:
        for name in ("members", "kind", "mutant", "steps", "save", "small"):
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                option = "shrink" if name == "small" else name
                raise click.UsageError(f"--{option} goes with --seed N, not with a FILE of events")
        check_events(file, as_json)
        return
    assert seed is not None
    check_places(save, small)
    _check_mutant(mutant)
    scenario = scenario_of(seed, *(members or MEMBERS[kind]), kind)
    if steps is not None:
        scenario = msgspec.structs.replace(scenario, steps_max=steps)
    if save is not None:
        _write_scenario(save, scenario)
    with broken_by(mutant):
        result = run(scenario)
        if small is not None and result.failed:
            shrunk = shrink(scenario, fails_like(result))
            _write_scenario(small, shrunk.scenario)
            click.echo(f"smaller failure after {shrunk.runs} runs: {small}", err=True)
            click.echo(f"run it: {run_line(small, mutant)}", err=True)
        elif small is not None:
            click.echo(f"nothing to shrink: seed {seed} does not fail", err=True)
    print_result(result, as_json)


@sim.command("mutants")
@click.option(
    "--seeds",
    type=_SEEDS,
    default=(0, 200),
    metavar="A:B",
    help="Seeds to try on each mutant. Default 0:200.",
)
@_MEMBERS
@click.option("--only", metavar="NAME", multiple=True, help="This mutant; may be repeated.")
@click.option(
    "--directed",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Scenarios written for mutants that random seeds seldom catch.",
)
@_JOBS
@_JSON
def mutants_command(
    seeds: tuple[int, int],
    members: tuple[int, int] | None,
    only: tuple[str, ...],
    directed: Path | None,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Mutation testing: break one rule at a time and verify that a checker catches it.

    \b
    Examples:
      phalanx sim mutants --seeds 0:100
      phalanx sim mutants --only any-witness --directed tests/sweeps/mutants
    """
    for name in only:
        _check_mutant(name)
    results = []
    if not as_json:
        click.echo(f"{'mutant':31} {'ground':10} {'seeds':>5}  {'seed':>5}  caught by")
    for result in run_mutants(range(*seeds), play, members, directed, jobs, only):
        results.append(result)
        if not as_json:
            by = ", ".join(result.caught_by) or "NOT CAUGHT"
            where = f"{result.ground:10} {result.seeds_needed:5}  {result.place:>5}"
            click.echo(f"{result.mutant:31} {where}  {by}")
    survived = [result.mutant for result in results if result.survived]
    if as_json:
        rows = [msgspec.to_builtins(result) for result in results]
        click.echo(json.dumps({"mutants": rows, "survived": survived}))
    if survived:
        raise click.exceptions.Exit(1)


@sim.command("demo")
@click.option("--seed", type=_SEED, default=1, help="Seed of the demo.")
@_JSON
def demo_command(seed: int, as_json: bool) -> None:
    """Show a small group on a bad network: its views over time, what each member saw, what held.

    \b
    Example:
      phalanx sim demo
    """
    result = run(demo_scenario(seed))
    if not as_json:
        lines = [*INTRODUCTION, "", *show.deliveries(result.rows, result.scenario.members), ""]
        lines += ["changes of view", *changes(result.rows), ""]
        for line in lines:
            click.echo(line)
    print_result(result, as_json)


def _write_scenario(path: str, scenario: Scenario) -> None:
    write_or_explain(path, lambda: Path(path).write_text(to_toml(scenario), encoding="utf-8"))


def _check_mutant(name: str | None) -> None:
    """Report an unknown mutant before any worker starts."""
    with broken_by(name):
        pass
