"""`phalanx history` and `phalanx measures`, as they are called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession
from tests.journal.journal_folder import keep
from tests.verify.trace_builder import odyssey

from phalanx.cli.main import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return keep(tmp_path_factory.mktemp("journals"), odyssey().rows)


@pytest.fixture(scope="module")
def phalanx() -> Any:
    def call(*arguments: object) -> Result:
        return CliRunner().invoke(main, [str(argument) for argument in arguments])

    return call


def test_views_are_told_with_their_members_and_who_went(phalanx: Any, folder: Path) -> None:
    told = phalanx("history", "views", "g", folder)
    assert told.exit_code == 0, told.output
    lines = [line.split(maxsplit=1)[1] for line in told.stdout.splitlines()]
    assert "v1                       join    a b c d" in lines
    assert "c d" in lines[lines.index("v2                       removal a b") + 1]


def test_the_view_at_an_instant_is_told_as_text_and_as_json(phalanx: Any, folder: Path) -> None:
    views = json.loads(phalanx("history", "views", "g", "--json", "-f", folder).stdout)["views"]
    (first,) = (view for view in views if view["view"] == "va")
    ns = first["from_wall_ns"]
    instant = f"{ns // 10**9}.{ns % 10**9:09}"
    text = phalanx("history", "view-at", "g", "a", instant, folder)
    assert text.exit_code == 0, text.output
    assert ": view va of a\n  from " in text.output
    found = json.loads(phalanx("history", "view-at", "g", "a", instant, folder, "--json").stdout)
    assert [one["stay"]["view"] for one in found["answers"]] == ["va"]


def test_an_unknown_name_is_one_line_and_exit_2(phalanx: Any, folder: Path) -> None:
    told = phalanx("history", "view-at", "h", "a", "1", folder)
    assert told.exit_code == 2
    assert told.output == (
        "phalanx: group 'h': there is no journal of it; groups in these journals: g\n"
    )


def test_an_instant_is_read_before_anything_is_opened(phalanx: Any, tmp_path: Path) -> None:
    told = phalanx("history", "view-at", "g", "a", "noon", tmp_path / "nothing")
    assert (told.exit_code, told.output.count("\n")) == (2, 1)
    assert "INSTANT 'noon': not an instant" in told.output


def test_measures_are_printed_as_tables_and_as_json(phalanx: Any, folder: Path) -> None:
    told = phalanx("measures", folder, "-m", "changes", "-m", "links", "--rows", 2)
    assert told.exit_code == 0, told.output
    first, head, *_ = told.stdout.splitlines()
    assert first == "changes (cluster c, run r, group g)"
    assert head.split()[:6] == ["member", "incarnation", "view", "previous", "cause", "gained"]
    assert "rows more: --rows, or --json for all" in told.output
    assert told.stdout.splitlines()[-1] == "links: nothing to measure"
    found = json.loads(phalanx("measures", folder, "-m", "partitions", "--json").stdout)
    assert {row["clock"] for row in found["measures"]["partitions"]} == {"BOOT"}


def test_the_engine_is_named_on_stderr_and_both_give_the_same(
    spark: SparkSession, phalanx: Any, folder: Path
) -> None:
    commands: list[tuple[str, ...]] = [
        ("measures", "--json"),
        ("history", "views", "g", "--json", "-f"),
        ("history", "why", "g", "d", "--json", "-f"),
    ]
    for command in commands:
        here = phalanx(*command, folder)
        assert here.stderr.startswith("engine: local, "), command
        there = phalanx(*command, folder, "--engine", "spark")
        assert (there.exit_code, there.stderr) == (0, ""), there.output
        assert json.loads(there.stdout) == json.loads(here.stdout)


def test_a_window_leaves_out_what_happened_outside(phalanx: Any, folder: Path) -> None:
    views = json.loads(phalanx("history", "views", "g", "--json", "-f", folder).stdout)["views"]
    begin = max(view["from_wall_ns"] for view in views)
    since = f"{begin // 10**9}.{begin % 10**9:09}"
    later = json.loads(
        phalanx("history", "views", "g", "--json", "--since", since, "-f", folder).stdout
    )["views"]
    assert [view["view"] for view in later] == [
        view["view"] for view in views if view["to_wall_ns"] > begin or view == views[-1]
    ]
    assert 0 < len(later) < len(views)
    told = phalanx("measures", folder, "--since", "5s")
    assert (told.exit_code, told.stderr.splitlines()[-1]) == (
        2,
        "phalanx: run 'r': is not simulated; give an instant of the wall clock",
    )


def test_a_master_needs_the_engine_spark(phalanx: Any, folder: Path) -> None:
    told = phalanx("measures", folder, "--engine", "local", "--master", "spark://h:7077")
    assert (told.exit_code, told.output.count("\n")) == (2, 1)
    assert "the engine `local` has no master" in told.output
