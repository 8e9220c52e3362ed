"""What members were notified of, and whether every one was notified of every view in order."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from phalanx.mserver.client_messages import MemberNotice


@dataclass(slots=True)
class MemberRecord:
    """One member: its first and its last view, and how many it has had."""

    uid: str
    first: str = ""
    last: str = ""
    views: int = 0
    over: bool = False


@dataclass
class ViewRecord:
    """All notices of all members. A view is lost or reordered if a member gets one that does not
    follow its last one; a group is forked if two views follow one; members differ if one view has
    two lists of members."""

    members: dict[str, MemberRecord] = field(default_factory=dict)
    views: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """The members of each view of each group."""
    followers: dict[tuple[str, str], str] = field(default_factory=dict)
    """For each view the next one."""
    first_at: dict[tuple[str, str], float] = field(default_factory=dict)
    arrivals: list[tuple[str, str, float]] = field(default_factory=list)
    """Group, view and time of each notice."""
    problems: list[str] = field(default_factory=list)

    def take(self, notice: MemberNotice) -> None:
        at = time.perf_counter()
        record = self.members.setdefault(notice.member, MemberRecord(notice.uid))
        if notice.kind != "view":
            record.over = True
            return
        uid, vid = notice.uid, notice.vid
        if record.over:
            self.problems.append(f"{notice.member} got {vid} after its end")
        if record.last != notice.previous and record.views:
            self.problems.append(f"{notice.member} went from {record.last} to {vid}")
        known = self.views.setdefault((uid, vid), notice.members)
        if known != notice.members:
            self.problems.append(f"{uid} {vid} has two lists of members")
        if record.views:
            follower = self.followers.setdefault((uid, notice.previous), vid)
            if follower != vid:
                self.problems.append(f"{uid} {notice.previous} is followed by two views")
        record.first = record.first or vid
        record.last = vid
        record.views += 1
        self.arrivals.append((uid, vid, at))

    def check(self, expected: dict[str, set[str]]) -> list[str]:
        """All problems, once nothing is under way. `expected`: the members of each group."""
        problems = list(self.problems)
        for uid, members in expected.items():
            lasts = {self.members[m].last for m in members if m in self.members}
            if len(lasts) > 1:
                problems.append(f"{uid} ends in {len(lasts)} views")
            problems += [
                f"{uid} {last} has not the members that have joined"
                for last in lasts
                if set(self.views.get((uid, last), ())) != members
            ]
            problems += [f"{m} has no view" for m in members if m not in self.members]
        for member, record in self.members.items():
            if member in expected.get(record.uid, set()):
                if record.views != self._length(record):
                    problems.append(f"{member} has not got every view")
        return problems

    def _length(self, record: MemberRecord) -> int:
        """The views of the group's chain from a member's first to its last one."""
        at, length = record.first, 1
        while at != record.last and length <= len(self.followers):
            at = self.followers.get((record.uid, at), record.last)
            length += 1
        return length

    def latencies(self, started: dict[str, float], since: float) -> list[float]:
        """From the start of each join since `since` to its notice at each member, in seconds."""
        began: dict[tuple[str, str], float] = {}
        for (uid, before), vid in self.followers.items():
            if (uid, before) in self.views and (uid, vid) in self.views:
                new = set(self.views[(uid, vid)]) - set(self.views[(uid, before)])
                if len(new) == 1 and (start := started.get(min(new), 0.0)) >= since:
                    began[(uid, vid)] = start
        return [at - began[(u, v)] for u, v, at in self.arrivals if (u, v) in began]
