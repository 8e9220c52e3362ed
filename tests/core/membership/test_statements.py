"""What is kept of what other members have said."""

from __future__ import annotations

from random import Random

import pytest
from tests.core.forged_packets import made_up

from phalanx.core.ids import MemberId, boot_view
from phalanx.core.membership import statements
from phalanx.core.membership.proposals import component_of, proposal_of
from phalanx.core.membership.statements import (
    BELIEVED_NS,
    ISSUES_MAX,
    MEMBER_BYTES,
    MEMBERS_KNOWN_MAX,
    SPOKEN_MAX,
    Issue,
    Statement,
    Statements,
    _parts,
    _size,
)
from phalanx.core.wire.frames import Component, DeliveredVector

A, B = MemberId("a"), MemberId("b")
HOME = component_of(boot_view([A, B]))
NEXT = made_up([A, B])
STAYS, REMOVAL = proposal_of([HOME]), proposal_of([HOME], [(A, HOME.view)])
ISSUE = Issue(4, 4, DeliveredVector())


# ---------------------------------------------------------------------------- the newest


def test_the_statement_of_the_highest_number_is_the_newest() -> None:
    made = Statements()
    late = Statement(B, 7, NEXT)
    assert made.hear(0, late)
    assert not made.hear(1, Statement(B, 7, NEXT))
    made.hear(2, Statement(B, 6, HOME, STAYS, 6, 6))
    assert made.newest(B) == late
    assert made.newest(A) is None


def test_of_two_statements_of_one_number_the_one_from_the_newer_view_is_the_newest() -> None:
    """A member says HELLO from a view before its first frame there."""
    made = Statements()
    made.hear(0, Statement(B, 7, HOME))
    assert made.hear(1, Statement(B, 7, NEXT))
    made.hear(2, Statement(B, 7, HOME))
    assert made.newest(B) == Statement(B, 7, NEXT)


def test_a_statement_is_news_if_it_says_something_else_than_the_one_before() -> None:
    made = Statements()
    heard = [
        made.hear(now, said)
        for now, said in enumerate(
            [
                Statement(B, 1, HOME),
                Statement(B, 2, HOME),
                Statement(B, 3, HOME, STAYS, 3, 3, DeliveredVector()),
                Statement(B, 4, HOME, STAYS, 3, 3),
                Statement(B, 5, HOME, REMOVAL, 5, 5, DeliveredVector()),
                Statement(B, 6, HOME, REMOVAL, 5, 5, leaves=True),
                Statement(B, 7, NEXT),
            ]
        )
    ]
    assert heard == [True, False, True, False, True, True, True]


def test_a_late_statement_is_news_if_it_is_the_first_from_its_view() -> None:
    """It is no news of where the member is, but R3 wants to know that it was there."""
    made = Statements()
    made.hear(0, Statement(B, 7, NEXT))
    assert made.hear(1, Statement(B, 6, HOME))
    assert not made.hear(2, Statement(B, 5, HOME))
    assert made.newest(B) == Statement(B, 7, NEXT)


def test_a_forged_number_is_believed_for_a_while_only() -> None:
    made = Statements()
    made.hear(0, Statement(B, 1 << 60, NEXT))
    made.hear(BELIEVED_NS, Statement(B, 8, HOME))
    assert made.newest(B) == Statement(B, 1 << 60, NEXT)
    made.hear(BELIEVED_NS + 1, Statement(B, 9, HOME))
    assert made.newest(B) == Statement(B, 9, HOME)


def test_a_view_named_with_and_without_its_members_is_counted_and_forgotten_once() -> None:
    """A HELLO names no members."""
    hello, frame = Component(NEXT.view, ()), NEXT
    for first, second in ((hello, frame), (frame, hello)):
        made = Statements()
        made.hear(0, Statement(B, 1, first))
        made.hear(1, Statement(B, 2, second))
        assert made._bytes == 2 * MEMBER_BYTES
        made.hear(2, Statement(B, 3, Component(HOME.view, ())))
        assert made._bytes == 0


# ---------------------------------------------------------------------------- issues


def test_an_issue_is_found_by_member_view_and_proposal() -> None:
    made = Statements()
    made.record(B, HOME.view, REMOVAL, ISSUE, NEXT.view)
    assert made.issue(B, HOME.view, REMOVAL) == ISSUE
    assert made.issue(B, HOME.view, STAYS) is None
    assert made.issue(B, NEXT.view, REMOVAL) is None
    assert made.issue(A, HOME.view, REMOVAL) is None


def test_the_first_frame_that_issued_a_proposal_counts() -> None:
    """There is one, unless somebody lies: the cut must not depend on which came last."""
    made = Statements()
    made.record(B, HOME.view, REMOVAL, ISSUE, NEXT.view)
    made.record(B, HOME.view, REMOVAL, Issue(9, 9, DeliveredVector()), NEXT.view)
    assert made.issue(B, HOME.view, REMOVAL) == ISSUE


def test_issues_from_a_view_are_forgotten_when_it_is_installed() -> None:
    made = Statements()
    made.record(B, HOME.view, REMOVAL, ISSUE, NEXT.view)
    made.record(B, NEXT.view, REMOVAL, ISSUE, NEXT.view)
    made.forget_issues(NEXT.view)
    assert made.issue(B, NEXT.view, REMOVAL) is None
    assert made.issue(B, HOME.view, REMOVAL) == ISSUE


# ---------------------------------------------------------------------------- witnesses


def test_a_member_has_spoken_from_the_views_that_it_was_heard_from() -> None:
    made = Statements()
    made.hear(0, Statement(B, 7, NEXT))
    made.hear(0, Statement(B, 3, HOME))
    assert made.has_spoken_from(B, NEXT.view)
    assert made.has_spoken_from(B, HOME.view)
    assert not made.has_spoken_from(A, HOME.view)


# ---------------------------------------------------------------------------- memory


def test_strangers_do_not_fill_the_memory() -> None:
    made = Statements()
    for k in range(2 * MEMBERS_KNOWN_MAX):
        stranger = MemberId(f"s{k}")
        made.hear(k, Statement(stranger, 1, NEXT))
        made.record(stranger, NEXT.view, STAYS, ISSUE, NEXT.view)
    for kept in (made._newest, made._heard_ns, made._issues, made._spoken):
        assert len(kept) <= MEMBERS_KNOWN_MAX
    assert made.newest(MemberId(f"s{2 * MEMBERS_KNOWN_MAX - 1}")) is not None


def test_what_is_kept_is_counted_however_it_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when a stranger that was heard first says more than there is room for."""
    monkeypatch.setattr(statements, "BYTES_MAX", 40 * MEMBER_BYTES)
    made = Statements()
    made.protect([A, B])
    prng = Random(1)
    for number in range(1, 400):
        names = [MemberId(f"s{prng.randrange(30):02}") for _ in range(prng.randrange(1, 9))]
        where = made_up(sorted(set(names)))
        member = prng.choice([*where.members, A, B])
        proposal = prng.choice([None, proposal_of([HOME, where])])
        made.hear(number, Statement(member, number, where, proposal, number))
        if proposal is not None:
            delivered = DeliveredVector(where.members, tuple(range(len(where.members))))
            made.record(member, where.view, proposal, Issue(number, 0, delivered), HOME.view)
        if prng.random() < 0.1:
            made.forget_issues(prng.choice([HOME.view, where.view]))
        assert made.newest(member) is not None, "what was just heard is kept"
        assert made._bytes == _kept(made)
    assert made._bytes < 80 * MEMBER_BYTES


def _kept(made: Statements) -> int:
    parts = {part: size for said in made._newest.values() for part, size in _parts(said)}
    issues = [issue for issues in made._issues.values() for issue, _ in issues.values()]
    return sum(parts.values()) + sum(map(_size, issues))


def test_statements_of_one_large_group_are_counted_once() -> None:
    """Every member of a component of 512 names it, and the same proposal."""
    made = Statements()
    where = made_up([MemberId(f"s{number:03}") for number in range(512)])
    proposal = proposal_of([HOME, where])
    for member in where.members:
        made.hear(0, Statement(member, 1, where, proposal, 1, 0, DeliveredVector()))
    assert all(made.newest(member) is not None for member in where.members)
    assert made._bytes < 1 << 20


def test_the_latest_issues_and_views_of_a_member_are_remembered_and_no_more() -> None:
    made = Statements()
    views = [made_up([B], joins=k + 1) for k in range(2 * ISSUES_MAX)]
    for k, component in enumerate(views):
        made.hear(k, Statement(B, k, component))
        made.record(B, component.view, STAYS, ISSUE, NEXT.view)
    issued = [c for c in views if made.issue(B, c.view, STAYS) is not None]
    spoken = [c for c in views if made.has_spoken_from(B, c.view)]
    assert issued == views[-ISSUES_MAX:]
    assert spoken == views[-SPOKEN_MAX:]
