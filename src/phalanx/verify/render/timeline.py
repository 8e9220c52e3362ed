"""Timeline of views as text: one line for each life, a letter for each view, and a legend.

    ada      AF-------....!G------....I-----
    bea      BF-------....!G------....I-----
    cyd      CF-------x
    cyd.2                       H-....I-----

A letter stands where the view begins, dots while a change is under way, `!` where safe messages
were left behind the transitional marker, `x` for a crash, `o` for a leave. Time goes from left to
right, not to scale: stretches in which much happens get more room.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from phalanx.journal.schema import (
    Event,
    Life,
    PeerSuspicion,
    Transitional,
    ViewChangeStep,
    ViewInstalled,
)

COLUMNS_MAX = 100
LABEL_MAX = 14
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnpqrstuvwyz"
"""Without x and o, which mark the end of a life."""

Member = tuple[str, int]
_Shown = ViewInstalled | Transitional | ViewChangeStep | Life | PeerSuspicion


class _Picture:
    """The rows that the picture shows, by life and in the order of time."""

    def __init__(self, rows: Iterable[Event]) -> None:
        events: list[_Shown] = [
            r
            for r in rows
            if isinstance(r, ViewInstalled | Transitional | ViewChangeStep | Life | PeerSuspicion)
        ]
        self.known = bool(events) and all(r.sim_ns is not None for r in events)
        self.lives: dict[Member, list[_Shown]] = {}
        for row in events:
            self.lives.setdefault((row.member, row.incarnation), []).append(row)
        for journal in self.lives.values():
            journal.sort(key=lambda r: r.lseq)
        installs = [r for r in events if isinstance(r, ViewInstalled)]
        self.views: dict[str, list[ViewInstalled]] = {}
        for install in sorted(installs, key=lambda r: (_at(r), r.view)):
            self.views.setdefault(install.view, []).append(install)
        self.letters = {
            view: LETTERS[i] if i < len(LETTERS) else "*" for i, view in enumerate(self.views)
        }
        self.end = max(map(_at, events), default=0)

    def ends(self, view: str) -> int:
        """When the last member left the view, or the run ended."""
        latest = 0
        for install in self.views[view]:
            after = [
                _at(r)
                for r in self.lives[install.member, install.incarnation]
                if r.lseq > install.lseq and isinstance(r, ViewInstalled | Life)
            ]
            latest = max(latest, after[0] if after else self.end)
        return latest


def _at(row: Event) -> int:
    return row.sim_ns or 0


def letters_of(rows: Iterable[Event]) -> dict[str, str]:
    """The letter of each view, in the order of the first installations."""
    return _Picture(rows).letters


def bands(rows: Iterable[Event], columns: int = COLUMNS_MAX) -> list[str]:
    """The picture and its legend, at most `columns` wide."""
    picture = _Picture(rows)
    if not picture.known:
        return ["no picture: the rows have no common clock"]
    labels = {member: life_label(member) for member in sorted(picture.lives)}
    gutter = max(map(len, labels.values())) + 2
    width = columns - gutter
    scale = _Scale(picture, width)
    lines = [" " * gutter + scale.ruler()]
    for member, label in labels.items():
        band = _band(picture.lives[member], picture.letters, scale, width)
        lines.append(f"{label:<{gutter}}{band}".rstrip())
    return [*lines, "", *_legend(picture, columns)]


class _Scale:
    """Maps time to columns: half by the clock, half by the number of events."""

    def __init__(self, picture: _Picture, width: int) -> None:
        times = {_at(r) for journal in picture.lives.values() for r in journal if _counts(r)}
        self._instants = [0]
        for now in sorted(times):
            if now - self._instants[-1] > picture.end // 200:  # else it is the same event
                self._instants.append(now)
        if self._instants[-1] < picture.end:
            self._instants.append(picture.end)
        self._width = width

    def column(self, now: int) -> int:
        instants, end = self._instants, max(1, self._instants[-1])
        at = bisect_right(instants, now) - 1
        last = len(instants) - 1
        within = 0
        if at < last:
            within = 1000 * (now - instants[at]) // (instants[at + 1] - instants[at])
        shares = 1000 * now // end + (1000 * at + within) // max(1, last)
        return shares * (self._width - 1) // 2000

    def ruler(self) -> str:
        """The time axis: as many instants as fit, each at its column, the last one at the end."""
        end = f"{self._instants[-1] / 1e6:,.0f} ms"
        line = ""
        for now in self._instants:
            column = self.column(now)
            said = f"{now / 1e6:,.0f}"
            room = self._width - len(end) - 2
            if (not line or column >= len(line) + 4) and column + len(said) <= room:
                line = line.ljust(column) + said
        return line.ljust(self._width - len(end)) + end


def _counts(row: _Shown) -> bool:
    return not isinstance(row, PeerSuspicion | Transitional)


def _band(journal: Sequence[_Shown], letters: dict[str, str], scale: _Scale, width: int) -> str:
    cells = [" "] * width
    fill, since = " ", 0

    def upto(column: int) -> None:
        nonlocal since
        for i in range(since, column):
            cells[i] = fill if cells[i] == " " else cells[i]
        since = max(since, column)

    def mark(column: int, sign: str) -> None:
        while cells[column] in LETTERS and column < width - 1:
            column += 1  # what came just before is not painted over
        cells[column] = sign

    for row in journal:
        column = scale.column(_at(row))
        upto(column)
        match row:
            case ViewInstalled():
                mark(column, letters[row.view])
                fill = "-"
            case Transitional():
                if column and cells[column - 1] in "-.":
                    cells[column - 1] = "!"
            case ViewChangeStep():
                fill = "-" if row.action in ("FORGET", "CLOSED") else "."
            case Life(op="CRASH"):
                mark(column, "x")
                fill = " "
            case Life(op="STOP"):
                if column < width - 1:
                    mark(column, "o")
                fill = " "
            case _:
                pass
    upto(width)
    return "".join(cells)


def life_label(member: Member) -> str:
    """The name of a life, with its incarnation if it is not the first."""
    name, incarnation = member
    tail = "" if incarnation == 1 else f".{incarnation}"
    room = LABEL_MAX - len(tail)
    return (name if len(name) <= room else name[: room - 1] + "…") + tail


def _legend(picture: _Picture, columns: int) -> list[str]:
    lines = []
    for view, installs in picture.views.items():
        row = installs[0]
        members = zip(row.members, row.member_incarnations, strict=True)
        span = f"{_at(row) / 1e6:,.1f} to {picture.ends(view) / 1e6:,.1f} ms"
        head = f"{picture.letters[view]}  {_short(view):<10} {row.cause:<7} {span:<24}"
        of = " ".join(picture.letters.get(c, _short(c)) for c in row.components)
        tail = f"  of {of}" if of else ""
        room = columns - len(head) - len(tail) - 2
        lines.append(f"{head}  {_fitting([life_label(m) for m in members], room)}{tail}")
    return lines


def _short(view: str) -> str:
    """The epoch and the first digits of the digest, enough to distinguish views of one run."""
    epoch, _, digest = view.partition(":")
    return f"{epoch}:{digest[:4]}" if digest else epoch[:10]


def _fitting(words: list[str], room: int) -> str:
    said = " ".join(words)
    kept = len(words)
    while len(said) > room and kept > 1:
        kept -= 1
        said = " ".join(words[:kept]) + f" +{len(words) - kept}"
    return said


# ---------------------------------------------------------------------------- changes


def changes(rows: Iterable[Event]) -> list[str]:
    """A table of all views except the first ones: the cause, and the time from the first suspicion
    or attempt of any member to the last installation."""
    picture = _Picture(rows)
    if not picture.known:
        return ["no table: the rows have no common clock"]
    lines = []
    for view, installs in picture.views.items():
        moved = [r for r in installs if r.previous is not None]
        if not moved:
            continue
        began = min(_began(picture, row) for row in moved)
        first, last = _at(moved[0]), _at(moved[-1])
        out = sorted({m for r in moved for m in _members(picture, r.previous)} - set(_of(moved[0])))
        what = f"{len(moved)} of {len(moved[0].members)}"
        head = f"{picture.letters[view]}  {moved[0].cause:<7} {what:>8}"
        times = f"{began / 1e6:>11,.1f}{first / 1e6:>11,.1f}{last / 1e6:>11,.1f}"
        took = f"{(last - began) / 1e6:>11,.1f}"
        room = COLUMNS_MAX - len(head) - len(times) - len(took) - 10
        without = f"  without {_fitting([life_label(m) for m in out], room)}" if out else ""
        lines.append(head + times + took + without)
    if not lines:
        return ["no view changed"]
    head = (
        f"   {'cause':<7} {'installed':>8}{'began ms':>10}{'first':>11}{'last':>11}{'took ms':>11}"
    )
    return [head, *lines]


def _of(row: ViewInstalled) -> list[Member]:
    return list(zip(row.members, row.member_incarnations, strict=True))


def _members(picture: _Picture, view: str | None) -> list[Member]:
    installs = picture.views.get(view or "", [])
    return _of(installs[0]) if installs else []


def _began(picture: _Picture, install: ViewInstalled) -> int:
    """The time of the first step of this change at this member, or of the suspicion that caused it
    if that is earlier: the one of a removed member that was never withdrawn."""
    began: int | None = None
    suspected: dict[Member, int] = {}
    here = _of(install)
    for row in picture.lives[install.member, install.incarnation]:
        if row.lseq >= install.lseq:
            break
        if isinstance(row, ViewInstalled) or (
            isinstance(row, ViewChangeStep) and row.action == "FORGET"
        ):
            began = None
        elif isinstance(row, ViewChangeStep):
            began = _at(row) if began is None else began
        elif isinstance(row, PeerSuspicion):
            target = (row.target, row.target_incarnation)
            if row.state == "OPERATIONAL":
                suspected.pop(target, None)
            else:
                suspected.setdefault(target, _at(row))
    before = _members(picture, install.previous)
    reasons = [t for m, t in suspected.items() if m in before and m not in here]
    reasons += [] if began is None else [began]
    return min(reasons, default=_at(install))
