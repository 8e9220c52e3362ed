"""Derived tables about failures: suspicions, and removals with their causes."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, NamedTuple

from phalanx.core.effects import Action, Evidence, PeerState, Stage
from phalanx.pipeline.derived.derived_views import instant
from phalanx.pipeline.group_tables import GroupRow, GroupTables
from phalanx.pipeline.history.clocks import WallClock, wall_clocks
from phalanx.pipeline.history.removal_outcome import Fate
from phalanx.pipeline.history.removals import Observer, Proof, ProofKind, Removal, removals
from phalanx.pipeline.history.render import proof_text
from phalanx.pipeline.measures.suspicion_intervals import SuspicionKind, suspicions


class SuspicionRow(GroupRow, frozen=True, kw_only=True):
    """A suspicion of a member of the view, and whether it was right."""

    journal: str
    """Of the observer."""
    from_lseq: int
    """The row with which it began."""
    from_at: datetime | None
    """When it began."""
    member: str
    """The observer."""
    incarnation: int
    target: str
    """The suspected member."""
    target_incarnation: int
    spell: int
    """`from_lseq` of the row of `memberships` that it falls into."""
    lasted_ns: int
    """By the observer's clock, or simulated."""
    evidence: Evidence
    """Of its first row."""
    faulty: int
    """1 if it came to FAULTY."""
    ended_by: Literal["TRUST", "REMOVAL", "END"]
    """What ended it."""
    kind: SuspicionKind
    """Whether it was right."""
    mistake_ns: int | None
    """Its length as a mistake, up to when the target went down; null if it was none."""


class RemovalRow(GroupRow, frozen=True, kw_only=True):
    """A member was removed, at one of the members that removed it, and why."""

    journal: str
    """Of the observer."""
    lseq: int
    """The row that installs the view without the target."""
    at: datetime | None
    """When it was installed."""
    member: str
    """The observer: a member that removed the target."""
    incarnation: int
    target: str
    """The removed member."""
    target_incarnation: int
    view: str
    """The last view with it, at the observer."""
    next_view: str
    """The first view without it."""
    fate: Fate
    """What its own journal says."""
    evidence: Evidence | None
    """Of the first suspicion that was not taken back; null if the observer had none."""
    suspicion_ns: int | None
    """From that suspicion to the first step that names the target, or to the view."""
    agreement_ns: int | None
    """From the first step that names the target to the view; null without one."""
    own_next_view: str | None
    """The view that the target went on to, where it was alive and apart."""
    back_view: str | None
    """The next view with a member of its name, at one of those that removed it."""
    back_incarnation: int | None
    """Its incarnation."""
    away_ns: int | None
    """From the removal to the next view here with a member of its name."""


class RemovalEvidenceRow(GroupRow, frozen=True, kw_only=True):
    """A row of a journal that belongs to a removal: what an observer did on the way to it."""

    journal: str
    """Of the observer."""
    lseq: int
    at: datetime | None
    """The instant of the row."""
    member: str
    """The observer."""
    incarnation: int
    target: str
    """The removed member."""
    target_incarnation: int
    view: str
    """The last view with it, at the observer."""
    next_view: str
    """The first view without it."""
    kind: ProofKind
    """Which table the row is of."""
    state: PeerState | None
    """Of a SUSPECT."""
    evidence: Evidence | None
    """Of a SUSPECT."""
    relay: str | None
    """Of a SUSPECT: through whom the target could still be reached."""
    stage: Stage | None
    """Of a STEP."""
    action: Action | None
    """Of a STEP."""
    pos: int | None
    """Of a MARKER: the agreed position from which deliveries were transitional."""
    text: str
    """The same in words."""


_PAIR = (
    *("cluster", "run", "group", "member", "incarnation", "target", "target_incarnation"),
    *("spell", "from_lseq", "evidence", "faulty", "ended_by", "kind", "mistake_ns"),
)
_OF_REMOVAL = (
    *("cluster", "run", "group", "target", "target_incarnation", "view", "next_view"),
    *("fate", "own_next_view", "back_view", "back_incarnation"),
)
_OF_PROOF = (
    *("lseq", "member", "incarnation", "kind", "state", "evidence", "relay"),
    *("stage", "action", "pos"),
)


class _Observed(NamedTuple):
    """An observer's journal and wall clock."""

    journal: str
    clock: WallClock
    simulated: bool


def _observers(group: GroupTables) -> dict[tuple[str, int], _Observed]:
    clocks = wall_clocks(group)
    return {
        (facts.member, facts.incarnation): _Observed(
            facts.journal, clocks[facts.journal], facts.end_sim_ns is not None
        )
        for facts in reversed(group.journals)
    }


def suspicion_rows(group: GroupTables) -> list[SuspicionRow]:
    """All suspicions at all members."""
    observers = _observers(group)
    found = []
    for one in suspicions(group):
        own = observers[one.member, one.incarnation]
        sim_ns = one.from_ns if own.simulated else None
        row = SuspicionRow(
            **{name: getattr(one, name) for name in _PAIR},
            journal=own.journal,
            from_at=instant(sim_ns, own.clock.at(one.from_lseq, one.from_ns, sim_ns)),
            lasted_ns=one.to_ns - one.from_ns,
        )
        found.append(row)
    return found


def removal_rows(group: GroupTables) -> list[RemovalRow]:
    """All removals at all members that made them."""
    journals = _observers(group)
    return [
        _removal(removal, observer, journals[observer.member, observer.incarnation].journal)
        for removal in removals(group)
        for observer in removal.observers
    ]


def _removal(removal: Removal, observer: Observer, journal: str) -> RemovalRow:
    chain = [proof for proof in removal.chain if proof.label == observer.label]
    install = next(proof for proof in chain if proof.kind == "VIEW")
    first: Any = next((proof for proof in chain if _began(proof, observer)), None)
    stepped = observer.removed_ns if observer.stepped_ns is None else observer.stepped_ns
    since, back = observer.suspected_ns, observer.back_ns
    return RemovalRow(
        **{name: getattr(removal, name) for name in _OF_REMOVAL},
        journal=journal,
        lseq=install.lseq,
        at=instant(install.sim_ns, install.wall_ns),
        member=observer.member,
        incarnation=observer.incarnation,
        evidence=None if first is None else first.evidence,
        suspicion_ns=None if since is None else max(0, stepped - since),
        agreement_ns=None if observer.stepped_ns is None else observer.removed_ns - stepped,
        away_ns=None if back is None else back - observer.removed_ns,
    )


def _began(proof: Proof, observer: Observer) -> bool:
    """Whether the suspicion that was not taken back began with this row."""
    return proof.kind == "SUSPECT" and proof.at_ns == observer.suspected_ns


def removal_evidence_rows(group: GroupTables) -> list[RemovalEvidenceRow]:
    """The evidence of all removals."""
    journals = _observers(group)
    return [
        RemovalEvidenceRow(
            **{name: getattr(removal, name) for name in _OF_REMOVAL[:7]},
            **{name: getattr(proof, name) for name in _OF_PROOF},
            journal=journals[proof.member, proof.incarnation].journal,
            at=instant(proof.sim_ns, proof.wall_ns),
            text=proof_text(removal, proof),
        )
        for removal in removals(group)
        for proof in removal.chain
    ]
