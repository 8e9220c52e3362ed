"""Runs, groups and members by name; an unknown name is an error that lists the known ones."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from pyspark.sql import functions as F

from phalanx.errors import PipelineError
from phalanx.pipeline.schemas import EVENTS, JOURNALS
from phalanx.pipeline.tables import Tables

NAMED_MAX = 8


class MemberLife(msgspec.Struct, frozen=True, order=True):
    """One journal: one life of a member in a group in a run."""

    cluster: str
    run: str
    group: str
    member: str
    incarnation: int
    journal: str
    simulated: bool
    boot_id: str

    @property
    def label(self) -> str:
        return f"{self.member}.{self.incarnation}"


def of_group(tables: Tables, group: str, run: str | None = None) -> Tables:
    """The same tables with rows of one group only, and of one run if it is given."""
    keep = F.col("group") == group
    if run is not None:
        keep = keep & (F.col("run") == run)
    return Tables(tables.spark, {name: tables[name].where(keep) for name in (*EVENTS, JOURNALS)})


def lives(tables: Tables) -> list[MemberLife]:
    """All that there are, in the order of runs and names."""
    rows = tables[JOURNALS].select(
        *("cluster", "run", "group", "member", "incarnation", "journal"),
        F.col("end_sim_ns").isNotNull().alias("simulated"),
        "boot_id",
    )
    return sorted(msgspec.convert(row.asDict(), MemberLife) for row in rows.collect())


def find_group(known: Sequence[MemberLife], group: str, run: str | None = None) -> list[MemberLife]:
    """The lives in a group. PipelineError, with what there is, if there are none."""
    found = [life for life in known if life.group == group]
    if not found:
        raise _unknown(f"group {group!r}", "groups", [life.group for life in known])
    if run is not None:
        runs = [life.run for life in found]
        found = [life for life in found if life.run == run]
        if not found:
            raise _unknown(f"run {run!r} of group {group!r}", "runs", runs)
    return found


def find_member(known: Sequence[MemberLife], member: str) -> list[MemberLife]:
    """The lives of a member, given as `ada` (all) or `ada.2` (one). A name may have dots itself.
    PipelineError, with what there is, if there are none."""
    found = [life for life in known if member in (life.member, life.label)]
    if not found:
        group = known[0].group
        what = f"member {member!r} of group {group!r}"
        raise _unknown(what, "members", [life.label for life in known])
    return found


def _unknown(what: str, kind: str, known: Sequence[str]) -> PipelineError:
    names = sorted(set(known))
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    there = ", ".join(names[:NAMED_MAX]) + more if names else "none"
    return PipelineError(what, "there is no journal of it", f"{kind} in these journals: {there}")
