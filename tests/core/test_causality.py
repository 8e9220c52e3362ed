from __future__ import annotations

import random
from typing import Any

from phalanx.core.causality import Dag


def test_stability_is_the_least_of_the_latest_vectors_at_every_step(dags: Any) -> None:
    rng = random.Random(3)
    for _ in range(100):
        n = rng.randrange(1, 7)
        dag = Dag(n)
        before = list(dag.stable)
        for node in dags.random_nodes(rng, n, 40):
            dag.insert(dags.frame_of(node, dag.latest[node.sender]))
            assert dag.stable == [min(v[q] for v in dag.latest) for q in range(n)]
            assert set(dag.moved) == {q for q in range(n) if dag.stable[q] != before[q]}
            before = list(dag.stable)
            dag.moved.clear()


def test_a_frame_waits_for_what_it_acknowledges(dags: Any) -> None:
    dag = Dag(2)
    late = dags.frame_of(dags.node(1, 1, (1, 1), False), (0, 0))
    assert not dag.ready(late)
    dag.insert(dags.frame_of(dags.node(0, 1, (1, 0), False), (0, 0)))
    assert dag.ready(late)


def test_a_frame_waits_for_its_senders_previous_one(dags: Any) -> None:
    dag = Dag(2)
    assert not dag.ready(dags.frame_of(dags.node(0, 2, (2, 0), False), (1, 0)))


def test_an_acknowledgement_is_never_taken_back(dags: Any) -> None:
    dag = Dag(2)
    dag.insert(dags.frame_of(dags.node(0, 1, (1, 0), False), (0, 0)))
    dag.insert(dags.frame_of(dags.node(0, 2, (2, 0), False), (1, 0)))
    dag.insert(dags.frame_of(dags.node(1, 1, (2, 1), False), (0, 0)))
    dag.insert(dags.frame_of(dags.node(1, 2, (1, 2), False), (2, 1)))
    assert dag.latest[1] == [2, 2]
    assert dag.stable == [2, 0]
