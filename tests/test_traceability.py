"""Every rule of docs/protocol is cited by code, and every citation is of a rule that exists.

For each check one test holds the tree to it, and one shows on a snippet that it can fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from tools import traceability
from tools.traceability import (
    PAGES,
    ROOT,
    Citation,
    all_rules,
    citations_in,
    names_in,
    page,
    rules_in,
    stale,
    uncited,
    unknown,
)

from phalanx.verify.properties import PROPERTIES

pytestmark = pytest.mark.xdist_group("traceability")
"""One process reads the tree, once."""


@pytest.fixture(autouse=True, scope="module")
def citations_are_read_once() -> Iterator[None]:
    """Of the tree, which no test changes."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("cited_by_code", "cited_by_tests", "cited_by_docs"):
            patch.setattr(traceability, name, cache(getattr(traceability, name)))
        yield


PAGE = """
**B-1 gaps.** A gap is asked for.

**B-2 gone.** *Retired* (decision 74). Nothing is said.

**N normal form.** Only adds.
1. Past components go.
2. Of two the older goes.

**Early delivery.** Before its first issue.
"""


def test_all_citations_are_of_rules_that_exist() -> None:
    cited = [
        *traceability.cited_by_code(),
        *traceability.cited_by_tests(),
        *traceability.cited_by_docs(),
        *traceability.broken_by_mutants(),
    ]
    assert "\n".join(unknown(all_rules(), cited)) == ""


@pytest.mark.parametrize("cited", ["B-9", "B-2", "N.3", "X-1"])
def test_a_citation_of_a_rule_that_does_not_exist_or_is_retired_is_found(cited: str) -> None:
    rules = {rule.name: rule for rule in rules_in("x.md", PAGE)}
    assert unknown(rules, citations_in("x.py", f'"""It obeys rule {cited}."""')) != []


def test_every_rule_is_cited_by_code() -> None:
    assert "\n".join(uncited(all_rules(), traceability.cited_by_code())) == ""


def test_a_rule_that_no_code_cites_is_found_unless_it_is_retired() -> None:
    rules = {rule.name: rule for rule in rules_in("x.md", PAGE)}
    code = citations_in("x.py", "# rules N, N.1, N.2 and Early delivery")
    assert uncited(rules, code) == ["x.md: rule B-1 is cited by no code"]
    assert uncited(rules, [*code, Citation("B-1", "x.py", "f")]) == []


def test_the_page_is_what_would_be_generated_now() -> None:
    written = (ROOT / traceability.PAGE).read_text(encoding="utf-8")
    assert "\n".join(stale(written, traceability.generated())) == ""


def test_a_page_that_is_out_of_date_is_found() -> None:
    rules = {rule.name: rule for rule in rules_in(PAGES[0], PAGE)}
    before = page(rules, citations_in("x.py", "def f():\n    '''Rule B-1.'''"), [], [])
    after = page(rules, citations_in("x.py", "def g():\n    '''Rule B-1.'''"), [], [])
    assert "`x.py:f`" in before
    assert stale(before, before) == []
    assert stale(before, after) != []


def test_rules_are_read_with_their_titles_clauses_and_whether_they_are_retired() -> None:
    rules = rules_in("x.md", PAGE)
    assert [rule.name for rule in rules] == ["B-1", "B-2", "N", "N.1", "N.2", "Early delivery"]
    assert [rule.name for rule in rules if rule.retired] == ["B-2"]
    assert rules[0].title == "gaps"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("(rule B-7)", ["B-7"]),
        ("Rule R4: it moved", ["R4"]),
        ("rules B-7 and B-9", ["B-7", "B-9"]),
        ("rules R1 to R3, N.1 and T", ["R1", "R2", "R3", "N.1", "T"]),
        ("# (rules\n# W-8, Early\n delivery)", ["W-8", "Early delivery"]),
        ("(rule\n    Early\n    delivery)", ["Early delivery"]),
        ("rules R1 to T", ["R1", "R1 to T", "T"]),
        ("a rule of the protocol; rule Tx; B-7", []),
    ],
)
def test_citations_are_read_from_text(text: str, names: list[str]) -> None:
    assert [name for _, name in names_in(text)] == names


def test_a_citation_names_the_function_around_it() -> None:
    source = '"""Rule B-1."""\nclass C:\n    def f(self):\n        """Rule B-3."""\n'
    assert [str(c) for c in citations_in("x.py", source)] == ["x.py", "x.py:C.f"]


def test_the_specification_lists_every_property_that_is_checked() -> None:
    text = (ROOT / "docs/protocol/properties.md").read_text(encoding="utf-8")
    listed = [line.split("`")[1] for line in text.splitlines() if line.startswith("| `")]
    assert sorted(listed) == sorted(PROPERTIES)
