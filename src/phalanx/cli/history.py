"""`phalanx history`: who was in which view when, and why a member was removed."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from phalanx.cli.engine_options import ENGINE, SINCE, UNTIL, each_group, window_of
from phalanx.cli.history_service import service_command
from phalanx.cli.spark_options import AS_JSON, AT, MASTER
from phalanx.runtime.short_names import ShortNames, of_labels
from phalanx.text import one_line

if TYPE_CHECKING:
    from phalanx.pipeline.engine import Engine
    from phalanx.pipeline.history.removals import Removal
    from phalanx.pipeline.history.view_at import ViewAt, ViewSpell

_GROUP = click.argument("group")
_MEMBER = click.argument("member")
_PATHS = click.argument("paths", nargs=-1, type=click.Path())
_FROM = click.option(
    "-f",
    "--from",
    "more",
    multiple=True,
    type=click.Path(),
    metavar="PATH",
    help="Journals, or a folder of them, or tables; may be repeated. Default: this folder.",
)
_RUN = click.option("--run", metavar="RUN", help="Only this run; default all runs.")


def _places(paths: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    return (*paths, *more) or (".",)


@click.group(invoke_without_command=True)
@click.pass_context
def history(ctx: click.Context) -> None:
    """Show who was in which view when, and why a member was removed.

    GROUP is the name of a group, MEMBER that of a member: `ada` for all its lives, `ada.2` for
    one. In the output a member is its name; where two lives of a name appear, with the last digits
    of their incarnations. --json has them in full.

    \b
    Examples:
      phalanx history views demo journals/
      phalanx history view-at demo ada 2026-11-15T12:00:00Z journals/
      phalanx history why demo ada journals/
      phalanx history service journals/ --group orders
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@history.command("view-at")
@_GROUP
@_MEMBER
@click.argument("instant")
@_PATHS
@_FROM
@_RUN
@AS_JSON
@ENGINE
@MASTER
@AT
def view_at_command(
    group: str,
    member: str,
    instant: str,
    paths: tuple[str, ...],
    more: tuple[str, ...],
    run: str | None,
    as_json: bool,
    engine: Engine,
    master: str | None,
    at: int | None,
) -> None:
    """Print the view of MEMBER at INSTANT.

    INSTANT is one of the member's wall clock, as ISO 8601 (UTC if no zone is given) or as seconds
    since 1970; or simulated seconds, as 12.5s. Where the wall clock was set back an instant may
    occur twice: both views are printed.

    \b
    Example:
      phalanx history view-at demo ada 2026-11-15T12:00:00Z journals/
      phalanx history view-at sim ada 0.5s journals/
    """
    from phalanx.pipeline.history.instant import parse
    from phalanx.pipeline.history.view_at import view_at, views_at

    kernel = partial(views_at, member, parse(instant), run)
    places = _places(paths, more)
    results = each_group(places, kernel, engine=engine, master=master, at=at, group=group)
    found = view_at(results, group, member, run)
    if as_json:
        import msgspec

        click.echo(json.dumps({"answers": msgspec.to_builtins(found)}))
        return
    answers = [one for one in found if one.answer == "in view"] or found
    several = len({(one.cluster, one.run) for one in found}) > 1
    stays = [one.stay for one in answers if one.stay is not None]
    names = of_labels(
        [*(one.member for one in answers), *(m for stay in stays for m in stay.members)]
    )
    for one in answers:
        for line in _answer_lines(one, several):
            click.echo(one_line(names.in_text(line)))


def _answer_lines(one: ViewAt, several: bool) -> list[str]:
    who = f"{one.member} at {one.instant}" + (f", run {one.run}" if several else "")
    stay = one.stay
    if stay is None:
        return [f"{who}: it installed no view"]
    if one.answer == "before":
        return [f"{who}: before its first view, {stay.view}, which came at {stay.since}"]
    if one.answer == "after":
        return [f"{who}: after its journal ends, {_ending(stay)}; its last view was {stay.view}"]
    lines = [f"{who}: view {stay.view} of {', '.join(stay.members)}"]
    until = f"{stay.until}, when {stay.next_view} came" if stay.next_view else _ending(stay)
    lines.append(f"  from {stay.since} to {until}")
    if stay.gapped:
        lines.append("  rows are missing from its journal: another view may lie in between")
    return lines


def _ending(stay: ViewSpell) -> str:
    word = {"STOP": "with a stop", "CRASH": "with a crash"}.get(stay.end, "without a stop")
    return f"{stay.until}, {word}"


@history.command("why")
@_GROUP
@_MEMBER
@_PATHS
@_FROM
@_RUN
@SINCE
@UNTIL
@AS_JSON
@ENGINE
@MASTER
@AT
def why_command(
    group: str,
    member: str,
    paths: tuple[str, ...],
    more: tuple[str, ...],
    run: str | None,
    since: str | None,
    until: str | None,
    as_json: bool,
    engine: Engine,
    master: str | None,
    at: int | None,
) -> None:
    """Print why MEMBER was removed from its group: the evidence in the journals of its peers.

    For each removal: who suspected it, when and why; the steps that closed the view, and their
    durations; how its own journal ends; and whether it rejoined. With --since and --until, the
    removals between these instants.

    \b
    Example:
      phalanx history why demo cyd journals/
    """
    from phalanx.pipeline.history.render import story, to_json
    from phalanx.pipeline.history.why import removals_of, why

    kernel = partial(removals_of, member, window_of(since, until), run)
    places = _places(paths, more)
    results = each_group(places, kernel, engine=engine, master=master, at=at, group=group)
    found = why(results, group, member, run)
    if as_json:
        click.echo(json.dumps({"removals": [to_json(removal) for removal in found]}))
        return
    if not found:
        click.echo(one_line(f"{member} was never removed from group {group}"))
    several = len({(removal.cluster, removal.run) for removal in found}) > 1
    names = of_labels(label for removal in found for label in _labels(removal))
    for nth, removal in enumerate(found):
        for line in ([""] if nth else []) + story(removal, several):
            click.echo(one_line(names.in_text(line)))


def _labels(removal: Removal) -> list[str]:
    """The members that the story of a removal names, in full."""
    labels = [removal.label, *(observer.label for observer in removal.observers)]
    if removal.back_incarnation is not None:
        labels.append(f"{removal.target}.{removal.back_incarnation}")
    for proof in removal.chain:
        lists = (proof.members, proof.failed_before, proof.failed_after)
        labels += [proof.label, *(label for some in lists for label in some or ())]
    return labels


@history.command("views")
@_GROUP
@_PATHS
@_FROM
@_RUN
@SINCE
@UNTIL
@AS_JSON
@ENGINE
@MASTER
@AT
def views_command(
    group: str,
    paths: tuple[str, ...],
    more: tuple[str, ...],
    run: str | None,
    since: str | None,
    until: str | None,
    as_json: bool,
    engine: Engine,
    master: str | None,
    at: int | None,
) -> None:
    """List the views of GROUP in the order of their first installation.

    With --since and --until, the views that some member was in between these instants.

    \b
    Example:
      phalanx history views demo journals/
      phalanx history views demo journals/ --since 2026-11-15T12:00:00Z
    """
    import msgspec

    from phalanx.pipeline.history.lookup import check_run
    from phalanx.pipeline.history.view_summary import views_within

    kernel = partial(views_within, window_of(since, until), run)
    places = _places(paths, more)
    results = each_group(places, kernel, engine=engine, master=master, at=at, group=group)
    some = list(results)
    check_run([one.key for one in some], group, run)
    found = [msgspec.to_builtins(view) for one in some for view in one.views]
    if as_json:
        click.echo(json.dumps({"views": found}))
        return
    for line in view_texts(found):
        click.echo(one_line(line))


def view_texts(found: list[dict[str, Any]]) -> list[str]:
    """The lines about views, members by short names."""
    several = len({(view["cluster"], view["run"]) for view in found}) > 1
    members = (zip(view["members"], view["member_incarnations"], strict=True) for view in found)
    names = ShortNames(member for view in members for member in view)
    return [names.in_text(line) for view in found for line in _view_lines(view, several)]


def _view_lines(view: dict[str, Any], several: bool) -> list[str]:
    from phalanx.pipeline.history.instant import Instant

    simulated = view["from_sim_ns"] is not None
    at = Instant(view["from_sim_ns" if simulated else "from_wall_ns"], simulated)
    members = zip(view["members"], view["member_incarnations"], strict=True)
    names = " ".join(f"{name}.{incarnation}" for name, incarnation in members)
    run = f"{view['run']}  " if several else ""
    lines = [f"{run}{at}  {view['view']:<24} {'/'.join(view['causes']):<7} {names}"]
    if view["lost"]:
        lines.append(f"    without {' '.join(view['lost'])}")
    if view["absent"]:
        lines.append(f"    no journal shows its installation by {' '.join(view['absent'])}")
    return lines


history.add_command(service_command)
