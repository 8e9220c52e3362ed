"""`phalanx sim service`: simulate the wide-area membership service."""

from __future__ import annotations

import json
from pathlib import Path

import click

from phalanx.cli.options import JOBS_MAX, SEED_MAX, IntRange, WholeNumber
from phalanx.sim.service.service_mutants import service_mutant
from phalanx.sim.service.service_run import ServicePlan
from phalanx.sim.service.service_sweep import sweep_service


@click.command("service")
@click.option(
    "--seeds",
    type=IntRange(0, SEED_MAX, closed=False),
    required=True,
    metavar="A:B",
    help="Seeds from A up to, not including, B.",
)
@click.option(
    "--levels", type=WholeNumber(2, 4), help="Levels of sets; two or three, drawn from the seed."
)
@click.option("--faults", type=WholeNumber(0, 1000), default=8, help="Faults of each run; 8.")
@click.option(
    "--calls",
    type=WholeNumber(0, 10_000),
    default=20,
    help="Calls of clients in each run; 20. Without any there are no groups.",
)
@click.option(
    "--all-rights", is_flag=True, help="Every client may split, merge and delete every group."
)
@click.option(
    "--all-faults",
    is_flag=True,
    help="Also ways that are cut in one direction, pauses, and servers that leave for good.",
)
@click.option(
    "--single-crash",
    is_flag=True,
    help="Nothing but one crash of a server or an interface in each run.",
)
@click.option(
    "--seconds", type=WholeNumber(1, 3600), default=30, help="Virtual time of the faults; 30."
)
@click.option("--jobs", type=WholeNumber(1, JOBS_MAX), help="Processes; all cores.")
@click.option("--mutant", metavar="NAME", help="Break one rule of the service first.")
@click.option(
    "--journals",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Write the journals of all processes, a folder for each run.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def service(
    seeds: tuple[int, int],
    levels: int | None,
    faults: int,
    calls: int,
    all_rights: bool,
    all_faults: bool,
    single_crash: bool,
    seconds: int,
    jobs: int | None,
    mutant: str | None,
    journals: Path | None,
    as_json: bool,
) -> None:
    """Simulate the wide-area membership service: trees of servers, interfaces and their clients.

    Servers crash, with their disks or without, and come back, and so do interfaces; parts of the
    network are cut and heal; messages are lost. Every state of every set and every view of every
    member is checked, and whether all comes to rest.

    \b
    Examples:
      phalanx sim service --seeds 0:100
      phalanx sim service --seeds 7:8 --mutant no-acting --json
      phalanx sim service --seeds 0:4 --journals journals/ && phalanx audit journals/
    """
    with service_mutant(mutant):
        pass  # an unknown mutant is reported before any worker starts
    plan = ServicePlan(
        levels=levels or 0,
        faults=faults,
        calls=calls,
        seconds=seconds,
        all_rights=all_rights,
        all_faults=all_faults,
        single=single_crash,
    )
    tally = sweep_service(seeds, plan, mutant, jobs, journals=journals)
    facts = tally.summary()
    if as_json:
        click.echo(json.dumps(facts))
    else:
        click.echo(f"{tally.runs} runs, {len(tally.failing_seeds)} failed")
        click.echo(f"at rest after at most {tally.slowest_rest_s:g} s")
        for name, count in tally.cases().items():
            click.echo(f"{count:>10} {name}")
        if tally.first_failure:
            click.echo(tally.first_failure)
            lowest = min(tally.failing_seeds)
            broken = f" --mutant {mutant}" if mutant else ""
            tree = f" --levels {levels}" if levels else ""
            tree += " --all-rights" if all_rights else ""
            tree += " --all-faults" if all_faults else ""
            tree += " --single-crash" if single_crash else ""
            click.echo(
                f"replay: phalanx sim service --seeds {lowest}:{lowest + 1} --faults {faults} "
                f"--calls {calls} --seconds {seconds}{tree}{broken}"
            )
    if tally.failing_seeds:
        raise click.exceptions.Exit(1)
