"""The verdict of `phalanx check` on the journals of a trial."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

CHECK_SECONDS = 600


def verdict(folder: Path) -> str:
    """`holds`, `VIOLATED: ...`, or `not verified: ...` with the reason, for the journals."""
    command = [sys.executable, "-m", "phalanx.cli.main", "check", str(folder), "--json"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=CHECK_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"not verified: the checkers took more than {CHECK_SECONDS} s"
    if done.returncode == 0:
        return f"holds{_tested(done.stdout)}"
    if done.returncode == 1:
        return f"VIOLATED{_violated(done.stdout)}: see {folder}"
    lines = done.stderr.strip().splitlines() or ["no message"]
    return f"not verified: {lines[-1].removeprefix('phalanx: ')}"


def _tested(text: str) -> str:
    """The number of properties that were checked, if the output has it."""
    names = _with_verdict(text, "holds")
    return f" ({len(names)} properties checked)" if names else ""


def _violated(text: str) -> str:
    """The names of the violated properties, if the output has them."""
    names = _with_verdict(text, "violated")
    return f" ({', '.join(names)})" if names else ""


def _with_verdict(text: str, wanted: str) -> list[str]:
    try:
        facts: Any = json.loads(text)
        rows = [item for group in facts["groups"] for item in group["properties"].items()]
        return list(dict.fromkeys(name for name, row in rows if row["verdict"] == wanted))
    except (ValueError, LookupError, TypeError, AttributeError):
        return []
