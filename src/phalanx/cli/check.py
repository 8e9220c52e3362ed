"""`phalanx check`: judge every guarantee on the journals of a group, without Spark."""

from __future__ import annotations

import json
from typing import Any

import click

from phalanx.cli.check_service import service_facts, service_lines
from phalanx.cli.settings_lines import settings_lines
from phalanx.journal.reader import Reading, read_all
from phalanx.runtime.short_names import ShortNames
from phalanx.text import one_line
from phalanx.verify.checkers.member_names import label
from phalanx.verify.evidence import JournalEvidence, judge
from phalanx.verify.render.verdict_table import VERDICTS_HEAD, verdict_line
from phalanx.verify.render.violation_story import violation_story
from phalanx.verify.service.service_evidence import judge_services, without_services

EXAMPLES_MAX = 3
STORIES_MAX = 2


@click.command("check")
@click.argument("journals", nargs=-1, required=True, type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def check(journals: tuple[str, ...], as_json: bool) -> None:
    """Check the guarantees of groups on the JOURNALS of their members.

    JOURNALS are files or folders, of any number of members and groups; each group is checked by
    itself, and so is a membership service, whose servers and interfaces write journals too.
    Settings that must agree and differ are printed first. Give the journals of all members: a
    property that needs a missing one is unverifiable, which is not the same as violated. Prints for
    each guarantee the verdict, the number of violations, and how often rows tested it. Exit 0 if
    nothing is violated, 1 if something is, 2 if the journals cannot be read.

    \b
    Example:
      phalanx check journals/
    """
    reading = read_all(journals)
    found, services = judge(without_services(reading)), judge_services(reading)
    reports = [e.report for e in found] + [service.report for service in services]
    violated = any(report.violated for report in reports)
    if as_json:
        facts: dict[str, Any] = {"violated": violated, "groups": [_facts(e) for e in found]}
        if services:
            facts["services"] = [service_facts(e) for e in services]
        click.echo(json.dumps(facts | {"problems": _problems(reading)}))
    else:
        for evidence in found:
            where = f"group {evidence.group} of {evidence.cluster}"
            for line in settings_lines(where, _settings(evidence), evidence.mixed):
                click.echo(one_line(line))
        for problem in _problems(reading):
            click.echo(one_line(problem))
        for jump in (jump for evidence in found for jump in evidence.clocks):
            click.echo(one_line(jump))
        for evidence in found:
            names = ShortNames([*evidence.journals, *evidence.absent])
            for line in _lines(evidence):
                click.echo(one_line(names.in_text(line)))
        for line in (line for service in services for line in service_lines(service)):
            click.echo(one_line(line))
        if not found and not services:
            click.echo("the journals are empty: nothing to check")
    if violated:
        raise click.exceptions.Exit(1)


def _problems(reading: Reading) -> list[str]:
    return [f"{s.path}: {what}" for s in reading.segments for what in s.problems]


def _settings(evidence: JournalEvidence) -> dict[str, dict[str, list[str]]]:
    return {
        name: {value: [label(member) for member in who] for value, who in values.items()}
        for name, values in evidence.settings.items()
    }


def _facts(evidence: JournalEvidence) -> dict[str, Any]:
    properties = {}
    for name, result in evidence.report.properties.items():
        verdict, why = evidence.judgement(name)
        properties[name] = {
            "verdict": verdict,
            "why": why,
            "violations": result.found,
            "checked": result.evaluated,
            "examples": [str(violation) for violation in result.violations[:EXAMPLES_MAX]],
        }
    return {
        "clocks": evidence.clocks,
        "cluster": evidence.cluster,
        "run": evidence.run,
        "group": evidence.group,
        "mode": evidence.mode,
        "rows": len(evidence.rows),
        "members": [label(member) for member in evidence.journals],
        "absent": [label(member) for member in evidence.absent],
        "torn": {label(member): lack for member, lack in evidence.torn.items()},
        "unended": [label(member) for member in evidence.unended],
        "settings": _settings(evidence),
        "mixed": evidence.mixed,
        "violated": list(evidence.report.violated),
        "properties": properties,
    }


def _lines(evidence: JournalEvidence) -> list[str]:
    members = ", ".join(label(member) for member in evidence.journals)
    lines = [
        f"group {evidence.group} of {evidence.cluster}: {len(evidence.rows):,} rows of {members}",
    ]
    if evidence.absent:
        lines.append(f"  no journal of {', '.join(map(label, evidence.absent))}")
    lines += [f"  rows missing of {label(m)}: {lack}" for m, lack in evidence.torn.items()]
    if evidence.unended:
        who = ", ".join(map(label, evidence.unended))
        lines.append(f"  ended without a stop, the last rows may be missing: {who}")
    lines.append(VERDICTS_HEAD)
    for name, result in evidence.report.properties.items():
        verdict, why = evidence.judgement(name)
        shown = why if verdict == "unverifiable" else ""
        lines.append(verdict_line(verdict, result.found, result.evaluated, name, shown))
    violations = evidence.report.violations[:STORIES_MAX]
    rows = evidence.story if violations else []
    for violation in violations:
        lines += ["", str(violation), *violation_story(rows, violation)]
    return lines
