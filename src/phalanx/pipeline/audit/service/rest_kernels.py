"""Kernels for the service at rest. `verify.service.rest_checks` states the properties.

They compare relations: who owns what, who holds what, who is registered where. Each relation is a
set of tuples that comes from the last rows of the hosts that were up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from phalanx.pipeline.audit.service.service_columns import (
    LifeFacts,
    ServiceFrame,
    ServiceResults,
    ServiceViolation,
    frame,
    numbers,
)
from phalanx.pipeline.audit.verdicts import VerdictRow
from phalanx.pipeline.group_tables import GroupTables


class _Owned(NamedTuple):
    """A group that a set owns at rest."""

    uid: str
    set: str
    vid: str
    scope: str
    ended: bool
    members: tuple[str, ...]
    place: VerdictRow


class _Rest(NamedTuple):
    """The relations. `above`: the sets at or above each interface's own one."""

    sets: dict[str, dict[str, Any]]
    """The latest state of each set, as a row, with its `place`."""
    owned: list[_Owned]
    holds: dict[str, tuple[str, str, bool, VerdictRow]]
    """For each member group, view, whether it is over, and the row."""
    above: dict[str, tuple[str, ...]]
    hosts: frozenset[str]
    up: frozenset[str]


def check_at_rest(
    tables: GroupTables, lives: Sequence[LifeFacts], undisturbed_ns: int, out: ServiceResults
) -> None:
    """Of a run that has settled."""
    plans = _plans(tables, lives)
    held = _at_end(frame(tables, "set_state_held", lives), "LAST")
    records = _at_end(frame(tables, "group_record_held", lives), None)
    rest = _rest(tables, lives, plans, held, records)
    owners(rest, out)
    names(rest, out)
    precision(rest, out)
    subgroups(_dicts(_at_end(frame(tables, "membership_held", lives), "LAST")), out)
    joins(tables, lives, rest, undisturbed_ns, out)
    gone = gone_servers(tables, lives)
    sets_at_rest(plans, held, frame(tables, "set_entry_asked", lives), rest, gone, out)
    leftovers(tables, lives, rest, _of_latest(records, rest), out)


def _at_end(rows: ServiceFrame, op: str | None) -> ServiceFrame:
    """Rows of the last life of each host that was up then."""
    up = np.array([life.last and not life.crashed for life in rows.lives], dtype=bool)
    keep = up[rows.life] if len(rows) else np.zeros(0, dtype=bool)
    if op is not None:
        keep &= np.array([each == op for each in rows.texts("op")], dtype=bool)
    return rows.where(keep)


def _dicts(rows: ServiceFrame) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rows.table.to_pylist()
    return [{**row, "place": rows.place(i)} for i, row in enumerate(found)]


def _plans(tables: GroupTables, lives: Sequence[LifeFacts]) -> dict[str, dict[str, Any]]:
    return {row["set"]: row for row in _dicts(frame(tables, "set_configured", lives))}


def _rest(
    tables: GroupTables,
    lives: Sequence[LifeFacts],
    plans: dict[str, dict[str, Any]],
    held: ServiceFrame,
    records: ServiceFrame,
) -> _Rest:
    latest: dict[str, dict[str, Any]] = {}
    order = zip(numbers(held.texts("vid")).tolist(), held.texts("vid"), _dicts(held), strict=True)
    for _, _, row in sorted(order, key=lambda each: (*each[:2], each[2]["member"])):
        latest[row["set"]] = row
    above: dict[str, tuple[str, ...]] = {}
    for plan in plans.values():
        for interface in plan["interfaces"] if plan["level"] == 1 else ():
            path, at = [], plan["set"]
            while at is not None and at not in path:
                path.append(at)
                at = plans[at]["above"] if at in plans else None
            above[interface] = tuple(path)
    rest = _Rest(
        latest,
        [],
        {
            row["group_member"]: (row["uid"], row["vid"] or "", bool(row["over"]), row["place"])
            for row in _dicts(_at_end(frame(tables, "membership_held", lives), "LAST"))
        },
        above,
        frozenset(life.host for life in lives),
        frozenset(life.host for life in lives if life.last and not life.crashed),
    )
    for row in _dicts(_of_latest(records, rest)):
        if row["own"] is not None:
            members, ended = tuple(row["members"]), row["ended"] is not None
            about = (row["uid"], row["set"], row["own"], row["scope"])
            rest.owned.append(_Owned(*about, ended, members, row["place"]))
    return rest


def _of_latest(records: ServiceFrame, rest: _Rest) -> ServiceFrame:
    """What the servers with the latest states of their sets hold."""
    speaks = {(name, row["place"].member) for name, row in rest.sets.items()}
    writers = [records.lives[i].host for i in records.life.tolist()]
    mine = [who in speaks for who in zip(records.texts("set"), writers, strict=True)]
    return records.where(np.array(mine, dtype=bool))


def owners(rest: _Rest, out: ServiceResults) -> None:
    by_uid: dict[str, list[_Owned]] = {}
    for owned in rest.owned:
        by_uid.setdefault(owned.uid, []).append(owned)

    def found() -> Iterator[ServiceViolation]:
        for uid, several in sorted(by_uid.items()):
            if len(several) > 1:
                text = f"owners of {uid}: {', '.join(sorted(o.set for o in several))}"
                yield ServiceViolation("one-owner", text, tuple(o.place for o in several))
        for owned in rest.owned:
            outside = [m for m in owned.members if owned.set not in _above(rest, m, owned.set)]
            if outside and not owned.ended:
                text = f"{', '.join(outside)} of {owned.uid} are outside of {owned.set}"
                yield ServiceViolation("one-owner", text, (owned.place,))

    out.add("one-owner", len(by_uid), found())


def _above(rest: _Rest, member: str, default: str) -> tuple[str, ...]:
    return rest.above.get(member.rpartition("/")[0], (default,))


def names(rest: _Rest, out: ServiceResults) -> None:
    registered = [(name, uid) for name, row in rest.sets.items() for uid in row["name_uids"]]
    asked = [o for o in rest.owned if not o.ended and o.scope in rest.sets]

    def found() -> Iterator[ServiceViolation]:
        for owned in asked:
            times = registered.count((owned.scope, owned.uid))
            if times != 1:
                text = f"{owned.uid} has {times} names in {owned.scope}"
                yield ServiceViolation("one-name", text, (owned.place,))

    out.add("one-name", len(asked), found())


def precision(rest: _Rest, out: ServiceResults) -> None:
    live = [o for o in rest.owned if not o.ended]
    owned = {(o.uid, o.vid, m): o for o in live for m in o.members}
    asked = {k: o for k, o in owned.items() if k[2].rpartition("/")[0] in rest.hosts}
    held = {
        (uid, vid, m): place
        for m, (uid, vid, over, place) in rest.holds.items()
        if vid and not over
    }
    believed = {(o.uid, m) for o in live for m in o.members}

    def found() -> Iterator[ServiceViolation]:
        for key in sorted(asked.keys() - held.keys()):
            text = f"{key[2]} is in {key[1]} of {key[0]} at {asked[key].set} and does not have it"
            yield ServiceViolation("view-precision", text, (asked[key].place,))
        for uid, vid, member in sorted(held):
            if (uid, member) not in believed:
                text = f"{member} believes in {vid} of {uid}, and no owner does"
                yield ServiceViolation("view-precision", text, (held[uid, vid, member],))

    out.add("view-precision", len(asked) + len(held), found())


def subgroups(held: list[dict[str, Any]], out: ServiceResults) -> None:
    alive = {row["group_member"] for row in held if not row["over"]}
    inside = [
        row for row in held if row["parent_member"] and row["group_member"] in alive and row["vid"]
    ]

    def found() -> Iterator[ServiceViolation]:
        for row in inside:
            if row["parent_member"] not in alive:
                text = f"{row['group_member']} has lost {row['parent_member']} in the parent group"
                yield ServiceViolation("subgroup-inclusion", text, (row["place"],))

    out.add("subgroup-inclusion", len(inside), found())


def joins(
    tables: GroupTables,
    lives: Sequence[LifeFacts],
    rest: _Rest,
    undisturbed_ns: int,
    out: ServiceResults,
) -> None:
    late = {
        row["call"]: row
        for row in _dicts(frame(tables, "call_made", lives))
        if row["kind"] in ("join", "split") and (row["sim_ns"] or 0) >= undisturbed_ns
    }
    known = {
        (name, each)
        for name, row in rest.sets.items()
        for each in (*row["names"], *row["name_uids"])
    }
    asked = {
        call: row
        for call, row in late.items()
        if any((name, row["name"]) in known for name in rest.above.get(row["member"], ()))
    }
    finished = _dicts(frame(tables, "call_finished", lives))
    answers = [row for row in finished if row["call"] in asked]

    def found() -> Iterator[ServiceViolation]:
        for row in answers:
            if row["error"]:
                call = asked[row["call"]]
                text = f"{call['kind']} of {call['name']} at {call['member']}: {row['error']}"
                places = (call["place"], row["place"])
                yield ServiceViolation("joinable-groups", text, places)

    out.add("joinable-groups", len(answers), found())


def sets_at_rest(
    plans: dict[str, dict[str, Any]],
    held: ServiceFrame,
    asking: ServiceFrame,
    rest: _Rest,
    gone: frozenset[str],
    out: ServiceResults,
) -> None:
    """Those that are `gone` are not waited for; who acts for one of them is its parent."""
    parents = {name: plan["parent"] for name, plan in plans.items()}
    for name, row in rest.sets.items():
        if parents.get(name) in gone and row["parent"] is not None:
            parents[name] = _name(row["parent"])
    rows = _dicts(held)
    tested = len({row["set"] for row in rows} & plans.keys())

    def found() -> Iterator[ServiceViolation]:
        for row in _dicts(_at_end(asking, None)):
            text = f"{row['member']} waits to enter {row['set']}"
            yield ServiceViolation("service-rest", text, (row["place"],))
        for name, plan in sorted(plans.items()):
            mine = [row for row in rows if row["set"] == name]
            for row in mine:
                vids = {each["vid"] for each in mine}
                kids = {c: parents[c] for c, other in plans.items() if other["above"] == name}
                wanted = (set(plan["servers"]) - gone) | {p for p in kids.values() if p}
                for text in _unrest(row, wanted, parents[name], kids, vids):
                    yield ServiceViolation("service-rest", text, (row["place"],))

    out.add("service-rest", tested, found())


def _unrest(
    row: dict[str, Any],
    wanted: set[str],
    parent: str | None,
    kids: dict[str, str | None],
    vids: set[str],
) -> Iterator[str]:
    """What is not at rest about one set at one server."""
    name = row["set"]
    if row["busy"]:
        yield f"{row['member']} is busy in {name}"
    if len(vids) > 1:
        yield f"{name} has {len(vids)} states"
    if {_name(server) for server in row["members"]} != wanted:
        yield f"{name} has other servers than configured"
    if (_name(row["parent"]) if row["parent"] is not None else None) != parent:
        yield f"the parent of {name} is {row['parent']}"
    linked = sorted((k, _name(s)) for k, s in zip(row["kids"], row["kid_servers"], strict=True))
    if [each for each in linked if each[0] in kids] != sorted(kids.items()):
        yield f"the children of {name} have other parents than configured"


def gone_servers(tables: GroupTables, lives: Sequence[LifeFacts]) -> frozenset[str]:
    """Servers that ended after they had left all their sets: the last row about each says so."""
    latest: dict[tuple[int, str], tuple[int, bool]] = {}
    for name in ("set_state_held", "set_state_applied", "set_left"):
        rows = frame(tables, name, lives)
        for life, lseq, of in zip(
            rows.life.tolist(), rows.lseq.tolist(), rows.texts("set"), strict=True
        ):
            latest[life, of] = max(latest.get((life, of), (0, False)), (lseq, name == "set_left"))
    found = set()
    for each in lives:
        mine = [left for (life, _), (_, left) in latest.items() if life == each.order]
        if each.last and each.crashed and mine and all(mine):
            found.add(each.host)
    return frozenset(found)


def _name(server: str) -> str:
    return server.rpartition(".")[0]


def leftovers(
    tables: GroupTables,
    lives: Sequence[LifeFacts],
    rest: _Rest,
    records: ServiceFrame,
    out: ServiceResults,
) -> None:
    made = _dicts(frame(tables, "call_made", lives))
    finished: dict[str, list[VerdictRow]] = {}
    for row in _dicts(frame(tables, "call_finished", lives)):
        finished.setdefault(row["call"], []).append(row["place"])
    homes = _dicts(_at_end(frame(tables, "home_taken", lives), "LAST"))
    groups = _dicts(records)

    def found() -> Iterator[ServiceViolation]:
        for row in groups:
            if row["moves"]:
                text = f"{row['uid']} is on its way from {row['set']}"
                yield ServiceViolation("service-rest", text, (row["place"],))
            if row["pin"] is not None and row["ended"] is None:
                text = f"{row['uid']} is pinned in {row['set']} by {row['pin']}"
                yield ServiceViolation("service-rest", text, (row["place"],))
        for row in homes:
            if not row["path"]:
                text = f"{row['member']} has no home"
                yield ServiceViolation("service-rest", text, (row["place"],))
        for row in made:
            answers = finished.get(row["call"], [])
            if row["member"] in rest.up and not _is_answered(row["place"], answers):
                text = f"call {row['call']} at {row['member']} has no answer"
                yield ServiceViolation("service-rest", text, (row["place"],))

    out.add("service-rest", len(groups) + len(homes), found())


def _is_answered(made: VerdictRow, answers: Sequence[VerdictRow]) -> bool:
    """An answer came after the call."""
    return any((a.incarnation, a.lseq) > (made.incarnation, made.lseq) for a in answers)
