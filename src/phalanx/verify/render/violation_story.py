"""The story of a violation: what the members involved did around it, one line a row.

Rows are merged by time. A line marked `>` is one that the checker pointed at.
"""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.journal.schema import (
    Accepted,
    Deliver,
    Event,
    Life,
    NotSent,
    PeerSuspicion,
    Refused,
    Sent,
    Topology,
    Transitional,
    ViewChangeStep,
    ViewInstalled,
    Window,
)
from phalanx.verify.checkers.findings import Violation

_BEFORE, _AFTER = 10, 3
_SHOWN = (
    Accepted,
    Sent,
    Deliver,
    ViewInstalled,
    Transitional,
    ViewChangeStep,
    PeerSuspicion,
    NotSent,
    Window,
    Refused,
    Life,
    Topology,
)


def violation_story(rows: Sequence[Event], violation: Violation) -> list[str]:
    """The rows of the members involved just before and after the rows of a violation."""
    events = [row for row in rows if row.member in violation.members and isinstance(row, _SHOWN)]
    blamed = [(place.member, place.incarnation, place.lseq) for place in violation.places]
    keep: list[int] = []
    for i, row in enumerate(events):
        if (row.member, row.incarnation, row.lseq) in blamed:
            keep += range(max(0, i - _BEFORE), min(len(events), i + _AFTER + 1))
    if not keep:
        keep = list(range(max(0, len(events) - _BEFORE), len(events)))
    shown = [events[i] for i in sorted(set(keep))]
    return row_lines(shown, blamed)


def row_lines(rows: Sequence[Event], blamed: Sequence[tuple[str, int, int]] = ()) -> list[str]:
    """Rows as lines: time, member, and the row in words; the blamed ones are marked."""
    width = max((len(_who(row)) for row in rows), default=0)
    lines: list[str] = []
    for row in rows:
        mark = ">" if (row.member, row.incarnation, row.lseq) in blamed else " "
        at = row.t_ns if row.sim_ns is None else row.sim_ns
        lines.append(f" {mark}{milliseconds(at)}  {_who(row):<{width}}  {words(row)}")
    return lines


def _who(row: Event) -> str:
    """A process by its name, with the incarnation if it is not the first."""
    return row.member if row.incarnation == 1 else f"{row.member}.{row.incarnation}"


def words(row: Event) -> str:
    """One row as one short line."""
    match row:
        case Accepted():
            return f"submits  {_range(row.member, row)} {row.service} {row.size} bytes{_to(row)}"
        case Sent():
            needs = zip(row.dep_senders, row.dep_numbers, strict=True)
            after = " ".join(f"{member}#{number}" for member, number in needs)
            tail = f" after {after}" if after else ""
            what = f"{_range(row.member, row)} {row.service} frame {row.frame}"
            return f"sends    {what}{_to(row)}{tail}"
        case Deliver():
            place = "" if row.pos is None else f" pos {row.pos} batch {row.batch}"
            sender = (
                row.sender
                if row.sender_incarnation == 1
                else f"{row.sender}.{row.sender_incarnation}"
            )
            late = " transitional" if row.region == "TRANSITIONAL" else ""
            late += f" sent in {row.origin}" if row.origin != row.view else ""
            what = f"{_range(sender, row)} {row.service}{place}"
            return f"delivers {what} frame {row.frame}{_to(row)}{late}"
        case ViewInstalled():
            here = " ".join(
                name if incarnation == 1 else f"{name}.{incarnation}"
                for name, incarnation in zip(row.members, row.member_incarnations, strict=True)
            )
            return f"installs view {row.view}: {here}"
        case _:
            return _rare_words(row)


def _rare_words(row: Event) -> str:
    match row:
        case Transitional():
            return f"marks    the end of {row.view} at pos {row.pos}"
        case ViewChangeStep():
            failed = " ".join(row.failed_after or row.failed_before)
            without = f" without {failed}" if failed else ""
            return f"changes  {row.action} in {row.stage}, {row.context}{without}"
        case PeerSuspicion():
            by = f" by {row.relay}" if row.relay else ""
            return (
                f"judges   {row.target}.{row.target_incarnation} {row.state} ({row.evidence}{by})"
            )
        case NotSent():
            return f"gives up {_range(row.member, row)}: nobody is left to get it"
        case Window():
            return f"window {row.op.lower()}, {row.bytes} bytes in {row.frames} frames under way"
        case Refused():
            return f"refuses  {row.count} x {row.reason}"
        case Life():
            return f"life     {row.op}"
        case Topology():
            return f"reaches  {' '.join(row.component)}"
        case _:
            return type(row).__name__


def milliseconds(ns: int) -> str:
    return f"{ns // 1_000_000:>7}.{ns // 1000 % 1000:03} ms"


def _range(sender: str, row: Accepted | Sent | Deliver | NotSent) -> str:
    return f"{sender}#{row.first}" + (f"..{row.last}" if row.last > row.first else "")


def _to(row: Accepted | Sent | Deliver) -> str:
    return "" if row.to is None else f" to {','.join(row.to)}"
