"""`phalanx explore`: every behaviour of a small group, on the product's own classes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from phalanx.cli.options import Whole, check_places, write_or_explain
from phalanx.core.effects import Service
from phalanx.errors import ConfigurationError, FileError
from phalanx.explore import paths
from phalanx.explore.search import Limits, Result, Search, Violation
from phalanx.explore.world import PURSE, Options
from phalanx.sim.sweep import broken_by

EVERY_SECONDS = 10
_AMOUNT = Whole(0, 99)
_SERVICES = [service.name.lower() for service in Service]


class Components(click.ParamType[str]):
    """Who boots together, as 0,1|2."""

    name = "A,B|C"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value)


def _amount(name: str, text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(f"--{name}", type=_AMOUNT, default=0, help=text)


@click.command("explore")
@click.option("--members", type=Whole(1, paths.MEMBERS_MAX), default=2, help="Processes; 2.")
@click.option("--start", type=Components(), help="Who boots together; everybody alone.")
@click.option("--young", is_flag=True, help="Start before anybody has spoken in its view.")
@_amount("attempts", "How many attempts to join (AJ) are made in all.")
@_amount("suspicions", "How often somebody holds another for failed.")
@_amount("crashes", "How many processes crash.")
@_amount("losses", "How many packets are lost.")
@_amount("data", "How many messages are sent.")
@_amount("timeouts", "How often T_change or T_view runs out before it must.")
@_amount("acks", "How many keep-alives are sent before they must.")
@click.option("--mode", type=click.Choice(["hold", "flow"]), default="hold", help="hold")
@click.option("--service", type=click.Choice(_SERVICES), default="agreed", help="agreed")
@click.option("--reduction/--no-reduction", default=True, help="Leave out what commutes.")
@click.option("--seconds", type=Whole(1, 1_000_000), help="Stop after so long.")
@click.option("--states", type=Whole(1, 1 << 40), help="Stop after so many.")
@click.option("--until-failure", is_flag=True, help="Stop at the first violation.")
@click.option("--mutant", metavar="NAME", help="Break one rule of the protocol first.")
@click.option("--show", is_flag=True, help="Print the way to the first violation of each kind.")
@click.option("--save", type=click.Path(), metavar="FILE", help="Write the first such way there.")
@click.option("--replay", type=click.Path(), metavar="FILE", help="Play a way that was saved.")
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
    as_json: bool,
    **purse: int,
) -> None:
    """Try everything that a small group can do, and check it.

    \b
    Example:
      phalanx explore --members 2 --attempts 2 --suspicions 1 --data 1 --json
    """
    if replay is not None:
        _replay(replay)
        return
    check_places(save)
    options = Options(
        members=members,
        start=_components(start, members),
        mode="flow" if mode == "flow" else "hold",
        service=Service[service.upper()],
        young=young,
        **purse,
    )
    limits = Limits(
        float("inf") if seconds is None else seconds,
        float("inf") if states is None else states,
        1 if until_failure else float("inf"),
    )
    with broken_by(mutant):
        result = Search(options, reduction).run(limits, _Progress())
        _tell(result, options, mutant, show, as_json)
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


# ------------------------------------------------------------------ telling


class _Progress:
    """A line on stderr now and then."""

    def __init__(self) -> None:
        self._next = float(EVERY_SECONDS)

    def __call__(self, result: Result, waiting: int) -> None:
        if result.seconds < self._next:
            return
        self._next = result.seconds + EVERY_SECONDS
        failed = sum(result.counts.values())
        click.echo(
            f"{result.seconds:.0f} s: {result.states:,} states, {waiting:,} of them wait,"
            f" depth {result.depth}, {failed:,} violations",
            err=True,
        )


def _tell(result: Result, options: Options, mutant: str | None, show: bool, as_json: bool) -> None:
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
            click.echo(f"{violation.check} ({count:,}): {violation.text}", err=as_json)
        if show:
            for text in paths.told(options, violation.path):
                click.echo(f"  {text}", err=as_json)


def _rate(result: Result) -> float:
    return result.states / max(result.seconds, 1e-9)


def _facts(result: Result, options: Options, mutant: str | None) -> dict[str, Any]:
    first = result.violations[0] if result.violations else None
    return {
        "members": options.members,
        "start": paths.start_text(options),
        **{name: getattr(options, name) for name in PURSE},
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
            "text": first.text,
            "path": [paths.line(action) for action in first.path],
        },
    }


def _script(options: Options, mutant: str | None, violation: Violation) -> str:
    """A violation as a file that `--replay` plays."""
    title = f"# {violation.check}: {violation.text}"
    told = paths.told(options, violation.path)
    return "\n".join([title, *paths.header(options, mutant), "", *told, ""])


# ------------------------------------------------------------------ playing again


def _replay(file: str) -> None:
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise FileError(file, None, f"cannot be read: {reason}", "name a saved path") from None
    script = paths.parse(text, file)
    with broken_by(script.mutant):
        player = paths.Player(script.options)
        for action in script.path:
            try:
                lines = player.play(action)
            except LookupError as error:
                remedy = "was it saved with other code?"
                raise FileError(file, None, str(error.args[0]), remedy) from None
            for told in lines:
                click.echo(told)
        found = player.finding()
    if found is None:
        click.echo("nothing is wrong")
        return
    click.echo(f"{found.check}: {found.text}")
    raise click.exceptions.Exit(1)
