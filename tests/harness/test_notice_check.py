"""The checks of notices: a good run passes, and each kind of fault is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from phalanx.harness.notice_check import check_notices
from phalanx.mserver.client_messages import MemberNotice

Notices = dict[str, list[MemberNotice]]
P, Q = "h1/1", "h2/1"


def view(member: str, number: int, vid: str, previous: str, *members: str) -> MemberNotice:
    return MemberNotice(member, number, "view", "u", vid, previous, members)


def good() -> Notices:
    """Q joins P; both go on together; Q is excluded."""
    return {
        P: [
            view(P, 1, "1:a", "", P),
            view(P, 2, "2:b", "1:a", P, Q),
            MemberNotice(P, 3, "message", "u"),
            view(P, 4, "3:c", "2:b", P, Q),
            view(P, 5, "4:d", "3:c", P),
        ],
        Q: [
            view(Q, 1, "2:b", "", P, Q),
            view(Q, 2, "3:c", "2:b", P, Q),
            MemberNotice(Q, 3, "excluded", "u", "", "3:c"),
        ],
    }


def test_a_good_run_passes_and_is_counted() -> None:
    verdict = check_notices(good())
    assert (verdict.members, verdict.notices, verdict.views, verdict.moves) == (2, 8, 4, 1)
    assert verdict.violations == ()


def skipped(run: Notices) -> None:
    run[P][1:2] = []
    run[P] = [replace(each, number=at + 1) for at, each in enumerate(run[P])]


def repeated(run: Notices) -> None:
    run[P].insert(1, run[P][0])


def reordered(run: Notices) -> None:
    run[P][3], run[P][4] = replace(run[P][4], number=4), replace(run[P][3], number=5)


def first_follows_another(run: Notices) -> None:
    run[Q][0] = replace(run[Q][0], previous="1:a")


def shrinks(run: Notices) -> None:
    run[P][4] = replace(run[P][4], vid="2:d")


def after_the_end(run: Notices) -> None:
    run[Q].append(view(Q, 4, "5:e", "", Q))


def disagree(run: Notices) -> None:
    run[Q][1] = replace(run[Q][1], members=(P, Q, "h3/1"))


def not_in_it(run: Notices) -> None:
    run[P][4] = replace(run[P][4], members=(Q,))


def parted(run: Notices) -> None:
    run[Q][1] = replace(run[Q][1], vid="3:x")
    run[Q][2] = replace(run[Q][2], previous="3:x")


@pytest.mark.parametrize(
    ("spoil", "check"),
    [
        (skipped, "chain"),
        (repeated, "growth"),
        (reordered, "chain"),
        (first_follows_another, "chain"),
        (shrinks, "growth"),
        (after_the_end, "chain"),
        (disagree, "agreement"),
        (not_in_it, "agreement"),
        (parted, "mutual agreement"),
    ],
)
def test_each_fault_is_found(spoil: Callable[[Notices], None], check: str) -> None:
    run = good()
    spoil(run)
    assert check in {each.check for each in check_notices(run).violations}
