"""The trees of the benchmark of scale, and what it counts."""

from __future__ import annotations

from bench.bench_service_scale import ChangeCost, IdleCost, play, plot
from bench.flat_group import documented
from bench.scale_world import SHAPES, spanned, tree_of


def test_trees_have_four_levels_and_as_many_interfaces_as_they_are_named_after() -> None:
    for size, shape in SHAPES.items():
        tree = tree_of(shape)
        assert len(tree.homes) == size
        assert {plan.level for plan in tree.sets.values()} == {1, 2, 3, 4}
        groups = [set(spanned(tree, kind)) for kind in ("LAN", "building", "all")]
        assert sum(map(len, groups)) == len(set().union(*groups))


def test_changes_of_a_small_tree_cost_messages_and_exclude_nobody() -> None:
    costs = list(play(10, 1, lambda text: None))
    assert isinstance(costs[0], IdleCost)
    changes = [cost for cost in costs if isinstance(cost, ChangeCost)]
    assert [cost.change for cost in changes[:3]] == ["join", "leave", "interface crash"]
    assert len(changes) == 11
    for cost in changes:
        assert cost.excluded == 0
        assert cost.messages >= 2 * cost.members  # a directive and its acknowledgement
        assert cost.messages == sum(cost.parts.values())
    assert plot(changes, []).count("<polyline") == 4
    assert documented(64) == 63 * 63
