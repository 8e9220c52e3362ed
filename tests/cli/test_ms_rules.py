"""`phalanx ms rules`: the normal form, and errors with their place."""

from __future__ import annotations

import json

from click.testing import CliRunner

from phalanx.cli.main import main

RULE = "(size>2)  and not any(role=witness)"


def test_a_good_rule_is_printed_in_its_normal_form() -> None:
    result = CliRunner().invoke(main, ["ms", "rules", "check", RULE])
    assert result.exit_code == 0
    assert result.output == 'size > 2 and not any(role = "witness")\n'
    again = CliRunner().invoke(main, ["ms", "rules", "check", result.output.strip()])
    assert again.output == result.output


def test_a_bad_rule_is_one_line_with_its_place_and_exit_1() -> None:
    result = CliRunner().invoke(main, ["ms", "rules", "check", "size >\nmany"])
    assert result.exit_code == 1
    expected = "expected a whole number of at least 0, found 'many'"
    assert result.output == f"bad-rule: 2:1: {expected}\n"


def test_json_has_the_place_and_what_was_expected() -> None:
    good = CliRunner().invoke(main, ["ms", "rules", "check", "--json", RULE])
    assert json.loads(good.output)["ok"] is True
    bad = CliRunner().invoke(main, ["ms", "rules", "check", "--json", "size"])
    assert bad.exit_code == 1
    assert json.loads(bad.output) == {
        "ok": False,
        "line": 1,
        "column": 5,
        "problem": "expected < or <= or = or >= or >, found the end of the rule",
        "expected": ["<", "<=", "=", ">=", ">"],
    }
