"""Lives and views of one group as arrays: what the checks of messages look up.

Per member: whether its journal is there, whole or torn, and what it sent. Per view: the members of
it, those that installed it, those that must deliver in it. Per route (members that left a view for
the same next one): which members are compared. Per member and view: its marker and its next view.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from phalanx.pipeline.audit.chronicle import Chronicle, MemberRecord, Receivers, Route, ViewRecord
from phalanx.pipeline.audit.member_masks import MaskSpace, Words, some
from phalanx.pipeline.audit.number_ranges import NONE, Bools, Longs, packed, packed_one


@dataclass(slots=True)
class Where:
    """Where in the life of its member each of some rows lies."""

    now: Longs
    """The view that the member was in; -1 before the first."""
    mark: Longs
    """The row of the marker in that stay; NONE without one."""


class Table:
    """Numbers by a pair of member and view."""

    def __init__(
        self, views: int, rows: dict[tuple[int, int], tuple[int, ...]], width: int
    ) -> None:
        self._views = views
        keys = sorted(rows)
        self._keys = np.array([k * views + v for k, v in keys], dtype=np.int64)
        values = [rows[key] for key in keys]
        self._values = np.array(values, dtype=np.int64).reshape(len(keys), width)

    def at(self, k: Longs, v: Longs) -> tuple[Bools, Longs]:
        """Whether there is an entry, and its numbers: a row each, zero without one."""
        key = k * self._views + v
        place = np.searchsorted(self._keys, key)
        there = (place < len(self._keys)) & (v >= 0)
        there[there] = self._keys[place[there]] == key[there]
        found = np.zeros((len(k), self._values.shape[1]), dtype=np.int64)
        found[there] = self._values[place[there]]
        return there, found


class GroupFacts:
    """Of one group in one run."""

    def __init__(self, run: Chronicle, views: int) -> None:
        self.run, self.views = run, views
        members = run.members
        self.masks = MaskSpace(len(members))
        self.known = _flags(m.journal is not None for m in members)
        self.torn = _flags(m.torn for m in members)
        self.whole = _flags(run.whole(m) for m in members)
        self.lasting = _flags(run.settled and run.alive(m) for m in members)
        self.sends_end = _flags(run.whole(m) and not m.excerpt.goes_on for m in members)
        """All that it sent is here, to its end."""
        self.sent_before = np.array([m.excerpt.sent for m in members] or [0], dtype=np.int64)
        """Numbers up to this one may have been sent before the rows that are here."""
        self.tells = _flags(m.tells for m in members)
        self.sent_last = np.array([m.sent_last for m in members] or [0], dtype=np.int64)
        self._of_views()
        self._of_routes()
        self._of_stays()
        self._of_senders()
        self._of_sets()

    # ------------------------------------------------------------------ views

    def _of_views(self) -> None:
        """`duty`: members that must deliver in a view what is safe in it; `absent`: members of it
        that never installed it, though all that they did is known."""
        run, size = self.run, self.views
        self.view_known = np.zeros(size, dtype=bool)
        self.inside, self.installed, self.duty, self.absent = (
            self.masks.nobody(size) for _ in range(4)
        )
        there: list[list[MemberRecord]] = [[] for _ in range(size)]
        for m in run.known:
            for v in m.installed:
                there[v].append(m)
        for view in run.views.values():
            v = view.v
            self.view_known[v] = True
            self.inside[v] = self._mask(run.by_label[name] for name in view.inside)
            inside = [m for m in run.known if m.label in view.inside and not m.torn]
            duty = (m for m in inside if m in there[v] and self._stays_or_moves(m, view))
            absent = (m for m in inside if m not in there[v] and run.whole(m))
            self.installed[v] = self._mask(there[v])
            self.duty[v] = self._mask(duty)
            self.absent[v] = self._mask(absent)

        self._of_epochs()

    def _of_epochs(self) -> None:
        """`epochs`: per view, a number that rises with its epoch; -1 if members differ on it.
        `rising`: per member, whether the epochs of its views rise."""
        said: dict[int, set[tuple[int, int]]] = {}
        for m in self.run.known:
            for row in m.installs:
                said.setdefault(row.v, set()).add((row.joins, row.removals))
        every = sorted({epoch for epochs in said.values() for epoch in epochs})
        number = {epoch: i for i, epoch in enumerate(every)}
        self.epochs = np.full(self.views, -1, dtype=np.int64)
        for v, epochs in said.items():
            if len(epochs) == 1:
                self.epochs[v] = number[min(epochs)]
        self.rising = _flags(
            all((a.joins, a.removals) < (b.joins, b.removals) for a, b in pairwise(m.installs))
            for m in self.run.members
        )

    def _stays_or_moves(self, m: MemberRecord, view: ViewRecord) -> bool:
        return view.v in m.next or (m in self.run.living and m.end == view.v)

    def _mask(self, members: Iterable[MemberRecord]) -> Words:
        return self.masks.of(m.k for m in members)

    # ------------------------------------------------------------------ routes

    def _of_routes(self) -> None:
        """`along`: the members of a route; `together`: whole journals that moved on, if there are
        at least two; `ordered`: whole journals with ordered messages in the view."""
        routes = sorted(self.run.routes, key=lambda route: (route.v, route.w is None, route.w or 0))
        self.routes: list[Route] = routes
        self.route_w = np.array([-1 if r.w is None else r.w for r in routes] or [0], np.int64)
        size = max(1, len(routes))
        self.along, self.together, self.ordered = (self.masks.nobody(size) for _ in range(3))
        self.climbers: list[list[tuple[int, int]]] = []
        """Per route, the members with ordered messages, and the highest position of each."""
        for i, route in enumerate(routes):
            whole = [m for m in route.members if not m.torn]
            climbing = [m for m in whole if route.v in m.uses and m.uses[route.v].ordered]
            moved = whole if route.w is not None and len(whole) > 1 else []
            self.along[i] = self._mask(route.members)
            self.together[i] = self._mask(moved)
            self.ordered[i] = self._mask(climbing)
            high = ((m.k, m.uses[route.v].highest) for m in climbing)
            self.climbers.append([(k, -1 if top is None else top) for k, top in high])
        begins = np.array([route.v for route in routes], dtype=np.int64)
        every = np.arange(self.views)
        self.route_begin = np.searchsorted(begins, every)
        self.route_count = np.searchsorted(begins, every, side="right") - self.route_begin
        self.compared = {(m.k, route.v) for route in routes for m in route.members}

    # ------------------------------------------------------------------ stays in views

    def _of_stays(self) -> None:
        run = self.run
        keys, views, marks = [], [], []
        stays: dict[tuple[int, int], tuple[int, ...]] = {}
        for m in run.known:
            ends = [row.lseq for row in m.installs[1:]] + [1 << 62]
            for row, until in zip(m.installs, ends, strict=False):
                keys.append(packed_one(m.k, row.lseq))
                views.append(row.v)
                marks.append(next((at for at in m.marks if row.lseq < at < until), NONE))
            for v in dict.fromkeys([*(row.v for row in m.installs), *m.markers, *m.uses]):
                marker, at = m.markers.get(v), m.next.get(v)
                step = next((row.step for row in m.installs if row.v == v), None)
                stays[m.k, v] = (
                    -1 if marker is None else marker.lseq,
                    NONE if marker is None else marker.pos,
                    -1 if at is None else m.installs[at].v,
                    (m.k, v) in self.compared,
                    step is not None and run.step_ended(m, step),
                )
        self._install_keys = np.array(keys, dtype=np.int64)
        self._install_views = np.array(views, dtype=np.int64)
        self._install_marks = np.array(marks, dtype=np.int64)
        self._stays = Table(self.views, stays, 5)

    def where(self, k: Longs, lseq: Longs) -> Where:
        """Where rows of these members lie in their lives."""
        if not len(self._install_keys):
            return Where(np.full(len(k), -1), np.full(len(k), NONE))
        at = np.searchsorted(self._install_keys, packed(k, lseq)) - 1
        fits = (at >= 0) & (self._install_keys[at] >> 44 == k)
        now = np.where(fits, self._install_views[at], -1)
        return Where(now, np.where(fits, self._install_marks[at], NONE))

    def marker(self, k: Longs, v: Longs) -> tuple[Longs, Longs]:
        """Row and position of the first marker of a member in a view; row -1 without one."""
        there, found = self._stays.at(k, v)
        return np.where(there, found[:, 0], -1), found[:, 1]

    def next_view(self, k: Longs, v: Longs) -> Longs:
        """The view after this one; -1 without one."""
        there, found = self._stays.at(k, v)
        return np.where(there, found[:, 2], -1)

    def is_compared(self, k: Longs, v: Longs) -> Bools:
        """The member went through the view on a route."""
        return self._stays.at(k, v)[1][:, 3] > 0

    def has_ended(self, k: Longs, v: Longs) -> Bools:
        """Nothing is missing of the step in which the member installed the view."""
        return self._stays.at(k, v)[1][:, 4] > 0

    # ------------------------------------------------------------------ what senders are owed

    def _of_senders(self) -> None:
        """What is owed to the messages of a sender in a view. `closed`: it left the view. In the
        one that a living sender ended in: all that have a whole journal (`due_all`), and those of
        them that live, ended in the view too and can be reached (`due_live`)."""
        run = self.run
        rows: dict[tuple[int, int], tuple[int, ...]] = {}
        every, near = [self.masks.of(())], [self.masks.of(())]
        for s in run.known:
            lasting = s in run.living and s.end is not None
            for home in {*s.next, *([s.end] if lasting and s.end is not None else [])}:
                place = 0
                if lasting and home == s.end:
                    place = len(every)
                    for found, members in zip((every, near), self._due(s), strict=True):
                        found.append(self._mask(members))
                rows[s.k, home] = (home in s.next and not s.torn, place)
        self._owed = Table(self.views, rows, 2)
        self._due_all, self._due_live = np.array(every), np.array(near)

    def _due(self, s: MemberRecord) -> tuple[list[MemberRecord], list[MemberRecord]]:
        assert s.end is not None
        run = self.run
        view = run.views[s.end]
        inside = [m for m in run.known if m.label in view.inside and not m.torn]
        reach = None if s.reach is None else s.reach.component
        live = [
            m
            for m in inside
            if m in run.living and m.end == s.end and (reach is None or m.member in reach)
        ]
        return inside, live

    def owed(self, s: Longs, home: Longs) -> tuple[Bools, Words, Words]:
        """closed, due_all and due_live of these senders and views."""
        _, found = self._owed.at(s, home)
        return found[:, 0] > 0, self._due_all[found[:, 1]], self._due_live[found[:, 1]]

    # ------------------------------------------------------------------ receivers

    def _of_sets(self) -> None:
        """Index -1 is the whole view: everybody."""
        self.sets: list[Receivers] = sorted(self.run.receivers, key=lambda found: found.t)
        self.meant = self.masks.everybody(len(self.sets) + 1)
        """Per set of receivers, the members with a journal that it means."""
        for found in self.sets:
            self.meant[found.t] = self._mask(m for m in self.run.known if found.means(m))

    def is_meant(self, t: Longs, k: Longs) -> Bools:
        return some(self.meant[t] & self.masks.bits[k])

    def receivers(self, t: int) -> str:
        """A set of receivers in words."""
        return "all" if t < 0 else ", ".join(self.sets[t].names)

    def is_inside(self, s: Longs, v: Longs) -> Bools:
        """The member is in the view; True if nobody installed the view."""
        there = some(self.inside[v] & self.masks.bits[s])
        return there | ~self.view_known[v]


def _flags(values: Iterable[bool]) -> Bools:
    return np.array([*values, False], dtype=bool)
