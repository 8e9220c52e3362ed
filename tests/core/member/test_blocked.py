"""Which members keep a member from sending."""

from __future__ import annotations

from phalanx.config import lan
from phalanx.core.effects import (
    Datagrams,
    DeadlinePassed,
    Effect,
    ReaderLag,
    Submit,
    SuspectMember,
    Transmit,
)
from phalanx.core.ids import MemberId, boot_view
from phalanx.core.member.member import Member

MS = 1_000_000
ADA, BEA, CYD = MemberId("ada"), MemberId("bea"), MemberId("cyd")
_DUE = DeadlinePassed()


def group() -> list[Member]:
    """Three members of one view, which have all spoken in it."""
    config = lan(window_bytes_max=4096, window_bytes_min=4096, outbox_bytes_max=1 << 20)
    view = boot_view([ADA, BEA, CYD])
    members = [Member(m, view, "g", config, n) for n, m in enumerate(view.members)]
    for member in members:
        member.start(0)
    settle(members, 0)
    return members


def settle(members: list[Member], now: int) -> None:
    """Half a second in which every packet reaches all of these at once."""
    for at in range(now, now + 500 * MS, MS):
        for member in members:
            due = member.deadline()
            if due is not None and due <= at:
                pass_on(members, member, at, member.step(at, _DUE))


def pass_on(members: list[Member], sender: Member, now: int, effects: list[Effect]) -> None:
    for effect in effects:
        if isinstance(effect, Transmit):
            for other in members:
                if other is not sender:
                    pass_on(members, other, now, other.step(now, Datagrams(effect.packets)))


def test_a_member_that_acknowledges_nothing_is_named() -> None:
    ada, bea, _ = group()
    now = 500 * MS
    pass_on([ada, bea], ada, now, ada.step(now, Submit([bytes(1000)] * 100)))
    settle([ada, bea], now)
    assert ada.following <= 100
    assert ada.blocked_by == {CYD: "unacknowledged"}
    assert bea.blocked_by == {}, "it has nothing to send"


def test_a_member_whose_application_is_behind_is_named() -> None:
    """Rule W-12."""
    members = group()
    ada, bea, _ = members
    now = 500 * MS
    pass_on(members, bea, now, bea.step(now, ReaderLag(1)))
    pass_on(members, ada, now, ada.step(now, Submit([b"x"])))
    assert ada.blocked_by == {BEA: "unread"}
    pass_on(members, bea, now, bea.step(now, ReaderLag(0)))
    pass_on(members, ada, now, ada.step(now, _DUE))
    assert ada.blocked_by == {}


def test_a_member_whose_own_application_is_over_full_waits_for_itself() -> None:
    members = group()
    ada = members[0]
    now = 500 * MS
    pass_on(members, ada, now, ada.step(now, ReaderLag(2)))
    pass_on(members, ada, now, ada.step(now, Submit([b"x"])))
    assert ada.blocked_by == {ADA: "unread"}


def test_a_member_that_does_not_answer_a_view_change_is_named() -> None:
    ada, bea, _ = group()
    now = 500 * MS
    pass_on([ada], ada, now, ada.step(now, SuspectMember(CYD)))  # bea hears nothing of it
    pass_on([ada], ada, now, ada.step(now, Submit([b"x"])))
    assert ada.blocked_by == {BEA: "unanswered"}
    assert bea.blocked_by == {}
