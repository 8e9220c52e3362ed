"""What `phalanx check` prints of the journals of a membership service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from phalanx.verify.render.verdict_table import VERDICTS_HEAD, verdict_line
from phalanx.verify.service.service_evidence import ServiceEvidence
from phalanx.verify.service.service_properties import SERVICE_BY_NAME

EXAMPLES_MAX = 3
VIOLATIONS_SHOWN = 5


def service_facts(evidence: ServiceEvidence) -> dict[str, Any]:
    """As JSON."""
    properties = {}
    for name, result in evidence.report.properties.items():
        verdict, why = evidence.judgement(name)
        properties[name] = {
            "verdict": verdict,
            "why": why,
            "violations": result.found,
            "checked": result.evaluated,
            "examples": [str(violation) for violation in result.violations[:EXAMPLES_MAX]],
        }
    return {
        "cluster": evidence.cluster,
        "run": evidence.run,
        "rows": evidence.rows,
        "processes": sorted({life.process for life in evidence.trace.lives}),
        "absent": evidence.absent,
        "torn": evidence.torn,
        "unended": evidence.unended,
        "violated": list(evidence.report.violated),
        "properties": properties,
    }


def service_lines(evidence: ServiceEvidence) -> Iterator[str]:
    """For people."""
    hosts = sorted({life.host for life in evidence.trace.lives})
    lives = len(evidence.trace.lives)
    yield (
        f"service of {evidence.cluster}, run {evidence.run}: {evidence.rows:,} rows of "
        f"{len(hosts)} processes in {lives} lives: {', '.join(hosts)}"
    )
    if evidence.absent:
        yield f"  no journal of {', '.join(evidence.absent)}"
    if evidence.torn:
        yield f"  rows missing of {', '.join(evidence.torn)}"
    if evidence.unended:
        yield (
            f"  ended without a stop, the last rows may be missing: {', '.join(evidence.unended)}"
        )
    yield VERDICTS_HEAD
    for name, result in evidence.report.properties.items():
        verdict, why = evidence.judgement(name)
        shown = why or SERVICE_BY_NAME[name].meaning
        yield verdict_line(verdict, result.found, result.evaluated, name, shown)
    for violation in evidence.report.violations[:VIOLATIONS_SHOWN]:
        yield ""
        yield str(violation)
