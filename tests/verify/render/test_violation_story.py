"""Rows as lines of a story."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.journal import schema as ev
from phalanx.verify.render.violation_story import milliseconds, words

HEAD: dict[str, Any] = {
    "run": "r",
    "profile": "T",
    "group": "g",
    "member": "a",
    "incarnation": 1,
    "lseq": 1,
    "step": 1,
    "t_ns": 0,
}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (ev.Transitional(view="1.0:x", pos=7, **HEAD), "marks    the end of 1.0:x at pos 7"),
        (
            ev.ViewChangeStep(
                context="c0", stage="COMMIT", action="FA", failed_after=["b.1", "c.1"], **HEAD
            ),
            "changes  FA in COMMIT, c0 without b.1 c.1",
        ),
        (
            ev.PeerSuspicion(
                target="b",
                target_incarnation=2,
                state="SEMI",
                previous="SUSPECTED",
                evidence="RELAY",
                relay="c",
                **HEAD,
            ),
            "judges   b.2 SEMI (RELAY by c)",
        ),
        (ev.NotSent(first=3, last=4, **HEAD), "gives up a#3..4: nobody is left to get it"),
        (ev.Topology(component=["a", "b"], **HEAD), "reaches  a b"),
    ],
)
def test_rows_about_changes_are_told_in_a_line(row: ev.Event, expected: str) -> None:
    assert words(row) == expected


def test_times_are_milliseconds_with_microseconds_behind_the_point() -> None:
    assert milliseconds(1_234_567_890).strip() == "1234.567 ms"
