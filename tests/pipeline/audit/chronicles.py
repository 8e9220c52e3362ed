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
        rows += _counted(header.member, header.incarnation, journal)
    return Chronicle(1, rows)


def _counted(member: str, incarnation: int, rows: Sequence[ev.Event]) -> Iterator[Any]:
    submits = [row for row in rows if isinstance(row, ev.Accepted)]
    queues = [row.lseq for row in rows if isinstance(row, ev.Queue)]
    counts: Counter[int] = Counter()
    for row in submits:
        counts[sum(at < row.lseq for at in queues)] += row.last - row.first + 1
    for after, count in counts.items():
        yield Submitted(member, incarnation, after, count)
    if not any(isinstance(row, ev.Life) and row.op == "STOP" for row in rows):
        yield LastStep(member, incarnation, rows[-1].step)
    yield Lost(member, incarnation, sum(isinstance(row, ev.NotSent) for row in rows))
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
            yield Receipts(member, incarnation, what, len(upto), max(upto))


def _told(row: ev.Event, numbers: dict[str, int]) -> Any:
    who: dict[str, Any] = {"member": row.member, "incarnation": row.incarnation, "lseq": row.lseq}
    match row:
        case ev.Life():
            return Fate(**who, op=row.op, sim_ns=row.sim_ns, reason=row.reason)
        case ev.Topology():
            return Fate(**who, component=row.component, sim_ns=row.sim_ns)
        case ev.ViewChangeStep():
            told: dict[str, Any] = {"op": row.action, "stage": row.stage, "context": row.context}
            return Fate(**who, **told, sim_ns=row.sim_ns)
        case ev.Transitional():
            members = _labels(row.members, row.member_incarnations)
            v = numbers[row.view]
            return Marker(**who, view=row.view, v=v, pos=row.pos, members=members)
        case ev.Stable() if (row.sender, row.sender_incarnation) == (row.member, row.incarnation):
            members = _labels(row.members, row.member_incarnations)
            v = numbers[row.view]
            return Closing(**who, step=row.step, view=row.view, v=v, members=members)
        case ev.MergedComponent():
            return Side(
                **who,
                view=row.view,
                v=numbers[row.view],
                component=row.component,
                w=numbers[row.component],
                members=_labels(row.members, row.member_incarnations) or [],
                delivered=_labels(row.delivered, row.delivered_incarnations) or [],
                delivered_upto=row.delivered_upto,
                alone=_labels(row.alone, row.alone_incarnations) or [],
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
        case ev.ViewInstalled():
            return Install(
                **who,
                step=row.step,
                view=row.view,
                v=numbers[row.view],
                joins=row.joins,
                removals=row.removals,
                inside=_labels(row.members, row.member_incarnations) or [],
                transitional=_labels(row.transitional, row.transitional_incarnations) or [],
                joined=_labels(row.joined, row.joined_incarnations),
                left=_labels(row.left, row.left_incarnations),
                context=row.context,
                cause=row.cause,
                components=row.components,
                prev=None if row.previous is None else numbers[row.previous],
                previous=row.previous,
                sim_ns=row.sim_ns,
            )
        case ev.Sent():
            v = numbers[row.view]
            return SentRange(**who, view=row.view, v=v, rows=1, last=row.last)
        case ev.Deliver():
            ordered = row.service in ("AGREED", "SAFE")
            return Use(
                member=row.member,
                incarnation=row.incarnation,
                sender=row.sender,
                sender_incarnation=row.sender_incarnation,
                view=row.view,
                v=numbers[row.view],
                origin=row.origin,
                o=numbers[row.origin],
                rows=1,
                others=int(row.service != "BASIC"),
                ordered=int(ordered),
                batched=int(row.batch is not None),
                highest=row.pos if ordered else None,
            )
        case _:
            return None


def _labels(names: list[str] | None, incarnations: list[int] | None) -> list[str] | None:
    if names is None or incarnations is None:
        return None
    return [f"{name}.{incarnation}" for name, incarnation in zip(names, incarnations, strict=True)]
