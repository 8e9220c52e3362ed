"""Properties of the views that members of groups get.

view-chain            A member gets only views that name the one it has as the one it comes from,
                      and none after its membership has ended. What it had is there after a restart.
view-numbers          The numbers of a member's views grow.
group-view-agreement  If p goes from v to w and q from v to u, q is in w and p in u, then w is u.
view-origin           A view that members get was made by a set, with these members.
single-service        No member is served by two owners of its group at one instant; only a
                      simulator knows.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from phalanx.journal import service_schema as rows
from phalanx.journal.schema import Event
from phalanx.verify.service.service_trace import (
    ProcessLife,
    ServiceFindings,
    ServiceTrace,
    number_of,
)


@dataclass(frozen=True, slots=True)
class _Position:
    """What a member has: its last view, empty before the first, and whether it is over."""

    vid: str
    over: bool
    row: Event


def check_member_views(trace: ServiceTrace, out: ServiceFindings) -> None:
    for lives in trace.processes().values():
        _chains(lives, out)
    _agreement(trace, out)
    _origin(trace, out)
    _single_service(trace, out)


def _chains(lives: list[ProcessLife], out: ServiceFindings) -> None:
    at: dict[str, _Position] = {}
    sure = True
    """No row of the lives before can be missing."""
    for life in lives:
        restored: dict[str, _Position] = {}
        for row in life.rows:
            if isinstance(row, rows.MembershipHeld) and row.op == "RESTORED":
                restored[row.group_member] = _Position(row.vid or "", bool(row.over), row)
        _restored(at, restored, sure, life, out)
        at.update(restored)
        for row in life.rows:
            if isinstance(row, rows.GroupViewDelivered):
                for member, part in zip(row.to, row.to_parts, strict=True):
                    _next(member, part, row, at, life.torn, out)
            elif isinstance(row, rows.MembershipEnded):
                for member in row.to:
                    before = at.get(member)
                    if before is not None and before.over:
                        text = f"{member} is told of its end again"
                        out.violated("view-chain", text, [before.row, row])
                    vid = before.vid if before is not None else ""
                    at[member] = _Position(vid, True, row)
        sure = sure and life.complete and not life.torn


def _restored(
    at: dict[str, _Position],
    restored: dict[str, _Position],
    sure: bool,
    life: ProcessLife,
    out: ServiceFindings,
) -> None:
    """What an interface has after a restart is what it had passed on before, or more."""
    for member, before in at.items():
        found = restored.get(member)
        if found is None:
            if before.vid and not before.over and not life.torn:
                text = f"{member} is forgotten after a restart: it had {before.vid}"
                out.violated("view-chain", text, [before.row], life.host)
            continue
        behind = number_of(found.vid) < number_of(before.vid) or (before.over and not found.over)
        if behind or (sure and found.vid != before.vid):
            text = f"{member} has {found.vid or 'nothing'} after a restart, and had {before.vid}"
            out.violated("view-chain", text, [before.row, found.row])


def _next(
    member: str,
    part: str,
    row: rows.GroupViewDelivered,
    at: dict[str, _Position],
    torn: bool,
    out: ServiceFindings,
) -> None:
    before = at.get(member)
    at[member] = _Position(row.vid, False, row)
    out.evaluated("view-chain")
    last = before.vid if before is not None else ""
    shown = [row] if before is None else [before.row, row]
    if before is not None and before.over:
        out.violated("view-chain", f"{member} gets {row.vid} after its end", shown)
    elif part != (row.previous or "") or (last != part and not torn):
        text = f"{member} has {last or 'no view'} and gets {row.vid}, which comes from {part}"
        out.violated("view-chain", text, shown)
    if last:
        out.evaluated("view-numbers")
        if number_of(row.vid) <= number_of(last):
            out.violated("view-numbers", f"{member} gets {row.vid} after {last}", shown)


def _agreement(trace: ServiceTrace, out: ServiceFindings) -> None:
    after: defaultdict[tuple[str, str], list[rows.GroupViewDelivered]] = defaultdict(list)
    for life in trace.lives:
        for row in life.rows:
            if not isinstance(row, rows.GroupViewDelivered) or row.previous is None:
                continue
            known = after[row.uid, row.previous]
            for other in known:
                out.evaluated("group-view-agreement")
                if other.vid == row.vid:
                    continue
                theirs = [m for m in other.to if m in row.members]
                mine = [m for m in row.to if m in other.members]
                if theirs and mine:
                    text = (
                        f"from {row.previous} of {row.uid} {mine[0]} goes to {row.vid} "
                        f"({row.cause}), {theirs[0]} to {other.vid} ({other.cause})"
                    )
                    out.violated("group-view-agreement", text, [other, row])
            known.append(row)


def _origin(trace: ServiceTrace, out: ServiceFindings) -> None:
    made: dict[tuple[str, str], rows.GroupViewInstalled] = {}
    servers_whole = True
    for life in trace.lives:
        is_server = any(
            isinstance(r, rows.ProcessStarted) and r.kind == "SERVER" for r in life.rows
        )
        servers_whole &= not is_server or (life.complete and not life.torn)
        for row in life.rows:
            if isinstance(row, rows.GroupViewInstalled):
                known = made.setdefault((row.uid, row.vid), row)
                if known.members != row.members:
                    text = f"{row.vid} of {row.uid} has other members in {known.set} and {row.set}"
                    out.violated("view-origin", text, [known, row])
    absent = bool(trace.absent)
    for life in trace.lives:
        for row in life.rows:
            if not isinstance(row, rows.GroupViewDelivered):
                continue
            out.evaluated("view-origin")
            origin = made.get((row.uid, row.vid))
            if origin is None:
                if servers_whole and not absent:
                    text = f"no set made {row.vid} of {row.uid}, which {row.to[0]} gets"
                    out.violated("view-origin", text, [row])
            elif origin.members != row.members:
                text = f"{row.to[0]} gets {row.vid} of {row.uid} with other members"
                out.violated("view-origin", text, [origin, row])


def _single_service(trace: ServiceTrace, out: ServiceFindings) -> None:
    at: defaultdict[tuple[str, int], list[rows.GroupServed]] = defaultdict(list)
    for life in trace.lives:
        for row in life.rows:
            if not isinstance(row, rows.GroupServed) or row.sim_ns is None:
                continue
            out.evaluated("single-service")
            known = at[row.uid, row.sim_ns]
            for other in known:
                if (other.member, other.set) == (row.member, row.set):
                    continue
                both = sorted(set(other.members) & set(row.members))
                if both:
                    text = f"{other.set} and {row.set} own {row.uid} and serve {', '.join(both)}"
                    out.violated("single-service", text, [other, row])
            known.append(row)
