"""Submissions: from the queue to the core, and the numbers of their receipts."""

from __future__ import annotations

import phalanx
from phalanx.core import effects as fx
from phalanx.core.ids import MemberId, boot_view
from phalanx.core.member.member import Member
from phalanx.errors import MemberClosed, SubmissionError
from phalanx.runtime import events
from phalanx.runtime.receipt_tracker import ReceiptTracker, State
from phalanx.runtime.submitter import Submitter

ADA = MemberId("ada")
VIEW = events.View(id=boot_view([ADA]).id, members=(ADA,))


def made(**settings: int) -> tuple[Submitter, Member]:
    config = phalanx.lan(**settings)
    member = Member(ADA, boot_view([ADA]), "g", config, 7)
    member.start(0)
    return Submitter(member, config, ReceiptTracker()), member


def test_one_step_takes_all_messages_of_one_service() -> None:
    submitter, _ = made()
    receipts = [submitter.accept([b"x"], 1, phalanx.SAFE, None, VIEW) for _ in range(3)]
    other = submitter.accept([b"x", b"y"], 2, phalanx.BASIC, None, VIEW)
    assert not isinstance(submitter.submit_next(0), SubmissionError)
    assert [receipt.first for receipt in receipts] == [1, 2, 3]
    assert other.state is State.WAITING
    submitter.submit_next(0)
    assert (other.first, other.last) == (4, 5)
    assert submitter.is_empty
    assert submitter.counts(stopped=False) == (5, 5, 0)


def test_the_receipt_of_no_messages_is_complete_and_nothing_waits() -> None:
    submitter, _ = made()
    assert submitter.accept([], 0, phalanx.AGREED, None, VIEW).state is State.DELIVERED
    assert submitter.is_empty


def test_what_the_core_refuses_fails_the_receipt_and_is_counted() -> None:
    submitter, member = made()
    receipt = submitter.accept([b"x"], 1, phalanx.AGREED, None, VIEW)
    member.step(0, fx.LeaveRequest())
    error = submitter.submit_next(0)
    assert isinstance(error, MemberClosed)
    assert receipt.error is error
    assert submitter.counts(stopped=False) == (1, 0, 1)


def test_room_ends_at_the_limit_and_returns_at_half_of_it() -> None:
    submitter, _ = made(outbox_bytes_max=1000)
    for _ in range(2):
        submitter.accept([bytes(600)], 600, phalanx.AGREED, None, VIEW)
    assert not submitter.has_room
    assert not submitter.is_half_empty
    submitter.refuse_all(MemberClosed("ada"))
    assert submitter.counts(stopped=True) == (2, 0, 2)
