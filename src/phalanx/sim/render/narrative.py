"""The story of a failed run: violations, an exception, or why it is stuck.

Rows are merged by simulated time. A line marked `>` is one that the checker pointed at.
"""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.journal.schema import Life, PeerSuspicion, Topology, ViewChangeStep, ViewInstalled
from phalanx.sim.run import RunResult
from phalanx.verify.render.violation_story import row_lines, violation_story

LINES_MAX = 60
_CHANGES_MAX = 16
_CHANGES = (ViewInstalled, ViewChangeStep, PeerSuspicion, Life, Topology)


def story(result: RunResult, violations_max: int = 2) -> list[str]:
    """Why a run failed, readable; empty if it did not. Never much longer than LINES_MAX."""
    lines: list[str] = []
    if result.exception is not None:
        lines += ["exception: an error left the core:", *_indent(result.exception.splitlines())]
        before = [row for row in result.rows if not (isinstance(row, Life) and row.op == "STOP")]
        lines += ["the last rows before it:", *row_lines(before[-12:])]
    for violation in result.report.violations[:violations_max]:
        lines += [str(violation), *violation_story(result.rows, violation)]
    if result.stuck:
        lines.append(f"stuck: {result.stuck_because}; the members say:")
        for said in result.stories.values():
            lines += _indent(said)
        changes = [row for row in result.rows if isinstance(row, _CHANGES)]
        if len(changes) > 2 * len(result.scenario.members):  # more than the beginning
            lines += ["what changed last:", *row_lines(changes[-_CHANGES_MAX:])]
    if len(lines) > LINES_MAX:
        lines = [*lines[: LINES_MAX - 1], f"  ... {len(lines) - LINES_MAX + 1} more lines"]
    return lines


def _indent(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]
