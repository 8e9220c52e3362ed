"""`phalanx ms rules`: the normal form, and errors with their place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
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


def row(number: int, members: str, cause: str = "join", **more: Any) -> dict[str, Any]:
    return {"uid": "u", "vid": f"{number}:aa", "members": list(members), "cause": cause} | more


def written(path: Path, *rows: object) -> str:
    file = path / "history.jsonl"
    file.write_text("".join(f"{json.dumps(each)}\n" for each in rows))
    return str(file)


HISTORY = (
    row(1, "a"),
    row(2, "abcd"),
    row(3, "abc", "leave"),
    row(4, "abc", "set_member"),
    row(5, "ab", "removed", attributes={"a": {"role": "db"}}),
    row(6, "c", "removed"),
    row(7, "abcd", "union"),
    row(8, "abc", "removed"),
)


def run(file: str, rule: str, *more: str) -> tuple[int, list[str]]:
    result = CliRunner().invoke(main, ["ms", "rules", "replay", file, "--rule", rule, *more])
    return result.exit_code, (result.stdout or result.stderr).splitlines()


def test_a_replay_shows_where_a_part_would_have_ended(tmp_path: Path) -> None:
    file = written(tmp_path, *HISTORY)
    assert run(file, "fraction > 0.5") == (
        1,
        [
            "u 5:aa ends: 2 of 4, without c (removed)",
            "u 6:aa ends: 1 of 4, without a, b (removed)",
            "u 8:aa survives: 3 of 4, without d (removed)",
            "8 views, asked of 3, would have ended 2",
        ],
    )
    assert run(file, "always")[0] == 0


def test_a_replay_knows_attributes_and_ids(tmp_path: Path) -> None:
    code, lines = run(written(tmp_path, *HISTORY), "any(role = db) or has c", "--json")
    assert code == 0
    shown = [json.loads(line) for line in lines]
    assert [(each["vid"], each["holds"]) for each in shown] == [
        ("5:aa", True),
        ("6:aa", True),
        ("8:aa", True),
    ]
    code, lines = run(written(tmp_path, *HISTORY), "any(role = db)", "--json", "--all")
    assert code == 1
    assert len(lines) == 8


def test_groups_do_not_mix_and_other_rows_are_skipped(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        {"member": "a", "result": "joined"},
        row(1, "ab"),
        row(1, "cd", uid="v"),
        row(2, "ab", kind="excluded"),
    )
    assert run(file, "never") == (0, ["2 views, asked of 0, would have ended 0"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "history.jsonl:1: "),
        ("\n[1]", "history.jsonl:2: not a JSON object"),
        (json.dumps(row(1, "a") | {"members": "a"}), "members is not a list"),
        (json.dumps(row(1, "a", attributes=[])), "attributes is not an object"),
        (json.dumps(row(1, "a", attributes={"a": {"x": 1.5}})), "attributes.a.x must be"),
    ],
)
def test_a_history_that_is_none_is_one_line_and_exit_2(
    content: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "history.jsonl"
    file.write_text(content)
    code, lines = run(str(file), "always")
    assert (code, len(lines)) == (2, 1)
    assert message in lines[0]


def test_a_missing_history_or_a_bad_rule_is_one_line_and_exit_2(tmp_path: Path) -> None:
    assert run(str(tmp_path / "none"), "always")[0] == 2
    code, [line] = run(written(tmp_path), "size >")
    assert code == 2
    assert "1:7: expected a whole number" in line
