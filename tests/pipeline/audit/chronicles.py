"""Chronicles of runs in memory, made without Spark."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import msgspec
from tests.pipeline.audit.played import Played

from phalanx.journal import events as ev
from phalanx.pipeline.audit.chronicle import (
    Chronicle,
    Fate,
    Install,
    Journal,
    Marker,
    Sent,
    Use,
)
from phalanx.pipeline.facts import facts_of


def chronicle(played: Played) -> Chronicle:
    numbers: defaultdict[str, int] = defaultdict(lambda: len(numbers) + 1)
    rows: list[Any] = []
    for header, journal in played.journals():
        rows.append(msgspec.convert(msgspec.to_builtins(facts_of(header, journal)), Journal))
        for row in journal:
            told = _told(row, numbers)
            if told is not None:
                rows.append(told)
    return Chronicle(1, rows)


def _told(row: ev.Event, numbers: dict[str, int]) -> Any:
    who: dict[str, Any] = {"node": row.node, "inc": row.inc, "lseq": row.lseq}
    match row:
        case ev.Life():
            return Fate(**who, op=row.op, sim_ns=row.sim_ns)
        case ev.Topology():
            return Fate(**who, component=row.component, sim_ns=row.sim_ns)
        case ev.CtxStep():
            told: dict[str, Any] = {"op": row.action, "stage": row.stage, "context": row.context}
            return Fate(**who, **told, sim_ns=row.sim_ns)
        case ev.TransMarker():
            return Marker(**who, vid=row.vid, v=numbers[row.vid], at_pos=row.at_pos)
        case ev.ViewInstall():
            return Install(
                **who,
                step=row.step,
                vid=row.vid,
                v=numbers[row.vid],
                joins=row.joins,
                removals=row.removals,
                inside=_labels(row.members, row.member_incs),
                trans=_labels(row.trans, row.trans_incs),
                context=row.context,
                cause=row.cause,
                components=[numbers[vid] for vid in row.components],
                prev=None if row.prev_vid is None else numbers[row.prev_vid],
                prev_vid=row.prev_vid,
                sim_ns=row.sim_ns,
            )
        case ev.Send():
            v = numbers[row.vid]
            return Sent(node=row.node, inc=row.inc, vid=row.vid, v=v, rows=1, last=row.last)
        case ev.Deliver():
            ordered = row.service in ("AGREED", "SAFE")
            return Use(
                node=row.node,
                inc=row.inc,
                sender=row.sender,
                sender_inc=row.sender_inc,
                vid=row.vid,
                v=numbers[row.vid],
                origin_vid=row.origin_vid,
                o=numbers[row.origin_vid],
                rows=1,
                others=int(row.service != "BASIC"),
                ordered=int(ordered),
                batched=int(row.batch is not None),
                highest=row.pos if ordered else None,
            )
        case _:
            return None


def _labels(names: list[str], incs: list[int]) -> list[str]:
    return [f"{name}.{inc}" for name, inc in zip(names, incs, strict=True)]
