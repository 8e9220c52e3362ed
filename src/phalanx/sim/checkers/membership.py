"""Views: who installs what, and after what (PROTOCOLS D.1, first rows; D.2 precision)."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from phalanx.journal.events import Deliver, Send, ViewInstall
from phalanx.sim.checkers.findings import Findings
from phalanx.sim.checkers.trace import Member, Trace, label


def check_membership(trace: Trace, out: Findings) -> None:
    for member, installs in trace.installs.items():
        _self_inclusion(member, installs, out)
        _local_monotonicity(member, installs, out)
        _initial_view(member, trace, out)
    _vid_sanity(trace, out)
    _mutual_agreement(trace, out)
    _transitional_set(trace, out)
    if trace.over:
        _precision(trace, out)


def _self_inclusion(member: Member, installs: list[ViewInstall], out: Findings) -> None:
    for row in installs:
        out.evaluated("self-inclusion")
        if member not in zip(row.members, row.member_incs, strict=True):
            text = f"{label(member)} installed {row.vid} without being in it"
            out.violated("self-inclusion", text, [row])


def _local_monotonicity(member: Member, installs: list[ViewInstall], out: Findings) -> None:
    for a, b in pairwise(installs):
        out.evaluated("local-monotonicity")
        if (b.joins, b.removals) <= (a.joins, a.removals):
            text = f"{label(member)} installed {b.vid} after {a.vid}: the epoch did not grow"
            out.violated("local-monotonicity", text, [a, b])
        elif b.prev_vid != a.vid:
            text = f"{label(member)} says it came to {b.vid} from {b.prev_vid}, not from {a.vid}"
            out.violated("local-monotonicity", text, [a, b])


def _initial_view(member: Member, trace: Trace, out: Findings) -> None:
    if member in trace.torn:
        return  # the install may be what is missing
    vid = None
    for row in trace.journals[member]:
        if isinstance(row, ViewInstall):
            vid = row.vid
        elif isinstance(row, Send | Deliver):
            out.evaluated("initial-view")
            if row.vid != vid:
                did = "sent" if isinstance(row, Send) else "delivered"
                text = f"{label(member)} {did} {row.first}..{row.last} in {row.vid} while in {vid}"
                out.violated("initial-view", text, [row])


def _vid_sanity(trace: Trace, out: Findings) -> None:
    known: dict[str, ViewInstall] = {}
    for installs in trace.installs.values():
        for row in installs:
            out.evaluated("vid-sanity")
            first = known.setdefault(row.vid, row)
            if _content(row) != _content(first):
                text = f"{row.vid} means one view at {first.node} and another at {row.node}"
                out.violated("vid-sanity", text, [first, row])


def _content(row: ViewInstall) -> tuple[object, ...]:
    members = sorted(zip(row.members, row.member_incs, strict=True))
    return members, row.joins, row.removals, row.context


def _mutual_agreement(trace: Trace, out: Findings) -> None:
    """S0 P.1. Successors of one view are few, so pairs of installers are."""
    after: defaultdict[str, list[tuple[Member, ViewInstall]]] = defaultdict(list)
    for (member, vid), row in trace.successor.items():
        after[vid].append((member, row))
    for vid, movers in after.items():
        for i, (p, w) in enumerate(movers):
            for q, u in movers[i + 1 :]:
                if q not in trace.views[w.vid] or p not in trace.views[u.vid]:
                    continue
                out.evaluated("mutual-agreement")
                if w.vid != u.vid:
                    text = (
                        f"after {vid}, {label(p)} installed {w.vid} and {label(q)} {u.vid}, "
                        "though each has the other in its view"
                    )
                    out.violated("mutual-agreement", text, [w, u])


def _transitional_set(trace: Trace, out: Findings) -> None:
    into: defaultdict[str, dict[Member, tuple[str, ViewInstall]]] = defaultdict(dict)
    for (member, vid), row in trace.successor.items():
        into[row.vid][member] = (vid, row)
    for movers in into.values():
        for p, (before, row) in movers.items():
            trans = set(zip(row.trans, row.trans_incs, strict=True))
            for q, (q_before, q_row) in movers.items():
                out.evaluated("transitional-set")
                if (q in trans) == (before == q_before):
                    continue
                text = (
                    f"{label(p)} came to {row.vid} from {before} and {label(q)} from {q_before}, "
                    f"but {label(q)} is {'in' if q in trans else 'not in'} "
                    f"{label(p)}'s transitional set"
                )
                out.violated("transitional-set", text, [row, q_row])


def _precision(trace: Trace, out: Findings) -> None:
    for member, truth in trace.topology.items():
        if not trace.alive(member):
            continue
        out.evaluated("membership-precision")
        vid = trace.last_view(member)
        names = sorted(m[0] for m in trace.views[vid]) if vid else []
        if names != sorted(truth.component):
            text = (
                f"{label(member)} ended in {vid} of {', '.join(names) or 'nobody'}, "
                f"but could reach {', '.join(sorted(truth.component))}"
            )
            out.violated("membership-precision", text, [truth, *trace.installs[member][-1:]])
