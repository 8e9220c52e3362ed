"""When the views of one group can be judged: closed, or incomplete because a member is silent.

A view is closed when each of its members

    left        installed a next view,
    stopped     ended its journal with a STOP,
    passed      never installed the view, but one with a higher epoch: epochs of a member rise.

A member that did none of these is waited for. If its journal has not grown for the grace period, or
there is no journal of it for so long, the view is *incomplete*: it is judged without the rest of
these rows, and again when they arrive. Progress is measured by the rows of each journal (`lseq`).
Clocks of members are not compared: silence is measured by the clock of the caller (`now`).

What was judged by which rows is the *evidence* of a view, a text such as `ada.1:left:120
bea.1:silent:88`, with blanks and % in names as %20 and %25. A view is judged again only if its
evidence has grown, so that the deletion of old rows never replaces a verdict.

State is bounded: the last views (VIEWS_KEPT), and those that are open or were not judged, with the
stays of their members. A late stay in a view that was forgotten makes a new entry, in which the
other members have passed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal, assert_never
from urllib.parse import quote, unquote

import msgspec

from phalanx.pipeline.audit.view_stays import StayIndex, ViewStay
from phalanx.pipeline.verdict_tables import ViewStatus

VIEWS_KEPT = 64
"""So many views are remembered after they were judged, twice as many before some are forgotten."""
Way = Literal["left", "stopped", "passed", "silent", "absent", "here"]
"""What became of a member in a view. here: it is in the view, or may still install it."""
_LACKING = ("silent", "absent", "here")


class JournalEnd(msgspec.Struct, frozen=True):
    """How far a journal goes."""

    label: str
    journal: str
    last: int
    stopped: bool


class RowsTaken(msgspec.Struct, frozen=True):
    """New stays in views, and the ends of all journals that have grown."""

    stays: tuple[ViewStay, ...]
    journals: tuple[JournalEnd, ...]


class VerdictsWritten(msgspec.Struct, frozen=True):
    """Views were judged, now or by an earlier process."""

    evidence: dict[str, str]
    """By view, what each was judged by."""


class TimePassed(msgspec.Struct, frozen=True):
    """Time has passed: members may have become silent."""


Given = RowsTaken | VerdictsWritten | TimePassed


class JudgeView(msgspec.Struct, frozen=True):
    """The view can be judged, with this status. Repeated until the verdict is written."""

    view: str
    status: ViewStatus
    evidence: str


class _End(msgspec.Struct):
    last: int
    stopped: bool
    grown_ns: int


class ClosedViews:
    """The views of one group."""

    def __init__(self, grace_ns: int) -> None:
        self._grace_ns = grace_ns
        self._index = StayIndex()
        self._ends: dict[str, _End] = {}
        """By label."""
        self._labels: dict[str, str] = {}
        """By journal."""
        self._seen_ns: dict[str, int] = {}
        """When each view was first seen."""
        self._evidence: dict[str, str] = {}
        """Of the views that were judged."""

    def step(self, now: int, given: Given) -> list[JudgeView]:
        match given:
            case RowsTaken():
                self._take(now, given)
            case VerdictsWritten(evidence=evidence):
                self._evidence.update(evidence)
                self._forget()
            case TimePassed():
                pass
            case _:
                assert_never(given)
        return self._due(now)

    def deadline(self) -> int | None:
        """When a member that is waited for becomes silent."""
        waiting: set[int] = set()
        for view in self._index.by_view:
            for label in self._index.members([view]):
                end = self._ends.get(label)
                since = self._seen_ns[view] if end is None else end.grown_ns
                if end is None or not end.stopped:
                    waiting.add(since + self._grace_ns)
        return min(waiting, default=None)

    def open_views(self, now: int) -> list[JudgeView]:
        """The views that members are still in, with the evidence so far."""
        return [found for found in self.all_views(now) if found.status == "open"]

    def all_views(self, now: int) -> list[JudgeView]:
        """All views that are remembered."""
        found = []
        for view in list(self._index.by_view):
            ways = self._ways(now, view)
            found.append(JudgeView(view, _status(ways), _text(ways)))
        return found

    @property
    def size(self) -> int:
        """How many stays are remembered."""
        return sum(map(len, self._index.by_journal.values()))

    # ------------------------------------------------------------------ transitions

    def _take(self, now: int, given: RowsTaken) -> None:
        for end in given.journals:
            self._labels[end.journal] = end.label
            known = self._ends.get(end.label)
            if known is None or end.last > known.last or end.stopped != known.stopped:
                self._ends[end.label] = _End(end.last, end.stopped, now)
        for stay in given.stays:
            mine = self._index.by_journal.get(stay.journal, ())
            if any(one.lseq == stay.lseq for one in mine):
                continue  # given again, with rows that were missing before
            self._seen_ns.setdefault(stay.view, now)
            self._index.add(stay)

    def _due(self, now: int) -> list[JudgeView]:
        found: list[JudgeView] = []
        for view in list(self._index.by_view):
            ways = self._ways(now, view)
            status, evidence = _status(ways), _text(ways)
            if status != "open" and has_grown(self._evidence.get(view), evidence):
                found.append(JudgeView(view, status, evidence))
        return found

    def _ways(self, now: int, view: str) -> dict[str, tuple[Way, int]]:
        """What became of each member of a view, and the row that shows it."""
        stays = {self._labels.get(s.journal, ""): s for s in self._index.by_view[view]}
        epoch = max((s.joins, s.removals) for s in self._index.by_view[view])
        found: dict[str, tuple[Way, int]] = {}
        for label in sorted({*self._index.members([view]), *stays} - {""}):
            end = self._ends.get(label)
            then = None if label not in stays else self._index.next(stays[label])
            if then is not None:
                found[label] = "left", then.lseq
            elif end is None:
                silent = now - self._seen_ns[view] >= self._grace_ns
                found[label] = "absent" if silent else "here", 0
            elif end.stopped:
                found[label] = "stopped", end.last
            elif label not in stays and (later := self._passed(label, epoch)) is not None:
                found[label] = "passed", later
            else:
                silent = now - end.grown_ns >= self._grace_ns
                found[label] = "silent" if silent else "here", end.last
        return found

    def _passed(self, label: str, epoch: tuple[int, int]) -> int | None:
        """The first row at which a member installed a view with a higher epoch."""
        for journal, stays in self._index.by_journal.items():
            if self._labels.get(journal) == label:
                for stay in stays:
                    if (stay.joins, stay.removals) > epoch:
                        return stay.lseq
        return None

    def _forget(self) -> None:
        if len(self._index.by_view) > 2 * VIEWS_KEPT:
            for view in list(self._index.by_view)[:-VIEWS_KEPT]:
                known = parsed(self._evidence.get(view, ""))
                if known and not any(way == "here" for way, _ in known.values()):
                    self._index.forget(list(self._index.by_view[view]))
                    del self._seen_ns[view]
            people = self._index.members(self._index.by_view)
            for journal, label in list(self._labels.items()):
                if journal not in self._index.by_journal and label not in people:
                    del self._labels[journal]
                    self._ends.pop(label, None)
        for view in [view for view in self._evidence if view not in self._index.by_view]:
            del self._evidence[view]


def _status(ways: Mapping[str, tuple[Way, int]]) -> ViewStatus:
    kinds = {way for way, _ in ways.values()}
    if "here" in kinds:
        return "open"
    return "incomplete" if kinds & {"silent", "absent"} else "closed"


def _text(ways: Mapping[str, tuple[Way, int]]) -> str:
    return " ".join(f"{_quoted(label)}:{way}:{seq}" for label, (way, seq) in sorted(ways.items()))


def _quoted(label: str) -> str:
    return re.sub(r"[\s%]", lambda found: quote(found[0]), label)


def parsed(evidence: str) -> dict[str, tuple[str, int]]:
    """The evidence of a view by the labels of its members; nothing for a text that is none."""
    found = {}
    for part in evidence.split():
        fields = re.fullmatch("(.+):([a-z]+):([0-9]+)", part)
        if fields is None:
            return {}
        found[unquote(fields[1])] = fields[2], int(fields[3])
    return found


def has_grown(before: str | None, now: str) -> bool:
    """Whether evidence has something that was not there before: a member, or later rows."""
    if before is None:
        return True
    known = parsed(before)
    for label, (way, lseq) in parsed(now).items():
        way_before, lseq_before = known.get(label, ("absent", -1))
        if lseq > lseq_before or (way_before in _LACKING and way not in _LACKING):
            return True
    return False


def ends_of(journals: Iterable[tuple[str, int, str, int, int]]) -> tuple[JournalEnd, ...]:
    """Of member, incarnation, journal, last row and whether it stopped."""
    return tuple(
        JournalEnd(f"{member}.{incarnation}", journal, last, bool(stopped))
        for member, incarnation, journal, last, stopped in journals
    )
