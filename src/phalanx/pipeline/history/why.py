"""The removals of one member: the evidence, the observers, and the outcome."""

from __future__ import annotations

import msgspec
from pyspark.sql import functions as F

from phalanx.pipeline.history.lookup import MemberLife, find_group, find_member, lives, of_group
from phalanx.pipeline.history.removals import removals
from phalanx.pipeline.tables import Tables


class Observer(msgspec.Struct, frozen=True):
    """One that removed the member; times by its own clock, simulated time in a simulation."""

    member: str
    incarnation: int
    boot_id: str | None
    suspected_ns: int | None
    stepped_ns: int | None
    removed_ns: int
    back_ns: int | None

    @property
    def label(self) -> str:
        return f"{self.member}.{self.incarnation}"


class Proof(msgspec.Struct, frozen=True):
    """One row of evidence; see `removals.evidence`."""

    member: str
    incarnation: int
    lseq: int
    t_ns: int
    sim_ns: int | None
    wall_ns: int | None
    kind: str
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
    pos: int | None = None
    members: list[str] | None = None
    back_view: str | None = None
    back_incarnation: int | None = None
    back_ns: int | None = None

    @property
    def label(self) -> str:
        return f"{self.member}.{self.incarnation}"

    @property
    def at_ns(self) -> int:
        return self.t_ns if self.sim_ns is None else self.sim_ns


class Removal(msgspec.Struct, frozen=True):
    """One removal; see `removals.removals`."""

    cluster: str
    run: str
    group: str
    target: str
    target_incarnation: int
    view: str
    next_view: str
    fate: str
    own_next_view: str | None
    own_end_t_ns: int | None
    own_end_sim_ns: int | None
    back_view: str | None
    back_incarnation: int | None
    observers: list[Observer]
    chain: list[Proof]

    @property
    def label(self) -> str:
        return f"{self.target}.{self.target_incarnation}"

    @property
    def one_clock(self) -> bool:
        """Whether the times of all observers may be compared: simulated, or of one machine."""
        boots = {observer.boot_id for observer in self.observers}
        together = len(boots) == 1 and not boots & {None, "", "unknown"}
        return together or all(proof.sim_ns is not None for proof in self.chain)


def why(tables: Tables, group: str, member: str, run: str | None = None) -> list[Removal]:
    """All removals of a member (`ada`, or one life as `ada.2`), in the order of runs, lives and
    views. PipelineError for a name that nobody ever had in a view, with those that there are."""
    known = find_group(lives(tables), group, run)
    mine = of_group(tables, group, run)
    subject = F.concat_ws(".", "target", F.col("target_incarnation").cast("string"))
    rows = removals(mine).where((F.col("target") == member) | (subject == member)).collect()
    found = [msgspec.convert(row.asDict(recursive=True), Removal) for row in rows]
    if not found:
        _check_member(mine, known, member)
    return sorted(found, key=_order)


def _order(removal: Removal) -> tuple[str, str, str, int, int]:
    """By when it happened at the first observer, as far as that can be compared."""
    first = min(observer.removed_ns for observer in removal.observers)
    return removal.cluster, removal.run, removal.target, removal.target_incarnation, first


def _check_member(tables: Tables, known: list[MemberLife], member: str) -> None:
    """That it was ever in a view, or wrote a journal."""
    names = F.explode(F.arrays_zip("members", "member_incarnations"))
    rows = tables["view_installed"].select(names.alias("m")).select("m.*").distinct().collect()
    one = known[0]
    named = [
        msgspec.structs.replace(one, member=row["members"], incarnation=row["member_incarnations"])
        for row in rows
    ]
    find_member([*known, *named], member)
