"""Runs and members by name; an unknown name is an error that lists the known ones."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from phalanx.pipeline.group_plan import unknown_name
from phalanx.pipeline.group_tables import GroupKey, GroupTables


class MemberLife(msgspec.Struct, frozen=True, order=True):
    """One journal: one life of a member in a group in a run."""

    cluster: str
    run: str
    group: str
    member: str
    incarnation: int
    journal: str
    simulated: bool

    @property
    def label(self) -> str:
        return f"{self.member}.{self.incarnation}"


def lives(group: GroupTables) -> list[MemberLife]:
    """All lives in a group, in the order of names."""
    return sorted(
        MemberLife(
            *group.key,
            facts.member,
            facts.incarnation,
            facts.journal,
            facts.end_sim_ns is not None,
        )
        for facts in group.journals
    )


def find_lives(known: Sequence[MemberLife], member: str) -> list[MemberLife]:
    """The lives of a member, given as `ada` (all) or `ada.2` (one). A name may have dots itself."""
    return [life for life in known if member in (life.member, life.label)]


def check_run(keys: Sequence[GroupKey], group: str, run: str | None) -> None:
    """PipelineError, with the runs that there are, if none of these groups is of the run."""
    if run is not None and run not in {key.run for key in keys}:
        raise unknown_name(f"run {run!r} of group {group!r}", "runs", [key.run for key in keys])


def check_member(found: bool, group: str, member: str, known: Sequence[str]) -> None:
    """PipelineError, with the members that there are, unless the member was found."""
    if not found:
        raise unknown_name(f"member {member!r} of group {group!r}", "members", known)
