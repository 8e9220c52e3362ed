"""What the checkers found: for each property, how often it was put to the test, and what
broke it.

A property that nothing in the trace could test is *unverifiable*, which is not the same as
holding: a checker that was never asked proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from phalanx.journal.schema import Row

PROPERTIES = (
    "self-inclusion",
    "local-monotonicity",
    "initial-view",
    "vid-sanity",
    "mutual-agreement",
    "integrity",
    "no-duplication",
    "sending-view",
    "same-view",
    "virtual-synchrony",
    "transitional-set",
    "self-delivery",
    "fifo",
    "causal",
    "reliable-causal",
    "weak-total-order",
    "running-prefix",
    "toto-refinement",
    "safe-prefix",
    "safe-marker",
    "no-view-crossing-inversion",
    "basic",
    "membership-precision",
    "multicast-liveness",
    "termination-of-delivery",
    "safe-indication-liveness",
    "protocol-termination",
    "bounded-views",
    "receipt-truth",
    "receipt-liveness",
    "not-sent-liveness",
    "view-delta-truth",
    "merge-report-truth",
    "no-needless-stop",
    "accepted-is-sent",
    "bounded-window",
)

TWO_VIEWS = (
    "local-monotonicity",
    "mutual-agreement",
    "virtual-synchrony",
    "transitional-set",
    "weak-total-order",
    "safe-marker",
    "no-view-crossing-inversion",
    "protocol-termination",
    "merge-report-truth",
    "no-needless-stop",
)

FIXED_VIEW = tuple(p for p in PROPERTIES if p not in TWO_VIEWS)
"""The properties that mean something while nobody installs a second view."""

VIOLATIONS_KEPT_MAX = 100

Verdict = Literal["holds", "violated", "unverifiable"]


@dataclass(frozen=True, slots=True)
class RowPlace:
    """A row of a journal."""

    node: str
    inc: int
    lseq: int
    sim_ns: int | None


@dataclass(frozen=True, slots=True)
class Violation:
    """One way in which one property was broken, and the rows that show it."""

    property: str
    text: str
    nodes: tuple[str, ...]
    places: tuple[RowPlace, ...]

    def __str__(self) -> str:
        rows = ", ".join(
            f"{p.node}.{p.inc} row {p.lseq}"
            + ("" if p.sim_ns is None else f" at {p.sim_ns / 1e6:.3f} ms")
            for p in self.places
        )
        return f"{self.property}: {self.text}" + (f" [{rows}]" if rows else "")


@dataclass(slots=True)
class PropertyResult:
    """`violations` holds the first of them, `found` counts them all."""

    evaluated: int = 0
    found: int = 0
    violations: list[Violation] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        if self.found:
            return "violated"
        return "holds" if self.evaluated else "unverifiable"


@dataclass(slots=True)
class Report:
    """Every property by name, in the order of PROPERTIES. Statistics are not verdicts."""

    properties: dict[str, PropertyResult]
    statistics: dict[str, int] = field(default_factory=dict)
    """Counts, unless told otherwise.
    torn-journals: members of whom little was asked, because rows of theirs are missing;
    strong-total-order: messages that do not fit into any one order of all members;
    other-view-deliveries: rows of messages delivered in another view than that of their sending;
    successors-apart: members of two successive views of another that came from elsewhere;
    false-removals: members left out of a next view while alive and within reach;
    commits-max: the most proposals that one member made for one view;
    hold-gap-ns: the longest time that a message waited during a change, the window open."""

    @property
    def violations(self) -> list[Violation]:
        return [v for result in self.properties.values() for v in result.violations]

    @property
    def violated(self) -> tuple[str, ...]:
        return tuple(name for name, r in self.properties.items() if r.found)


class Findings:
    """Where checkers write while they run."""

    def __init__(self) -> None:
        self.report = Report({name: PropertyResult() for name in PROPERTIES})
        self._results = self.report.properties

    def evaluated(self, name: str, times: int = 1) -> None:
        self._results[name].evaluated += times

    def violated(self, name: str, text: str, rows: Sequence[Row], *others: str) -> None:
        """`others` are nodes that are involved without a row, such as one that misses it."""
        result = self._results[name]
        result.found += 1
        if len(result.violations) >= VIOLATIONS_KEPT_MAX:
            return
        places = tuple(RowPlace(r.node, r.inc, r.lseq, r.sim_ns) for r in rows)
        nodes = tuple(dict.fromkeys((*(p.node for p in places), *others)))
        result.violations.append(Violation(name, text, nodes, places))
