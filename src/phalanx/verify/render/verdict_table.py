"""Verdicts on all properties: as a table for people, and as values for JSON."""

from __future__ import annotations

from typing import Any

from phalanx.verify.checkers import Report
from phalanx.verify.properties import MEANING

VERDICTS_HEAD = "  verdict      violations  times checked  guarantee"


def verdict_line(verdict: str, violations: int, checked: int, name: str, why: str = "") -> str:
    """One property under VERDICTS_HEAD, with `why` it is not verified or else its meaning."""
    unknown = verdict == "unverifiable"
    word, found = ("not verified", "-") if unknown else (verdict, f"{violations:,}")
    meaning = why or MEANING.get(name, "")
    return f"  {word:<12} {found:>10} {checked:>14,}  {name:<26} {meaning}".rstrip()


def verdicts(report: Report) -> list[str]:
    """A table of all properties: verdict, violations, how often rows tested it, meaning."""
    results = report.properties.items()
    rows = (verdict_line(r.verdict, r.found, r.evaluated, name) for name, r in results)
    return [VERDICTS_HEAD, *rows]


def properties(report: Report) -> dict[str, dict[str, Any]]:
    """Per property the verdict, the violations, how often rows tested it, and examples."""
    return {
        name: {
            "verdict": result.verdict,
            "violations": result.found,
            "checked": result.evaluated,
            "examples": [str(violation) for violation in result.violations[:3]],
        }
        for name, result in report.properties.items()
    }
