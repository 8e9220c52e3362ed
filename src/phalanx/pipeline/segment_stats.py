"""Facts about journals and segments: the rows of the tables `journals` and `segments`.

`mode`, `order`, `early`, `settled`, `undisturbed_ns` and `changes_max` come from the settings in
the header. The last three are known only to a simulator, which writes them there under `truth`;
real journals never say that a group has settled, so liveness is not judged on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from phalanx.journal.columnar_reader import ScanSummary
from phalanx.journal.ground_truth import truth_of
from phalanx.journal.schema import Corrupt, Event, Gap, Life
from phalanx.journal.segment import Header


class JournalFacts(msgspec.Struct, frozen=True):
    """One journal. The numbers of its rows run from 1 to `last` if nothing is missing."""

    cluster: str
    journal: str
    run: str
    group: str
    member: str
    incarnation: int
    boot_id: str
    wall_ns: int
    """What the wall clock said when the clock of the rows said `mono_ns`."""
    mono_ns: int
    mode: str | None
    settled: int
    undisturbed_ns: int
    changes_max: int | None
    rows: int
    last: int
    end_t_ns: int
    end_sim_ns: int | None
    torn: int
    """1 if rows are missing before the last one."""
    stopped: int
    """1 if it ends with a STOP: its member ended as intended, and all it did is here."""
    order: str | None = None
    early: int | None = None


class SegmentFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One segment: whose it is, what its header says, and what was found in it."""

    cluster: str
    journal: str
    number: int
    """Of the segment within its journal, from 1."""
    group: str
    member: str
    incarnation: int
    boot_id: str
    wall_ns: int
    mono_ns: int
    mode: str | None
    settled: int
    undisturbed_ns: int
    changes_max: int | None
    bytes: int
    """How much of the file was read: of several copies the longest."""
    sealed: int
    """1 if its writer ended it: nothing will be added."""
    run: str
    rows: int
    first: int
    """The numbers of its first and last row; 0 if it has none."""
    last: int
    whole: int
    """1 if every number between them is there."""
    lost: int
    """Rows that tell of a loss: `gap` and `corrupt`."""
    corrupt: int
    """Stretches that could not be read."""
    stopped: int
    """1 if a STOP is in it."""
    end_t_ns: int
    end_sim_ns: int | None
    order: str | None = None
    early: int | None = None
    deleted: int = 0
    """The last row that `phalanx lake retain` deleted; 0 if it deleted none."""

    @property
    def key(self) -> tuple[str, int]:
        return self.journal, self.number

    @property
    def end_ns(self) -> int:
        """What the wall clock of its machine said at its last row."""
        return self.wall_ns + self.end_t_ns - self.mono_ns

    @property
    def taken(self) -> int:
        """The number of the last row that was taken."""
        return max(self.last, self.deleted)


def _order(header: Header) -> str | None:
    order = header.config.get("order")
    return order if isinstance(order, str) else None


def _early(header: Header) -> int | None:
    early = header.config.get("early")
    return int(early) if isinstance(early, bool) else None


def segment_facts(header: Header, found: ScanSummary, size: int) -> SegmentFacts:
    """Of a segment that was scanned."""
    truth = truth_of(header.config)
    mode = header.config.get("mode")
    return SegmentFacts(
        cluster=header.cluster,
        journal=header.journal,
        number=header.number,
        group=header.group,
        member=header.member,
        incarnation=header.incarnation,
        boot_id=header.boot_id,
        wall_ns=header.wall_ns,
        mono_ns=header.mono_ns,
        mode=mode if isinstance(mode, str) else None,
        settled=int(truth.settled),
        undisturbed_ns=truth.undisturbed_ns,
        changes_max=truth.changes_max,
        order=_order(header),
        early=_early(header),
        bytes=size,
        **msgspec.structs.asdict(found),
    )


def grown(before: SegmentFacts, new: SegmentFacts) -> SegmentFacts:
    """A segment with rows that were added to it since it was taken."""
    ends = new if new.rows else before
    adjoining = not new.rows or not before.rows or new.first == before.last + 1
    return msgspec.structs.replace(
        before,
        bytes=max(before.bytes, new.bytes),
        sealed=max(before.sealed, new.sealed),
        run=before.run or new.run,
        rows=before.rows + new.rows,
        first=before.first or new.first,
        last=max(before.last, new.last),
        whole=int(bool(before.whole and new.whole and adjoining)),
        lost=before.lost + new.lost,
        corrupt=before.corrupt + new.corrupt,
        stopped=max(before.stopped, new.stopped),
        end_t_ns=ends.end_t_ns,
        end_sim_ns=ends.end_sim_ns,
    )


def emptied(segment: SegmentFacts) -> SegmentFacts:
    """A segment whose rows were deleted. It is not taken again; rows that are added to it are."""
    none = {"rows": 0, "first": 0, "last": 0, "whole": 1, "lost": 0, "corrupt": 0, "stopped": 0}
    return msgspec.structs.replace(segment, deleted=segment.taken, **none)


def journals_of(segments: Iterable[SegmentFacts]) -> list[JournalFacts]:
    """Of all journals that have rows, in the order of their names. What stands in every header is
    taken from the first one."""
    by_journal: dict[str, list[SegmentFacts]] = {}
    for segment in segments:
        by_journal.setdefault(segment.journal, []).append(segment)
    for some in by_journal.values():
        some.sort(key=lambda segment: segment.number)
    return [
        _joined(by_journal[name])
        for name in sorted(by_journal)
        if any(segment.rows for segment in by_journal[name])
    ]


_AS_IN_THE_HEADER = (
    *("cluster", "journal", "group", "member", "incarnation", "boot_id", "wall_ns", "mono_ns"),
    *("mode", "settled", "undisturbed_ns", "changes_max", "order", "early"),
)


def _joined(segments: Sequence[SegmentFacts]) -> JournalFacts:
    some = [segment for segment in segments if segment.rows]
    ends = [0, *(segment.last for segment in some)]
    whole = all(
        segment.whole and not segment.lost and segment.first == end + 1
        for segment, end in zip(some, ends, strict=False)
    )
    return JournalFacts(
        **{name: getattr(segments[0], name) for name in _AS_IN_THE_HEADER},
        run=next((segment.run for segment in some if segment.run), ""),
        rows=sum(segment.rows for segment in some),
        last=max(ends),
        end_t_ns=max(segment.end_t_ns for segment in some),
        end_sim_ns=next((s.end_sim_ns for s in reversed(some) if s.end_sim_ns is not None), None),
        torn=int(not whole),
        stopped=max(segment.stopped for segment in some),
    )


def facts_of(header: Header, rows: Sequence[Event]) -> JournalFacts:
    """Of a journal that is all in memory, in the order of its rows."""
    truth = truth_of(header.config)
    last = rows[-1]
    whole = [row.lseq for row in rows] == list(range(1, len(rows) + 1))
    lost = any(isinstance(row, Corrupt | Gap) for row in rows)
    return JournalFacts(
        cluster=header.cluster,
        journal=header.journal,
        run=rows[0].run,
        group=header.group,
        member=header.member,
        incarnation=header.incarnation,
        boot_id=header.boot_id,
        wall_ns=header.wall_ns,
        mono_ns=header.mono_ns,
        mode=header.config.get("mode"),
        settled=int(truth.settled),
        undisturbed_ns=truth.undisturbed_ns,
        changes_max=truth.changes_max,
        rows=len(rows),
        last=last.lseq,
        end_t_ns=max(row.t_ns for row in rows),
        end_sim_ns=next((row.sim_ns for row in reversed(rows) if row.sim_ns is not None), None),
        torn=int(not whole or lost),
        stopped=int(any(isinstance(row, Life) and row.op == "STOP" for row in rows)),
        order=_order(header),
        early=_early(header),
    )
