"""What an audit comes to: a verdict for each property of each run, and overall.

*holds*: the journals put the property to the test, and nothing contradicts it. *violated*: rows
that are there contradict it. *unverifiable*: neither, and why. In a settled run of a simulator
everything is known, so a property is unverifiable only if nothing put it to the test. In any
other run it is so too while a journal that could contradict it is absent or torn, and liveness
always is: journals do not show that whatever was going to happen has happened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from phalanx.verify.evidence import missing_evidence
from phalanx.verify.properties import Verdict


class VerdictRow(msgspec.Struct, frozen=True):
    """A row of a journal."""

    member: str
    incarnation: int
    lseq: int


class AuditViolation(msgspec.Struct, frozen=True):
    """One way in which one property was broken, and the rows that show it."""

    property: str
    cluster: str
    run: str
    group: str
    members: tuple[str, ...]
    view: str | None
    sender: str | None
    sender_incarnation: int | None
    first: int | None
    last: int | None
    text: str
    rows: tuple[VerdictRow, ...]

    def __str__(self) -> str:
        shown = ", ".join(f"{row.member}.{row.incarnation} row {row.lseq}" for row in self.rows)
        return f"{self.property}: {self.text}" + (f" [{shown}]" if shown else "")


class Result(msgspec.Struct, frozen=True):
    """One property. `counterexamples` are the first of the violations."""

    verdict: Verdict
    checked: int = 0
    violations: int = 0
    why: str = ""
    """Why it could not be verified; empty otherwise."""
    counterexamples: tuple[AuditViolation, ...] = ()


class RunVerdicts(msgspec.Struct, frozen=True):
    """One group in one run: what is known of its journals, and its verdicts."""

    cluster: str
    run: str
    group: str
    settled: bool
    mode: str | None
    members: tuple[str, ...]
    absent: tuple[str, ...]
    torn: tuple[str, ...]
    unended: tuple[str, ...]
    properties: dict[str, Result]
    settings: dict[str, dict[str, list[str]]] = {}
    """Settings that must be equal and are not: the members with each value."""
    mixed: list[str] = []
    """Views whose members differ in one of these settings."""
    clocks: list[str] = []
    """Members whose own clock goes back between two rows, a line each."""

    @property
    def violated(self) -> tuple[str, ...]:
        return tuple(name for name, r in self.properties.items() if r.verdict == "violated")


class Audit(msgspec.Struct, frozen=True):
    """What the journals prove."""

    properties: dict[str, Result]
    runs: tuple[RunVerdicts, ...]

    @property
    def violated(self) -> tuple[str, ...]:
        return tuple(name for name, r in self.properties.items() if r.verdict == "violated")

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()


def judged(
    name: str, facts: RunVerdicts, checked: int, violations: Sequence[AuditViolation], found: int
) -> Result:
    """The verdict on one property of one run, with all that is missing taken into account."""
    if found:
        return Result("violated", checked, found, counterexamples=tuple(violations))
    why = missing_evidence(
        name,
        settled=facts.settled,
        mode=facts.mode,
        absent=facts.absent,
        torn=facts.torn,
        checked=checked,
    )
    return Result("unverifiable" if why else "holds", checked, why=why)


def overall(name: str, runs: Sequence[RunVerdicts], kept: int) -> Result:
    """Violated if any run violates it; holds if at least one run holds and none violates."""
    results = [run.properties[name] for run in runs]
    checked = sum(result.checked for result in results)
    found = sum(result.violations for result in results)
    shown = [x for result in results for x in result.counterexamples][:kept]
    if found:
        return Result("violated", checked, found, counterexamples=tuple(shown))
    if any(result.verdict == "holds" for result in results):
        return Result("holds", checked)
    reasons = list(dict.fromkeys(result.why for result in results))
    why = reasons[0] if reasons else "there is no run"
    if len(reasons) > 1:
        why += f", and {len(reasons) - 1} other reasons in other runs"
    return Result("unverifiable", checked, why=why)


def violation(row: Mapping[str, Any]) -> AuditViolation:
    """Of a row of the published frame."""
    return msgspec.convert(row, AuditViolation, from_attributes=True)
