"""The same journals, tables and code on this machine, on a cluster and through Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.journal.folder import keep
from tests.pipeline.daemons import PACKAGES
from tests.pipeline.lakes import held, written
from tests.sim.tale import odyssey

SECONDS_MAX = 170.0


def census(url: str, journals: Path, lake: Path) -> Any:
    """In a process of its own: this one may have a session already."""
    root = PACKAGES.parent
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PACKAGES), str(root)])}
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.census", url, str(journals), str(lake)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr == "", "Spark has nothing to say on the terminal"
    return json.loads(done.stdout)


@pytest.mark.parametrize("place", ["cluster", "connect"])
def test_ingest_tables_and_source_give_the_same_elsewhere(
    place: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    fleet = keep(tmp_path / "fleet", odyssey().rows)
    expected = written(fleet)
    found = census(request.getfixturevalue(place), fleet, tmp_path / "lake")
    assert held(tmp_path / "lake") == expected
    assert found["views"] == sorted(row["vid"] for row in expected["view_install"])
    delivered = expected["deliver"]
    assert found["delivered"] == sum(row["last"] - row["first"] + 1 for row in delivered)
    assert found["raw"] == sum(row["node"] == "a" for row in delivered)
