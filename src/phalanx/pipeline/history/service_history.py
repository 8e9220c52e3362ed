"""What happened to the groups of a membership service: views, moves, ends of memberships.

Servers and interfaces record the same view many times. Here it is once, at the earliest instant
that any of them gives: by the wall clock of its machine, or the clock of a simulation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from phalanx.journal.service_schema import SERVICE_GROUP
from phalanx.pipeline.group_tables import GroupRow, GroupTables, each_row

MOVES = frozenset({"adopt", "take", "clear", "claim", "want", "big", "recall", "pin", "unpin"})
"""Causes of changes that move a group, or keep it from moving."""


class ServiceEvent(GroupRow, frozen=True, kw_only=True):
    """One thing that happened to a group. `removed` and `joined` are members."""

    at_ns: int
    """Nanoseconds of the wall clock of its machine since 1970, or of the simulation."""
    simulated: bool
    kind: Literal["VIEW", "MOVE", "EXCLUDED", "ENDED"]
    uid: str
    name: str
    set: str
    """The set that owns the group; empty for the end of a membership."""
    vid: str
    cause: str
    """The rule or call that made the view or the move."""
    members: list[str]
    joined: list[str]
    removed: list[str]
    attributes: list[str]
    """For each member its attributes as JSON; no list if none has any."""


def service_history(wanted: str | None, tables: GroupTables) -> list[ServiceEvent]:
    """The events of one group, named by name or uid, or of all; a kernel."""
    if tables.key.group != SERVICE_GROUP:
        return []
    found = [*_views(tables), *_moves(tables), *_ends(tables)]
    names = {event.uid: event.name for event in found if event.name}
    found = [msgspec.structs.replace(e, name=e.name or names.get(e.uid, "")) for e in found]
    chosen = [e for e in found if wanted is None or wanted in (e.uid, e.name)]
    return sorted(chosen, key=lambda e: (e.at_ns, e.uid, _number(e.vid), e.kind, e.set))


def _number(vid: str) -> int:
    return int(vid.partition(":")[0] or 0)


class _Clock:
    """Instants of rows of each journal."""

    def __init__(self, tables: GroupTables) -> None:
        self._offset = {j.journal: j.wall_ns - j.mono_ns for j in tables.journals}

    def at(self, journal: str, t_ns: int, sim_ns: int | None) -> tuple[int, bool]:
        if sim_ns is not None:
            return sim_ns, True
        return t_ns + self._offset[journal], False


_WHEN = ("journal", "t_ns", "sim_ns")


def _views(tables: GroupTables) -> Iterator[ServiceEvent]:
    clock = _Clock(tables)
    own = ("set", "uid", "vid", "preds", "members", "cause", "name", "attributes")
    rows = list(each_row(tables["group_view_installed"], *_WHEN, *own))
    members = {(row[4], row[5]): row[7] for row in rows}
    first: dict[tuple[str, str], ServiceEvent] = {}
    for journal, t_ns, sim_ns, name_of_set, uid, vid, preds, inside, cause, name, texts in rows:
        at, simulated = clock.at(journal, t_ns, sim_ns)
        known = first.get((uid, vid))
        if known is not None and known.at_ns <= at:
            continue
        before = {m for pred in preds for m in members.get((uid, pred), ())}
        first[uid, vid] = ServiceEvent(
            **tables.key._asdict(),
            at_ns=at,
            simulated=simulated,
            kind="VIEW",
            uid=uid,
            name=name,
            set=name_of_set,
            vid=vid,
            cause=cause,
            members=inside,
            joined=[m for m in inside if m not in before],
            removed=sorted(before - set(inside)),
            attributes=texts,
        )
    yield from first.values()


def _moves(tables: GroupTables) -> Iterator[ServiceEvent]:
    clock = _Clock(tables)
    own = ("set", "at_vid", "uid", "cause", "name", "own", "moves", "move_targets")
    first: dict[tuple[str, ...], ServiceEvent] = {}
    for row in each_row(tables["group_record_changed"], *_WHEN, *own):
        journal, t_ns, sim_ns, where, at_vid, uid, cause, name, vid, moves, targets = row
        if not moves and cause not in MOVES:
            continue
        at, simulated = clock.at(journal, t_ns, sim_ns)
        key = (uid, where, at_vid, cause)
        known = first.get(key)
        if known is not None and known.at_ns <= at:
            continue
        to = f"{cause or 'move'} to {', '.join(targets)}" if moves else cause
        first[key] = ServiceEvent(
            **tables.key._asdict(),
            at_ns=at,
            simulated=simulated,
            kind="MOVE",
            uid=uid,
            name=name,
            set=where,
            vid=vid or "",
            cause=to,
            members=[],
            joined=[],
            removed=[],
            attributes=[],
        )
    yield from first.values()


def _ends(tables: GroupTables) -> Iterator[ServiceEvent]:
    clock = _Clock(tables)
    own = ("uid", "previous", "to", "ended")
    for row in each_row(tables["membership_ended"], *_WHEN, *own):
        journal, t_ns, sim_ns, uid, previous, to, ended = row
        at, simulated = clock.at(journal, t_ns, sim_ns)
        yield ServiceEvent(
            **tables.key._asdict(),
            at_ns=at,
            simulated=simulated,
            kind="ENDED" if ended else "EXCLUDED",
            uid=uid,
            name="",
            set="",
            vid=previous or "",
            cause="the group has ended" if ended else "a view without them",
            members=[],
            joined=[],
            removed=to,
            attributes=[],
        )
