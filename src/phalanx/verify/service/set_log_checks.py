"""Properties of the logs of sets.

set-agreement         One state id means the same state at all servers.
set-commit-order      The numbers of a set's states grow at each server, through restarts too.
one-change-at-a-time  No server applies two changes on one state.
set-inclusion         A server is in every state that it applies, unless it asked to leave.
set-view-agreement    If two servers apply different changes on one state, not both of these keep
                      both servers.
stable-state-truth    When a server takes a state for stable, all its servers have applied it.
change-termination    Every change that a server acknowledged is decided or given up.
change-progress       The same of changes that others overtook: they were acknowledged on more than
                      one state.
"""

from __future__ import annotations

from collections import defaultdict

from phalanx.journal import service_schema as rows
from phalanx.verify.service.service_trace import (
    ProcessLife,
    ServiceFindings,
    ServiceTrace,
    number_of,
)

Place = tuple[str, str]
"""A set, and a state of it."""
StateRow = rows.SetStateHeld | rows.SetStateApplied


def check_set_logs(trace: ServiceTrace, settled: bool, out: ServiceFindings) -> None:
    _agreement(trace, out)
    for process, lives in trace.processes().items():
        _order(lives, out)
        _one_change(lives, out)
        _inclusion(process, lives, out)
    _view_agreement(trace, out)
    _stable(trace, out)
    if settled:
        _changes(trace, out)


def _agreement(trace: ServiceTrace, out: ServiceFindings) -> None:
    first: dict[Place, StateRow] = {}
    digests: dict[Place, StateRow] = {}
    for life in trace.lives:
        for row in life.rows:
            if not isinstance(row, StateRow):
                continue
            place = row.set, row.vid
            known = first.setdefault(place, row)
            out.evaluated("set-agreement", int(known is not row))
            other = digests.setdefault(place, row) if row.digest is not None else row
            same = (known.lineage, known.members, known.parent) == (
                row.lineage,
                row.members,
                row.parent,
            )
            if not same or other.digest != row.digest:
                text = f"{row.vid} of {row.set} is another state at {known.member} and {row.member}"
                out.violated("set-agreement", text, [other if same else known, row])


def _order(lives: list[ProcessLife], out: ServiceFindings) -> None:
    last: dict[str, StateRow] = {}
    for life in lives:
        for row in life.rows:
            if isinstance(row, rows.SetLeft):
                last.pop(row.set, None)
            elif isinstance(row, StateRow) and not _is_last(row):
                before = last.get(row.set)
                last[row.set] = row
                if before is None:
                    continue
                out.evaluated("set-commit-order")
                grows = number_of(row.vid) > number_of(before.vid)
                if isinstance(row, rows.SetStateHeld):
                    grows = number_of(row.vid) >= number_of(before.vid)
                if not grows:
                    text = f"{life.process} goes from {before.vid} to {row.vid} in {row.set}"
                    out.violated("set-commit-order", text, [before, row])


def _is_last(row: StateRow) -> bool:
    return isinstance(row, rows.SetStateHeld) and row.op == "LAST"


def _one_change(lives: list[ProcessLife], out: ServiceFindings) -> None:
    applied: dict[Place, rows.SetStateApplied] = {}
    for life in lives:
        for row in life.rows:
            if not isinstance(row, rows.SetStateApplied):
                continue
            for base in row.bases:
                out.evaluated("one-change-at-a-time")
                known = applied.setdefault((row.set, base), row)
                if known.vid != row.vid:
                    text = (
                        f"{life.process} applies {known.vid} and {row.vid} on {base} of {row.set}"
                    )
                    out.violated("one-change-at-a-time", text, [known, row])


def _inclusion(process: str, lives: list[ProcessLife], out: ServiceFindings) -> None:
    for life in lives:
        if life.torn:  # the row that names the process may be missing
            continue
        for row in life.rows:
            if isinstance(row, rows.SetStateApplied):
                out.evaluated("set-inclusion")
                asked = process in row.left and process not in row.isolated
                if process not in row.members and not asked:
                    text = f"{process} applies {row.vid} of {row.set} without being in it"
                    out.violated("set-inclusion", text, [row])


def _view_agreement(trace: ServiceTrace, out: ServiceFindings) -> None:
    after: defaultdict[Place, dict[tuple[str, str], rows.SetStateApplied]] = defaultdict(dict)
    for life in trace.lives:
        for row in life.rows:
            if not isinstance(row, rows.SetStateApplied):
                continue
            for base in row.bases:
                known = after[row.set, base]
                for (other, _), theirs in known.items():
                    if other == life.process:
                        continue
                    out.evaluated("set-view-agreement")
                    apart = theirs.vid != row.vid
                    if apart and other in row.members and life.process in theirs.members:
                        text = (
                            f"on {base} of {row.set} {other} applies {theirs.vid} and "
                            f"{life.process} {row.vid}, and each keeps both servers"
                        )
                        out.violated("set-view-agreement", text, [theirs, row])
                known[life.process, row.vid] = row


def _stable(trace: ServiceTrace, out: ServiceFindings) -> None:
    """Clocks of two servers are compared only in a simulation. A server whose journal just ends
    may have applied a state behind that end."""
    first: dict[tuple[str, str, str], StateRow] = {}
    complete: dict[str, bool] = {}
    for life in trace.lives:
        whole = life.complete and not life.torn
        complete[life.process] = complete.get(life.process, True) and whole
        for row in life.rows:
            if isinstance(row, StateRow):
                first.setdefault((life.process, row.set, row.vid), row)
    for life in trace.lives:
        for row in life.rows:
            if not isinstance(row, rows.SetStateStable):
                continue
            for server in row.members:
                out.evaluated("stable-state-truth")
                found = first.get((server, row.set, row.vid))
                if found is None:
                    missing = complete.get(server, False)
                else:
                    times = found.sim_ns, row.sim_ns
                    missing = None not in times and times[0] > times[1]  # type: ignore[operator]
                if missing:
                    text = (
                        f"{life.process} takes {row.vid} of {row.set} for stable, "
                        f"which {server} has not applied"
                    )
                    shown = [row] if found is None else [row, found]
                    out.violated("stable-state-truth", text, shown, server)


def _changes(trace: ServiceTrace, out: ServiceFindings) -> None:
    bases: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for life in trace.lives:
        for row in life.rows:
            if isinstance(row, rows.ChangeAcknowledged):
                bases[row.set, row.change].add(row.base)
    for several in bases.values():
        name = "change-progress" if len(several) > 1 else "change-termination"
        out.evaluated(name)
    for life in trace.last_lives():
        open_: dict[str, rows.ChangeAcknowledged] = {}
        for row in life.rows:
            if isinstance(row, rows.ChangeAcknowledged):
                open_[row.set] = row
            elif isinstance(row, rows.SetStateApplied | rows.ChangeWithdrawn | rows.SetLeft):
                open_.pop(row.set, None)
            elif isinstance(row, rows.SetStateHeld) and row.op == "LAST" and row.busy:
                acked = open_.get(row.set)
                if acked is not None:
                    again = len(bases[acked.set, acked.change]) > 1
                    name = "change-progress" if again else "change-termination"
                    text = f"{life.process} waits for {acked.change} of {acked.set} without end"
                    out.violated(name, text, [acked, row])
