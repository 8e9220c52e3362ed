"""Transitional markers: members that go on together see them at one position, and named in them.

This is the part of `safe-marker` that needs no messages; `synchrony` has the rest.
"""

from __future__ import annotations

from phalanx.pipeline.audit.chronicle import Chronicle, MemberRecord, Route
from phalanx.pipeline.audit.group_findings import GroupFindings


def markers(run: Chronicle, out: GroupFindings) -> None:
    for route in run.routes:
        _same_position(route, out)
    for member in run.known:
        _names(member, out)


def _same_position(route: Route, out: GroupFindings) -> None:
    """Members with the same next view have the marker at the same position, or none of them has."""
    members = [m for m in route.members if not m.torn]
    if route.w is None or len(members) < 2:
        return
    markers = {m: m.markers.get(route.v) for m in members}
    if not any(markers.values()):
        return
    out.asked("safe-marker")
    places = {m: row.pos if row else None for m, row in markers.items()}
    if len(set(places.values())) > 1:
        one = members[0]
        other = next(m for m in members if places[m] != places[one])
        said = ", ".join(f"{m.label} at {place}" for m, place in places.items())
        shown = [(m, row.lseq) for m in (one, other) if (row := markers[m]) is not None]
        out.found(
            "safe-marker/apart", who=one, other=other, v=route.v, w=route.w, note=said, rows=shown
        )


def _names(member: MemberRecord, out: GroupFindings) -> None:
    """A marker names the members of the transitional set of the next view."""
    for v, marker in member.markers.items():
        at = member.next.get(v)
        if at is None or marker.members is None or member.torn:
            continue
        out.asked("safe-marker")
        after = member.installs[at]
        if set(marker.members) != set(after.transitional):
            shown = [(member, marker.lseq), (member, after.lseq)]
            out.found("safe-marker/names", who=member, v=v, w=after.v, rows=shown)
