"""`phalanx campaign`: simulate seeds on a cluster, and summarize the results."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from phalanx.cli.options import MEMBERS_MAX, SEED_MAX, IntRange, WholeNumber
from phalanx.cli.sim_output import replay_line
from phalanx.errors import PipelineError
from phalanx.sim.generators import KINDS, MEMBERS
from phalanx.sim.scenario.model import STEPS_MAX
from phalanx.sim.sweep import Seeds, broken_by
from phalanx.text import one_line

if TYPE_CHECKING:
    from phalanx.pipeline.campaign.seed_task import Campaign, PlayedKind
    from phalanx.pipeline.campaign.store import Wave
    from phalanx.pipeline.campaign.summary import Failing, Summary

FAILING_SHOWN_MAX = 20
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")


@click.group(invoke_without_command=True)
@click.pass_context
def campaign(ctx: click.Context) -> None:
    """Simulate on a cluster: any number of seeds, one row each.

    \b
    Example:
      phalanx campaign run --seeds 0:10000 --into campaigns/
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@campaign.command("run")
@click.option(
    "--seeds",
    type=IntRange(0, SEED_MAX, closed=False),
    required=True,
    metavar="A:B",
    help="Seeds from A up to, not including, B.",
)
@click.option(
    "--kind",
    type=click.Choice([*KINDS, "walk"]),
    default="membership",
    help="What happens, as in `phalanx sim sweep`; walk: as in `phalanx explore --walk`.",
)
@click.option(
    "--members",
    type=IntRange(1, MEMBERS_MAX, closed=True),
    metavar="LO:HI",
    help="How many members a group has, both included; default as in `phalanx sim sweep`.",
)
@click.option("--mutant", metavar="NAME", help="Break one rule of the protocol first.")
@click.option(
    "--steps",
    type=WholeNumber(1, STEPS_MAX),
    help="Steps of a run at most; one that needs more is inconclusive.",
)
@click.option(
    "--master",
    metavar="URL",
    help="Where Spark runs: spark://... or sc://...; default this machine.",
)
@click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the rows there, and play only seeds that are not there yet.",
)
@click.option("--wave", type=WholeNumber(1, 10_000_000), help="Seeds per wave; default: measured.")
@_JSON
def run_command(
    seeds: tuple[int, int],
    kind: PlayedKind,
    members: tuple[int, int] | None,
    mutant: str | None,
    steps: int | None,
    master: str | None,
    into: Path | None,
    wave: int | None,
    as_json: bool,
) -> None:
    """Play seeds on the executors of Spark and check every guarantee.

    The same seeds give the same rows wherever they are played. What was interrupted goes on
    where it was if it is run again with the same --into. Exit 1 if any seed failed.

    \b
    Examples:
      phalanx campaign run --seeds 0:10000 --into campaigns/
      phalanx campaign run --seeds 0:1000000 --master spark://head:7077 --into campaigns/
      phalanx campaign run --kind walk --seeds 0:1000000 --into campaigns/
    """
    with broken_by(mutant):  # a bad name is found here, not on an executor
        pass
    from phalanx.pipeline.campaign.seed_task import WALK_MEMBERS, Campaign
    from phalanx.pipeline.campaign.summary import summary

    sizes = members or (WALK_MEMBERS if kind == "walk" else MEMBERS[kind])
    if kind == "walk" and sizes[0] < 2:
        raise click.BadParameter("a walk needs at least 2 members", param_hint="'--members'")
    chosen = Campaign(kind, *sizes, mutant, steps)
    with TemporaryDirectory(prefix="phalanx-") as temporary:
        folder = into or Path(temporary)
        waves = _play(chosen, seeds, folder, wave, master)
        found = summary(folder, waves, seeds)
    _tell([found], as_json, alone=True)


def _play(
    chosen: Campaign, seeds: tuple[int, int], folder: Path, wave: int | None, master: str | None
) -> list[Wave]:
    """Plays what is not there; Spark is started only if anything is not."""
    from phalanx.pipeline.campaign import store
    from phalanx.pipeline.campaign.code_version import code_version
    from phalanx.pipeline.campaign.seed_task import FAILED

    there = store.waves_of(folder, chosen.name, code_version())
    todo = sum(end - first for first, end in store.left(there, *seeds))
    if not todo:
        return there
    store.prepare(folder)
    from phalanx.pipeline.campaign.scheduler import run_campaign
    from phalanx.pipeline.session import session
    from phalanx.pipeline.session_shutdown import stopped

    failed = 0
    with (
        stopped(session(master, "phalanx campaign", quick=True)) as spark,
        click.progressbar(length=todo, file=sys.stderr, show_pos=True, label="seeds") as bar,
    ):

        def progress(rows: Any) -> None:
            nonlocal failed
            failed += sum(status in FAILED for status in rows["status"].to_pylist())
            bar.label = f"seeds, {failed} failed" if failed else "seeds"
            bar.update(rows.num_rows)

        return run_campaign(spark, chosen, seeds, folder, wave, progress)


@campaign.command("show")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@_JSON
def show_command(folder: Path, as_json: bool) -> None:
    """Summarize the campaigns in DIR; failing seeds with the command that replays them.

    Exit 1 if any seed failed.

    \b
    Example:
      phalanx campaign show campaigns/
    """
    from phalanx.pipeline.campaign.summary import summaries

    found = summaries(folder)
    if not found:
        problem = "there are no rows of a campaign in this folder"
        raise PipelineError(str(folder), problem, "give the DIR of phalanx campaign run --into")
    _tell(found, as_json, alone=False)


def _tell(found: list[Summary], as_json: bool, alone: bool) -> None:
    if as_json:
        facts = [_facts(one) for one in found]
        click.echo(json.dumps(facts[0] if alone else {"campaigns": facts}))
    else:
        for one in found:
            for line in _lines(one):
                click.echo(one_line(line))
    if any(one.failed for one in found):
        raise click.exceptions.Exit(1)


def _facts(one: Summary) -> dict[str, Any]:
    import msgspec

    facts: dict[str, Any] = msgspec.to_builtins(one)
    for seeds in (facts["failing"], facts["inconclusive"]):
        for failing in seeds:
            failing["replay"] = _replay(one.campaign, failing["seed"])
    return facts


def _lines(one: Summary) -> list[str]:
    status = ", ".join(f"{count:,} {name}" for name, count in one.status.items())
    rate = f"{one.seeds_per_second:,.1f} seeds/s, {one.cores_busy:.1f} cores busy"
    lines = [
        f"{one.campaign}, code {one.code_version}: {one.seeds:,} seeds: {status}",
        f"  {one.simulated_seconds:,.1f} s simulated, {one.delivered:,} messages delivered",
        f"  {rate}, {one.cpu_seconds:,.1f} s of processor time",
        f"  result {one.digest}",
    ]
    if one.never_evaluated:
        lines.append("  never put to the test: " + ", ".join(one.never_evaluated))
    for failing in one.failing[:FAILING_SHOWN_MAX]:
        lines += _failing(one, failing)
    if len(one.failing) > FAILING_SHOWN_MAX:
        lines.append(f"  and {len(one.failing) - FAILING_SHOWN_MAX:,} more that failed")
    for failing in one.inconclusive[:FAILING_SHOWN_MAX]:
        lines += _failing(one, failing)
    if len(one.inconclusive) > FAILING_SHOWN_MAX:
        lines.append(f"  and {len(one.inconclusive) - FAILING_SHOWN_MAX:,} more inconclusive")
    return lines


def _failing(one: Summary, failing: Failing) -> list[str]:
    what = ", ".join(failing.violated) or failing.status
    last = (failing.error or "").strip().splitlines()[-1:]
    lines = [f"  seed {failing.seed}: {what}", *(f"    {text}" for text in last)]
    return [*lines, f"    replay: {_replay(one.campaign, failing.seed)}"]


def _replay(name: str, seed: int) -> str:
    """The command that plays a seed again, from the name of its campaign."""
    from phalanx.pipeline.campaign.seed_task import named

    chosen = named(name)
    if chosen.kind == "walk":
        broken = f" --mutant {chosen.mutant}" if chosen.mutant else ""
        sizes = f"--sizes {chosen.lo}:{chosen.hi}"
        return f"phalanx explore --walk --seeds {seed}:{seed + 1} {sizes}{broken}"
    asked = Seeds(seed, seed + 1, chosen.lo, chosen.hi, chosen.kind)
    steps = f" --steps {chosen.steps_max}" if chosen.steps_max else ""
    return replay_line(seed, asked, chosen.mutant) + steps
