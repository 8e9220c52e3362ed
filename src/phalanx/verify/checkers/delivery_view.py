"""The view in which a message is sent and delivered: initial view, sending view, same view.

initial-view   A member sends and delivers only in the view it is in.
sending-view   In mode `hold` a message is delivered in the view it was sent in.
same-view      Members that were both in two views deliver a message in the same one of them.

In mode `flow` a message that was sent during a view change (phase 1) is carried into the next view.
Members that separate may then deliver it in different views, but two members that installed both
views may not. A message of phase 0 is delivered in the view it was sent in, or not at all.
docs/protocol/properties.md states the properties in full.
"""

from __future__ import annotations

from typing import Literal

from phalanx.journal.schema import Sent, Transitional
from phalanx.verify.checkers.findings import Findings
from phalanx.verify.checkers.member_names import Member, label
from phalanx.verify.checkers.trace import DeliveredRange, Trace

Mode = Literal["hold", "flow"]


def check_delivery_view(trace: Trace, mode: Mode | None, out: Findings) -> None:
    _initial_view(trace, out)
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
            if row.view != send.view:
                moved.append(part)
            if row.service != "BASIC":
                key = part.sender, part.at
                if key not in views:
                    views[key] = row.view
                else:
                    same += 1
                    if views[key] != row.view:
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


def _initial_view(trace: Trace, out: Findings) -> None:
    torn = trace.lives.torn  # the missing rows may include the installation
    for member, sends in trace.sends.items():
        if member not in torn:
            out.evaluated("initial-view", len(sends.values) + len(trace.deliveries[member]))
    for row, view in trace.misplaced:
        member = (row.member, row.incarnation)
        if member in torn:
            continue
        if isinstance(row, Transitional):
            did = "marked the end"
        else:
            did = f"{'sent' if isinstance(row, Sent) else 'delivered'} {row.first}..{row.last}"
        text = f"{label(member)} {did} in {row.view} while in {view}"
        out.violated("initial-view", text, [row])


def _moved(part: DeliveredRange, mode: Mode | None, out: Findings) -> None:
    send, row = part.send, part.row
    assert send is not None
    text = f"{label(part.member)} delivered {part} in {row.view}, it was sent in {send.view}"
    if mode == "hold":
        out.violated("sending-view", text, [send, row])
    elif send.phase == 0 and row.service != "BASIC":
        out.evaluated("same-view")
        out.violated("same-view", text + " before any change", [send, row])


def _one_view(trace: Trace, parts: list[DeliveredRange], mode: Mode | None, out: Findings) -> None:
    for i, a in enumerate(parts):
        for b in parts[i + 1 :]:
            if a.row.view == b.row.view or a.first > b.last or b.first > a.last:
                continue
            together = (
                b.row.view in trace.installed[a.member] and a.row.view in trace.installed[b.member]
            )
            if mode == "hold" or together:
                text = (
                    f"{label(a.member)} delivered {a} in {a.row.view}, "
                    f"{label(b.member)} {b} in {b.row.view}"
                )
                out.violated("same-view", text, [a.row, b.row], a.sender[0])
