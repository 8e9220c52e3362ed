"""Commands whose extra is not installed say so in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.journal.journal_folder import keep
from tests.verify.trace_builder import odyssey

IN_PROCESS = [
    ["audit", "journals"],
    ["history", "views", "g", "journals"],
    ["measures", "journals"],
    ["report", "journals", "--out", "page.html"],
]


def without(module: str, arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """A command on some journals where a module is not installed."""
    if not (folder / "journals").exists():
        keep(folder / "journals", odyssey().rows)
    program = (
        f"import sys; sys.modules[{module!r}] = None\n"
        "from phalanx.cli.main import main\n"
        "main(sys.argv[1:])"
    )
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=folder,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        *([*command, "--engine", "spark"] for command in IN_PROCESS),
        ["campaign", "run", "--seeds", "0:2"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_without_pyspark_a_command_names_the_extra(arguments: list[str], tmp_path: Path) -> None:
    done = without("pyspark", arguments, tmp_path)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("phalanx: pyspark: ")
    assert line.endswith(" pip install 'phalanx[spark]'")


@pytest.mark.parametrize("arguments", IN_PROCESS, ids=lambda arguments: arguments[0])
def test_small_journals_need_no_pyspark(arguments: list[str], tmp_path: Path) -> None:
    done = without("pyspark", arguments, tmp_path)
    assert done.stdout
    first, *rest = done.stderr.splitlines()
    assert first == "engine: local, 6 kB to read"
    assert all(" MB read, " in line for line in rest), "progress, on a slow machine"


def test_an_ingest_needs_deltalake_and_no_pyspark(tmp_path: Path) -> None:
    arguments = ["ingest", "journals", "--into", "lake"]
    done = without("deltalake", arguments, tmp_path)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("phalanx: deltalake: ")
    assert line.endswith(" pip install 'phalanx[lake]'")
    assert not (tmp_path / "lake").exists()
    assert without("pyspark", arguments, tmp_path).returncode == 0


def test_a_small_lake_is_derived_without_pyspark(tmp_path: Path) -> None:
    assert without("pyspark", ["ingest", "journals", "--into", "lake"], tmp_path).returncode == 0
    done = without("pyspark", ["lake", "derive", "lake"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("derived table ")
    assert done.stdout.endswith("; lake is at version 2\n")
