"""The story of a violation: what the members involved did around it, one line a row.

Rows are merged by time. A line marked `>` is one that the checker pointed at.
"""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.journal.schema import (
    CtxStep,
    Deliver,
    Event,
    Life,
    NotSent,
    Refuse,
    Send,
    Submit,
    Suspect,
    Topology,
    TransMarker,
    ViewInstall,
    Window,
)
from phalanx.verify.checkers.findings import Violation

_BEFORE, _AFTER = 10, 3
_TOLD = (
    Submit,
    Send,
    Deliver,
    ViewInstall,
    TransMarker,
    CtxStep,
    Suspect,
    NotSent,
    Window,
    Refuse,
    Life,
    Topology,
)


def violation_story(rows: Sequence[Event], violation: Violation) -> list[str]:
    """The rows of the members involved just before and after the rows of a violation."""
    told = [row for row in rows if row.node in violation.nodes and isinstance(row, _TOLD)]
    blamed = [(place.node, place.inc, place.lseq) for place in violation.places]
    keep: list[int] = []
    for i, row in enumerate(told):
        if (row.node, row.inc, row.lseq) in blamed:
            keep += range(max(0, i - _BEFORE), min(len(told), i + _AFTER + 1))
    if not keep:
        keep = list(range(max(0, len(told) - _BEFORE), len(told)))
    shown = [told[i] for i in sorted(set(keep))]
    return row_lines(shown, blamed)


def row_lines(rows: Sequence[Event], blamed: Sequence[tuple[str, int, int]] = ()) -> list[str]:
    """Rows as lines: time, member, and the row in words; the blamed ones are marked."""
    width = max((len(_who(row)) for row in rows), default=0)
    lines: list[str] = []
    for row in rows:
        mark = ">" if (row.node, row.inc, row.lseq) in blamed else " "
        at = row.t_ns if row.sim_ns is None else row.sim_ns
        lines.append(f" {mark}{milliseconds(at)}  {_who(row):<{width}}  {words(row)}")
    return lines


def _who(row: Event) -> str:
    """A process by its name, with the incarnation if it is not the first."""
    return row.node if row.inc == 1 else f"{row.node}.{row.inc}"


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
            sender = row.sender if row.sender_inc == 1 else f"{row.sender}.{row.sender_inc}"
            late = " transitional" if row.region == "TRANSITIONAL" else ""
            late += f" sent in {row.origin_vid}" if row.origin_vid != row.vid else ""
            what = f"{_range(sender, row)} {row.service}{place}"
            return f"delivers {what} frame {row.frame}{_to(row)}{late}"
        case ViewInstall():
            here = " ".join(
                name if inc == 1 else f"{name}.{inc}"
                for name, inc in zip(row.members, row.member_incs, strict=True)
            )
            return f"installs view {row.vid}: {here}"
        case _:
            return _rare_words(row)


def _rare_words(row: Event) -> str:
    match row:
        case TransMarker():
            return f"marks    the end of {row.vid} at pos {row.at_pos}"
        case CtxStep():
            failed = " ".join(row.failed_after or row.failed_before)
            without = f" without {failed}" if failed else ""
            return f"changes  {row.action} in {row.stage}, {row.context}{without}"
        case Suspect():
            by = f" by {row.relay}" if row.relay else ""
            return f"judges   {row.target}.{row.target_inc} {row.state} ({row.evidence}{by})"
        case NotSent():
            return f"gives up {_range(row.node, row)}: nobody is left to get it"
        case Window():
            return f"window {row.op.lower()}, {row.bytes} bytes in {row.frames} frames under way"
        case Refuse():
            return f"refuses  {row.count} x {row.reason}"
        case Life():
            return f"life     {row.op}"
        case Topology():
            return f"reaches  {' '.join(row.component)}"
        case _:
            return type(row).__name__


def milliseconds(ns: int) -> str:
    return f"{ns // 1_000_000:>7}.{ns // 1000 % 1000:03} ms"


def _range(sender: str, row: Submit | Send | Deliver | NotSent) -> str:
    return f"{sender}#{row.first}" + (f"..{row.last}" if row.last > row.first else "")


def _to(row: Submit | Send | Deliver) -> str:
    return "" if row.to is None else f" to {','.join(row.to)}"
