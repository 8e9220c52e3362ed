"""Views and memberships as intervals of time.

A member is in a view from the row that installs it to the row that installs the next, or to the
end of its journal: `[from, to)`, by its own clock, by its wall clock, and by the simulator's clock
where there is one. `end` says what ended the interval:

    VIEW    the next view was installed
    STOP    the member stopped as intended
    CRASH   the member crashed; only a simulator records that
    OPEN    the journal ends without a stop: the member was killed, or is still running

`memberships` has the intervals during which one member considered another a member of the group:
runs of consecutive views of the first that all contain the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Literal

import msgspec

from phalanx.pipeline.group_tables import GroupTables, each_row
from phalanx.pipeline.history.clocks import WallClock, own_time, wall_clocks
from phalanx.pipeline.segment_stats import JournalFacts

IntervalEnd = Literal["VIEW", "STOP", "CRASH", "OPEN"]
_VIEW = ("view", "joins", "removals", "cause", "members", "member_incarnations", "previous")


def labels(names: Iterable[str], incarnations: Iterable[int]) -> list[str]:
    """Members as `ada.2`, of two lists of equal length."""
    return [f"{name}.{number}" for name, number in zip(names, incarnations, strict=True)]


class ViewInterval(msgspec.Struct, frozen=True, kw_only=True):
    """A view that a member installed, from when to when."""

    cluster: str
    run: str
    group: str
    journal: str
    member: str
    incarnation: int
    view: str
    joins: int
    removals: int
    cause: str
    members: list[str]
    member_incarnations: list[int]
    previous: str | None
    """The view before here, and after."""
    next_view: str | None
    gained: list[str] | None
    """Members that it has more and less than the view before, as `ada.2`; None where that view is
    missing from the journal."""
    lost: list[str] | None
    from_lseq: int
    from_t_ns: int
    from_sim_ns: int | None
    from_wall_ns: int | None
    to_lseq: int
    to_t_ns: int
    to_sim_ns: int | None
    to_wall_ns: int | None
    end: IntervalEnd
    gapped: int
    """1 if rows are missing that may hide another view in it."""

    @property
    def label(self) -> str:
        return f"{self.member}.{self.incarnation}"

    @property
    def from_ns(self) -> int:
        return own_time(self.from_t_ns, self.from_sim_ns)

    @property
    def to_ns(self) -> int:
        return own_time(self.to_t_ns, self.to_sim_ns)


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """A time during which a member considered another, or itself, a member of the group."""

    cluster: str
    run: str
    group: str
    journal: str
    member: str
    incarnation: int
    target: str
    target_incarnation: int
    first_view: str
    """The first and the last of the views that have it."""
    last_view: str
    last_lseq: int
    """Where the last of them was installed."""
    next_view: str | None
    """The first view without it."""
    from_lseq: int
    from_t_ns: int
    from_sim_ns: int | None
    from_wall_ns: int | None
    to_lseq: int
    to_t_ns: int
    to_sim_ns: int | None
    to_wall_ns: int | None
    end: IntervalEnd
    """VIEW means that it was removed."""
    back_view: str | None = None
    """The next view here that has a member of this name again."""
    back_incarnation: int | None = None
    back_lseq: int | None = None
    back_t_ns: int | None = None
    back_sim_ns: int | None = None
    back_wall_ns: int | None = None

    @property
    def from_ns(self) -> int:
        return own_time(self.from_t_ns, self.from_sim_ns)

    @property
    def to_ns(self) -> int:
        return own_time(self.to_t_ns, self.to_sim_ns)

    @property
    def back_ns(self) -> int | None:
        return self.back_t_ns if self.back_sim_ns is None else self.back_sim_ns


def journal_ends(group: GroupTables) -> dict[str, IntervalEnd]:
    """How each journal ended: STOP, CRASH or OPEN."""
    lives = each_row(group["life"], "journal", "op")
    crashed = {journal for journal, op in lives if op == "CRASH"}
    return {
        facts.journal: "CRASH" if facts.journal in crashed else "STOP" if facts.stopped else "OPEN"
        for facts in group.journals
    }


def intervals(group: GroupTables) -> list[ViewInterval]:
    """All views at all members, in the order of members, lives and rows."""
    installs: dict[str, list[dict[str, Any]]] = {}
    wanted = ["journal", *_VIEW, "lseq", "t_ns", "sim_ns"]
    for row in group["view_installed"].select(wanted).to_pylist():
        installs.setdefault(row.pop("journal"), []).append(row)
    ends, clocks = journal_ends(group), wall_clocks(group)
    found: list[ViewInterval] = []
    for facts in sorted(group.journals, key=lambda one: (one.member, one.incarnation, one.journal)):
        mine = sorted(installs.get(facts.journal, ()), key=lambda row: row["lseq"])
        found += _of_journal(facts, mine, ends[facts.journal], clocks[facts.journal])
    return found


def _of_journal(
    facts: JournalFacts, installs: Sequence[dict[str, Any]], end: IntervalEnd, clock: WallClock
) -> Iterable[ViewInterval]:
    """From each install to the next, or to the end of the journal behind its last row."""
    behind = {"lseq": facts.last + 1, "t_ns": facts.end_t_ns, "sim_ns": facts.end_sim_ns}
    for row in (*installs, behind):
        row["wall_ns"] = clock.at(row["lseq"], row["t_ns"], row["sim_ns"])
    before: dict[str, Any] | None = None
    for row, following in pairwise((*installs, behind)):
        is_last = following is behind
        now = labels(row["members"], row["member_incarnations"])
        held = labels(before["members"], before["member_incarnations"]) if before else []
        follows = row["previous"] is None or (before and before["view"] == row["previous"])
        yield ViewInterval(
            cluster=facts.cluster,
            run=facts.run,
            group=facts.group,
            journal=facts.journal,
            member=facts.member,
            incarnation=facts.incarnation,
            **{name: row[name] for name in _VIEW},
            next_view=None if is_last else following["view"],
            gained=without(now, held) if follows else None,
            lost=without(held, now) if follows else None,
            **{f"from_{name}": row[name] for name in _TIMES},
            **{f"to_{name}": following[name] for name in _TIMES},
            end=end if is_last else "VIEW",
            gapped=int(facts.torn if is_last else following["previous"] != row["view"]),
        )
        before = row


_TIMES = ("lseq", "t_ns", "sim_ns", "wall_ns")


def without(some: Iterable[str], others: Iterable[str]) -> list[str]:
    """The first list without what is in the second, each once."""
    left = set(others)
    return [one for one in dict.fromkeys(some) if one not in left]


def memberships(group: GroupTables) -> list[Membership]:
    """All of them, in the order of members, lives and rows."""
    journals: dict[str, list[ViewInterval]] = {}
    for interval in intervals(group):
        journals.setdefault(interval.journal, []).append(interval)
    return [held for views in journals.values() for held in _memberships_of(views)]


def _memberships_of(views: Sequence[ViewInterval]) -> list[Membership]:
    """Runs of consecutive views of one journal that have a member."""
    open_: dict[tuple[str, int], ViewInterval] = {}
    found: list[Membership] = []
    for interval, following in zip(views, (*views[1:], None), strict=True):
        members = dict.fromkeys(zip(interval.members, interval.member_incarnations, strict=True))
        stay = set(
            zip(following.members, following.member_incarnations, strict=True) if following else ()
        )
        for target in members:
            first = open_.setdefault(target, interval)
            if target not in stay:
                found.append(_membership(target, first, interval))
                del open_[target]
    found.sort(key=lambda held: (held.from_lseq, held.target, held.target_incarnation))
    later: dict[str, Membership] = {}
    for nth in range(len(found) - 1, -1, -1):
        held = found[nth]
        back = later.get(held.target)
        later[held.target] = held
        if back is not None:
            found[nth] = msgspec.structs.replace(
                held,
                back_view=back.first_view,
                back_incarnation=back.target_incarnation,
                **{f"back_{name}": getattr(back, f"from_{name}") for name in _TIMES},
            )
    return found


def _membership(target: tuple[str, int], first: ViewInterval, last: ViewInterval) -> Membership:
    return Membership(
        cluster=first.cluster,
        run=first.run,
        group=first.group,
        journal=first.journal,
        member=first.member,
        incarnation=first.incarnation,
        target=target[0],
        target_incarnation=target[1],
        first_view=first.view,
        last_view=last.view,
        last_lseq=last.from_lseq,
        next_view=last.next_view,
        **{f"from_{name}": getattr(first, f"from_{name}") for name in _TIMES},
        **{f"to_{name}": getattr(last, f"to_{name}") for name in _TIMES},
        end=last.end,
    )
