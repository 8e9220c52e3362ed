"""`phalanx lake`: a line or one JSON object of what was done, a line of what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.journal.journal_folder import keep
from tests.pipeline.lakes import held
from tests.verify.trace_builder import odyssey

from phalanx.cli.main import main


def phalanx(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake of two versions: three members, then two more."""
    files = sorted(keep(tmp_path / "j", odyssey().rows).glob("*.phj"))
    for some in (files[:3], files[3:]):
        assert phalanx("ingest", *some, "--into", tmp_path / "lake").exit_code == 0
    return tmp_path / "lake"


def test_info_lists_versions_and_tables(lake: Path) -> None:
    lines = phalanx("lake", "info", lake).stdout.splitlines()
    assert lines[0].startswith("version 2, ingest at 20")
    assert lines[0].endswith("; versions that can be read: 1 to 2")
    assert lines[1].startswith("5 journals in 5 segments, 1 groups, 1 clusters, days ")
    deliveries = str(len(held(lake)["deliver"]))
    assert ["deliver", deliveries, "2"] in [line.split()[:3] for line in lines]
    told = json.loads(phalanx("lake", "info", lake, "--at", "1", "--json").stdout)
    assert (told["version"], told["journals"], told["versions"]) == (1, 3, [1, 2])
    assert told["tables"]["gap"] == {"rows": 0, "files": 0, "bytes": 0}


def test_a_lake_is_compacted_vacuumed_and_emptied(lake: Path) -> None:
    before = held(lake)
    done = phalanx("lake", "compact", lake)
    assert done.stdout.endswith(f"; {lake} is at version 3\n")
    assert "files became" in done.stdout
    kept = json.loads(phalanx("lake", "vacuum", lake, "--json").stdout)
    assert (kept["version"], kept["versions"], kept["files"]) == (3, 0, 0)
    done = phalanx("lake", "vacuum", lake, "--keep", "0h")
    assert done.stdout.startswith("2 versions and ")
    assert held(lake) == before
    told = json.loads(phalanx("lake", "retain", "0h", lake, "--json").stdout)
    assert (told["version"], told["segments"], told["rows"], told["journals"]) == (4, 5, 200, 0)
    assert held(lake) == {}
    assert phalanx("lake", "retain", "30d", lake).stdout.startswith("0 segments deleted, 0 rows")


def test_the_group_of_commands_prints_its_help() -> None:
    result = phalanx("lake")
    assert result.exit_code == 0
    assert "phalanx lake retain 30d lake/" in result.stdout


@pytest.mark.parametrize("command", ["info", "compact", "vacuum", "retain"])
def test_what_is_no_lake_is_one_line_and_exit_2(tmp_path: Path, command: str) -> None:
    age = ["1d"] if command == "retain" else []
    for place in (tmp_path, tmp_path / "absent"):
        result = phalanx("lake", command, *age, place)
        assert result.exit_code == 2
        (line,) = result.stderr.splitlines()
        assert f"{place}: there is no table `versions` in it; give an empty folder" in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("age", ["30", "-1d", "1y", "999999d", "d", "1.5h"])
def test_an_age_is_a_number_of_hours_days_or_weeks(tmp_path: Path, age: str) -> None:
    result = phalanx("lake", "retain", "--", age, tmp_path)
    assert result.exit_code == 2
    assert "a number up to 99999 and h, d or w, for example 30d" in result.stderr
