"""The table of verdicts."""

from __future__ import annotations

from tests.verify.trace_builder import odyssey

from phalanx.verify.properties import PROPERTIES
from phalanx.verify.render.verdict_table import properties, verdicts


def test_every_guarantee_has_a_line() -> None:
    report = odyssey().check(mode="flow")
    head, *lines = verdicts(report)
    at = head.index("guarantee")
    assert [line[at:].split()[0] for line in lines] == list(PROPERTIES)
    assert {line[:14].strip() for line in lines} == {"holds", "not verified"}
    assert {line[14:25].strip() for line in lines} == {"0", "-"}, "violations"
    assert set(properties(report)) == set(PROPERTIES)
