"""Where the scenarios and stories written for mutants lie."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent / "mutants"
"""Each file has the name of the mutant that it catches."""
