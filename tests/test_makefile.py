"""What the Makefile sees to for every program that it starts."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_programs_of_make_cache_their_bytecode() -> None:
    """Also where the environment forbids it, as in many images of containers."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    rule = "shown: ; @echo [$$PYTHONDONTWRITEBYTECODE]"
    found = subprocess.run(
        ["make", "--no-print-directory", "--eval", rule, "shown"],
        cwd=ROOT,
        env=outside | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert found.stdout.splitlines()[-1] == "[]"
