"""Registry of the measures by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from phalanx.pipeline.group_tables import GroupTables
from phalanx.pipeline.measures.detector_quality import detector
from phalanx.pipeline.measures.latency import latency
from phalanx.pipeline.measures.links import links
from phalanx.pipeline.measures.partitions import partitions
from phalanx.pipeline.measures.suspicion_intervals import suspicions
from phalanx.pipeline.measures.throughput import throughput
from phalanx.pipeline.measures.view_change_duration import changes
from phalanx.pipeline.time_window import TimeWindow, within

MEASURES: dict[str, Callable[[GroupTables], Sequence[msgspec.Struct]]] = {
    "detector": detector,
    "suspicions": suspicions,
    "latency": latency,
    "throughput": throughput,
    "links": links,
    "changes": changes,
    "partitions": partitions,
}
ORDER: dict[str, tuple[str, ...]] = {
    "detector": ("member", "incarnation", "target", "target_incarnation"),
    "suspicions": ("from_ns", "member", "incarnation", "target", "target_incarnation"),
    "latency": ("scope", "service", "size_max"),
    "throughput": ("from_ns", "member", "incarnation", "service"),
    "links": ("peer", "peer_incarnation", "member", "incarnation"),
    "changes": ("at_ns", "member", "incarnation"),
    "partitions": ("from_ns",),
}
"""By what the rows of one group are sorted where people read them; null comes first."""
MeasuredRows = dict[str, list[dict[str, Any]]]
"""Rows by the name of their measure."""


def measure(names: Sequence[str], window: TimeWindow, group: GroupTables) -> MeasuredRows:
    """The kernel of `phalanx measures`: the rows of these measures in the window, in order."""
    group = within(group, window)
    return {
        name: sorted(msgspec.to_builtins(MEASURES[name](group)), key=_key(ORDER[name]))
        for name in names
    }


def _key(columns: Sequence[str]) -> Callable[[dict[str, Any]], list[tuple[bool, Any]]]:
    return lambda row: [(row[name] is not None, row[name]) for name in columns]


def joined(results: Iterable[MeasuredRows], names: Sequence[str]) -> MeasuredRows:
    """The rows of all groups."""
    found: MeasuredRows = {name: [] for name in names}
    for one in results:
        for name, rows in one.items():
            found[name] += rows
    return found
