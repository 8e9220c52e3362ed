"""The story of a failure: what the members involved did around it, one line a row.

Rows are merged by simulated time. A line marked `>` is one that the checker pointed at.
"""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.journal.events import Deliver, Event, Life, Refuse, Send, Submit, ViewInstall, Window
from phalanx.sim.checkers.findings import Violation
from phalanx.sim.run import RunResult

LINES_MAX = 60
_BEFORE, _AFTER = 10, 3
_TOLD = (Submit, Send, Deliver, ViewInstall, Window, Refuse, Life)


def story(result: RunResult, violations_max: int = 2) -> list[str]:
    """Why a run failed, readable; empty if it did not. Never much longer than LINES_MAX."""
    lines: list[str] = []
    if result.exception is not None:
        lines += ["exception: an error left the core:", *_indent(result.exception.splitlines())]
        lines += ["the last rows before it:", *_timeline(result.rows[-12:], ())]
    for violation in result.report.violations[:violations_max]:
        lines += [str(violation), *violation_story(result.rows, violation)]
    if result.stuck:
        lines.append(f"stuck: {result.stuck_because}; the members say:")
        for said in result.stories.values():
            lines += _indent(said)
    if len(lines) > LINES_MAX:
        lines = [*lines[: LINES_MAX - 1], f"  ... {len(lines) - LINES_MAX + 1} more lines"]
    return lines


def violation_story(rows: Sequence[Event], violation: Violation) -> list[str]:
    """What the members involved did just before and after the rows of a violation."""
    told = [row for row in rows if row.node in violation.nodes and isinstance(row, _TOLD)]
    blamed = [(place.node, place.inc, place.lseq) for place in violation.places]
    keep: list[int] = []
    for i, row in enumerate(told):
        if (row.node, row.inc, row.lseq) in blamed:
            keep += range(max(0, i - _BEFORE), min(len(told), i + _AFTER + 1))
    if not keep:
        keep = list(range(max(0, len(told) - _BEFORE), len(told)))
    shown = [told[i] for i in sorted(set(keep))]
    return _timeline(shown, blamed)


def _timeline(rows: Sequence[Event], blamed: Sequence[tuple[str, int, int]]) -> list[str]:
    width = max((len(row.node) for row in rows), default=0)
    lines: list[str] = []
    for row in rows:
        mark = ">" if (row.node, row.inc, row.lseq) in blamed else " "
        at = row.t_ns if row.sim_ns is None else row.sim_ns
        lines.append(f" {mark}{milliseconds(at)}  {row.node:<{width}}  {words(row)}")
    return lines


def words(row: Event) -> str:
    """One row as one short line."""
    match row:
        case Submit():
            return f"submits  {_range(row.node, row)} {row.service} {row.bytes} bytes{_to(row)}"
        case Send():
            needs = zip(row.dep_nodes, row.dep_numbers, strict=True)
            after = " ".join(f"{node}#{number}" for node, number in needs)
            tail = f" after {after}" if after else ""
            return (
                f"sends    {_range(row.node, row)} {row.service} frame {row.frame}{_to(row)}{tail}"
            )
        case Deliver():
            place = "" if row.pos is None else f" pos {row.pos} batch {row.batch}"
            what = f"{_range(row.sender, row)} {row.service}{place}"
            return f"delivers {what} frame {row.frame}{_to(row)}"
        case ViewInstall():
            return f"installs view {row.vid}: {' '.join(row.members)}"
        case Window():
            return f"window {row.op.lower()}, {row.bytes} bytes in {row.frames} frames under way"
        case Refuse():
            return f"refuses  {row.count} x {row.reason}"
        case Life():
            return f"life     {row.op}"
        case _:
            return type(row).__name__


def milliseconds(ns: int) -> str:
    return f"{ns // 1_000_000:>7}.{ns // 1000 % 1000:03} ms"


def _range(sender: str, row: Submit | Send | Deliver) -> str:
    return f"{sender}#{row.first}" + (f"..{row.last}" if row.last > row.first else "")


def _to(row: Submit | Send | Deliver) -> str:
    return "" if row.to is None else f" to {','.join(row.to)}"


def _indent(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]
