"""A small service that has come to rest, as rows, and for each property an alteration that breaks
it: two servers of one set, two interfaces, one group with two views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from phalanx.journal import service_schema as rows
from phalanx.journal.ground_truth import GroundTruth
from phalanx.journal.schema import SCHEMA_VERSION, Event, Life
from phalanx.journal.segment import Header
from phalanx.journal.service_schema import SERVICE_GROUP

Journals = dict[tuple[str, int], list[Event]]
Alteration = Callable[[Journals], None]

TRUTH = GroundTruth(settled=True, undisturbed_ns=5)
S1, S2, S3, S4 = "1:aa", "2:bb", "3:cc", "4:dd"
"""States of the set."""
V1, V2 = "1:11", "2:22"
"""Views of the group."""
BOTH = ["a.1", "b.1"]
MEMBERS = ["m/1", "n/1"]


def held(op: str, vid: str, **more: Any) -> tuple[type, dict[str, Any]]:
    facts: dict[str, Any] = {"op": op, "set": "S", "vid": vid, "lineage": "aa", "members": BOTH}
    facts |= {"parent": None, "kids": [], "kid_servers": [], "names": ["x"], "name_uids": ["g"]}
    return rows.SetStateHeld, facts | {"busy": 0, "digest": vid} | more


def applied(vid: str, base: str, change: str) -> tuple[type, dict[str, Any]]:
    facts: dict[str, Any] = {"set": "S", "vid": vid, "bases": [base], "change": change}
    facts |= {"way": "CHANGE", "lineage": "aa", "members": BOTH, "parent": None, "joined": []}
    lists: dict[str, Any] = {"left": [], "isolated": [], "entries": [], "entry_counts": []}
    return rows.SetStateApplied, facts | lists | {"digest": vid}


def acked(base: str, change: str) -> tuple[type, dict[str, Any]]:
    return rows.ChangeAcknowledged, {
        "set": "S",
        "base": base,
        "change": change,
        "coordinator": "a.1",
    }


def configured() -> tuple[type, dict[str, Any]]:
    facts: dict[str, Any] = {"set": "S", "level": 1, "above": None, "parent": None}
    return rows.SetConfigured, facts | {"servers": ["a", "b"], "interfaces": ["m", "n"]}


def installed(vid: str, parts: list[str]) -> tuple[type, dict[str, Any]]:
    facts: dict[str, Any] = {"set": "S", "at_vid": S2, "uid": "g", "vid": vid, "preds": []}
    facts |= {"members": MEMBERS, "parts": parts, "cause": "join", "name": "x", "attributes": []}
    return rows.GroupViewInstalled, facts


def server(name: str) -> list[tuple[type, dict[str, Any]]]:
    record: dict[str, Any] = {"set": "S", "at_vid": S4, "uid": "g", "name": "x", "scope": "S"}
    record |= {"own": V2, "members": MEMBERS, "ended": None, "below": [], "moves": []}
    served = {"set": "S", "uid": "g", "vid": V2, "members": MEMBERS}
    return [
        (Life, {"op": "START"}),
        (rows.ProcessStarted, {"kind": "SERVER", "process": f"{name}.1"}),
        configured(),
        held("FOUNDED", S1),
        acked(S1, "a.1/1"),
        applied(S2, S1, "a.1/1"),
        (rows.SetStateStable, {"set": "S", "vid": S2, "members": BOTH}),
        installed(V1, ["", ""]),
        installed(V2, [V1, V1]),
        acked(S2, "b.1/1"),
        applied(S3, S2, "a.1/2"),
        acked(S3, "b.1/1"),
        applied(S4, S3, "b.1/1"),
        *([(rows.GroupServed, served)] if name == "a" else []),
        held("LAST", S4),
        (rows.GroupRecordHeld, record | {"move_targets": [], "pin": None}),
        (Life, {"op": "STOP", "reason": "ended"}),
    ]


def delivered(name: str, vid: str, previous: str | None) -> tuple[type, dict[str, Any]]:
    facts: dict[str, Any] = {"uid": "g", "vid": vid, "previous": previous, "to": [f"{name}/1"]}
    return rows.GroupViewDelivered, facts | {
        "to_parts": [previous or ""],
        "members": MEMBERS,
        "cause": "join",
    }


def interface(name: str) -> list[tuple[type, dict[str, Any]]]:
    home: dict[str, Any] = {"home": "a", "seq": 0}
    call = f"c{name}/1"
    member = f"{name}/1"
    return [
        (Life, {"op": "START"}),
        (rows.ProcessStarted, {"kind": "INTERFACE", "process": f"{name}.1"}),
        configured(),
        (rows.HomeTaken, home | {"op": "RESTORED", "path": []}),
        (
            rows.CallMade,
            {"call": call, "kind": "join", "name": "x", "group_member": "", "scope": ""},
        ),
        delivered(name, V1, None),
        (
            rows.CallFinished,
            {"call": call, "uid": "g", "vid": V1, "error": "", "group_member": member},
        ),
        delivered(name, V2, V1),
        (rows.HomeTaken, home | {"op": "LAST", "path": ["S"]}),
        (
            rows.MembershipHeld,
            {"op": "LAST", "group_member": member, "uid": "g", "vid": V2, "over": 0}
            | {"parent_member": ""},
        ),
        (Life, {"op": "STOP", "reason": "ended"}),
    ]


def small_service() -> Journals:
    """The rows of all four processes, each with one life."""
    out: Journals = {}
    for name, made in (
        ("a", server("a")),
        ("b", server("b")),
        ("m", interface("m")),
        ("n", interface("n")),
    ):
        out[name, 1] = numbered(name, 1, made)
    return out


def numbered(name: str, life: int, made: list[tuple[type, dict[str, Any]]]) -> list[Event]:
    found: list[Event] = []
    for number, (kind, columns) in enumerate(made, start=1):
        common: dict[str, Any] = {"run": "r", "profile": "S", "group": SERVICE_GROUP}
        common |= {"member": name, "incarnation": life, "lseq": number, "step": number}
        found.append(kind(**common, t_ns=10 * number, sim_ns=10 * number, **columns))
    return found


def header(name: str, life: int, truth: dict[str, Any]) -> Header:
    """The header of one journal."""
    return Header(
        journal=f"{name}{life}".encode().hex().rjust(32, "0"),
        cluster="sim",
        group=SERVICE_GROUP,
        member=name,
        incarnation=life,
        number=1,
        schema=SCHEMA_VERSION,
        wall_ns=0,
        mono_ns=0,
        boot_id="",
        config={"truth": truth},
    )


# ---------------------------------------------------------------------- alterations


def change(host: str, kind: type, nth: int = 0, **columns: Any) -> Alteration:
    """One row of one host has other values."""

    def altered(journals: Journals) -> None:
        found = journals[host, 1]
        at = [i for i, row in enumerate(found) if type(row) is kind][nth]
        found[at] = replace(found[at], **columns)

    return altered


def add(host: str, kind: type, sim_ns: int, **columns: Any) -> Alteration:
    """One row more, before the last rows of a host; the rows behind it get other numbers."""

    def altered(journals: Journals) -> None:
        found = journals[host, 1]
        common: dict[str, Any] = {"run": "r", "profile": "S", "group": SERVICE_GROUP}
        common |= {"member": host, "incarnation": 1, "lseq": 1, "step": 1, "t_ns": sim_ns}
        last = kind in (rows.SetEntryAsked, rows.GroupRecordHeld)
        found.insert(len(found) - (1 if last else 3), kind(**common, sim_ns=sim_ns, **columns))
        found[:] = [replace(row, lseq=i) for i, row in enumerate(found, start=1)]

    return altered


def both(*alterations: Alteration) -> Alteration:
    def altered(journals: Journals) -> None:
        for each in alterations:
            each(journals)

    return altered


def restart_without(member: str) -> Alteration:
    """An interface comes back without one of its members."""

    def altered(journals: Journals) -> None:
        host = member.partition("/")[0]
        journals[host, 1] = numbered(host, 1, [*interface(host)[:-3], (Life, {"op": "CRASH"})])
        again = [each for each in interface(host) if each[0] not in _OF_CALLS]
        journals[host, 2] = numbered(host, 2, again)

    return altered


_OF_CALLS = (rows.GroupViewDelivered, rows.CallMade, rows.CallFinished)
_OTHER_OWNER: dict[str, Any] = {"set": "T", "at_vid": S4, "uid": "g", "name": "x", "scope": "S"}
_OTHER_OWNER |= {"own": V2, "members": [], "ended": None, "below": [], "moves": []}
_OTHER_OWNER |= {"move_targets": [], "pin": None}
_OTHER_SET: dict[str, Any] = {"set": "U", "level": 1, "above": None, "parent": None}

BROKEN: dict[str, tuple[Alteration, ...]] = {
    "set-agreement": (
        change("b", rows.SetStateApplied, lineage="ee"),
        change("b", rows.SetStateApplied, 1, digest="ee"),
    ),
    "set-commit-order": (
        change("b", rows.SetStateApplied, vid="1:bb", bases=["9:99"], digest="1:bb"),
    ),
    "one-change-at-a-time": (change("b", rows.SetStateApplied, 1, bases=[S1]),),
    "set-inclusion": (change("b", rows.SetStateApplied, 1, members=["a.1"]),),
    "set-view-agreement": (change("b", rows.SetStateApplied, 1, vid="3:ee", digest="3:ee"),),
    "stable-state-truth": (
        change("a", rows.SetStateStable, vid="2:ee"),
        change("a", rows.SetStateStable, sim_ns=20),
    ),
    "change-termination": (
        both(
            add("b", *acked(S4, "b.1/9")[:1], 170, **acked(S4, "b.1/9")[1]),
            change("b", rows.SetStateHeld, 1, busy=1),
        ),
    ),
    "change-progress": (
        both(
            add("b", *acked(S4, "b.1/1")[:1], 170, **acked(S4, "b.1/1")[1]),
            change("b", rows.SetStateHeld, 1, busy=1),
        ),
    ),
    "view-chain": (
        change("m", rows.GroupViewDelivered, 1, to_parts=["1:ff"]),
        change("m", rows.GroupViewDelivered, 1, to_parts=["-"]),
        change("m", rows.GroupViewDelivered, 1, to_parts=["1:ff"], previous="1:ff"),
        both(
            add("m", rows.MembershipEnded, 200, uid="g", previous=V2, to=["m/1"], ended=0),
            add("m", rows.MembershipEnded, 210, uid="g", previous=V2, to=["m/1"], ended=0),
        ),
        restart_without("m/1"),
    ),
    "group-view-agreement": (change("m", rows.GroupViewDelivered, 1, vid="2:33"),),
    "view-numbers": (change("m", rows.GroupViewDelivered, 1, vid="1:33"),),
    "view-origin": (
        change("m", rows.GroupViewDelivered, members=["m/1"]),
        change("b", rows.GroupViewInstalled, members=["m/1"], parts=[""]),
    ),
    "single-service": (add("b", rows.GroupServed, 140, set="S", uid="g", vid=V2, members=["m/1"]),),
    "one-owner": (
        both(
            add("b", rows.SetStateHeld, 170, **held("LAST", S4, set="T")[1]),
            add("b", rows.GroupRecordHeld, 170, **_OTHER_OWNER),
        ),
        both(
            add("b", rows.SetConfigured, 170, **_OTHER_SET, servers=["b"], interfaces=["z"]),
            change("b", rows.GroupRecordHeld, members=[*MEMBERS, "z/1"]),
        ),
    ),
    "one-name": (
        change("b", rows.SetStateHeld, 1, names=["x", "y"], name_uids=["g", "g"]),
        change("b", rows.SetStateHeld, 1, names=[], name_uids=[]),
    ),
    "view-precision": (
        change("m", rows.MembershipHeld, vid=V1),
        change("m", rows.MembershipHeld, over=1),
        change("m", rows.MembershipHeld, uid="h"),
    ),
    "subgroup-inclusion": (
        change("m", rows.MembershipHeld, parent_member="m/9"),
        both(
            change("n", rows.MembershipHeld, over=1),
            change("m", rows.MembershipHeld, parent_member="n/1"),
        ),
    ),
    "joinable-groups": (change("m", rows.CallFinished, error="unavailable"),),
    "service-rest": (
        change("b", rows.SetStateHeld, 1, busy=1),
        change("m", rows.HomeTaken, 1, path=[]),
        change("m", rows.CallFinished, call="other"),
        add("b", rows.SetEntryAsked, 170, set="T"),
        change("b", rows.GroupRecordHeld, moves=["1"], move_targets=["up"]),
        change("b", rows.GroupRecordHeld, pin="c/1"),
    ),
}
"""For each property alterations that break it."""
