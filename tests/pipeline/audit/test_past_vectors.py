"""Vectors of the past, computed level by level and block by block, against a loop over all rows."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.pipeline.audit.test_past import delivered, sends, vectors

from phalanx.pipeline.audit.batched import batches
from phalanx.pipeline.audit.number_ranges import NONE
from phalanx.pipeline.audit.past import Past, judge

SENDERS = 7


def one_by_one(past: Past) -> tuple[list[list[int]], list[int]]:
    """Each sender goes on until a cause is not known yet, in rounds; rows that depend on
    themselves."""
    sent = past.sends
    cause = past.rows_of(sent.dep_s, sent.dep_n)
    known: dict[int, list[int]] = {}
    looped: list[int] = []

    def advance(row: int, at_once: bool) -> bool:
        own = row > 0 and sent.s[row - 1] == sent.s[row]
        if own and row - 1 not in known:
            return False
        vector = list(known[row - 1]) if own else [0] * sent.senders
        for j in range(sent.dep_at[row], sent.dep_at[row + 1]):
            before = int(cause[j])
            if before >= 0 and before not in known:
                if not at_once:
                    return False
            elif before >= 0:
                vector = list(map(max, vector, known[before]))
            s = int(sent.dep_s[j])
            vector[s] = max(vector[s], int(sent.dep_n[j]))
        known[row] = vector
        return True

    rows = range(len(sent.s))
    while len(known) < len(rows):
        while any(row not in known and advance(row, False) for row in rows):
            pass
        if len(known) < len(rows):
            row = next(row for row in rows if row not in known)
            looped.append(row)
            advance(row, True)
    return [known[row] for row in rows], looped


def random_rows(random: Random, looped: bool) -> list[dict[str, Any]]:
    """Sends in an order in which each may depend on any before, or, `looped`, on any at all. In
    half of them all are a chain."""
    order = [random.randrange(SENDERS) for _ in range(60)]
    numbers = [order[: i + 1].count(s) for i, s in enumerate(order)]
    chain = random.random() < 0.5
    found = []
    for i, (s, number) in enumerate(zip(order, numbers, strict=True)):
        upto = len(order) if looped and random.random() < 0.1 else i
        some = {random.randrange(upto) for _ in range(random.randrange(4))} if upto else set()
        if chain and i:
            some.add(i - 1)
        deps = sorted((order[j], numbers[j]) for j in some)
        if random.random() < 0.1:
            deps.append((random.randrange(SENDERS), 1000))  # no send row has it
        found.append({"s": s, "first": number, "deps": deps})
    return sorted(found, key=lambda row: (row["s"], row["first"]))


@pytest.mark.parametrize("looped", [False, True])
def test_vectors_are_those_of_a_loop_over_all_rows(looped: bool) -> None:
    for seed in range(60):
        rows = random_rows(Random(f"{looped} {seed}"), looped)
        past = sends(*rows, senders=SENDERS)
        assert (vectors(past), past.looped) == one_by_one(past), seed


@pytest.mark.parametrize("width", [1, 3])
def test_blocks_of_few_senders_give_the_same_findings(width: int) -> None:
    """Each sender's column is judged by itself; the order of findings may be another."""
    for seed in range(40):
        random = Random(seed)
        rows = random_rows(random, seed % 4 == 0)
        order = [(row["s"], row["first"], row["first"]) for row in rows]
        random.shuffle(order)
        mine = delivered(2, *order, batch=[seed if n % 5 else NONE for n in range(len(order))])
        size = width * 4 * (len(rows) + 1)
        whole, part = (sends(*rows, senders=SENDERS, block_bytes=n) for n in (None, size))
        assert len(list(whole.vectors.blocks())) == 1
        assert len(list(part.vectors.blocks())) == -(-SENDERS // width)
        one, two = judge(whole, mine), judge(part, mine)
        assert one[:-1] == two[:-1]
        assert sorted(one.late) == sorted(two.late)
        assert sorted(batches(whole, mine)) == sorted(batches(part, mine))


def test_a_chain_through_all_senders_is_one_step() -> None:
    """Depth costs memory and time of one pass, not a step for each row."""
    chain: list[dict[str, Any]] = [{"s": n % 3, "first": n // 3 + 1} for n in range(3000)]
    for before, row in pairwise(chain):
        row["deps"] = [(before["s"], before["first"])]
    past = sends(*sorted(chain, key=lambda row: (row["s"], row["first"])))
    assert len(past.vectors._order.steps) == 1
    assert vectors(past)[-1] == [1000, 1000, 999]


def test_numbers_beyond_32_bits_are_compared() -> None:
    far = 1 << 40
    past = sends({"s": 0, "first": far}, {"s": 1, "first": 1, "deps": [(0, far)]})
    assert vectors(past) == [[0, 0, 0], [far, 0, 0]]
    (late,) = judge(past, delivered(2, (1, 1, 1), (0, far, far))).late
    assert (late.kind, late.number) == ("causal", far)


def test_no_sends_have_no_vectors() -> None:
    past = sends()
    assert vectors(past) == []
    assert np.array(past.looped).size == 0
