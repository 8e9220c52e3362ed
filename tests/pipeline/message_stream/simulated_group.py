"""Journals of a simulated group, fed to a merge block by block; and what the merge may yield."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

import msgspec

from phalanx.journal import schema as ev
from phalanx.journal.tail_reader import Place
from phalanx.pipeline.message_stream.group_merge import (
    OTHER_COMPONENT,
    Break,
    GroupMerge,
    MergeState,
    Span,
)
from phalanx.pipeline.message_stream.member_log import ORDERED_SERVICES
from phalanx.sim.generators import scenario_of
from phalanx.sim.journal_export import journals as journals_of
from phalanx.sim.run import run

Journal = tuple[str, list[ev.Event]]
Item = tuple[str, int, str, int, int]
"""A message: view, position, sender, its incarnation, number."""


class Output(NamedTuple):
    items: list[Item | Break]
    view: str | None
    """In which the stream is at the end."""


def of_whole_view(row: ev.Event) -> bool:
    return (
        isinstance(row, ev.Deliver)
        and row.service in ORDERED_SERVICES
        and row.pos is not None
        and row.to is None
    )


def expand(row: ev.Deliver) -> list[Item]:
    assert row.pos is not None
    return [
        (row.view, row.pos + i, row.sender, row.sender_incarnation, row.first + i)
        for i in range(row.last - row.first + 1)
    ]


def messages(rows: Sequence[ev.Event]) -> list[Item]:
    return [item for row in rows if of_whole_view(row) for item in expand(row)]  # type: ignore[arg-type]


def item_of(row: dict[str, Any]) -> Item | Break:
    """Of a row of the stream."""
    if row["kind"] == "break":
        place = row["from_journal"], row["journal"], row["from_view"], row["from_pos"]
        return Break(row["seq"], row["view"], row["pos"], row["reason"], *place)
    return row["view"], row["pos"], row["sender"], row["sender_incarnation"], row["number"]


def items_of(journals: dict[str, list[ev.Event]], span: Span) -> list[Item]:
    """As a task reads them."""
    rows = journals[span.journal]
    inside = [r for r in rows if span.lseq_first <= r.lseq <= span.lseq_last]
    found = [
        item
        for item in messages(inside)
        if item[0] == span.view and span.begin <= item[1] < span.end
    ]
    assert len(found) == span.count
    return found


def stored(merged: MergeState) -> MergeState:
    """The state as it comes back from a checkpoint: without ranges."""
    logs = {name: msgspec.structs.replace(log, ranges={}) for name, log in merged.logs.items()}
    text = msgspec.json.encode(msgspec.structs.replace(merged, logs=logs))
    return msgspec.json.decode(text, type=MergeState)


def merged_items(
    journals: dict[str, list[ev.Event]],
    random: Random,
    restart: float = 0.0,
    block: Callable[[], int] | None = None,
) -> Output:
    """All that a merge yields of these journals, read in blocks of random size and in random order
    of journals, and begun again from its state with some probability."""
    merge = GroupMerge("g")
    at = dict.fromkeys(journals, 0)
    blocks: dict[str, list[tuple[int, int]]] = defaultdict(list)
    out: list[Item | Break] = []
    seq = 0
    left = [name for name in journals if journals[name]]
    while left:
        name = random.choice(left)
        rows = journals[name]
        begin = at[name]
        end = min(len(rows), begin + (block() if block else random.randint(1, 12)))
        blocks[name].append((begin, end))
        _add(merge, name, rows, begin, end)
        at[name] = end
        if end == len(rows):
            left.remove(name)
        if random.random() < 0.5 or not left:
            for found in merge.step(caught_up=not left or random.random() < 0.5):
                assert found.seq == seq + 1
                if isinstance(found, Break):
                    out.append(found)
                    seq += 1
                else:
                    items = items_of(journals, found)
                    out += items
                    seq += len(items)
        if random.random() < restart:
            places = {n: log.resume(Place(1, at[n], at[n])) for n, log in merge.merged.logs.items()}
            merge = GroupMerge("g", stored(merge.merged))
            for n, place in places.items():
                for low, high in blocks[n]:
                    if low >= place.byte and high <= at[n]:
                        _add(merge, n, journals[n], low, high)
    cursor = merge.merged.cursor
    stays = merge.merged.logs[cursor.journal].stays if cursor else []
    return Output(out, next((s.view for s in stays if cursor and s.id == cursor.stay), None))


def _add(merge: GroupMerge, name: str, rows: Sequence[ev.Event], begin: int, end: int) -> None:
    head = rows[begin]
    log = merge.log(name, f"{head.member}.{head.incarnation}")
    some = rows[begin:end]
    merge.fix(log.add(some, some[0].lseq, some[-1].lseq, Place(1, begin, begin)))


class Truth:
    """What every member delivered in each view, and which view it installed next."""

    def __init__(self, journals: dict[str, list[ev.Event]]) -> None:
        self.left: dict[str, list[tuple[str | None, list[Item]]]] = defaultdict(list)
        for rows in journals.values():
            view: str | None = None
            some: list[ev.Event] = []
            for row in rows:
                if isinstance(row, ev.ViewInstalled):
                    if view is not None:
                        self.left[view].append((row.view, messages(some)))
                    view, some = row.view, []
                some.append(row)
            if view is not None:
                self.left[view].append((None, messages(some)))

    def problems(self, found: Output) -> list[str]:
        wrong = []
        plain = [item for item in found.items if not isinstance(item, Break)]
        if len({item[2:] for item in plain}) != len(plain):
            wrong.append("a message is there twice")
        for stretch, last in _stretches(found):
            views = list(dict.fromkeys(item[0] for item in stretch))
            for view in views:
                mine = [item for item in stretch if item[0] == view]
                wrong += self._view_problems(view, mine, view == last)
        return wrong

    def _view_problems(self, view: str, mine: list[Item], is_last: bool) -> list[str]:
        positions = [item[1] for item in mine]
        if positions != sorted(set(positions)):
            return [f"positions of {view} do not grow"]
        left = {
            following: [item for item in theirs if item[1] >= mine[0][1]]
            for following, theirs in self.left[view]
            if following is not None  # of members that crashed nothing is asked
        }
        if is_last and any(theirs[: len(mine)] != mine for theirs in left.values()):
            return [f"{view}: what was yielded is no prefix of what a member delivered"]
        if not is_last and mine not in left.values():
            return [f"{view}: what was yielded is not what the members that left it delivered"]
        return []


def _stretches(found: Output) -> list[tuple[list[Item], str | None]]:
    """Between breaks, and the view in which each ends. A break within a view loses nothing."""
    stretches: list[tuple[list[Item], str | None]] = []
    some: list[Item] = []
    for item in found.items:
        if not isinstance(item, Break):
            some.append(item)
        elif item.reason != OTHER_COMPONENT:
            stretches.append((some, item.from_view))
            some = []
    return [*stretches, (some, found.view)]


def truncated(journals: dict[str, list[ev.Event]], random: Random) -> dict[str, list[ev.Event]]:
    """Some of the journals, some of them without their last rows, as after kill -9."""
    names = random.sample(sorted(journals), random.randint(1, len(journals)))
    kept = {}
    for name in names:
        rows = journals[name]
        cut = random.randint(1, len(rows)) if random.random() < 0.4 else len(rows)
        kept[name] = rows[:cut]
    return kept


def check_seed(seed: int) -> dict[str, int]:
    """Counts of what was yielded; AssertionError, with the seed, if a property does not hold."""
    result = run(scenario_of(seed, 3, 6, "membership"))
    assert not result.failed
    journals = {head.journal: list(rows) for head, rows in journals_of(result)}
    truth = Truth(journals)
    random = Random(seed)
    counts = {"messages": 0, "breaks": 0, "open": 0}
    for i in range(6):
        subset = journals if i == 0 else truncated(journals, random)
        found = merged_items(subset, random, restart=0.1 if i % 2 else 0.0)
        replay = f"seed {seed}, subset {i}"
        assert truth.problems(found) == [], replay
        counts["messages"] += sum(not isinstance(item, Break) for item in found.items)
        counts["breaks"] += sum(isinstance(item, Break) for item in found.items)
        plain = [item for item in found.items if not isinstance(item, Break)]
        counts["open"] += sum(item[0] == found.view for item in plain)
    return counts
