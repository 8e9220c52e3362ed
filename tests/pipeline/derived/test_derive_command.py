"""`phalanx lake derive`: what was done, in lines or as JSON; a line of what is wrong."""

from __future__ import annotations

import asyncio
import json
import shutil
from datetime import timedelta
from pathlib import Path

import polars
import pytest
from click.testing import CliRunner, Result
from deltalake import DeltaTable, write_deltalake
from tests.pipeline.orders import orders, stock, written_to

import phalanx
from phalanx.cli.lake import DERIVED_NAMES
from phalanx.cli.main import main
from phalanx.journal.arrow_schema import arrow
from phalanx.pipeline.derived import derive as derive_module
from phalanx.pipeline.derived.derive import TABLES
from phalanx.pipeline.ingest import ingest
from phalanx.pipeline.lake.lake import Lake
from phalanx.pipeline.lake.lake_transaction import change


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("command")
    ingest(written_to(folder / "journals", [*orders(), *stock()]), folder / "lake")
    return folder / "lake"


@pytest.fixture
def lake(ingested: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(ingested, tmp_path / "lake"))


def test_the_command_knows_all_tables() -> None:
    assert DERIVED_NAMES == TABLES


def test_a_lake_gets_its_derived_tables_and_info_lists_them(lake: Path) -> None:
    done = run("lake", "derive", lake)
    assert done.exit_code == 0, done.output
    assert done.stderr.startswith("engine: local, ")
    head, *lines, last = done.stdout.splitlines()
    assert head.split() == ["derived", "table", "rows", "replaced"]
    assert [line.split()[0] for line in lines] == list(TABLES)
    assert lines[2].split() == ["changes", "5", "2"]
    assert last == f"2 groups, 4 views violate something; {lake} is at version 2"
    again = json.loads(run("lake", "derive", lake, "--json").stdout)
    assert (again["version"], again["groups"]) == (2, 2)
    assert again["tables"]["changes"] == {"rows": 5, "replaced": 0}
    shown = run("lake", "info", lake).stdout.splitlines()
    after = [line.split()[0] for line in shown[shown.index(next(_derived(shown))) + 1 :]]
    assert after == sorted(TABLES)
    told = json.loads(run("lake", "info", lake, "--json").stdout)
    assert told["derived"] == sorted(TABLES)
    assert told["tables"]["changes"]["rows"] == 5
    assert json.loads(run("lake", "info", lake, "--at", 1, "--json").stdout)["derived"] == []


def _derived(lines: list[str]) -> filter[str]:
    return filter(lambda line: line.startswith("derived table"), lines)


def test_options_choose_a_group_tables_a_time_and_buckets(lake: Path) -> None:
    chosen = ("--only", "latency", "--only", "throughput", "--bucket", "10")
    done = run("lake", "derive", lake, "--group", "orders", *chosen, "--json")
    assert list(json.loads(done.stdout)["tables"]) == ["latency", "throughput"]
    found = polars.read_delta(str(lake / "latency"))
    assert set(found["bucket_ns"]) == {10_000_000_000}
    assert set(found["group"]) == {"orders"}
    rows = found.height
    since = ("--since", "2027-01-15T08:01:00Z", "--until", "2027-01-16T08:00:00Z")
    done = run("lake", "derive", lake, "--only", "latency", *since, "--json")
    assert json.loads(done.stdout)["tables"]["latency"]["rows"] == 2
    found = polars.read_delta(str(lake / "latency"))
    assert found.height == rows
    assert set(found["bucket_ns"]) == {10_000_000_000, 60_000_000_000}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--group", "spam"), "there is no journal of it; groups in these journals: orders, stock"),
        (("--since", "yesterday"), "INSTANT 'yesterday': not an instant; give 2026-11-15T12:00"),
        (("--since", "12.5s"), "run 'c': is not simulated; give an instant of the wall clock"),
        (("--only", "deliver"), "'deliver' is not one of 'view_intervals'"),
        (("--bucket", "0"), "'0' is not a whole number from 1 to 86400"),
        (("--engine", "local", "--master", "spark://h:1"), "the engine `local` has no master"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    lake: Path, arguments: tuple[str, ...], line: str
) -> None:
    done = run("lake", "derive", lake, *arguments)
    assert done.exit_code == 2
    told = [one for one in done.stderr.splitlines() if not one.startswith("engine: ")]
    assert len(told) == 1
    assert line in told[0]
    assert Lake(lake).snapshot().version == 1


def test_what_is_no_lake_is_one_line_and_exit_2(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "theirs" / "orders"), arrow().table({"n": [1]}))
    for place, problem in (
        (tmp_path / "absent", "there is no table `versions` in it"),
        (tmp_path / "theirs", "a Delta table of another program, not a lake"),
        (tmp_path / "theirs" / "orders", "a Delta table of another program, not a lake"),
    ):
        done = run("lake", "derive", place)
        assert done.exit_code == 2
        (line,) = done.stderr.splitlines()
        assert f"{place}: {problem}; give an empty folder" in line
    assert not (tmp_path / "absent").exists()
    assert DeltaTable(str(tmp_path / "theirs" / "orders")).version() == 0


def test_a_derived_table_of_a_later_phalanx_is_refused(lake: Path) -> None:
    assert run("lake", "derive", lake, "--only", "links").exit_code == 0
    log = lake / "links" / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('\\"lake\\": 3', '\\"lake\\": 4'))
    done = run("lake", "derive", lake, "--only", "links")
    assert done.exit_code == 2
    line = done.stderr.splitlines()[-1]
    assert f"{lake / 'links'}: format 4 of lakes is newer than 3; use the version of" in line
    assert run("lake", "info", lake).exit_code == 2


def test_a_lake_that_another_process_writes_to_is_refused_after_a_while(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derive_module, "WAIT_SECONDS", 0.0)
    with change(Lake(lake), "other"):
        done = run("lake", "derive", lake)
    assert done.exit_code == 2
    assert "another process writes to it now; wait until it ends" in done.stderr


def test_journals_of_real_members_are_derived(tmp_path: Path) -> None:
    """Two members on this machine, one of which leaves."""
    asyncio.run(asyncio.wait_for(live(tmp_path / "journals"), 60))
    assert run("ingest", tmp_path / "journals", "--into", tmp_path / "lake").exit_code == 0
    done = run("lake", "derive", tmp_path / "lake", "--json")
    assert done.exit_code == 0, done.output
    views = polars.read_delta(str(tmp_path / "lake" / "view_intervals"))
    both = views.filter(polars.col("lost").list.len() == 0, polars.col("cause") == "join")
    assert sorted(both["member"].to_list()) == ["ada", "bea"]
    removed = polars.read_delta(str(tmp_path / "lake" / "removals"))
    assert removed.select("member", "target", "fate").rows() == [("ada", "bea", "LEFT")]
    timed = polars.read_delta(str(tmp_path / "lake" / "latency"))
    others = timed.filter(polars.col("scope") == "OTHERS")
    assert sum(others["count"]) == 20
    assert (others["p50_ns"] >= 0).all()
    sent = polars.read_delta(str(tmp_path / "lake" / "accepted"))["at"]
    apart = (timed["from_at"].sort() - sent.sort().first()).abs()
    assert (apart < timedelta(minutes=3)).all(), "the instants are those of the events"


async def live(folder: Path) -> None:
    """ada and bea meet, ada sends 20 messages, and bea leaves."""
    config = phalanx.local()
    async with phalanx.join("derived", name="ada", config=config, journal=folder) as ada:
        async with phalanx.join("derived", name="bea", config=config, journal=folder) as bea:
            await ada.wait_for(2, timeout=30)
            await bea.wait_for(2, timeout=30)
            receipts = [await ada.send(b"x" * 10, phalanx.AGREED) for _ in range(20)]
            await receipts[-1].delivered()
        await ada.wait_for(gone="bea", timeout=30)
