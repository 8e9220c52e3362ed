"""Results of the checkers: per property, how often rows tested it, and the violations.

A property that no row of the trace tested is *unverifiable*, which is not the same as holding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from phalanx.journal.schema import Row
from phalanx.verify.properties import PROPERTIES, Verdict

VIOLATIONS_KEPT_MAX = 100


@dataclass(frozen=True, slots=True)
class RowPlace:
    """A row of a journal."""

    member: str
    incarnation: int
    lseq: int
    sim_ns: int | None


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation of one property, with the rows that show it."""

    property: str
    text: str
    members: tuple[str, ...]
    places: tuple[RowPlace, ...]
    view: str | None = None
    """The view concerned, where the checker names one."""

    def __str__(self) -> str:
        rows = ", ".join(
            f"{p.member}.{p.incarnation} row {p.lseq}"
            + ("" if p.sim_ns is None else f" at {p.sim_ns / 1e6:.3f} ms")
            for p in self.places
        )
        return f"{self.property}: {self.text}" + (f" [{rows}]" if rows else "")


@dataclass(slots=True)
class PropertyResult:
    """Result of one property. `violations` holds the first of them, `found` counts them all."""

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
    """The results of all properties by name, in the order of PROPERTIES, and statistics."""

    properties: dict[str, PropertyResult]
    statistics: dict[str, int] = field(default_factory=dict)
    """Counts that are not verdicts, unless stated otherwise.
    torn-journals: members with missing rows, which are asked little;
    strong-total-order: messages that do not fit into any one order of all members;
    other-view-deliveries: deliver rows in another view than the view of the sending;
    successors-apart: members of two successive views of another that came from elsewhere;
    false-removals: members removed from a view while alive and within reach;
    commits-max: the most proposals that one member made for one view;
    hold-gap-ns: the longest time a message waited during a view change with the window open."""

    @property
    def violations(self) -> list[Violation]:
        return [v for result in self.properties.values() for v in result.violations]

    @property
    def violated(self) -> tuple[str, ...]:
        return tuple(name for name, r in self.properties.items() if r.found)


class Findings:
    """Collects the results while checkers run."""

    def __init__(self, kept_max: int | None = None) -> None:
        """Keep `kept_max` violations of each property; the default is VIOLATIONS_KEPT_MAX."""
        self.report = Report({name: PropertyResult() for name in PROPERTIES})
        self._results = self.report.properties
        self._kept_max = VIOLATIONS_KEPT_MAX if kept_max is None else kept_max

    def evaluated(self, name: str, times: int = 1) -> None:
        self._results[name].evaluated += times

    def violated(
        self, name: str, text: str, rows: Sequence[Row], *others: str, view: str | None = None
    ) -> None:
        """`others` are members involved without a row, such as a member that lacks a message."""
        result = self._results[name]
        result.found += 1
        if len(result.violations) >= self._kept_max:
            return
        places = tuple(RowPlace(r.member, r.incarnation, r.lseq, r.sim_ns) for r in rows)
        members = tuple(dict.fromkeys((*(p.member for p in places), *others)))
        result.violations.append(Violation(name, text, members, places, view))
