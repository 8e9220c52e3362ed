"""Derived tables about views: who was in which, who considered whom a member, what changes took."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from phalanx.journal.schema import ViewCause
from phalanx.pipeline.group_tables import GroupRow, GroupTables
from phalanx.pipeline.history.intervals import (
    IntervalEnd,
    Membership,
    ViewInterval,
    intervals,
    memberships,
)
from phalanx.pipeline.lake.lake_schema import instant_of, members_key
from phalanx.pipeline.measures.view_change_duration import changes


class ViewIntervalRow(GroupRow, frozen=True, kw_only=True):
    """A view that a member installed, from when to when. `views` has its members."""

    journal: str
    member: str
    incarnation: int
    view: str
    joins: int
    removals: int
    cause: ViewCause
    members_key: str
    """Refers to `views`, like that of `view_installed`."""
    previous: str | None
    """The view before, at this member; null for the first one."""
    next_view: str | None
    """The view after, at this member; null for the last one."""
    gained: list[str] | None
    """Members that it has and the view before has not, as `ada.2`; null where that view is
    missing from the journal."""
    lost: list[str] | None
    """Members of the view before that it has not."""
    from_lseq: int
    """The row of `journal` that installs it."""
    to_lseq: int
    """The row that installs the next, or the number after the last row."""
    from_at: datetime | None
    """When it was installed."""
    to_at: datetime | None
    """When the next was installed, or the journal ends."""
    lasted_ns: int
    """By the member's own clock, or simulated."""
    end: IntervalEnd
    """What ended it; OPEN if the journal ends without a stop."""
    gapped: int
    """1 if rows are missing that may hide another view in it."""


class MembershipRow(GroupRow, frozen=True, kw_only=True):
    """A time during which a member considered another, or itself, a member of the group."""

    journal: str
    member: str
    incarnation: int
    target: str
    """The other."""
    target_incarnation: int
    first_view: str
    """The first of the views that have it."""
    last_view: str
    """The last of them."""
    next_view: str | None
    """The first view without it; null if there is none."""
    from_lseq: int
    """The row of `journal` that installs the first."""
    to_lseq: int
    """The row that installs the view without it, or the number after the last row."""
    from_at: datetime | None
    """When the first was installed."""
    to_at: datetime | None
    """When the view without it was installed, or the journal ends."""
    lasted_ns: int
    """By the member's own clock, or simulated."""
    end: IntervalEnd
    """What ended it; VIEW means that the target was removed."""
    back_view: str | None
    """The next view here that has a member of this name again."""
    back_incarnation: int | None
    """Its incarnation."""
    back_at: datetime | None
    """When that view was installed."""


class ChangeRow(GroupRow, frozen=True, kw_only=True):
    """A view but the first at a member, and how long the change to it took there."""

    journal: str
    lseq: int
    """The row that installs the view."""
    at: datetime | None
    """When it was installed."""
    member: str
    incarnation: int
    view: str
    previous: str
    """The view before."""
    cause: ViewCause
    gained: list[str] | None
    """Members that it has and the view before has not, as `ada.2`."""
    lost: list[str] | None
    """Members of the view before that it has not."""
    steps: int
    """Rows of `view_change_step` that led to it."""
    suspicion_ns: int | None
    """From the first suspicion of a member that was lost to the first step; null without one."""
    agreement_ns: int | None
    """From the first step to the view; null without a step."""
    took_ns: int | None
    """From the first sign of the change to the view."""


_SAME = (
    *("cluster", "run", "group", "journal", "member", "incarnation", "next_view"),
    *("from_lseq", "to_lseq", "end"),
)
_OF_VIEW = ("view", "joins", "removals", "cause", "previous", "gained", "lost", "gapped")
_OF_TARGET = ("target", "target_incarnation", "first_view", "last_view")
_OF_RETURN = ("back_view", "back_incarnation")
_OF_INSTALL = ("journal", "lseq", "at")


def instant(sim_ns: int | None, wall_ns: int | None) -> datetime | None:
    """The instant of a row: by the wall clock, or simulated time counted from 1970."""
    ns = wall_ns if sim_ns is None else sim_ns
    return None if ns is None else instant_of(ns)


def _ends(one: ViewInterval | Membership) -> dict[str, Any]:
    return {
        "from_at": instant(one.from_sim_ns, one.from_wall_ns),
        "to_at": instant(one.to_sim_ns, one.to_wall_ns),
        "lasted_ns": one.to_ns - one.from_ns,
    }


def view_interval_rows(group: GroupTables) -> list[ViewIntervalRow]:
    """All views at all members."""
    return [
        ViewIntervalRow(
            **{name: getattr(one, name) for name in (*_SAME, *_OF_VIEW)},
            members_key=members_key(one.members, one.member_incarnations),
            **_ends(one),
        )
        for one in intervals(group)
    ]


def membership_rows(group: GroupTables) -> list[MembershipRow]:
    """All memberships at all members."""
    return [
        MembershipRow(
            **{name: getattr(one, name) for name in (*_SAME, *_OF_TARGET, *_OF_RETURN)},
            back_at=instant(one.back_sim_ns, one.back_wall_ns),
            **_ends(one),
        )
        for one in memberships(group)
    ]


def change_rows(group: GroupTables) -> list[ChangeRow]:
    """All changes at all members."""
    installs = [one for one in intervals(group) if one.previous is not None]
    names = [name for name in ChangeRow.__struct_fields__ if name not in _OF_INSTALL]
    return [
        ChangeRow(
            **{name: getattr(change, name) for name in names},
            journal=install.journal,
            lseq=install.from_lseq,
            at=instant(install.from_sim_ns, install.from_wall_ns),
        )
        for install, change in zip(installs, changes(group), strict=True)
    ]
