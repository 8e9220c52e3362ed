from __future__ import annotations

import random
from typing import Any

from phalanx.core.broadcast.dag import Dag


def test_stability_is_the_least_of_the_latest_vectors_at_every_step(dags: Any) -> None:
    """Rule B-12."""
    rng = random.Random(3)
    for _ in range(100):
        n = rng.randrange(1, 7)
        dag = Dag(n)
        before = list(dag.stable)
        for node in dags.random_nodes(rng, n, 40):
            dag.insert(dags.frame_of(node, dag.latest[node.sender]))
            assert dag.stable == [min(v[q] for v in dag.latest) for q in range(n)]
            assert set(dag.newly_stable) == {q for q in range(n) if dag.stable[q] != before[q]}
            before = list(dag.stable)
            dag.newly_stable.clear()


def test_a_frame_waits_for_what_it_acknowledges(dags: Any) -> None:
    """Rule B-2."""
    dag = Dag(2)
    late = dags.frame_of(dags.node(1, 1, (1, 1), False), (0, 0))
    assert not dag.ready(late)
    dag.insert(dags.frame_of(dags.node(0, 1, (1, 0), False), (0, 0)))
    assert dag.ready(late)


def test_a_frame_waits_for_its_senders_previous_one(dags: Any) -> None:
    """Rule B-2."""
    dag = Dag(2)
    assert not dag.ready(dags.frame_of(dags.node(0, 2, (2, 0), False), (1, 0)))


def test_an_acknowledgement_is_never_taken_back(dags: Any) -> None:
    """Rule B-1."""
    dag = Dag(2)
    dag.insert(dags.frame_of(dags.node(0, 1, (1, 0), False), (0, 0)))
    dag.insert(dags.frame_of(dags.node(0, 2, (2, 0), False), (1, 0)))
    dag.insert(dags.frame_of(dags.node(1, 1, (2, 1), False), (0, 0)))
    dag.insert(dags.frame_of(dags.node(1, 2, (1, 2), False), (2, 1)))
    assert dag.latest[1] == [2, 2]
    assert dag.stable == [2, 0]


# ---------------------------------------------------------------------------- apart


def test_a_dag_begins_behind_what_closed_the_view_before(dags: Any) -> None:
    dag = Dag(2, [7, 3])
    assert dag.ready(dags.frame_of(dags.node(0, 8, (8, 0), False), (0, 0)))
    assert not dag.ready(dags.frame_of(dags.node(0, 1, (1, 0), False), (0, 0)))
    dag.insert(dags.frame_of(dags.node(1, 4, (7, 4), False), (0, 0)))
    assert dag.have == [7, 4]


def test_a_frame_apart_proves_nothing_stable_and_is_nobodys_last_word(dags: Any) -> None:
    """Rule B-12."""
    dag = Dag(2)
    dag.insert(dags.frame_of(dags.node(0, 1, (1, 0), False), (0, 0)))
    apart = dags.frame_of(dags.node(1, 1, (1, 1), False), (0, 0))
    dag.insert_without_vote(apart)
    assert (dag.have, apart.vector) == ([1, 1], [1, 1])
    assert dag.frames[1] == {1: apart}, "it can be repeated"
    assert dag.latest == [[1, 0], [0, 0]]
    assert (dag.stable, dag.newly_stable) == ([0, 0], [])
    assert not dag.all_spoke


def test_a_frame_apart_counts_for_what_follows_what(dags: Any) -> None:
    dag = Dag(2)
    after = dags.frame_of(dags.node(0, 1, (1, 1), False), (0, 0))
    assert not dag.ready(after)
    dag.insert_without_vote(dags.frame_of(dags.node(1, 1, (0, 1), False), (0, 0)))
    assert dag.ready(after)


def test_a_frame_that_was_set_aside_proves_something_stable_only_once_it_counts(dags: Any) -> None:
    dag = Dag(2)
    dag.insert(dags.frame_of(dags.node(0, 1, (1, 0), False), (0, 0)))
    aside = dags.frame_of(dags.node(1, 1, (1, 1), False), (0, 0))
    dag.insert_deferred(aside)
    assert (dag.have, aside.vector) == ([1, 1], [1, 1])
    assert (dag.latest[1], dag.stable) == ([0, 0], [0, 0])
    dag.count_deferred(aside)
    assert (dag.latest[1], dag.stable) == ([1, 1], [1, 0])


def test_the_vector_of_a_frame_that_was_set_aside_continues_the_one_before(dags: Any) -> None:
    dag = Dag(2)
    dag.insert(dags.frame_of(dags.node(0, 1, (1, 0), False), (0, 0)))
    for number, vector, before in ((1, (1, 1), (0, 0)), (2, (1, 2), (1, 1))):
        dag.insert_deferred(dags.frame_of(dags.node(1, number, vector, False), before))
    assert dag.frames[1][2].vector == [1, 2]


def test_all_have_spoken_when_every_member_has_a_frame_in_the_view(dags: Any) -> None:
    dag = Dag(2, [7, 3])
    dag.insert(dags.frame_of(dags.node(0, 8, (8, 0), False), (0, 0)))
    assert not dag.all_spoke, "what lies below the beginning is not spoken here"
    dag.insert(dags.frame_of(dags.node(1, 4, (0, 4), False), (0, 0)))
    assert dag.all_spoke
