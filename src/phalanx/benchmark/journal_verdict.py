"""What the checkers say of the journals of a trial."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

CHECK_SECONDS = 600


def verdict(folder: Path) -> str:
    """`holds`, `VIOLATED: ...`, or `not verified: ...` with the reason, of the journals there."""
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
    said = done.stderr.strip().splitlines() or ["no message"]
    return f"not verified: {said[-1].removeprefix('phalanx: ')}"


def _tested(text: str) -> str:
    """How many properties were put to the test, where the answer tells."""
    names = _with_verdict(text, "holds")
    return f" ({len(names)} properties put to the test)" if names else ""


def _violated(text: str) -> str:
    """The names of what was violated, where the answer tells."""
    names = _with_verdict(text, "violated")
    return f" ({', '.join(names)})" if names else ""


def _with_verdict(text: str, wanted: str) -> list[str]:
    try:
        facts: Any = json.loads(text)
        rows = [item for group in facts["groups"] for item in group["properties"].items()]
        return list(dict.fromkeys(name for name, row in rows if row["verdict"] == wanted))
    except (ValueError, LookupError, TypeError, AttributeError):
        return []
