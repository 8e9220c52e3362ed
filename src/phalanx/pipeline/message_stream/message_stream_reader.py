"""The messages of groups as a stream: `option("table", "messages")`.

The driver reads what is new in all journals of a group, and decides what is yielded (`GroupMerge`).
An offset holds the state of each group and the decisions since the offset before it: a batch that
is repeated yields the same, whatever the journals have grown to meanwhile. Tasks read the messages
of the decisions.

If a journal keeps bodies, its rows are used once the bodies of their messages are there. A writer
puts bodies behind rows, but a flush may come between the two: the body of the last message decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)

from phalanx.errors import PipelineError
from phalanx.journal.blocks import BODIES, ROWS, Block, Bodies, bodies_of
from phalanx.journal.columns import unpack
from phalanx.journal.journal_header import BODIES_KEPT
from phalanx.journal.retention import mark
from phalanx.journal.schema import Deliver, Event, Life
from phalanx.journal.segment import Header
from phalanx.journal.tail_reader import (
    JournalWalk,
    Place,
    SegmentList,
    Segments,
    Stretch,
    advance,
    read_blocks,
    replan,
)
from phalanx.pipeline.message_stream.group_merge import Break, GroupMerge, MergeState, Span
from phalanx.pipeline.message_stream.member_log import TABLES, MemberLog
from phalanx.pipeline.message_stream.span_reader import GroupItem, item_batches
from phalanx.pipeline.stream_options import StreamOptions

TASK_BYTES = 1 << 20


class GroupState(msgspec.Struct, kw_only=True):
    """What an offset holds of one group."""

    cluster: str
    group: str
    merged: MergeState
    resume: dict[str, Place] = {}
    """Where to read each journal again."""


class Planned(msgspec.Struct, array_like=True):
    """A decision, and how far its journal had been read."""

    key: str
    span: Span | None = None
    broke: Break | None = None
    until: Place | None = None


class MessageOffset(msgspec.Struct, kw_only=True):
    batch: int = 0
    groups: dict[str, GroupState] = {}
    planned: list[Planned] = []
    """Since the offset before."""


class _LiveGroup:
    """A group that is being followed."""

    def __init__(self, cluster: str, group: str, merged: MergeState | None = None) -> None:
        self.cluster, self.group = cluster, group
        self.merge = GroupMerge(group, merged)
        self.places: dict[str, Place] = {}
        self._held: dict[str, list[tuple[Stretch | None, Place]]] = {}

    def add(self, header: Header, stretch: Stretch | None, place: Place) -> None:
        """Takes a block of a journal; `place` is behind it."""
        if not header.config.get(BODIES_KEPT):
            self._take(header, stretch, place)
            return
        held = self._held.setdefault(header.journal, [])
        held.append((stretch, place))
        if stretch is None or stretch.last == stretch.after:  # no rows, perhaps bodies
            if _have_bodies(header, [some for some, _ in held]):
                self.flush(header)

    def is_waiting(self, journal: str) -> bool:
        """Rows are here whose bodies are not."""
        return bool(self._held.get(journal))

    def flush(self, header: Header) -> None:
        for stretch, place in self._held.pop(header.journal, []):
            self._take(header, stretch, place)

    def drop_held(self) -> None:
        """What is not complete is read again next time."""
        self._held = {}

    def _take(self, header: Header, stretch: Stretch | None, place: Place) -> None:
        self.places[header.journal] = place
        if stretch is None:
            return
        who = header.member, header.incarnation, header.group
        log = self.merge.log(header.journal, f"{header.member}.{header.incarnation}")
        after = stretch.after
        if stretch.missing is not None:
            after = stretch.missing.last
            log.cut(after)
        before = Place(place.number, stretch.begin, after)
        for part in read_blocks(stretch):
            if isinstance(part, Block) and part.kind == ROWS:
                try:
                    rows = unpack(part.body, *who, header.schema, TABLES)
                except (ValueError, RecursionError, OverflowError):
                    continue  # its numbers are missing then
                self.merge.fix(log.add(rows, part.first, part.last, before))

    def state(self) -> GroupState:
        merged = self.merge.merged
        logs = {name: msgspec.structs.replace(log, ranges={}) for name, log in merged.logs.items()}
        resume = {name: log.resume(self.places[name]) for name, log in merged.logs.items()}
        resume = {name: resume.get(name, place) for name, place in self.places.items()}
        return GroupState(
            cluster=self.cluster,
            group=self.group,
            merged=msgspec.structs.replace(merged, logs=logs),
            resume=dict(sorted(resume.items())),
        )


class MessagePartition(InputPartition):
    """Decisions whose messages one task reads."""

    def __init__(self, items: list[GroupItem]) -> None:
        super().__init__(None)
        self.items = msgspec.msgpack.encode(items)


class MessageStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, paths: Sequence[str], group: str | None, options: StreamOptions) -> None:
        self._paths = list(paths)
        self._group = group
        self._options = options
        self._list = SegmentList(paths)
        self._frozen: Segments | None = None
        self._live: dict[str, _LiveGroup] = {}
        self._reached: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's names, here and below
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxBytes(self._options.bytes_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._frozen = self._find()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        segments = self._frozen if self._frozen is not None else self._find()
        if start != self._reached:
            self._restore(_offset(start), segments)
        self._reached = None  # an exception below leaves groups that are half read
        bytes_max = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        moved, caught_up = self._read(segments, bytes_max)
        if not moved:
            self._reached = start
            return start
        planned: list[Planned] = []
        for key, live in sorted(self._live.items()):
            for found in live.merge.step(caught_up):
                if isinstance(found, Span):
                    until = live.places[found.journal]
                    planned.append(Planned(key, span=found, until=until))
                else:
                    planned.append(Planned(key, broke=found))
        groups = {key: live.state() for key, live in sorted(self._live.items())}
        offset = MessageOffset(batch=start.get("batch", 0) + 1, groups=groups, planned=planned)
        end: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(offset))
        self._reached = end
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        offset = _offset(end)
        if offset.batch != start.get("batch", 0) + 1:
            problem = f"batch {offset.batch} does not follow batch {start.get('batch', 0)}"
            raise PipelineError("checkpoint", problem, "begin with a new checkpoint")
        segments = self._find()
        tasks: list[list[GroupItem]] = []
        room = 0
        for planned in offset.planned:
            item = self._item(offset, planned, segments)
            if room <= 0:
                tasks.append([])
                room = TASK_BYTES
            tasks[-1].append(item)
            room -= sum(stretch.end - stretch.begin for stretch in item.stretches)
        return [MessagePartition(items) for items in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, MessagePartition)
        return item_batches(msgspec.msgpack.decode(partition.items, type=list[GroupItem]))

    def commit(self, end: dict[str, Any]) -> None:
        """The batch is in the sink: what lies before the places to resume at may be deleted."""
        if self._options.mark is not None:
            groups = _offset(end).groups.values()
            taken = {name: place.number - 1 for g in groups for name, place in g.resume.items()}
            for path in map(Path, self._paths):
                if path.is_dir():
                    mark(path, self._options.mark, taken)

    # ------------------------------------------------------------------ journals

    def _find(self) -> Segments:
        found = self._list.find()
        if self._group is None:
            return found
        return {
            name: numbers
            for name, numbers in found.items()
            if next(iter(numbers.values())).header.group == self._group
        }

    def _read(self, segments: Segments, bytes_max: int | None) -> tuple[bool, bool]:
        """Reads what is new. Whether anything was, and whether this is all there is now."""
        places = {
            name: place for live in self._live.values() for name, place in live.places.items()
        }
        reached = dict(places)
        size = 0
        for name, stretch, place in advance(segments, places, bytes_max):
            header = _header(segments[name])
            self._live_of(header).add(header, stretch, place)
            reached[name] = place
            size += stretch.end - stretch.begin if stretch else 0
        for name, place in reached.items():
            if name in segments and self._live_of(_header(segments[name])).is_waiting(name):
                self._read_bodies(segments[name], place)
        for live in self._live.values():
            live.drop_held()
        now = {n: p for live in self._live.values() for n, p in live.places.items()}
        return places != now, bytes_max is None or size < bytes_max

    def _read_bodies(self, numbers: Mapping[int, Any], place: Place) -> None:
        """Reads on until the bodies of the rows that were read are there, if they are."""
        header = _header(numbers)
        live = self._live_of(header)
        for stretch, behind in JournalWalk(numbers, place):
            live.add(header, stretch, behind)
            if not live.is_waiting(header.journal):
                break

    def _live_of(self, header: Header) -> _LiveGroup:
        key = f"{header.cluster}/{header.group}"
        if key not in self._live:
            self._live[key] = _LiveGroup(header.cluster, header.group)
        return self._live[key]

    def _restore(self, offset: MessageOffset, segments: Segments) -> None:
        """Makes the groups of an offset again, and reads what they had read and not yielded."""
        self._live = {}
        for key, state in offset.groups.items():
            live = self._live[key] = _LiveGroup(state.cluster, state.group, state.merged)
            for name, place in state.resume.items():
                live.places[name] = place
                log = state.merged.logs.get(name)
                if log is not None and place.lseq < log.lseq:
                    if not _refill(live, log, segments.get(name, {}), place):
                        log.forget_all()

    def _item(self, offset: MessageOffset, planned: Planned, segments: Segments) -> GroupItem:
        state = offset.groups[planned.key]
        span = planned.span
        if span is None:
            return GroupItem(state.cluster, state.group, None, planned.broke)
        assert planned.until is not None
        name = span.journal
        found = replan(segments, {name: span.place}, {name: planned.until}).get(name, [])
        bodies = name in segments and bool(_header(segments[name]).config.get(BODIES_KEPT))
        if not bodies:
            found = [stretch for stretch in found if stretch.after < span.lseq_last]
        reached = found[-1].last if found else 0
        if reached < span.lseq_last or any(stretch.missing for stretch in found):
            problem = (
                f"rows {span.lseq_first} to {span.lseq_last} were deleted before they were read"
            )
            raise PipelineError(f"journal {name}", problem, "restore its segments")
        return GroupItem(state.cluster, state.group, span, None, found, bodies)


def _have_bodies(header: Header, held: Sequence[Stretch | None]) -> bool:
    """No more bodies of these rows will come: that of the last message is there, or a second block
    of bodies is (the body was not kept), or the member has stopped."""
    known: list[Bodies] = []
    blocks = 0
    for stretch in reversed(held):
        if stretch is None:
            continue
        parts = [part for part in read_blocks(stretch) if isinstance(part, Block)]
        if stretch.last == stretch.after:
            blocks += 1
            known += [some for part in parts for some in _bodies(part)]
            continue
        rows = [row for part in parts if part.kind == ROWS for row in _rows(header, part)]
        if held[-1] is None and any(isinstance(row, Life) and row.op != "START" for row in rows):
            return True
        last = next((row for row in reversed(rows) if isinstance(row, Deliver)), None)
        if last is not None:
            return blocks > 1 or any(_holds(some, last) for some in known)
    return True


def _bodies(part: Block) -> list[Bodies]:
    try:
        return bodies_of(part) if part.kind == BODIES else []
    except ValueError:
        return []


def _rows(header: Header, part: Block) -> list[Event]:
    who = header.member, header.incarnation, header.group
    try:
        return unpack(part.body, *who, header.schema, ("deliver", "life"))
    except (ValueError, RecursionError, OverflowError):
        return []


def _holds(bodies: Bodies, row: Deliver) -> bool:
    sender = bodies.sender, bodies.sender_incarnation
    end = bodies.first + len(bodies.lengths)
    return sender == (row.sender, row.sender_incarnation) and bodies.first <= row.last < end


def _refill(live: _LiveGroup, log: MemberLog, numbers: Mapping[int, Any], place: Place) -> bool:
    """Reads the blocks again that the log has read; False if they are gone."""
    wanted, reached = log.lseq, 0
    if numbers:
        header = _header(numbers)
        for stretch, behind in JournalWalk(numbers, place):
            if stretch is not None and stretch.missing is not None:
                return False
            live.add(header, stretch, behind)
            reached = behind.lseq
            if reached >= wanted and not live.is_waiting(header.journal):
                return True
        live.flush(header)
    return reached >= wanted


def _header(numbers: Mapping[int, Any]) -> Header:
    header: Header = next(iter(numbers.values())).header
    return header


def _offset(found: Mapping[str, Any]) -> MessageOffset:
    try:
        return msgspec.convert(found, MessageOffset)
    except msgspec.ValidationError as error:
        problem = f"not an offset of messages ({error})"
        raise PipelineError("checkpoint", problem, "begin with a new checkpoint") from error
