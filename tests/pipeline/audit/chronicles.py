"""Chronicles of runs in memory, made without Spark."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from tests.pipeline.audit.played import Played

from phalanx.journal import schema as ev
from phalanx.pipeline.audit.chronicle import (
    Chronicle,
    Fate,
    Install,
    JournalRecord,
    Marker,
    SentRange,
    Use,
)
from phalanx.pipeline.audit.report_rows import (
    Closing,
    LastStep,
    Lost,
    QueueCounts,
    Receipts,
    Side,
    Submitted,
)
from phalanx.pipeline.segment_stats import facts_of


def chronicle(played: Played) -> Chronicle:
    numbers: defaultdict[str, int] = defaultdict(lambda: len(numbers) + 1)
    rows: list[Any] = []
    for header, journal in played.journals():
        rows.append(msgspec.convert(msgspec.to_builtins(facts_of(header, journal)), JournalRecord))
        for row in journal:
            told = _told(row, numbers)
            if told is not None:
                rows.append(told)
        rows += _counted(header.node, header.inc, journal)
    return Chronicle(1, rows)


def _counted(node: str, inc: int, rows: Sequence[ev.Event]) -> Iterator[Any]:
    submits = [row for row in rows if isinstance(row, ev.Submit)]
    queues = [row.lseq for row in rows if isinstance(row, ev.Queue)]
    counts: Counter[int] = Counter()
    for row in submits:
        counts[sum(at < row.lseq for at in queues)] += row.last - row.first + 1
    for after, count in counts.items():
        yield Submitted(node, inc, after, count)
    if not any(isinstance(row, ev.Life) and row.op == "STOP" for row in rows):
        yield LastStep(node, inc, rows[-1].step)
    yield Lost(node, inc, sum(isinstance(row, ev.NotSent) for row in rows))
    receipts: dict[str, list[int]] = {"stable": [], "ordered": [], "all_delivered": []}
    for one in rows:
        match one:
            case ev.Stable():
                receipts["stable"].append(one.upto)
            case ev.Ordered():
                receipts["ordered"].append(one.upto)
            case ev.AllDelivered():
                receipts["all_delivered"].append(one.upto)
    for what, upto in receipts.items():
        if upto:
            yield Receipts(node, inc, what, len(upto), max(upto))


def _told(row: ev.Event, numbers: dict[str, int]) -> Any:
    who: dict[str, Any] = {"node": row.node, "inc": row.inc, "lseq": row.lseq}
    match row:
        case ev.Life():
            return Fate(**who, op=row.op, sim_ns=row.sim_ns, reason=row.reason)
        case ev.Topology():
            return Fate(**who, component=row.component, sim_ns=row.sim_ns)
        case ev.CtxStep():
            told: dict[str, Any] = {"op": row.action, "stage": row.stage, "context": row.context}
            return Fate(**who, **told, sim_ns=row.sim_ns)
        case ev.TransMarker():
            members = _labels(row.members, row.member_incs)
            v = numbers[row.vid]
            return Marker(**who, vid=row.vid, v=v, at_pos=row.at_pos, members=members)
        case ev.Stable() if (row.sender, row.sender_inc) == (row.node, row.inc):
            members = _labels(row.members, row.member_incs)
            v = numbers[row.vid]
            return Closing(**who, step=row.step, vid=row.vid, v=v, members=members)
        case ev.MergeSide():
            return Side(
                **who,
                vid=row.vid,
                v=numbers[row.vid],
                side_vid=row.side_vid,
                w=numbers[row.side_vid],
                members=_labels(row.members, row.member_incs) or [],
                senders=_labels(row.senders, row.sender_incs) or [],
                upto=row.upto,
                alone=_labels(row.alone, row.alone_incs) or [],
                alone_first=row.alone_first,
                alone_last=row.alone_last,
            )
        case ev.Queue():
            return QueueCounts(
                **who,
                accepted=row.accepted,
                submitted=row.submitted,
                refused=row.refused,
                reason=row.reason,
            )
        case ev.ViewInstall():
            return Install(
                **who,
                step=row.step,
                vid=row.vid,
                v=numbers[row.vid],
                joins=row.joins,
                removals=row.removals,
                inside=_labels(row.members, row.member_incs) or [],
                trans=_labels(row.trans, row.trans_incs) or [],
                joined=_labels(row.joined, row.joined_incs),
                left=_labels(row.left, row.left_incs),
                context=row.context,
                cause=row.cause,
                components=row.components,
                prev=None if row.prev_vid is None else numbers[row.prev_vid],
                prev_vid=row.prev_vid,
                sim_ns=row.sim_ns,
            )
        case ev.Send():
            v = numbers[row.vid]
            return SentRange(**who, vid=row.vid, v=v, rows=1, last=row.last)
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


def _labels(names: list[str] | None, incs: list[int] | None) -> list[str] | None:
    if names is None or incs is None:
        return None
    return [f"{name}.{inc}" for name, inc in zip(names, incs, strict=True)]
