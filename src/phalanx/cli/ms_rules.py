"""`phalanx ms rules`: check partition rules before a group depends on them."""

from __future__ import annotations

import json

import click

from phalanx.service.calls.call_errors import BadRule
from phalanx.service.rules.rule_parser import parse_rule
from phalanx.service.rules.rule_syntax import print_rule


@click.group("rules")
def rules() -> None:
    """Partition rules: which part of a group goes on, and which parts become one again.

    \b
    Example:
      phalanx ms rules check 'fraction > 0.5 or has ada'
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
