"""Connectivity of the simulated network: severed links, and the connected components that remain.

A function of the scenario and the time alone. At one instant, heals come first: a cut or a
partition that begins together with a [[heal]] stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from phalanx.sim.scenario.model import Cut, Scenario


def severed(scenario: Scenario, now: int) -> Callable[[str, str], bool]:
    """Whether packets that the first member sends now do not reach the second."""
    healed = max((h.at_ns for h in scenario.heal if h.at_ns <= now), default=-1)
    cuts = [
        cut
        for cut in scenario.cut
        if healed <= cut.at_ns <= now and (cut.for_ns is None or now < cut.at_ns + cut.for_ns)
    ]
    side = _sides(scenario, now, healed)

    def is_severed(sender: str, receiver: str) -> bool:
        if sender == receiver:
            return False
        return side.get(sender) != side.get(receiver) or any(
            _hits(cut, sender, receiver) or (cut.both and _hits(cut, receiver, sender))
            for cut in cuts
        )

    return is_severed


def _sides(scenario: Scenario, now: int, healed: int) -> dict[str, int]:
    """Per member the number of its group; those that no group names have none."""
    begun = [p for p in scenario.partition if healed <= p.at_ns <= now]
    if not begun:
        return {}
    latest = max(enumerate(begun), key=lambda numbered: (numbered[1].at_ns, numbered[0]))[1]
    return {name: i for i, group in enumerate(latest.groups) for name in group}


def _hits(cut: Cut, sender: str, receiver: str) -> bool:
    return (cut.from_ is None or sender in cut.from_) and (cut.to is None or receiver in cut.to)


def components(nodes: Sequence[int], linked: Callable[[int, int], bool]) -> list[list[int]]:
    """The connected components of the nodes; each in the order of `nodes`."""
    found: list[list[int]] = []
    left = list(nodes)
    while left:
        reached = [left[0]]
        for node in reached:  # grows while it is walked
            reached += [other for other in left if other not in reached and linked(node, other)]
        found.append([node for node in left if node in reached])
        left = [node for node in left if node not in reached]
    return found
