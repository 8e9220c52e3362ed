"""Every command that takes --master, on the demo's journals, through Spark Connect: as without it.

The slow test plays the demo and runs all commands; the fast one runs the audit and a query on
journals made by hand, in which nothing is addressed to a subset (empty tables), as in the demo.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.journal.journal_folder import keep
from tests.pipeline.daemons import PACKAGES, commands_below, connect_server
from tests.verify.trace_builder import TraceBuilder

from phalanx.journal.reader import read_all

SECONDS_MAX = 300.0


def phalanx(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "phalanx.cli.main", *arguments]


def result(*arguments: str) -> tuple[int, Any]:
    """The exit code, and the object that a command prints; its last line of stderr if none."""
    environment = os.environ | {"PYTHONPATH": str(PACKAGES)}
    done = subprocess.run(
        phalanx(*arguments),
        capture_output=True,
        text=True,
        env=environment,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr[-3000:]
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr.splitlines()[-1]


def quiet_group(folder: Path) -> Path:
    tale = TraceBuilder("abc", reports=True).send("a", 1, 2).send("b", 1)
    tale.deliver("abc", "a", 1, 2, pos=0, batch=0).deliver("abc", "b", 1, pos=2, batch=0)
    return keep(folder, tale.receipts("a", 2).receipts("b", 1).stop().rows)


def test_journals_without_subsets_are_audited_through_connect(connect: str, tmp_path: Path) -> None:
    journals = str(quiet_group(tmp_path / "journals"))
    for command in (("audit", journals), ("history", "views", "g", journals)):
        here = result(*command, "--json")
        assert here[0] == 0
        assert result(*command, "--json", "--master", connect) == here
    missing = str(tmp_path / "missing")
    code, line = result("audit", missing, "--master", connect)
    assert (code, missing in line) == (2, True)


@pytest.mark.slow
def test_every_command_gives_the_same_through_connect(connect: str, tmp_path: Path) -> None:
    subprocess.run(
        phalanx("demo", "--keep", str(tmp_path)),
        check=True,
        timeout=SECONDS_MAX,
        capture_output=True,
    )
    journals = str(tmp_path / "journals")
    rows = [row for some in read_all([journals]).journals.values() for row in some]
    group = rows[0].group
    wall = max(path.stat().st_mtime for path in Path(journals).glob("*.phj"))
    lake, there = str(tmp_path / "lake"), str(tmp_path / "there")
    assert result("ingest", journals, "--into", lake, "--json")[0] == 0
    for command in (
        ("audit", journals),
        ("audit", lake, "--group", group),
        ("history", "views", group, journals),
        ("history", "view-at", group, "ada", f"{wall - 2:.3f}", journals),
        ("history", "why", group, "dov", journals),
        ("measures", journals),
        ("measures", lake),
        ("report", journals, "--out", str(tmp_path / "page.html")),
        ("check", journals),
    ):
        here = result(*command, "--json")
        assert here[0] == 0, here
        if command[0] != "check":
            assert result(*command, "--json", "--master", connect) == here, command
    code, done = result("ingest", journals, "--into", there, "--json", "--master", connect)
    assert (code, done["rows"]) == (0, len(rows))
    audited = result("audit", lake, "--json")
    assert result("audit", there, "--json", "--master", connect) == audited
    seeds = ("campaign", "run", "--kind", "fixed", "--members", "2:2", "--seeds", "0:6", "--json")
    found = [result(*seeds), result(*seeds, "--master", connect)]
    assert found[0][0] == found[1][0] == 0
    assert found[0][1]["digest"] == found[1][1]["digest"]


@pytest.mark.slow
def test_a_server_that_dies_is_one_line_and_exit_2(tmp_path: Path) -> None:
    with connect_server(tmp_path) as (url, server):
        environment = os.environ | {"PYTHONPATH": str(PACKAGES)}
        command = phalanx("campaign", "run", "--seeds", "0:600", "--wave", "600", "--master", url)
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        end = time.monotonic() + SECONDS_MAX
        while not any("pyspark.daemon" in c for c in commands_below(server.pid)):
            assert time.monotonic() < end
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        server.kill()
        _, err = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 2, err[-3000:]
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("phalanx: ")
