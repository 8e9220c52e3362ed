"""Commands whose extra is not installed say so in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.journal.journal_folder import keep
from tests.verify.trace_builder import odyssey


@pytest.mark.parametrize(
    "arguments",
    [
        ["audit", "journals"],
        ["ingest", "journals", "--into", "lake"],
        ["history", "views", "g", "journals"],
        ["measures", "journals"],
        ["report", "journals", "--out", "page.html"],
        ["campaign", "run", "--seeds", "0:2"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_without_pyspark_a_command_names_the_extra(arguments: list[str], tmp_path: Path) -> None:
    keep(tmp_path / "journals", odyssey().rows)
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from phalanx.cli.main import main\n"
        "main(sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("phalanx: pyspark: ")
    assert line.endswith(" pip install 'phalanx[spark]'")
