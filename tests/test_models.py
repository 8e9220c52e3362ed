"""The models that the specification cites as evidence still run, hold, and catch what is broken."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MODELS = Path(__file__).resolve().parent.parent / "models"

pytestmark = pytest.mark.slow


def run(program: str, *arguments: str) -> str:
    """The output of a model; its exit code says whether what it checks held."""
    command = [sys.executable, str(MODELS / program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_random_walks_of_the_membership_model_violate_nothing() -> None:
    assert "'ok': 2000" in run("membership3_run.py", "walk", "2000", "7000")


def test_exhaustive_cases_of_the_membership_model_violate_nothing() -> None:
    assert run("membership3_run.py", "all", "2").count("complete") >= 5


def test_the_membership_model_catches_broken_rules() -> None:
    found = run("membership3_run.py", "mutants", "600")
    for mutant in ("old", "barred", "r3any", "nonmono", "last", "early"):
        assert f"{mutant:16} caught" in found


def test_walks_over_channels_that_break_violate_nothing() -> None:
    assert "violations 0" in run("channels_walk.py", "500", "9000")


def test_the_model_over_channels_catches_broken_rules() -> None:
    found = run("channels_walk.py", "mutants", "100")
    for mutant in ("old", "barred", "r3any", "early"):
        assert f"{mutant:16} caught" in found


@pytest.mark.parametrize("variant", ["paper", "relaxed"])
def test_observers_of_one_dag_agree_under_toto(variant: str) -> None:
    assert "disagreements=0" in run("toto_check.py", variant, "5")


def test_the_model_of_toto_catches_broken_criteria() -> None:
    assert "no internal stability" in run("toto_check.py", "broken", "20")


def test_pointers_that_move_forward_decide_as_the_definition_does() -> None:
    assert "every decision equal" in run("toto_fast.py", "5")
