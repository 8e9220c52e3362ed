"""Cause and effect in numpy, without Spark: literal sends and deliveries, literal findings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phalanx.pipeline.audit.batched import batches
from phalanx.pipeline.audit.member_masks import MaskSpace
from phalanx.pipeline.audit.number_ranges import NONE
from phalanx.pipeline.audit.past import Past, PastDeliveries, PastSends, cut, judge

V1, V2 = 11, 12


def sends(*rows: dict[str, Any], senders: int = 3, block_bytes: int | None = None) -> Past:
    """Rows in the order of (s, first); `deps` are pairs of sender and number."""
    deps = [row.get("deps", []) for row in rows]
    space = MaskSpace(senders)
    return Past(
        PastSends(
            senders=senders,
            s=longs(row["s"] for row in rows),
            first=longs(row["first"] for row in rows),
            last=longs(row.get("last", row["first"]) for row in rows),
            lseq=longs(range(1, len(rows) + 1)),
            basic=np.array([row.get("basic", False) for row in rows], dtype=bool),
            home=longs(row.get("home", V1) for row in rows),
            t=longs(i if "to" in row else -1 for i, row in enumerate(rows)),
            dep_at=longs([0, *np.cumsum([len(x) for x in deps])]),
            dep_s=longs(s for x in deps for s, _ in x),
            dep_n=longs(n for x in deps for _, n in x),
        ),
        meant=np.array([*(space.of(row.get("to", ())) for row in rows), *space.everybody(1)]),
        bits=space.bits,
        block_bytes=block_bytes,
    )


def vectors(past: Past) -> list[list[int]]:
    """Of all send rows."""
    every = np.arange(len(past.sends.s))
    found = np.hstack([block.of(every) for block in past.vectors.blocks()])
    return [[int(number) for number in row] for row in found]


def longs(values: Any) -> Any:
    return np.array(list(values), dtype=np.int64)


def delivered(
    k: int, *rows: tuple[int, int, int] | tuple[int, int, int, int], **given: Any
) -> PastDeliveries:
    """Rows of sender, first, last and, where it is not V1, view."""
    n = len(rows)
    return PastDeliveries(
        k=k,
        s=longs(row[0] for row in rows),
        first=longs(row[1] for row in rows),
        last=longs(row[2] for row in rows),
        lseq=longs(range(100, 100 + n)),
        v=longs(row[3] if len(row) > 3 else V1 for row in rows),
        frame=longs(given.get("frame", range(n))),
        batch=longs(given.get("batch", [NONE] * n)),
        basic=np.array(given.get("basic", [False] * n), dtype=bool),
    )


QUESTION: dict[str, Any] = {"s": 0, "first": 1}
ANSWER: dict[str, Any] = {"s": 1, "first": 1, "deps": [(0, 1)]}


def kinds(past: Past, rows: PastDeliveries) -> list[tuple[str, int, int]]:
    return [(late.kind, late.s, late.number) for late in judge(past, rows).late]


def test_the_past_is_transitive_through_members_that_were_not_addressed() -> None:
    past = sends(QUESTION, ANSWER | {"to": [2]}, {"s": 2, "first": 1, "deps": [(1, 1)]})
    assert vectors(past)[2] == [1, 1, 0]
    assert kinds(past, delivered(0, (2, 1, 1), (0, 1, 1))) == [("causal", 0, 1)]


def test_causes_that_came_first_are_no_finding_and_are_asked_for() -> None:
    judged = judge(sends(QUESTION, ANSWER), delivered(2, (0, 1, 1), (1, 1, 1)))
    assert (judged.late, judged.causal, judged.reliable) == ([], 1, 1)


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([(1, 1, 1), (0, 1, 1)], ("causal", 0, 1)),
        ([(1, 1, 1)], ("reliable-causal", 0, 1)),
        ([(1, 1, 1), (0, 1, 1, V2)], ("no-view-crossing-inversion", 0, 1)),
    ],
)
def test_a_cause_is_late_or_missing_or_a_view_late(rows: Any, found: tuple[str, int, int]) -> None:
    assert kinds(sends(QUESTION, ANSWER), delivered(2, *rows)) == [found]


def test_what_is_at_home_elsewhere_is_not_missing_and_where_home_is_unknown_it_is_asked() -> None:
    rows = delivered(2, (1, 1, 1))
    assert kinds(sends(QUESTION | {"home": V2}, ANSWER), rows) == []
    assert kinds(sends(QUESTION | {"home": NONE}, ANSWER), rows) == [("homeless", 0, 1)]


def test_basic_messages_owe_nothing_and_are_owed_nothing() -> None:
    assert kinds(sends(QUESTION | {"basic": True}, ANSWER), delivered(2, (1, 1, 1))) == []
    rows = delivered(2, (1, 1, 1), basic=[True])
    assert kinds(sends(QUESTION, ANSWER | {"basic": True}), rows) == []


def test_a_gap_of_one_sender_is_missing_only_if_it_was_for_the_member() -> None:
    other = {"s": 0, "first": 2}
    rows = delivered(2, (0, 2, 2))
    assert kinds(sends(QUESTION, other), rows) == [("reliable-causal", 0, 1)]
    assert kinds(sends(QUESTION | {"to": [0, 1]}, other), rows) == []


def test_numbers_of_one_sender_rise_until_the_view_changes() -> None:
    past = sends(QUESTION, {"s": 0, "first": 2}, {"s": 0, "first": 3, "home": V2})
    judged = judge(past, delivered(2, (0, 2, 2), (0, 1, 1), (0, 3, 3, V2)))
    assert judged.fifo == 1
    (late,) = [late for late in judged.late if late.kind == "fifo"]
    assert (late.part_first, late.number, late.lseq, late.cause) == (1, 2, 101, 100)
    parted = judge(past, delivered(2, (0, 2, 2), (0, 3, 3, V2), (0, 1, 1)))
    assert parted.fifo == 0


def test_rows_that_depend_on_themselves_are_told() -> None:
    past = sends(QUESTION | {"deps": [(1, 1)]}, ANSWER)
    assert past.looped == [0]
    assert vectors(past) == [[0, 1, 0], [1, 1, 0]]


def test_a_delivery_is_cut_by_send_rows_and_what_was_never_sent_stays_a_part() -> None:
    past = sends({"s": 0, "first": 1, "last": 3}, {"s": 0, "first": 4, "last": 5})
    parts = cut(past, delivered(2, (0, 2, 7)))
    told = [tuple(map(int, part)) for part in zip(*parts, strict=True)]
    assert told == [(0, 2, 3, 0), (0, 4, 5, 1), (0, 6, 7, -1)]


def test_a_long_past_is_judged_in_chunks_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[dict[str, Any]] = [{"s": 0, "first": n} for n in range(1, 40)]
    rows += [{"s": 1, "first": n, "deps": [(0, n)]} for n in range(1, 40)]
    past = sends(*rows)
    order = [(s, n, n) for n in range(1, 40) for s in ((1, 0) if n % 7 == 0 else (0, 1))]
    whole = judge(past, delivered(2, *order))
    monkeypatch.setattr("phalanx.pipeline.audit.past.CHUNK", 5)
    assert judge(past, delivered(2, *order)) == whole
    assert {late.number for late in whole.late} == {7, 14, 21, 28, 35}


@pytest.mark.parametrize(
    ("order", "frames", "found"),
    [
        ([(0, 1, 1), (2, 1, 1)], [1, 1], []),
        ([(2, 1, 1), (0, 1, 1)], [1, 1], ["order"]),
        ([(0, 1, 1), (0, 2, 2)], [1, 2], ["follows"]),
        ([(0, 1, 1), (0, 2, 2)], [1, 1], []),
        ([(0, 1, 1), (1, 1, 1)], [1, 1], ["follows"]),
    ],
)
def test_a_batch_is_concurrent_frames_in_the_order_of_senders(
    order: Any, frames: list[int], found: list[str]
) -> None:
    past = sends(QUESTION, {"s": 0, "first": 2}, ANSWER, {"s": 2, "first": 1})
    rows = delivered(2, *order, frame=frames, batch=[0, 0])
    assert [late.kind for late in batches(past, rows)] == found
