"""Removals of members, each with its evidence at each member that made it.

A removal is a view with a member, followed at another member by a view without it. Each member that
made that step recorded what led to it:

    SUSPECT  the states its failure detector gave the removed member since it last was OPERATIONAL
    STEP     the steps of the change that closed the view, and earlier ones that name the member
    MARKER   the position from which deliveries were transitional
    VIEW     the view without the member

`removals` has one row per removal that contains all of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import msgspec

from phalanx.pipeline.group_tables import GroupTables, each_row
from phalanx.pipeline.history.clocks import own_time, wall_clocks
from phalanx.pipeline.history.intervals import Membership, labels, memberships
from phalanx.pipeline.history.removal_outcome import Fate, RemovalOutcomes

Target = tuple[str, int]
ProofKind = Literal["SUSPECT", "STEP", "MARKER", "VIEW"]
_PLACE = ("journal", "lseq", "t_ns", "sim_ns")
_STEP = ("action", "stage", "context", "failed_before", "failed_after")


class Observer(msgspec.Struct, frozen=True):
    """One that removed the member; times by its own clock, simulated time in a simulation."""

    member: str
    incarnation: int
    boot_id: str | None
    suspected_ns: int | None
    """The first suspicion, the first step that names the member, the view without it."""
    stepped_ns: int | None
    removed_ns: int
    back_ns: int | None

    @property
    def label(self) -> str:
        return f"{self.member}.{self.incarnation}"


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """One row of evidence; the kinds are those of the module."""

    member: str
    incarnation: int
    lseq: int
    t_ns: int
    sim_ns: int | None
    wall_ns: int | None = None
    kind: ProofKind
    state: str | None = None
    previous: str | None = None
    evidence: str | None = None
    relay: str | None = None
    action: str | None = None
    stage: str | None = None
    context: str | None = None
    failed_before: list[str] | None = None
    failed_after: list[str] | None = None
    names_it: bool | None = None
    """Of a STEP: whether the removed member is among the failed."""
    pos: int | None = None
    members: list[str] | None = None
    back_view: str | None = None
    """Of a VIEW: the next view here with a member of that name, and when it was installed."""
    back_incarnation: int | None = None
    back_ns: int | None = None

    @property
    def label(self) -> str:
        return f"{self.member}.{self.incarnation}"

    @property
    def at_ns(self) -> int:
        return own_time(self.t_ns, self.sim_ns)


class Removal(msgspec.Struct, frozen=True):
    """A member, the last view with it and the first without it."""

    cluster: str
    run: str
    group: str
    target: str
    target_incarnation: int
    view: str
    next_view: str
    fate: Fate
    """What its own journal says, see `removal_outcome`."""
    own_next_view: str | None
    own_end_t_ns: int | None
    own_end_sim_ns: int | None
    back_view: str | None
    """The next view with a member of its name at one of those that removed it."""
    back_incarnation: int | None
    observers: list[Observer]
    chain: list[Proof]
    """All evidence, in order of observers and then of time."""

    @property
    def label(self) -> str:
        return f"{self.target}.{self.target_incarnation}"

    @property
    def one_clock(self) -> bool:
        """Whether the times of all observers may be compared: simulated, or of one machine."""
        boots = {observer.boot_id for observer in self.observers}
        together = len(boots) == 1 and not boots & {None, "", "unknown"}
        return together or all(proof.sim_ns is not None for proof in self.chain)


class Doubt(NamedTuple):
    """A state that a failure detector gave a member before it was removed."""

    row: dict[str, Any]
    stands: bool
    """It was not taken back before the removal."""


class Departures:
    """The removals at each member that made them: memberships that end with a view."""

    def __init__(self, group: GroupTables) -> None:
        self.all = [held for held in memberships(group) if held.end == "VIEW"]
        self._of: dict[tuple[str, Target], list[Membership]] = {}
        for gone in self.all:
            target = gone.target, gone.target_incarnation
            self._of.setdefault((gone.journal, target), []).append(gone)

    def after(self, journal: str, lseq: int, target: Target) -> Membership | None:
        """The first departure of the target at or behind a row, if it was a member at that row."""
        mine = self._of.get((journal, target), [])
        place = bisect_left(mine, lseq, key=lambda gone: gone.to_lseq)
        if place == len(mine) or lseq <= mine[place].from_lseq:
            return None
        return mine[place]


class Steps:
    """The steps of view changes, each with the install that ended its change."""

    def __init__(self, group: GroupTables) -> None:
        self._installs: dict[str, list[int]] = {}
        for journal, lseq in each_row(group["view_installed"], "journal", "lseq"):
            self._installs.setdefault(journal, []).append(lseq)
        for lseqs in self._installs.values():
            lseqs.sort()
        self.all = group["view_change_step"].select([*_PLACE, *_STEP]).to_pylist()
        self._forgotten: dict[tuple[str, int | None], int] = {}
        for row in self.all:
            if row["action"] == "FORGET":
                key = row["journal"], self.closed(row)
                self._forgotten[key] = max(row["lseq"], self._forgotten.get(key, 0))

    def closed(self, row: dict[str, Any]) -> int | None:
        """The next install of the journal of a row."""
        mine = self._installs.get(row["journal"], [])
        place = bisect_left(mine, row["lseq"])
        return mine[place] if place < len(mine) else None

    def is_given_up(self, row: dict[str, Any]) -> bool:
        """The change that a row is of was abandoned before the next install."""
        lseq: int = row["lseq"]
        return lseq <= self._forgotten.get((row["journal"], self.closed(row)), 0)

    def naming(self, departures: Departures) -> Iterable[tuple[Membership, dict[str, Any]]]:
        """Steps that name a member among the failed, with the departure that they led to, which may
        be behind a view that still has it."""
        for row in self.all:
            for name in dict.fromkeys([*row["failed_before"], *row["failed_after"]]):
                member, _, number = name.rpartition(".")
                if not number.isdecimal():
                    continue
                gone = departures.after(row["journal"], row["lseq"], (member, int(number)))
                if gone is not None and (
                    self.closed(row) == gone.to_lseq or not self.is_given_up(row)
                ):
                    yield gone, row


def doubts(group: GroupTables, departures: Departures) -> list[tuple[Membership, Doubt]]:
    """What the detectors thought of those that were removed, since they last were OPERATIONAL."""
    columns = ("target", "target_incarnation", "state", "previous", "evidence", "relay")
    rows = group["peer_suspicion"].select([*_PLACE, *columns]).to_pylist()
    by_departure: dict[int, tuple[Membership, list[dict[str, Any]]]] = {}
    for row in rows:
        target = row.pop("target"), row.pop("target_incarnation")
        gone = departures.after(row["journal"], row["lseq"], target)
        if gone is not None:
            by_departure.setdefault(id(gone), (gone, []))[1].append(row)
    found = []
    for gone, mine in by_departure.values():
        stands = True
        for row in sorted(mine, key=lambda row: -row["lseq"]):
            if row["state"] == "OPERATIONAL":
                break
            stands = stands and row["state"] != "SEMI"
            found.append((gone, Doubt(row, stands)))
    return found


class _Seen(NamedTuple):
    """What one observer recorded of one removal."""

    gone: Membership
    proofs: list[Proof]
    suspected: list[int]


def removals(group: GroupTables) -> list[Removal]:
    """All removals, in the order of members, lives and views."""
    outcomes = RemovalOutcomes(group)
    boots = {facts.journal: facts.boot_id for facts in group.journals}
    by_removal: dict[tuple[str, int, str, str], list[_Seen]] = {}
    for seen in _evidence(group):
        gone = seen.gone
        assert gone.next_view is not None
        key = gone.target, gone.target_incarnation, gone.last_view, gone.next_view
        by_removal.setdefault(key, []).append(seen)
    found = []
    for key in sorted(by_removal):
        target, incarnation, view, next_view = key
        some = sorted(by_removal[key], key=lambda one: (one.gone.member, one.gone.incarnation))
        outcome = outcomes.of(target, incarnation, view)
        back = next((one.gone for one in some if one.gone.back_view is not None), None)
        removal = Removal(
            *group.key,
            target,
            incarnation,
            view,
            next_view,
            outcome.fate,
            outcome.own_next_view,
            outcome.own_end_t_ns,
            outcome.own_end_sim_ns,
            back.back_view if back else None,
            back.back_incarnation if back else None,
            [_observer(one, boots[one.gone.journal]) for one in some],
            [proof for one in some for proof in one.proofs],
        )
        found.append(removal)
    return found


def _observer(seen: _Seen, boot_id: str) -> Observer:
    gone = seen.gone
    return Observer(
        gone.member,
        gone.incarnation,
        boot_id,
        min(seen.suspected, default=None),
        min((proof.at_ns for proof in seen.proofs if proof.names_it), default=None),
        gone.to_ns,
        gone.back_ns,
    )


def _evidence(group: GroupTables) -> list[_Seen]:
    """Of each removal at each member that made it, in the order of rows."""
    departures, steps = Departures(group), Steps(group)
    clocks = wall_clocks(group)
    seen = {id(gone): _Seen(gone, [], []) for gone in departures.all}

    def add(gone: Membership, row: dict[str, Any], kind: str, **more: Any) -> Proof:
        facts = {name: value for name, value in row.items() if name != "journal"}
        wall_ns = clocks[gone.journal].at(row["lseq"], row["t_ns"], row["sim_ns"])
        known = {"member": gone.member, "incarnation": gone.incarnation}
        known |= {"kind": kind, "wall_ns": wall_ns}
        proof = msgspec.convert(facts | known | more, Proof)
        seen[id(gone)].proofs.append(proof)
        return proof

    for gone, doubt in doubts(group, departures):
        proof = add(gone, doubt.row, "SUSPECT")
        if doubt.stands:
            seen[id(gone)].suspected.append(proof.at_ns)
    for gone, row in steps.naming(departures):
        add(gone, row, "STEP", names_it=True)
    at: dict[tuple[str, int], list[Membership]] = {}
    for gone in departures.all:
        at.setdefault((gone.journal, gone.to_lseq), []).append(gone)
    for row in steps.all:
        named = {*row["failed_before"], *row["failed_after"]}
        for gone in at.get((row["journal"], steps.closed(row) or 0), ()):
            subject = f"{gone.target}.{gone.target_incarnation}"
            if subject not in named and not steps.is_given_up(row):
                add(gone, row, "STEP", names_it=False)
    for row in group["transitional"].select([*_PLACE, "pos"]).to_pylist():
        for gone in at.get((row["journal"], steps.closed(row) or 0), ()):
            if not steps.is_given_up(row):
                add(gone, row, "MARKER")
    columns = ("members", "member_incarnations")
    for row in group["view_installed"].select([*_PLACE, *columns]).to_pylist():
        members = labels(row.pop("members"), row.pop("member_incarnations"))
        for gone in at.get((row["journal"], row["lseq"]), ()):
            back = {
                f"back_{name}": getattr(gone, f"back_{name}")
                for name in ("view", "incarnation", "ns")
            }
            add(gone, row, "VIEW", members=members, **back)
    for one in seen.values():
        one.proofs.sort(key=lambda proof: proof.lseq)
    return list(seen.values())
