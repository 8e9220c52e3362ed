"""In which view a message goes up: sending view and same view (PROTOCOLS D.1; B.2 item 33).

In mode `hold` a message is delivered in the view it was sent in, and so in one view. In mode
`flow` one that was sent while a view was changing (phase 1) is carried into the next; members
that part ways may then deliver it in different views, but two that were both in both of
these views may not (B.7: J3). One sent in phase 0 goes up in its own view or nowhere.
"""

from __future__ import annotations

from typing import Literal

from phalanx.verify.checkers.findings import Findings
from phalanx.verify.checkers.member_names import Member, label
from phalanx.verify.checkers.trace import DeliveredRange, Trace

Mode = Literal["hold", "flow"]


def check_homes(trace: Trace, mode: Mode | None, out: Findings) -> None:
    views: dict[tuple[Member, int], str] = {}
    several: set[tuple[Member, int]] = set()
    moved: list[DeliveredRange] = []
    judged = same = 0
    for parts in trace.parts.values():
        for part in parts:
            send, row = part.send, part.row
            if send is None:
                continue
            judged += 1
            if row.vid != send.vid:
                moved.append(part)
            if row.service != "BASIC":
                key = part.sender, part.at
                if key not in views:
                    views[key] = row.vid
                else:
                    same += 1
                    if views[key] != row.vid:
                        several.add(key)
    out.report.statistics["other-view-deliveries"] = len(moved)
    out.evaluated("same-view", same)
    if mode == "hold":
        out.evaluated("sending-view", judged)
    for part in moved:
        _moved(part, mode, out)
    found: dict[tuple[Member, int], list[DeliveredRange]] = {}
    for parts in trace.parts.values():
        for part in parts if several else ():
            if (part.sender, part.at) in several and part.row.service != "BASIC":
                found.setdefault((part.sender, part.at), []).append(part)
    for parts in found.values():
        _one_view(trace, parts, mode, out)


def _moved(part: DeliveredRange, mode: Mode | None, out: Findings) -> None:
    send, row = part.send, part.row
    assert send is not None
    text = f"{label(part.member)} delivered {part} in {row.vid}, it was sent in {send.vid}"
    if mode == "hold":
        out.violated("sending-view", text, [send, row])
    elif send.phase == 0 and row.service != "BASIC":
        out.evaluated("same-view")
        out.violated("same-view", text + " before any change", [send, row])


def _one_view(trace: Trace, parts: list[DeliveredRange], mode: Mode | None, out: Findings) -> None:
    for i, a in enumerate(parts):
        for b in parts[i + 1 :]:
            if a.row.vid == b.row.vid or a.first > b.last or b.first > a.last:
                continue
            together = (
                b.row.vid in trace.installed[a.member] and a.row.vid in trace.installed[b.member]
            )
            if mode == "hold" or together:
                text = (
                    f"{label(a.member)} delivered {a} in {a.row.vid}, "
                    f"{label(b.member)} {b} in {b.row.vid}"
                )
                out.violated("same-view", text, [a.row, b.row], a.sender[0])
