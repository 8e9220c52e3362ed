"""Checks of what clients were told: the notices of all members of a run, against the guarantees of
the service that they can show.

- chain (P1): each view of a member names the one before it as previous: none is skipped, repeated
  or out of order, and nothing follows the end of a membership;
- growth (P3): the numbers of a member's views grow, and so do those of its notices, one by one;
- agreement: members that have a view of one id have the same members in it, and are among them;
- mutual agreement (P2): if p goes from view v to w, and q from v to u, and q is in w and p in u,
  then w and u are one view.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from phalanx.mserver.client_messages import MemberNotice


class NoticeViolation(NamedTuple):
    check: str
    member: str
    problem: str

    def __str__(self) -> str:
        return f"{self.check}: {self.member}: {self.problem}"


class NoticeVerdict(NamedTuple):
    members: int
    notices: int
    views: int
    """Different views, by group and id."""
    moves: int
    """Pairs of members that left one view, of which mutual agreement was asked."""
    violations: tuple[NoticeViolation, ...]


def check_notices(notices: Mapping[str, Sequence[MemberNotice]]) -> NoticeVerdict:
    """Check the notices of all members, each in the order in which its client got them."""
    found: list[NoticeViolation] = []
    for member, given in notices.items():
        found += _chain(member, given)
    agreed: dict[tuple[str, str], tuple[str, ...]] = {}
    for member, given in notices.items():
        for each in given:
            if each.kind != "view":
                continue
            known = agreed.setdefault((each.uid, each.vid), each.members)
            if known != each.members:
                problem = f"{each.vid} has {each.members}, elsewhere {known}"
                found.append(NoticeViolation("agreement", member, problem))
            if member not in each.members:
                found.append(NoticeViolation("agreement", member, f"it is not in {each.vid}"))
    moves = 0
    for violation in _mutual(notices):
        moves += 1
        if violation is not None:
            found.append(violation)
    count = sum(len(given) for given in notices.values())
    return NoticeVerdict(len(notices), count, len(agreed), moves, tuple(found))


def _chain(member: str, given: Sequence[MemberNotice]) -> Iterator[NoticeViolation]:
    last: MemberNotice | None = None
    number = 0
    over = False
    for each in given:
        if over:
            yield NoticeViolation("chain", member, f"{each.kind} {each.vid} after its end")
        if each.number != number + 1:
            problem = f"notice {each.number} after {number}"
            yield NoticeViolation("growth", member, problem)
        number = each.number
        if each.kind == "message":
            continue
        had = last.vid if last is not None else ""
        if each.previous != had:
            problem = f"{each.vid or each.kind} follows {each.previous!r}, it had {had!r}"
            yield NoticeViolation("chain", member, problem)
        if each.kind != "view":
            over = True
            continue
        if last is not None and _number(each.vid) <= _number(last.vid):
            yield NoticeViolation("growth", member, f"{each.vid} after {last.vid}")
        last = each


def _number(vid: str) -> int:
    return int(vid.partition(":")[0])


def _mutual(notices: Mapping[str, Sequence[MemberNotice]]) -> Iterator[NoticeViolation | None]:
    """One entry for each pair of members that left one view for views that list each other."""
    from_view: dict[tuple[str, str], list[tuple[str, MemberNotice]]] = {}
    for member, given in notices.items():
        for each in given:
            if each.kind == "view" and each.previous:
                from_view.setdefault((each.uid, each.previous), []).append((member, each))
    for (_, previous), moves in from_view.items():
        for at, (p, w) in enumerate(moves):
            for q, u in moves[at + 1 :]:
                if q in w.members and p in u.members:
                    if w.vid == u.vid:
                        yield None
                    else:
                        problem = f"with {q} in {previous}, then {w.vid} and {u.vid}"
                        yield NoticeViolation("mutual agreement", p, problem)
