"""`phalanx explore`: exhaustive search of small groups, guided walks of larger ones, stories."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from phalanx.cli.options import SEED_MAX, IntRange, WholeNumber, check_places, write_or_explain
from phalanx.core.effects import Service
from phalanx.errors import ConfigurationError, FileError
from phalanx.explore import story as stories
from phalanx.explore import trace_script as paths
from phalanx.explore.check_codes import PROPERTY_OF
from phalanx.explore.member_history import Finding
from phalanx.explore.search import FoundViolation, Search, SearchLimits, SearchResult
from phalanx.explore.state_space import BUDGET, Options
from phalanx.explore.walk_runner import Totals, run_walks

EVERY_SECONDS = 10
_AMOUNT = WholeNumber(0, 99)
_SERVICES = [service.name.lower() for service in Service]


def _broken_by(mutant: str | None) -> AbstractContextManager[object]:
    """The protocol as it is, or with one rule broken while inside."""
    if mutant is None:
        return nullcontext()
    from phalanx.sim.mutants import apply  # loaded only for a mutant

    applied: AbstractContextManager[object] = apply(mutant)
    return applied


class Components(click.ParamType[str]):
    """Members that boot together, as 0,1|2."""

    name = "A,B|C"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value)


def _amount(name: str, text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(f"--{name}", type=_AMOUNT, default=0, help=text)


@click.command("explore")
@click.option(
    "--members", type=WholeNumber(1, paths.MEMBERS_MAX), default=2, help="Processes; default 2."
)
@click.option("--start", type=Components(), help="Members that boot together. Default: each alone.")
@click.option("--young", is_flag=True, help="Start before any member has sent a frame in its view.")
@_amount("attempts", "How many attempts to join (AJ) are made in all.")
@_amount("suspicions", "How often a member suspects another.")
@_amount("crashes", "How many processes crash.")
@_amount("losses", "How many packets are lost.")
@_amount("data", "How many messages are sent.")
@_amount("timeouts", "How often the time to answer a proposal, or to speak in a view, ends early.")
@_amount("acks", "How many keep-alives are sent before they must.")
@click.option(
    "--mode",
    type=click.Choice(["hold", "flow"]),
    default="hold",
    help="Whether members send during a view change; default hold: they do not.",
)
@click.option(
    "--service",
    type=click.Choice(_SERVICES),
    default="agreed",
    help="The service of the messages; default agreed.",
)
@click.option("--reduction/--no-reduction", default=True, help="Skip orders of steps that commute.")
@click.option("--seconds", type=WholeNumber(1, 1_000_000), help="Stop after this many seconds.")
@click.option("--states", type=WholeNumber(1, 1 << 40), help="Stop after this many states.")
@click.option("--until-failure", is_flag=True, help="Stop at the first violation.")
@click.option("--mutant", metavar="NAME", help="Break one rule of the protocol first.")
@click.option("--show", is_flag=True, help="Print the path to the first violation of each kind.")
@click.option("--save", type=click.Path(), metavar="FILE", help="Write the first such path there.")
@click.option("--replay", type=click.Path(), metavar="FILE", help="Replay a saved path.")
@click.option(
    "--story", type=click.Path(), metavar="FILE", help="Play a story, settle it, check it."
)
@click.option("--walk", is_flag=True, help="Guided random walks instead of a search.")
@click.option(
    "--seeds", type=IntRange(0, SEED_MAX, closed=False), help="With --walk: the seeds, as A:B."
)
@click.option(
    "--sizes",
    type=IntRange(2, paths.MEMBERS_MAX, closed=True),
    default=(4, 7),
    help="With --walk: group sizes; default 4:7.",
)
@click.option(
    "--corpus",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="With --walk: stories to edit.",
)
@click.option("--jobs", type=WholeNumber(1, 256), help="With --walk: processes; one a core.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def explore(
    members: int,
    start: str | None,
    young: bool,
    mode: str,
    service: str,
    reduction: bool,
    seconds: int | None,
    states: int | None,
    until_failure: bool,
    mutant: str | None,
    show: bool,
    save: str | None,
    replay: str | None,
    story: str | None,
    walk: bool,
    seeds: tuple[int, int] | None,
    sizes: tuple[int, int],
    corpus: str | None,
    jobs: int | None,
    as_json: bool,
    **budget: int,
) -> None:
    """Search every behaviour of a small group and check it.

    With --walk, draw guided schedules of larger groups instead: links of changing priorities,
    storms of suspicions, late packets, joins. With --story, play one written schedule. Exits with
    1 if a guarantee is violated.

    \b
    Examples:
      phalanx explore --members 2 --attempts 2 --suspicions 1 --data 1 --json
      phalanx explore --walk --seconds 60 --save found.story
      phalanx explore --story tests/sweeps/kept/removal_and_join.story --json
    """
    _refuse_what_is_ignored("walk" if walk else "story" if story or replay else "search")
    if replay is not None:
        _replay(replay)
        return
    if story is not None:
        with _broken_by(mutant):
            _play_story(story, as_json)
        return
    if walk:
        check_places(save)
        _walk(seeds, sizes, seconds, corpus, jobs, mutant, save, as_json)
        return
    check_places(save)
    options = Options(
        members=members,
        start=_components(start, members),
        mode="flow" if mode == "flow" else "hold",
        service=Service[service.upper()],
        young=young,
        **budget,
    )
    limits = SearchLimits(
        float("inf") if seconds is None else seconds,
        float("inf") if states is None else states,
        1 if until_failure else float("inf"),
    )
    with _broken_by(mutant):
        result = Search(options, reduction).run(limits, _Progress())
        _print_result(result, options, mutant, show, as_json)
        if save is not None and result.violations:
            text = _script(options, mutant, result.violations[0])
            write_or_explain(save, lambda: Path(save).write_text(text, encoding="utf-8"))
    if result.violations:
        raise click.exceptions.Exit(1)


def _components(start: str | None, members: int) -> tuple[tuple[int, ...], ...]:
    if start is None:
        return ()
    try:
        return paths.start_of(start, members)
    except ConfigurationError as error:
        raise click.BadParameter(f"{start!r}: {error.remedy}", param_hint="'--start'") from None


# ------------------------------------------------------------------ output


class _Progress:
    """A line on stderr now and then."""

    def __init__(self) -> None:
        self._next = float(EVERY_SECONDS)

    def __call__(self, result: SearchResult, waiting: int) -> None:
        if result.seconds < self._next:
            return
        self._next = result.seconds + EVERY_SECONDS
        failed = sum(result.counts.values())
        click.echo(
            f"{result.seconds:.0f} s: {result.states:,} states, {waiting:,} of them wait,"
            f" depth {result.depth}, {failed:,} violations",
            err=True,
        )


def _print_result(
    result: SearchResult, options: Options, mutant: str | None, show: bool, as_json: bool
) -> None:
    if as_json:
        click.echo(json.dumps(_facts(result, options, mutant)))
    else:
        whole = "all of them" if result.complete else "NOT all of them"
        click.echo(f"{result.states:,} states, {whole}; {result.transitions:,} transitions")
        click.echo(f"{result.ends:,} ends, depth {result.depth}, {result.actors:,} member states")
        click.echo(f"{result.seconds:.1f} s, {_rate(result):,.0f} states/s")
        click.echo(f"{sum(result.counts.values()):,} violations")
    for violation in result.violations:
        if not as_json or show:
            count = result.counts[violation.check]
            click.echo(f"{violation}, {count:,} times", err=as_json)
        if show:
            for text in paths.explained(options, violation.path):
                click.echo(f"  {text}", err=as_json)


def _rate(result: SearchResult) -> float:
    return result.states / max(result.seconds, 1e-9)


def _facts(result: SearchResult, options: Options, mutant: str | None) -> dict[str, Any]:
    first = result.violations[0] if result.violations else None
    return {
        "members": options.members,
        "start": paths.start_text(options),
        **{name: getattr(options, name) for name in BUDGET},
        "mode": options.mode,
        "service": options.service.name.lower(),
        "young": options.young,
        "mutant": mutant,
        "states": result.states,
        "transitions": result.transitions,
        "ends": result.ends,
        "depth": result.depth,
        "member_states": result.actors,
        "complete": result.complete,
        "violations": sum(result.counts.values()),
        "found": result.counts,
        "seconds": round(result.seconds, 3),
        "states_per_second": round(_rate(result), 1),
        "first": None
        if first is None
        else {
            "check": first.check,
            "property": PROPERTY_OF[first.check],
            "text": first.text,
            "path": [paths.line(action) for action in first.path],
        },
    }


def _script(options: Options, mutant: str | None, violation: FoundViolation) -> str:
    """A violation as a file that `--replay` plays."""
    title = f"# {violation}"
    lines = paths.explained(options, violation.path)
    return "\n".join([title, *paths.header(options, mutant), "", *lines, ""])


# ------------------------------------------------------------------ replay


def _replay(file: str) -> None:
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise FileError(file, None, f"cannot be read: {reason}", "name a saved path") from None
    script = paths.parse(text, file)
    with _broken_by(script.mutant):
        player = paths.Player(script.options)
        for action in script.path:
            try:
                lines = player.play(action)
            except LookupError as error:
                remedy = "was it saved with other code?"
                raise FileError(file, None, str(error.args[0]), remedy) from None
            for line in lines:
                click.echo(line)
        found = player.finding()
    if found is None:
        click.echo("nothing is wrong")
        return
    click.echo(found)
    raise click.exceptions.Exit(1)


# ------------------------------------------------------------------ stories and walks


def _play_story(file: str, as_json: bool) -> None:
    found = stories.play(_load(Path(file)))
    if as_json:
        click.echo(json.dumps({"story": file, "finding": _finding(found)}))
    elif found is None:
        click.echo("nothing is wrong")
    else:
        click.echo(found)
    if found is not None:
        raise click.exceptions.Exit(1)


def _load(file: Path) -> stories.Story:
    try:
        return stories.load(file)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise FileError(str(file), None, f"cannot be read: {reason}", "name a story") from None


_ONLY = {
    "walk": {"seeds", "sizes", "corpus", "jobs"},
    "search": {
        *("members", "start", "young", "attempts", "suspicions", "crashes", "losses", "data"),
        *("timeouts", "acks", "mode", "service", "reduction", "states", "until_failure", "show"),
    },
}
"""Options that mean something for one way to explore."""


def _refuse_what_is_ignored(way: str) -> None:
    """An option that would do nothing is an error."""
    context = click.get_current_context()
    for other, names in _ONLY.items():
        for name in sorted(names) if other != way else ():
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                option = f"--{name.replace('_', '-')}"
                needs = "goes with --walk only" if other == "walk" else "is for a search"
                raise click.UsageError(f"{option} {needs}")


def _finding(found: Finding | None) -> dict[str, str | None] | None:
    if found is None:
        return None
    return {"check": found.check, "property": PROPERTY_OF[found.check], "text": found.text}


def _walk(
    seeds: tuple[int, int] | None,
    sizes: tuple[int, int],
    seconds: int | None,
    corpus: str | None,
    jobs: int | None,
    mutant: str | None,
    save: str | None,
    as_json: bool,
) -> None:
    files = sorted(Path(corpus).glob("*.story")) if corpus is not None else []
    known = [_load(file) for file in files]
    until = float("inf") if seconds is None else seconds
    drawn = range(1 << 40) if seeds is None else range(*seeds)
    if seeds is None and seconds is None:
        until = 60.0

    def watch(totals: Totals) -> None:
        click.echo(
            f"{totals.seconds:.0f} s: {totals.walks:,} walks, {len(totals.found)} findings",
            err=True,
        )

    totals = run_walks(drawn, *sizes, until, known, jobs, mutant, watch)
    first = min(totals.found, key=lambda walked: (walked.seed, walked.branch), default=None)
    if as_json:
        facts = {
            "walks": totals.walks,
            "seeds": totals.seeds,
            "sizes": list(sizes),
            "mutant": mutant,
            "seconds": round(totals.seconds, 1),
            "findings": len(totals.found),
            "checks": totals.checks,
            "first": None
            if first is None
            else {
                "seed": first.seed,
                "branch": first.branch,
                "finding": _finding(first.finding),
                "story": stories.text_of(first.story),
            },
        }
        click.echo(json.dumps(facts))
    else:
        rate = totals.walks / max(totals.seconds, 1e-9)
        click.echo(f"{totals.walks:,} walks of {totals.seeds:,} seeds, {totals.seconds:.0f} s")
        click.echo(f"{rate:,.0f} walks/s, {len(totals.found)} findings")
        if first is not None and first.finding is not None:
            click.echo(f"seed {first.seed}, branch {first.branch}: {first.finding}")
    if first is None:
        return
    if save is not None:
        with _broken_by(mutant):
            text = stories.text_of(_smaller(first.story, first.finding))
        write_or_explain(save, lambda: Path(save).write_text(text, encoding="utf-8"))
    raise click.exceptions.Exit(1)


def _smaller(story: stories.Story, finding: Finding | None) -> stories.Story:
    """The story with as few steps as show the same."""

    def fails(shorter: stories.Story) -> bool:
        found = stories.play(shorter)
        return found is not None and finding is not None and found.check == finding.check

    return stories.shrunk(story, fails)
