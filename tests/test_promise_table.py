"""The tests that docs/receipts.md names for each promise of a receipt exist, and none is left out.

For each check one test holds the page to it, and one shows on a changed page that it can fail.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/receipts.md"
CALLS = ("ordered()", "stable()", "delivered()")
SIMULATED = "tests/runtime/test_promises.py"
REAL = "tests/api/test_receipts.py"
MUTANTS = "test_the_test_of_a_promise_fails_when_its_rule_is_broken"


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the table under a heading, without its first two lines."""
    section = page.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def defined_in(path: str) -> set[str]:
    return set(re.findall(r"^def (test_\w+)", (ROOT / path).read_text(encoding="utf-8"), re.M))


def problems(page: str) -> list[str]:
    cells = [(row[0], call) for row in rows(page, "What each call promises") for call in CALLS]
    tested = rows(page, "Tests of the promises")
    found = []
    if [(situation, call.strip("`")) for situation, call, *_ in tested] != cells:
        found.append("the rows are not the cells of the table of promises")
    named: dict[str, set[str]] = {SIMULATED: set(), REAL: set()}
    for situation, call, simulated, real in tested:
        for path, cell in ((SIMULATED, simulated), (REAL, real)):
            names = re.findall(r"`(test_\w+)`", cell)
            if not names:
                found.append(f"{situation}, {call}: no test in {path}")
            named[path].update(names)
    for path, listed in named.items():
        found += [f"{name} is not in {path}" for name in sorted(listed - defined_in(path))]
    for name in sorted(defined_in(SIMULATED) - named[SIMULATED] - {MUTANTS}):
        found.append(f"{name} of {SIMULATED} is the test of no promise")
    return found


def test_every_promise_of_a_receipt_has_its_tests() -> None:
    assert "\n".join(problems(PAGE.read_text(encoding="utf-8"))) == ""


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("`test_alone_stable`", "`test_alone_stabel`", "test_alone_stabel is not in"),
        ("`test_alone_stable`", "", "`stable()`: no test in"),
        ("| cut off, and not yet known | As", "| cut | As", "the rows are not the cells"),
        ("`test_a_receipt_ends_with_its_member`", "", "`ordered()`: no test in"),
        ("`test_cut_off_ordered`", "`test_alone_ordered`", "test_cut_off_ordered of"),
    ],
)
def test_a_promise_without_its_tests_is_found(before: str, after: str, problem: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert before in page
    assert any(problem in line for line in problems(page.replace(before, after)))
