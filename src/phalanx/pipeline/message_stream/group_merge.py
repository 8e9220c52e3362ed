"""Follow the journals of a group: which messages may be yielded, and where continuity broke.

The stream follows one journal. It yields a position of a view when the journal shows that its
member has left the view, or when the position is *fixed* (`member_log`): a member of the view
sent a message after it had delivered the position, and that message is stable; or all members
have journals here and all of them have delivered the position.

A journal is over when its member stopped, when rows of it are missing, or when another member left
the same view for one without that member. Then the stream goes on, at the position reached, with
another journal that has the same view: whatever was yielded, that member delivers at the same
positions, by virtual synchrony and because yielded positions are fixed. If its member did not come
to the view together with the one before (it is not in the transitional set), or if there is no such
journal and the stream goes on in another view, a break says so.

Two journals that contradict each other, where the guarantees let them not, are refused.

Logs go in by `log` and `MemberLog.add`, decisions come out of `step`. `MergeState` is all that must
be stored to go on later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

import msgspec

from phalanx.errors import PipelineError
from phalanx.journal.tail_reader import Place
from phalanx.pipeline.message_stream.member_log import MemberLog, Range, Stay
from phalanx.pipeline.message_stream.order_comparison import compare, describe

YIELDED_RANGES_MAX = 1 << 16
YIELDED_VIEWS_MAX = 8
"""What was yielded and may still be compared with other journals."""
SENDERS_MAX = 4096

STARTED_LATE = "the beginning of the journal is missing"
ROWS_MISSING = "rows of the journal are missing"
OTHER_COMPONENT = "the next journal is of a member that is not in the transitional set"
NO_JOURNAL = "there is no journal of another member of the view"


class Span(msgspec.Struct, frozen=True, array_like=True):
    """Messages to yield: those of one view at positions begin..end-1, from one journal."""

    seq: int
    """The number of the first one in the stream."""
    count: int
    journal: str
    view: str
    begin: int
    end: int
    lseq_first: int
    lseq_last: int
    place: Place
    """Before the block of the first row."""


class Break(msgspec.Struct, frozen=True, array_like=True):
    """Continuity ended at `from_view`, `from_pos`, and goes on at `view`, `pos`."""

    seq: int
    view: str
    pos: int
    reason: str
    from_journal: str
    to_journal: str
    from_view: str
    from_pos: int


class Cursor(msgspec.Struct, kw_only=True):
    """How far the stream has come: in which stay of which journal, and the next position."""

    journal: str
    stay: int
    pos: int


class MergeState(msgspec.Struct, kw_only=True):
    """The state of a stream of one group."""

    cursor: Cursor | None = None
    seq: int = 0
    delivered: dict[str, int] = {}
    """Per sender the last message that was yielded."""
    before_break: dict[str, int] = {}
    """The same when continuity broke last: what comes again from before is left out."""
    fixed: dict[str, int] = {}
    """Positions before these are fixed, by view."""
    logs: dict[str, MemberLog] = {}


class _Yielded(msgspec.Struct):
    """What was yielded of one view."""

    journal: str
    ranges: deque[Range] = msgspec.field(default_factory=deque)
    next: str | None = None
    begin: int = 0
    end: int = 0


class GroupMerge:
    def __init__(self, group: str, merged: MergeState | None = None) -> None:
        self.group = group
        self.merged = merged or MergeState()
        self._yielded: dict[str, _Yielded] = {}
        self._caught_up = True

    def log(self, journal: str, member: str) -> MemberLog:
        """The log of a journal, to add blocks to."""
        return self.merged.logs.setdefault(journal, MemberLog(journal=journal, member=member))

    def fix(self, fixed: dict[str, int]) -> None:
        """Positions that a log has shown to be fixed."""
        for view, pos in fixed.items():
            self.merged.fixed[view] = max(pos, self.merged.fixed.get(view, 0))

    def step(self, caught_up: bool = True) -> list[Span | Break]:
        """What may be yielded now. `caught_up`: all rows that the journals have were read, so a
        journal that says no more has ended, or its member is slower than the others. PipelineError
        if journals contradict each other."""
        self._caught_up = caught_up
        out: list[Span | Break] = []
        if self.merged.cursor is None:
            self._start(out)
        while self.merged.cursor is not None and self._advance(self.merged.cursor, out):
            pass
        self._compare_all()
        self._forget()
        return out

    # ------------------------------------------------------------------ following one journal

    def _start(self, out: list[Span | Break]) -> None:
        logs = [log for log in self.merged.logs.values() if log.stays]
        if not logs:
            return
        log = min(logs, key=lambda log: (log.stays[0].begin > 0, log.member))
        stay = log.stays[0]
        self.merged.cursor = Cursor(journal=log.journal, stay=stay.id, pos=stay.begin)
        if stay.begin:
            self._break(out, STARTED_LATE, log, stay, log, stay, stay.begin)

    def _advance(self, cursor: Cursor, out: list[Span | Break]) -> bool:
        log = self.merged.logs[cursor.journal]
        stay = next(stay for stay in log.stays if stay.id == cursor.stay)
        if stay.begin > cursor.pos:  # what was to be yielded next was forgotten
            return self._switch(cursor, log, stay, out, ROWS_MISSING)
        if stay.next is None:
            self.fix({stay.view: self._delivered_by_all(cursor, log, stay)})
        limit = stay.upto if stay.next else min(stay.upto, self._fixed(stay))
        if limit > cursor.pos:
            self._yield(cursor, log, stay, limit, out)
            return True
        if stay.next:
            self._yielded_of(stay, log.journal).next = stay.next
            following = log.after(stay)
            if following and following[0].view == stay.next:
                cursor.stay, cursor.pos = following[0].id, 0
                return True
            return self._go_elsewhere(cursor, log, stay, out, ROWS_MISSING)
        if stay.cut or (log.ended and stay is log.last):
            reason = ROWS_MISSING if stay.cut else NO_JOURNAL
            return self._switch(cursor, log, stay, out, reason)
        if self._caught_up and self._is_left_behind(log, stay):
            return self._switch(cursor, log, stay, out, NO_JOURNAL)
        return False

    def _fixed(self, stay: Stay) -> int:
        """Positions before this one are fixed in the view."""
        return self.merged.fixed.get(stay.view, 0)

    def _delivered_by_all(self, cursor: Cursor, log: MemberLog, stay: Stay) -> int:
        """All members of the view have journals here and delivered the same before this position.
        The journals are compared: when a view is split, each side goes on by itself."""
        logs = {other.member: other for other in self._logs()}
        if not stay.members or not logs.keys() >= {*stay.members}:
            return 0
        limit = stay.upto
        others = []
        for member in stay.members:
            other = logs[member]
            same = other.stay_in(stay.view, cursor.pos)
            limit = min(limit, same.upto if same else 0)
            if same is not None and other is not log:
                others.append(other.ranges.get(same.id, ()))
        mine = list(log.ranges.get(stay.id, ()))
        for theirs in others:
            if limit > cursor.pos:
                wrong = compare(mine, list(theirs), cursor.pos, limit)
                limit = wrong.pos if wrong else limit
        return limit

    def _yield(
        self, cursor: Cursor, log: MemberLog, stay: Stay, limit: int, out: list[Span | Break]
    ) -> None:
        yielded = self._yielded_of(stay, log.journal)
        run: list[Range] = []
        for found in log.ranges.get(stay.id, ()):
            if found.pos >= limit:
                break
            clipped = _clip(found, cursor.pos, limit)
            if clipped is None:
                continue
            fresh = self._fresh(log, stay, clipped)
            if fresh is not clipped or (run and run[-1].pos > clipped.pos):
                self._emit(out, log, stay, run)
                run = []
            if fresh is not None:
                run.append(fresh)
            yielded.ranges.append(clipped)
        self._emit(out, log, stay, run)
        cursor.pos = yielded.end = limit
        stay.compared = max(stay.compared, limit)
        log.forget_ranges(stay, limit)
        while len(yielded.ranges) > YIELDED_RANGES_MAX:
            yielded.begin = yielded.ranges.popleft().end

    def _fresh(self, log: MemberLog, stay: Stay, found: Range) -> Range | None:
        """Without messages that were yielded before continuity broke. PipelineError for one that
        comes twice without that."""
        merged = self.merged
        sender = f"{found.sender}.{found.sender_incarnation}"
        old = merged.before_break.get(sender, 0)
        if found.last <= old:
            return None
        if found.first <= old:
            found = _clip(found, found.pos + old - found.first + 1, found.end) or found
        if found.first <= merged.delivered.get(sender, 0):
            raise self._twice(log, stay, found, sender)
        merged.delivered[sender] = found.last
        return found

    def _emit(
        self, out: list[Span | Break], log: MemberLog, stay: Stay, run: Sequence[Range]
    ) -> None:
        if run:
            count = sum(r.end - r.pos for r in run)
            span = Span(
                seq=self.merged.seq + 1,
                count=count,
                journal=log.journal,
                view=stay.view,
                begin=run[0].pos,
                end=run[-1].end,
                lseq_first=run[0].lseq,
                lseq_last=run[-1].lseq,
                place=run[0].place,
            )
            out.append(span)
            self.merged.seq += count

    # ------------------------------------------------------------------ another journal

    def _is_left_behind(self, log: MemberLog, stay: Stay) -> bool:
        """Another member left the view, and came to a view without this member."""
        for other in self._logs():
            same = next((s for s in other.stays if s.view == stay.view and s.next), None)
            if other is not log and same is not None:
                if any(s.members and log.member not in s.members for s in other.after(same)):
                    return True
        return False

    def _switch(
        self,
        cursor: Cursor,
        log: MemberLog,
        stay: Stay,
        out: list[Span | Break],
        reason: str,
    ) -> bool:
        """Goes on in the same view with another journal."""
        if not self._caught_up:
            return False
        useful = []
        for other in self._logs():
            same = other.stay_in(stay.view, cursor.pos)
            if other is log or same is None or (same.begin and same.begin > cursor.pos):
                continue
            goes_on = not other.ended and not same.cut and not self._is_left_behind(other, same)
            more = same.next is not None or min(same.upto, self._fixed(same)) > cursor.pos
            if goes_on or more:
                together = not stay.transitional or other.member in stay.transitional
                useful.append((not together, same.next is None, not goes_on, other.member, other))
        if not useful:
            return self._go_elsewhere(cursor, log, stay, out, reason)
        apart, _, _, _, other = min(useful, key=lambda found: found[:4])
        same = other.stay_in(stay.view, cursor.pos)
        assert same is not None
        if apart:
            self._break(out, OTHER_COMPONENT, log, stay, other, same, cursor.pos)
        cursor.journal, cursor.stay = other.journal, same.id
        return True

    def _go_elsewhere(
        self,
        cursor: Cursor,
        log: MemberLog,
        stay: Stay,
        out: list[Span | Break],
        reason: str,
    ) -> bool:
        """Goes on in a later view, with a break; or waits for a member of the view."""
        if not self._caught_up:
            return False
        for other in self._logs():
            behind = other.last is None or other.last.epoch < stay.epoch
            if other is not log and other.member in stay.members and behind and not other.ended:
                if not self._is_outlived(other):
                    return False
        found = [
            (other is not log, s.epoch, other.member, s.id, other, s)
            for other in self._logs()
            for s in other.stays
            if s.epoch > stay.epoch or (other is log and _is_behind(s, stay, cursor.pos))
        ]
        if not found:
            return False
        *_, other, target = min(found, key=lambda pair: pair[:4])
        pos = target.begin
        self._break(out, reason, log, stay, other, target, pos)
        cursor.journal, cursor.stay, cursor.pos = other.journal, target.id, pos
        return True

    def _is_outlived(self, log: MemberLog) -> bool:
        """Another journal has a later view without this member."""
        epoch = log.last.epoch if log.last else (0, 0)
        return any(
            s.epoch > epoch and s.members and log.member not in s.members
            for other in self._logs()
            for s in other.stays
        )

    def _break(
        self,
        out: list[Span | Break],
        reason: str,
        log: MemberLog,
        stay: Stay,
        other: MemberLog,
        target: Stay,
        pos: int,
    ) -> None:
        merged = self.merged
        assert merged.cursor is not None
        merged.seq += 1
        out.append(
            Break(
                seq=merged.seq,
                view=target.view,
                pos=pos,
                reason=reason,
                from_journal=log.journal,
                to_journal=other.journal,
                from_view=stay.view,
                from_pos=merged.cursor.pos,
            )
        )
        if reason != OTHER_COMPONENT:
            merged.before_break = dict(merged.delivered)

    # ------------------------------------------------------------------ contradictions

    def _compare_all(self) -> None:
        cursor = self.merged.cursor
        for view, yielded in self._yielded.items():
            for log in self._logs():
                for stay in log.stays:
                    followed = cursor and (cursor.journal, cursor.stay) == (log.journal, stay.id)
                    if stay.view == view and not followed:
                        self._compare(view, yielded, log, stay)

    def _compare(self, view: str, yielded: _Yielded, log: MemberLog, stay: Stay) -> None:
        """Positions must be the same here and there if they are fixed, or if both members left the
        view for the same one. Of others nothing is asked."""
        end = min(yielded.end, stay.upto)
        limit = end if yielded.next and yielded.next == stay.next else self._fixed(stay)
        limit = min(limit, end)
        begin = max(stay.begin, stay.compared, yielded.begin)
        if begin < limit:
            ranges = log.ranges.get(stay.id, ())
            wrong = compare(list(yielded.ranges), list(ranges), begin, limit)
            if wrong is not None:
                here = describe(wrong.one, yielded.journal, wrong.pos)
                there = describe(wrong.other, log.journal, wrong.pos)
                raise PipelineError(
                    f"group {self.group!r}, view {view}, position {wrong.pos}",
                    f"{here}; {there}",
                    "the journals contradict each other: check them with `phalanx audit`",
                )
        if yielded.next and stay.next:
            limit = end
        stay.compared = max(stay.compared, limit)
        log.forget_ranges(stay, stay.compared)

    def _twice(self, log: MemberLog, stay: Stay, found: Range, sender: str) -> PipelineError:
        where = "before"
        for view, yielded in self._yielded.items():
            for old in yielded.ranges:
                same = (old.sender, old.sender_incarnation) == (
                    found.sender,
                    found.sender_incarnation,
                )
                if same and old.lseq != found.lseq and old.first <= found.first <= old.last:
                    pos = old.pos + found.first - old.first
                    where = f"in journal {old.journal}, row {old.lseq}, view {view}, "
                    where += f"position {pos}"
        return PipelineError(
            f"group {self.group!r}, message {sender}#{found.first}",
            f"journal {log.journal}, row {found.lseq}, has it in view {stay.view} at position "
            f"{found.pos}, and it was delivered {where}",
            "the journals contradict each other: check them with `phalanx audit`",
        )

    # ------------------------------------------------------------------ what is kept

    def _logs(self) -> list[MemberLog]:
        return [self.merged.logs[name] for name in sorted(self.merged.logs)]

    def _yielded_of(self, stay: Stay, journal: str) -> _Yielded:
        found = self._yielded.get(stay.view)
        if found is None:
            begin = self.merged.cursor.pos if self.merged.cursor else 0
            found = self._yielded[stay.view] = _Yielded(journal, begin=begin, end=begin)
            for old in list(islice(self._yielded, max(0, len(self._yielded) - YIELDED_VIEWS_MAX))):
                del self._yielded[old]
        return found

    def _is_done_with(self, log: MemberLog, stay: Stay) -> bool:
        """The journal ended before the view of the stream, or its member was left out of it. If the
        member comes back, its log begins again."""
        last = log.last
        if last is None or last.epoch >= stay.epoch:
            return False
        return log.ended or bool(stay.members and log.member not in stay.members)

    def _forget(self) -> None:
        """Drops what lies behind the cursor."""
        merged = self.merged
        cursor = merged.cursor
        if cursor is None:
            return
        log = merged.logs[cursor.journal]
        stay = next(stay for stay in log.stays if stay.id == cursor.stay)
        log.forget_before(stay)
        for other in self._logs():
            same = other.stay_in(stay.view, cursor.pos)
            if other is not log and same is not None:
                other.forget_before(same)
            elif other is not log and len(other.stays) > 2:
                other.forget_before(other.stays[-2])
        for other in self._logs():
            if other is not log and self._is_done_with(other, stay):
                del merged.logs[other.journal]
        views = {s.view for other in self._logs() for s in other.stays}
        merged.fixed = {view: pos for view, pos in merged.fixed.items() if view in views}
        if len(merged.delivered) > SENDERS_MAX:
            merged.delivered = dict(list(merged.delivered.items())[-SENDERS_MAX:])


def _is_behind(stay: Stay, reached: Stay, pos: int) -> bool:
    """The stay lies behind the position reached, in the same journal."""
    return stay.id > reached.id or (stay.id == reached.id and stay.begin > pos)


def _clip(found: Range, begin: int, end: int) -> Range | None:
    """The part of a range at positions begin..end-1."""
    low, high = max(found.pos, begin), min(found.end, end)
    if low >= high:
        return None
    if (low, high) == (found.pos, found.end):
        return found
    first = found.first + low - found.pos
    return found._replace(pos=low, first=first, last=first + high - low - 1)
