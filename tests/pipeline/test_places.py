"""The same journals, tables and code on this machine, on a cluster and through Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.journal.journal_folder import keep, segment
from tests.pipeline.audit import situations
from tests.pipeline.census import SEEDS
from tests.pipeline.daemons import PACKAGES
from tests.pipeline.lakes import held, written
from tests.verify.trace_builder import odyssey

from phalanx.pipeline.audit import PROPERTIES
from phalanx.pipeline.campaign.code_version import code_version
from phalanx.pipeline.campaign.seed_task import play
from phalanx.pipeline.ingest import ingest
from phalanx.verify.properties import Needs, needing

SECONDS_MAX = 170.0


def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: this one may have a session already."""
    root = PACKAGES.parent
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PACKAGES), str(root)])}
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=SECONDS_MAX,
        check=False,
    )


def census(url: str, journals: Path, lake: Path) -> Any:
    done = program("tests.pipeline.census", url, str(journals), str(lake))
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr == "", "Spark has nothing to say on the terminal"
    return json.loads(done.stdout)


def audited(journals: Path, *where: str) -> Any:
    """What the command says of journals in which something is wrong."""
    done = program("phalanx.cli.main", "audit", str(journals), "--json", *where)
    assert done.returncode == 1, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("place", ["cluster", "connect"])
def test_ingest_tables_and_source_give_the_same_elsewhere(
    place: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    fleet = keep(tmp_path / "fleet", odyssey().rows)
    expected = written(fleet)
    found = census(request.getfixturevalue(place), fleet, tmp_path / "lake")
    assert held(tmp_path / "lake") == expected
    assert found["views"] == sorted(row["view"] for row in expected["view_installed"])
    delivered = expected["deliver"]
    assert found["delivered"] == sum(row["last"] - row["first"] + 1 for row in delivered)
    assert found["raw"] == sum(row["member"] == "a" for row in delivered)
    played = [play(SEEDS, code_version(), seed) for seed in range(4)]
    assert found["seeds"] == [[row.seed, row.digest] for row in played]


@pytest.mark.slow
def test_an_audit_says_the_same_everywhere(cluster: str, connect: str, tmp_path: Path) -> None:
    for run in (*situations.broken(), *situations.kept()):
        folder = tmp_path / run.name
        folder.mkdir()
        for header, rows in run.journals():
            segment(folder, rows, **msgspec.structs.asdict(header))
    here = audited(tmp_path)
    assert set(here["properties"]) == set(PROPERTIES)
    unknown = needing(Needs.SIMULATION)
    assert all(
        found["verdict"] == ("unverifiable" if name in unknown else "violated")
        for name, found in here["properties"].items()
    )
    assert audited(tmp_path, "--master", cluster) == here
    assert audited(tmp_path, "--master", connect) == here


@pytest.mark.parametrize("place", [pytest.param("cluster", marks=pytest.mark.slow), "connect"])
def test_measures_and_the_report_say_the_same_elsewhere(
    place: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """On a cluster the report is slow and shows nothing more: the command goes the same way as
    through Connect, and the test above and `test_worker_kills` run on the cluster."""
    fleet = keep(tmp_path / "fleet", odyssey().rows)
    ingest([fleet], tmp_path / "lake")
    page = str(tmp_path / "report.html")
    master = request.getfixturevalue(place)
    commands: list[tuple[str, ...]] = [("report", str(fleet), "--out", page)]
    if place == "connect":  # on a cluster each command starts Java and executors
        commands.append(("measures", str(tmp_path / "lake")))
    for command in commands:
        here = program("phalanx.cli.main", *command, "--json")
        there = program("phalanx.cli.main", *command, "--json", "--master", master)
        told = [line for line in there.stderr.splitlines() if " MB read, " not in line]
        assert told == [], "but for progress, Spark has nothing to say on the terminal"
        assert (there.returncode, there.stdout) == (here.returncode, here.stdout), command
