"""Registry of the measures by name."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from phalanx.pipeline.measures.detector_quality import detector
from phalanx.pipeline.measures.latency import latency
from phalanx.pipeline.measures.links import links
from phalanx.pipeline.measures.partitions import partitions
from phalanx.pipeline.measures.suspicion_intervals import suspicions
from phalanx.pipeline.measures.throughput import throughput
from phalanx.pipeline.measures.view_change_duration import changes
from phalanx.pipeline.tables import Tables

MEASURES: dict[str, Callable[[Tables], DataFrame]] = {
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
"""By what the rows of one run are sorted where people read them."""
