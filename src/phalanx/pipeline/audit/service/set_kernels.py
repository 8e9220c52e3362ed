"""Kernels for the logs of sets. `verify.service.set_log_checks` states the properties."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from phalanx.pipeline.audit.service.service_columns import (
    Bools,
    LifeFacts,
    Longs,
    ServiceFrame,
    ServiceResults,
    ServiceViolation,
    codes,
    frame,
    numbers,
)
from phalanx.pipeline.group_tables import GroupTables


class StateRows:
    """States that servers held and applied, one after the other: frames in a row, and columns over
    both. `RESTORED` and founded states come first, those that were applied behind them."""

    def __init__(self, tables: GroupTables, lives: Sequence[LifeFacts]) -> None:
        held = frame(tables, "set_state_held", lives)
        last = np.array([op == "LAST" for op in held.texts("op")], dtype=bool)
        self.held, self.last = held.where(~last), held.where(last)
        self.all_held = held
        self.applied = frame(tables, "set_state_applied", lives)
        self.left = frame(tables, "set_left", lives)


def check_sets(
    tables: GroupTables, lives: Sequence[LifeFacts], settled: bool, out: ServiceResults
) -> None:
    states = StateRows(tables, lives)
    set_agreement(states, out)
    commit_order(states, out)
    one_change(states.applied, out)
    inclusion(states.applied, out)
    view_agreement(states.applied, out)
    stable_truth(states, frame(tables, "set_state_stable", lives), out)
    if settled:
        changes(tables, lives, states, out)


def set_agreement(states: StateRows, out: ServiceResults) -> None:
    both = (states.all_held, states.applied)
    n = len(both[0])

    def texts(name: str) -> list[str]:
        return [*both[0].texts(name), *both[1].texts(name)]

    place = codes(texts("set"), texts("vid"))
    members = [*both[0].joined("members"), *both[1].joined("members")]
    content = codes(texts("lineage"), members, texts("parent"))
    digests = texts("digest")
    digest = codes(digests)
    has = np.array([bool(text) for text in digests], dtype=bool)
    tested = len(place) - len(np.unique(place))

    def found() -> Iterator[ServiceViolation]:
        names, vids = texts("set"), texts("vid")
        everywhere = np.ones(len(place), dtype=bool)
        for column, rows in ((content, everywhere), (digest, has)):
            for one, other in _unequal(place, column, rows):
                shown = [both[int(i >= n)].place(i - n if i >= n else i) for i in (one, other)]
                text = f"{vids[one]} of {names[one]} is not the same state at two servers"
                yield ServiceViolation("set-agreement", text, tuple(shown))

    out.add("set-agreement", tested, found())


def _unequal(place: Longs, column: Longs, rows: Bools) -> Iterator[tuple[int, int]]:
    """Pairs of rows of one place whose columns differ: the first of the place, and another one."""
    index = np.flatnonzero(rows)
    if not len(index):
        return
    order = index[np.argsort(place[index], kind="stable")]
    begins = np.r_[True, place[order][1:] != place[order][:-1]]
    first = order[np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))]
    for at in np.flatnonzero(column[order] != column[first]).tolist():
        yield int(first[at]), int(order[at])


def commit_order(states: StateRows, out: ServiceResults) -> None:
    """In the sequence of states of a server in a set each number is higher than the one before; a
    state that was restored may be the same. Leaving the set begins a new sequence."""
    frames = (states.held, states.applied, states.left)
    process = [p for each in frames for p in each.process()]
    names = [n for each in frames for n in each.texts("set")]
    kind = np.repeat([0, 1, 2], [len(each) for each in frames])
    vids = [*states.held.texts("vid"), *states.applied.texts("vid"), *([""] * len(states.left))]
    life = np.concatenate([each.life for each in frames])
    lseq = np.concatenate([each.lseq for each in frames])
    chain, number = codes(process, names), numbers(vids)
    order = np.lexsort((lseq, life, chain))
    one, other = order[:-1], order[1:]
    follows = (chain[one] == chain[other]) & (kind[one] != 2) & (kind[other] != 2)
    low = np.where(kind[other] == 1, number[other] <= number[one], number[other] < number[one])
    begin = np.cumsum([0, *(len(each) for each in frames)])

    def found() -> Iterator[ServiceViolation]:
        for at in np.flatnonzero(follows & low).tolist():
            a, b = int(one[at]), int(other[at])
            text = f"{process[a]} goes from {vids[a]} to {vids[b]} in {names[a]}"
            rows = [frames[int(kind[i])].place(i - int(begin[kind[i]])) for i in (a, b)]
            yield ServiceViolation("set-commit-order", text, tuple(rows))

    out.add("set-commit-order", int(follows.sum()), found())


def one_change(applied: ServiceFrame, out: ServiceResults) -> None:
    row, base = applied.each("bases")
    process, names, vids = applied.process(), applied.texts("set"), applied.texts("vid")
    rows = row.tolist()
    place = codes([process[i] for i in rows], [names[i] for i in rows], base)
    vid = codes([vids[i] for i in rows])

    def found() -> Iterator[ServiceViolation]:
        for a, b in _unequal(place, vid, np.ones(len(place), dtype=bool)):
            one, other = rows[a], rows[b]
            text = f"{process[one]} applies {vids[one]} and {vids[other]} on {base[a]}"
            places = (applied.place(one), applied.place(other))
            yield ServiceViolation("one-change-at-a-time", text, places)

    out.add("one-change-at-a-time", len(rows), found())


def inclusion(applied: ServiceFrame, out: ServiceResults) -> None:
    process = applied.process()

    def holds_me(name: str) -> Bools:
        row, member = applied.each(name)
        mine = [m == process[i] for i, m in zip(row.tolist(), member, strict=True)]
        return np.bincount(row[np.array(mine, dtype=bool)], minlength=len(applied)) > 0

    asked = holds_me("left") & ~holds_me("isolated")
    whole = np.array([not life.torn for life in applied.lives], dtype=bool)[applied.life]
    bad = ~holds_me("members") & ~asked & whole
    vids = applied.texts("vid")

    def found() -> Iterator[ServiceViolation]:
        for i in np.flatnonzero(bad).tolist():
            text = f"{process[i]} applies {vids[i]} without being in it"
            yield ServiceViolation("set-inclusion", text, (applied.place(i),))

    out.add("set-inclusion", int(whole.sum()), found())


def view_agreement(applied: ServiceFrame, out: ServiceResults) -> None:
    """Only states from which servers went different ways are looked at in pairs."""
    row, base = applied.each("bases")
    rows = row.tolist()
    names, vids, process = applied.texts("set"), applied.texts("vid"), applied.process()
    place = codes([names[i] for i in rows], base)
    who, vid = codes([process[i] for i in rows]), codes([vids[i] for i in rows])
    sizes = np.bincount(place, minlength=1)
    apart = np.unique([place[b] for _, b in _unequal(place, vid, np.ones(len(place), dtype=bool))])
    members = [text.split("\n") for text in applied.joined("members")]

    def found() -> Iterator[ServiceViolation]:
        for each in apart.tolist():
            here = np.flatnonzero(place == each)
            for a, b in combinations(here.tolist(), 2):
                one, other = rows[a], rows[b]
                if who[a] == who[b] or vid[a] == vid[b]:
                    continue
                if process[one] in members[other] and process[other] in members[one]:
                    text = (
                        f"on {base[a]} of {names[one]} {process[one]} applies {vids[one]} and "
                        f"{process[other]} {vids[other]}, and each keeps both servers"
                    )
                    places = (applied.place(one), applied.place(other))
                    yield ServiceViolation("set-view-agreement", text, places)

    out.add("set-view-agreement", int((sizes - 1).clip(0).sum()), found())


def stable_truth(states: StateRows, stable: ServiceFrame, out: ServiceResults) -> None:
    """Each server of a stable state has a row with that state, in a simulation no later."""
    row, server = stable.each("members")
    rows = row.tolist()
    n_states = len(states.all_held) + len(states.applied)
    frames = (states.all_held, states.applied)
    owner = [*frames[0].process(), *frames[1].process(), *server]
    sets, vids = stable.texts("set"), stable.texts("vid")
    names = [*frames[0].texts("set"), *frames[1].texts("set"), *(sets[i] for i in rows)]
    ids = [*frames[0].texts("vid"), *frames[1].texts("vid"), *(vids[i] for i in rows)]
    key = codes(owner, names, ids)
    when = np.concatenate([f.longs("sim_ns") for f in frames])
    whole: dict[str, bool] = {}
    for life in stable.lives:
        ok = life.complete and not life.torn
        whole[life.process] = whole.get(life.process, True) and ok
    never = np.iinfo(np.int64).max
    first = np.full(int(key.max()) + 1 if len(key) else 1, never)
    np.minimum.at(first, key[:n_states], when)
    asked = key[n_states:]
    time = stable.longs("sim_ns")[row]
    absent = first[asked] == never
    excused = np.array([not whole.get(one, False) for one in server], dtype=bool)
    late = ~absent & (time >= 0) & (first[asked] >= 0) & (first[asked] > time)
    bad = late | (absent & ~excused)

    def found() -> Iterator[ServiceViolation]:
        for at in np.flatnonzero(bad).tolist():
            i = rows[at]
            text = f"{vids[i]} of {sets[i]} is taken for stable, {server[at]} has not applied it"
            yield ServiceViolation("stable-state-truth", text, (stable.place(i),))

    out.add("stable-state-truth", len(rows), found())


def changes(
    tables: GroupTables, lives: Sequence[LifeFacts], states: StateRows, out: ServiceResults
) -> None:
    """The last change that a server has acknowledged in a set that it ends busy in is decided."""
    acked = frame(tables, "change_acknowledged", lives)
    sets, change, base = (acked.texts(name) for name in ("set", "change", "base"))
    bases: dict[tuple[str, str], set[str]] = {}
    for name, one, at in zip(sets, change, base, strict=True):
        bases.setdefault((name, one), set()).add(at)
    several = sum(len(found) > 1 for found in bases.values())
    out.add("change-progress", several, ())
    out.add("change-termination", len(bases) - several, ())
    ended: dict[tuple[int, str], int] = {}
    for each in (states.applied, states.left, frame(tables, "change_withdrawn", lives)):
        for life, name, lseq in zip(
            each.life.tolist(), each.texts("set"), each.lseq.tolist(), strict=True
        ):
            ended[life, name] = max(lseq, ended.get((life, name), 0))
    latest: dict[tuple[int, str], int] = {}
    for i in np.argsort(acked.lseq, kind="stable").tolist():
        latest[int(acked.life[i]), sets[i]] = i
    busy = states.last.longs("busy")
    for k, (life, name) in enumerate(
        zip(states.last.life.tolist(), states.last.texts("set"), strict=True)
    ):
        i = latest.get((life, name))
        if not busy[k] or i is None or not lives[life].last:
            continue
        if int(acked.lseq[i]) > ended.get((life, name), 0):
            many = len(bases[name, change[i]]) > 1
            which = "change-progress" if many else "change-termination"
            text = f"{lives[life].process} waits for {change[i]} of {name} without end"
            out.add(which, 0, [ServiceViolation(which, text, (acked.place(i),))])
