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
def phalanx(spark: SparkSession) -> Any:
    def call(*arguments: object) -> Result:
        return CliRunner().invoke(main, [str(argument) for argument in arguments])

    return call


def test_views_are_told_with_their_members_and_who_went(phalanx: Any, folder: Path) -> None:
    told = phalanx("history", "views", "g", folder)
    assert told.exit_code == 0, told.output
    lines = [line.split(maxsplit=1)[1] for line in told.output.splitlines()]
    assert "v1                       join    a b c d" in lines
    assert "c d" in lines[lines.index("v2                       removal a b") + 1]


def test_the_view_at_an_instant_is_told_as_text_and_as_json(phalanx: Any, folder: Path) -> None:
    views = json.loads(phalanx("history", "views", "g", "--json", "-f", folder).output)["views"]
    (first,) = (view for view in views if view["view"] == "va")
    ns = first["from_wall_ns"]
    instant = f"{ns // 10**9}.{ns % 10**9:09}"
    text = phalanx("history", "view-at", "g", "a", instant, folder)
    assert text.exit_code == 0, text.output
    assert ": view va of a\n  from " in text.output
    found = json.loads(phalanx("history", "view-at", "g", "a", instant, folder, "--json").output)
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
    first, head, *_ = told.output.splitlines()
    assert first == "changes (cluster c, run r, group g)"
    assert head.split()[:6] == ["member", "incarnation", "view", "previous", "cause", "gained"]
    assert "rows more: --rows, or --json for all" in told.output
    assert told.output.splitlines()[-1] == "links: nothing to measure"
    found = json.loads(phalanx("measures", folder, "-m", "partitions", "--json").output)
    assert {row["clock"] for row in found["measures"]["partitions"]} == {"BOOT"}
