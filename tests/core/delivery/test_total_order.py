"""ToTo against its definition (rules O-1 to O-12), on random DAGs in random orders of arrival."""

from __future__ import annotations

import random
from typing import Any

import pytest

from phalanx.core.broadcast.dag import Dag
from phalanx.core.delivery.total_order import AllAck, TotalOrder, ToTo

Place = tuple[int, int]


def follows(node: Any, place: Place) -> bool:
    return bool(node.vector[place[0]] >= place[1])


def decide(
    seen: list[Any], gone: list[Place], n: int, order: str, ended: bool = False
) -> list[Place]:
    """The batch that leaves now by the definition, slowly: votes, sources, stability. When the view
    has ended, those that have not voted never will (rule O-12)."""
    pending = [m for m in seen if m.ordered and (m.sender, m.number) not in gone]
    cands = [
        (m.sender, m.number)
        for m in pending
        if not any(o is not m and follows(m, (o.sender, o.number)) for o in pending)
    ]
    vote: dict[int, list[Place]] = {}
    tail: dict[Place, list[int]] = {c: [] for c in cands}
    for m in sorted(seen, key=lambda m: (m.sender, m.number)):
        hit = [c for c in cands if follows(m, c)]
        if hit:
            vote.setdefault(m.sender, hit)
            for c in hit:
                if m.sender not in tail[c]:
                    tail[c].append(m.sender)
    if not cands:
        return []
    known = n if ended else len(vote)
    if order == "all-ack":
        return sorted(cands) if known == n else []

    def prefers(a: Place, b: Place) -> int:
        return sum(1 for v in vote.values() if a in v and b not in v)

    def can_beat(a: Place, b: Place) -> bool:
        return 2 * (n - known + prefers(a, b)) > n

    sources = [c for c in cands if not any(can_beat(o, c) for o in cands if o != c)]
    if not sources:
        return []
    for c in cands:
        if c not in sources and not any(2 * prefers(o, c) > n for o in cands):
            return []
    votes = {s: sum(1 for v in vote.values() if s in v) for s in sources}
    enough = any(2 * v > n for v in votes.values())
    if order == "toto":
        enough = enough and all(2 * len(tail[s]) >= n for s in sources)
    return sorted(sources) if known == n or enough else []


def make(order: str, dag: Dag) -> TotalOrder:
    return AllAck(dag) if order == "all-ack" else ToTo(dag, early=order == "early")


@pytest.mark.parametrize("order", ["toto", "early", "all-ack"])
def test_every_decision_equals_the_definition(dags: Any, order: str) -> None:
    """Rule O-10."""
    rng = random.Random(7)
    for _ in range(250):
        n = rng.randrange(1, 7)
        nodes = dags.random_nodes(rng, n, rng.randrange(4, 28))
        for _ in range(2):
            dag = Dag(n)
            fast = make(order, dag)
            seen: list[Any] = []
            gone: list[Place] = []
            for node in dags.random_extension(rng, nodes, n):
                seen.append(node)
                expected: list[Place] = []
                while batch := decide(seen, gone, n, order):
                    gone += batch
                    expected += batch
                frame = dags.frame_of(node, dag.latest[node.sender])
                dag.insert(frame)
                got = [(f.sender, f.number) for f in fast.insert(frame)]
                assert got == expected, (n, node)


def test_members_that_see_a_dag_in_different_orders_agree(dags: Any) -> None:
    """Rule O-9."""
    rng = random.Random(11)
    for _ in range(300):
        n = rng.randrange(2, 9)
        nodes = dags.random_nodes(rng, n, rng.randrange(8, 50))
        orders = []
        for _ in range(2):
            dag = Dag(n)
            toto = ToTo(dag)
            out: list[tuple[int, int, int]] = []
            for node in dags.random_extension(rng, nodes, n):
                frame = dags.frame_of(node, dag.latest[node.sender])
                dag.insert(frame)
                out += [(f.batch, f.sender, f.number) for f in toto.insert(frame)]
            orders.append(out)
        assert orders[0] == orders[1]


def test_table_1_of_the_paper_delivers_all_three(dags: Any) -> None:
    """n = 5, candidates b1, c1, e2; nobody beats anybody, and all have voted (rule O-7)."""
    a, b, c, d, e = range(5)
    nodes = [
        dags.node(e, 1, (0, 0, 0, 0, 1), False),
        dags.node(b, 1, (0, 1, 0, 0, 0), True),
        dags.node(c, 1, (0, 0, 1, 0, 0), True),
        dags.node(e, 2, (0, 0, 0, 0, 2), True),
        dags.node(d, 1, (0, 0, 1, 1, 2), False),
        dags.node(d, 2, (0, 1, 1, 2, 2), False),
        dags.node(a, 1, (1, 1, 1, 0, 2), False),
    ]
    dag = Dag(5)
    toto = ToTo(dag)
    steps = []
    for node in nodes:
        frame = dags.frame_of(node, dag.latest[node.sender])
        dag.insert(frame)
        steps.append([(f.sender, f.number) for f in toto.insert(frame)])
    assert steps[:-1] == [[]] * 6
    assert steps[-1] == [(b, 1), (c, 1), (e, 2)]


# ---------------------------------------------------------------------------- the end of a view


@pytest.mark.parametrize("order", ["toto", "early", "all-ack"])
def test_when_a_view_ends_what_is_pending_leaves_as_the_definition_says(
    dags: Any, order: str
) -> None:
    rng = random.Random(13)
    left_over = 0
    for _ in range(200):
        n = rng.randrange(1, 7)
        nodes = dags.random_nodes(rng, n, rng.randrange(4, 28))
        dag = Dag(n)
        fast = make(order, dag)
        gone: list[Place] = []
        for node in dags.random_extension(rng, nodes, n):
            frame = dags.frame_of(node, dag.latest[node.sender])
            dag.insert(frame)
            gone += [(f.sender, f.number) for f in fast.insert(frame)]
        expected: list[Place] = []
        while batch := decide(nodes, gone + expected, n, order, ended=True):
            expected += batch
        assert [(f.sender, f.number) for f in fast.close()] == expected
        assert sorted(gone + expected) == sorted((m.sender, m.number) for m in nodes if m.ordered)
        left_over += len(expected)
    assert left_over > 100, "there was something to close"


@pytest.mark.parametrize("order", ["toto", "all-ack"])
def test_members_that_end_a_view_with_the_same_frames_agree(dags: Any, order: str) -> None:
    """Also on the numbers of the batches: they are told with each message (rule O-12)."""
    rng = random.Random(17)
    for _ in range(200):
        n = rng.randrange(2, 8)
        nodes = dags.random_nodes(rng, n, rng.randrange(8, 50))
        orders = []
        for _ in range(2):
            dag = Dag(n)
            fast = make(order, dag)
            frames = []
            for node in dags.random_extension(rng, nodes, n):
                frame = dags.frame_of(node, dag.latest[node.sender])
                dag.insert(frame)
                frames += fast.insert(frame)
            frames += fast.close()
            orders.append([(f.batch, f.sender, f.number) for f in frames])
        assert orders[0] == orders[1]


def test_what_a_view_takes_over_comes_first_one_after_the_other(dags: Any) -> None:
    dag = Dag(1)
    toto = ToTo(dag)
    carried = [dags.frame_of(dags.node(0, k, (k,), True), (k - 1,)) for k in (1, 2)]
    toto.place(carried)
    own = dags.frame_of(dags.node(0, 1, (1,), True), (0,))
    dag.insert(own)
    assert toto.insert(own) == [own]
    assert [f.batch for f in (*carried, own)] == [1, 2, 3]
