"""`phalanx ms rules`: check partition rules before a group depends on them."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from phalanx.errors import FileError
from phalanx.journal.segment import SUFFIX as SEGMENT_SUFFIX
from phalanx.journal.service_schema import SERVICE_GROUP
from phalanx.service.calls.attributes import check_member_changes
from phalanx.service.calls.call_errors import BadRule, ServiceError
from phalanx.service.rules.rule_parser import parse_rule
from phalanx.service.rules.rule_replay import RecordedView, ReplayedView, replay
from phalanx.service.rules.rule_syntax import AttributeValue, print_rule
from phalanx.text import one_line


@click.group("rules")
def rules() -> None:
    """Partition rules: which part of a group goes on, and which parts become one again.

    \b
    Example:
      phalanx ms rules check 'fraction > 0.5 or has ada'
      phalanx ms rules replay history.jsonl --rule 'fraction > 0.5'
    """


@rules.command("check")
@click.argument("rule")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def check_rule(rule: str, as_json: bool) -> None:
    """Parse RULE and print it in its normal form.

    Exit code 0 if it can be parsed; 1 otherwise: the line that is printed then names line, column
    and what was expected there.

    \b
    Example:
      phalanx ms rules check 'fraction > 0.5 and not any(role = "witness")'
    """
    try:
        parsed = parse_rule(rule)
    except BadRule as error:
        if as_json:
            fields = {
                "ok": False,
                "line": error.line,
                "column": error.column,
                "problem": error.problem,
                "expected": list(error.expected),
            }
            click.echo(json.dumps(fields))
        else:
            click.echo(str(error))
        raise click.exceptions.Exit(1) from None
    text = print_rule(parsed)
    click.echo(json.dumps({"ok": True, "rule": text}) if as_json else text)


@rules.command("replay")
@click.argument("history", type=click.Path(path_type=Path))
@click.option("--rule", required=True, help="The rule to try.")
@click.option("--group", metavar="NAME", help="Only this group: its uid, or its name in journals.")
@click.option("--all", "whole", is_flag=True, help="Print views of which it is not asked, too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON objects, one on each line.")
def replay_rule(history: Path, rule: str, group: str | None, whole: bool, as_json: bool) -> None:
    """Try a survive rule on the recorded views of groups.

    HISTORY is a folder of journals of a service, an export of them, or a lake; or a file with one
    JSON object on each line, as `phalanx ms join_group --json` prints them: `uid`, `vid`,
    `members`, `cause`, and `attributes`, an object of the attributes of each member, if conditions
    are to be tried. Lines without `vid` are skipped. A rule is asked of views that lack a member of
    the view before, unless the cause is that it left.

    Exit code 0 if the rule holds wherever it is asked, 1 if a part of a group would have ended.

    \b
    Example:
      phalanx ms rules replay history.jsonl --rule 'fraction > 0.5'
      phalanx ms rules replay lake/ --group orders --rule 'has ada'
    """
    try:
        parsed = parse_rule(rule)
    except BadRule as error:
        raise click.UsageError(str(error)) from None
    recorded = history.is_dir() or history.suffix == SEGMENT_SUFFIX
    views = recorded_views(history, group) if recorded else read_history(history)
    if not recorded and group is not None:
        views = [view for view in views if view.uid == group]
    rows = replay(parsed, views)
    for row in rows:
        if row.asked or whole:
            click.echo(json.dumps(asdict(row)) if as_json else one_line(line_of(row)))
    ended = sum(row.asked and not row.holds for row in rows)
    if not as_json:
        asked = sum(row.asked for row in rows)
        click.echo(f"{len(rows)} views, asked of {asked}, would have ended {ended}")
    if ended:
        raise click.exceptions.Exit(1)


def line_of(row: ReplayedView) -> str:
    verdict = ("survives" if row.holds else "ends") if row.asked else "not asked"
    removed = f", without {', '.join(row.removed)}" if row.removed else ""
    return f"{row.uid} {row.vid} {verdict}: {row.size} of {row.size_largest}{removed} ({row.cause})"


def read_history(path: Path) -> list[RecordedView]:
    """The views of a file. FileError names the line that is none."""
    views: list[RecordedView] = []
    try:
        lines = path.read_bytes().decode().splitlines()
    except OSError as error:
        raise FileError(str(path), None, error.strerror or str(error), "give a file") from None
    except UnicodeDecodeError:
        raise FileError(str(path), None, "it is not UTF-8", "write it in UTF-8") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            view = view_of(json.loads(line))
        except (ValueError, RecursionError, ServiceError) as error:
            remedy = "write a JSON object with uid, vid, members and cause"
            raise FileError(str(path), number, str(error), remedy) from None
        if view is not None:
            views.append(view)
    return views


def recorded_views(path: Path, group: str | None) -> list[RecordedView]:
    """The views of groups in journals, an export or a lake, each once, in their order. Groups of
    several runs are kept apart. JournalError or PipelineError for what cannot be read."""
    from phalanx.pipeline.engine import run_plan
    from phalanx.pipeline.group_plan import plan_groups
    from phalanx.pipeline.history.service_history import service_history

    plan = plan_groups([str(path)], group=SERVICE_GROUP)
    views: list[RecordedView] = []
    for events in run_plan(plan, partial(service_history, group), engine="local", master=None):
        for event in (event for event in events if event.kind == "VIEW"):
            texts = zip(event.members, event.attributes, strict=False)
            attributes = {
                member: {
                    key: each
                    for key, each in check_member_changes(member, json.loads(text)).items()
                    if each is not None
                }
                for member, text in texts
            }
            uid = f"{event.run}/{event.uid}" if event.simulated else event.uid
            members = tuple(event.members)
            views.append(RecordedView(uid, event.vid, members, event.cause, attributes))
    return views


def view_of(row: Any) -> RecordedView | None:
    """One view; None for a row that is about something else. ValueError if it is neither."""
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")
    members, vid = row.get("members"), row.get("vid")
    if not vid or row.get("kind", "view") != "view":
        return None
    if not isinstance(members, list) or not all(isinstance(each, str) for each in members):
        raise ValueError("members is not a list of ids")
    known = row.get("attributes", {})
    if not isinstance(known, dict):
        raise ValueError("attributes is not an object")
    attributes: dict[str, dict[str, AttributeValue]] = {}
    for member, given in known.items():
        checked = check_member_changes(f"attributes.{member}", given)
        attributes[member] = {key: each for key, each in checked.items() if each is not None}
    cause, uid = str(row.get("cause", "")), str(row.get("uid", ""))
    return RecordedView(uid, str(vid), tuple(members), cause, attributes)
