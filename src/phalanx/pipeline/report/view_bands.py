"""Bands of the report page: which member was in which view, and when.

The intervals are those of `phalanx history` (history/intervals.py). The longest are drawn one by
one. Those that are too short or too many to be drawn are counted: one band per life and stretch of
time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from phalanx.pipeline.arrow_columns import ints
from phalanx.pipeline.group_tables import GroupTables
from phalanx.pipeline.history.intervals import intervals
from phalanx.pipeline.report.model import Bands, Caps, Changes, ViewBand
from phalanx.pipeline.report.time_axis import RunAxis

TONES = 8
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class BandSpell(NamedTuple):
    """One installation of a view by one life."""

    life: int
    view: str
    cause: str
    members: tuple[int, ...]
    begin: int
    end: int


def ranked_spells(group: GroupTables, axis: RunAxis) -> list[BandSpell]:
    """Every installation of a view: the last view of each life first, then by length."""
    journals = axis.spans()
    ranked = []
    for one in intervals(group):
        journal = journals.get(one.journal)
        if journal is None:
            continue
        begin = (one.from_ns + journal.shift_ns) // 1000
        end = (one.to_ns + journal.shift_ns) // 1000
        members = zip(one.members, one.member_incarnations, strict=True)
        known = tuple(axis.lives[m] for m in members if m in axis.lives)
        life = axis.life_of(journal)
        spell = BandSpell(life, one.view, one.cause, known, begin, max(begin, end))
        ranked.append((one.end == "VIEW", begin - end, begin, life, spell))
    return [spell for *_, spell in sorted(ranked)]


def collect_bands(group: GroupTables, axis: RunAxis, caps: Caps) -> tuple[Bands, list[ViewBand]]:
    """The longest one by one; the others counted, by life and stretch of time."""
    each = max(1, caps.bands // 2)
    found = ranked_spells(group, axis)
    kept = sorted(found[:each], key=lambda spell: (spell.begin, spell.view))
    bands, views = _bands_of(kept, len(found))
    stretch_us = max(1, axis.span * len(axis.lives) // each)
    short: dict[tuple[int, int], list[BandSpell]] = {}
    for spell in found[each:]:
        short.setdefault((spell.life, spell.begin // stretch_us), []).append(spell)
    for (life, _), some in short.items():
        begin, end = min(spell.begin for spell in some), max(spell.end for spell in some)
        _add(bands, life, -1, begin, end, len(some))
    return bands, views


def _bands_of(found: Sequence[BandSpell], total: int) -> tuple[Bands, list[ViewBand]]:
    views = views_of(found)
    index = {view.view: i for i, view in enumerate(views)}
    bands = Bands(total=total)
    for stay in found:
        _add(bands, stay.life, index[stay.view], stay.begin, stay.end, 1)
    return bands, views


def _add(bands: Bands, life: int, view: int, begin: int, end: int, count: int) -> None:
    bands.life.append(life)
    bands.view.append(view)
    bands.begin.append(begin)
    bands.end.append(end)
    bands.count.append(count)


def views_of(found: Sequence[BandSpell]) -> list[ViewBand]:
    """The views in the order of their first installation, named A, B, ... and coloured."""
    by_view: dict[str, list[BandSpell]] = {}
    for stay in sorted(found, key=lambda s: (s.begin, s.view, s.life)):
        by_view.setdefault(stay.view, []).append(stay)
    spans = [
        (min(s.begin for s in group), max(s.end for s in group), len(group[0].members))
        for group in by_view.values()
    ]
    tones = toned(spans)
    return [
        ViewBand(
            view=view,
            label=lettered(i),
            cause=group[0].cause,
            members=list(group[0].members),
            begin=spans[i][0],
            end=spans[i][1],
            tone=tones[i],
        )
        for i, (view, group) in enumerate(by_view.items())
    ]


def lettered(number: int) -> str:
    """A to Z, then AA, AB, ..."""
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, len(LETTERS))
        text = LETTERS[rest] + text
    return text


def toned(spans: Sequence[tuple[int, int, int]]) -> list[int]:
    """A colour for each (begin, end, members): different from that of every view it overlaps, or
    touches, while there are colours; the one that was used longest ago, so that neighbours differ
    too. Views of several members choose first."""
    tones = [-1] * len(spans)
    used: list[list[tuple[int, int]]] = [[] for _ in range(TONES)]
    order = sorted(range(len(spans)), key=lambda i: (spans[i][2] == 1, spans[i][0], i))
    for i in order:
        begin, end, _ = spans[i]

        def cost(tone: int, begin: int = begin, end: int = end) -> tuple[int, int, int]:
            overlaps = sum(1 for a, b in used[tone] if a <= end and begin <= b)
            latest = max((b for _, b in used[tone]), default=-1)
            return overlaps, latest, tone

        tones[i] = min(range(TONES), key=cost)
        used[tones[i]].append((begin, end))
        if len(used[tones[i]]) > 64:  # what is long past cannot overlap in practice
            used[tones[i]].pop(0)
    return tones


def collect_changes(group: GroupTables, axis: RunAxis, caps: Caps) -> Changes:
    """When a change of views was under way: from its first step to the next installation, or to
    where it was given up. The longest are kept."""
    marks: dict[int, list[tuple[int, int, bool]]] = {}
    for name in ("view_change_step", "view_installed"):
        table, placed = group[name], axis.place(group, name)
        actions = ["FORGET"] * table.num_rows
        if name == "view_change_step":
            actions = table.column("action").to_pylist()
        lseq = ints(table.column("lseq")).tolist()
        for row, life, _, at in zip(*(column.tolist() for column in placed), strict=True):
            if actions[row] != "CLOSED":
                marks.setdefault(life, []).append((lseq[row], at, actions[row] == "FORGET"))
    spans = [span for life, mine in marks.items() for span in _spans(life, sorted(mine))]
    spans.sort(key=lambda span: (span[1] - span[2], span[1]))
    kept = sorted(spans[: max(1, caps.bands // 2)], key=lambda span: (span[1], span[0]))
    return Changes(*(list(column) for column in zip(*kept, strict=True))) if kept else Changes()


def _spans(life: int, marks: Sequence[tuple[int, int, bool]]) -> list[tuple[int, int, int]]:
    """The life, begin and end of each change; a mark says whether one is over."""
    found = []
    steps: list[int] = []
    for _, at, over in marks:
        if over and steps:
            found.append((life, min(steps), max(*steps, at)))
        steps = [] if over else [*steps, at]
    if steps:
        found.append((life, min(steps), max(steps)))
    return found
