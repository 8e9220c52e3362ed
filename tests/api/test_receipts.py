"""What receipts promise, each cell of the table in docs/receipts.md, in real groups on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from tests.live_groups import until

import phalanx
from phalanx import blocking
from phalanx.core.effects import SuspectMember
from phalanx.core.ids import ViewId
from phalanx.errors import MemberClosed

SECONDS = 10.0
NAMES = ("ada", "bea", "cyd")
MODES = ("hold", "flow")


@contextmanager
def members(group: str, mode: str, **settings: Any) -> Iterator[list[blocking.Group]]:
    """Ada, bea and cyd, in one view."""
    config = phalanx.local(mode=mode, **settings)
    with ExitStack() as stack:
        groups = [
            stack.enter_context(blocking.join(group, name=name, config=config)) for name in NAMES
        ]
        for each in groups:
            each.wait_for(len(NAMES), SECONDS)
        yield groups


def cut(one: blocking.Group, *others: blocking.Group) -> None:
    """One member and the others no longer hear each other."""
    for other in others:
        one.faults.cut(other.address)
        other.faults.cut(one.address)


def named(found: tuple[phalanx.MemberId, ...]) -> tuple[str, ...]:
    return tuple(member.name for member in found)


# ---------------------------------------------------------------------------- a steady view


@pytest.mark.parametrize("service", phalanx.Service)
def test_in_a_steady_view_receipts_name_all_members(
    group_name: str, service: phalanx.Service
) -> None:
    with members(group_name, "flow") as (ada, *_):
        receipt = ada.send_many([b"one", b"two"], service)
        view = ada.view
        assert receipt.ordered(SECONDS).view == view.id
        for outcome in (receipt.stable(SECONDS), receipt.delivered(SECONDS)):
            assert outcome == phalanx.Outcome(members=view.members, view=view.id)


def test_what_is_delivered_can_be_read_by_all(group_name: str) -> None:
    with members(group_name, "flow") as (ada, bea, cyd):
        ada.send(b"x", phalanx.SAFE).delivered(SECONDS)
        for other in (bea, cyd):
            while not isinstance(event := other.receive(0), phalanx.Message):
                assert event is not None
            assert event.body == b"x"


def test_receipts_of_a_message_for_some_name_those(group_name: str) -> None:
    with members(group_name, "flow") as (ada, *_):
        receipt = ada.send(b"x", to=["cyd"])
        assert receipt.ordered(SECONDS).view == ada.view.id
        assert named(receipt.stable(SECONDS).members) == ("cyd",)
        assert named(receipt.delivered(SECONDS).members) == ("cyd",)


def test_a_member_alone_has_its_messages_at_once(group_name: str) -> None:
    with blocking.join(group_name, name="ada", config=phalanx.local()) as ada:
        receipt = ada.send(b"x", phalanx.SAFE)
        assert receipt.ordered(SECONDS).view == ada.view.id
        assert receipt.stable(SECONDS).members == receipt.delivered(SECONDS).members == (ada.me,)


# ---------------------------------------------------------------------------- changes


@pytest.mark.parametrize("mode", MODES)
def test_a_member_that_is_cut_off_is_not_told_that_its_message_is_stable(
    group_name: str, mode: str
) -> None:
    with members(group_name, mode) as (ada, bea, cyd):
        cut(ada, bea, cyd)
        receipt = ada.send(b"nobody has it", phalanx.SAFE)
        for wait in (receipt.stable, receipt.delivered):
            with pytest.raises(phalanx.NotEverywhere) as raised:
                wait(SECONDS)
            assert named(raised.value.missing) == ("bea", "cyd")
        outcome = receipt.stable(allow_missing=True)
        assert named(outcome.members) == ("ada",)
        assert outcome.transitional
        assert receipt.ordered().view == outcome.view


@pytest.mark.parametrize("mode", MODES)
def test_those_that_stay_have_the_message_and_the_others_are_named(
    group_name: str, mode: str
) -> None:
    with members(group_name, mode) as (ada, bea, cyd):
        cut(cyd, ada, bea)
        view = ada.view
        receipt = ada.send(b"x")
        assert receipt.ordered(SECONDS).view == view.id
        with pytest.raises(phalanx.NotEverywhere, match="cyd"):
            receipt.stable(SECONDS)
        with pytest.raises(phalanx.NotEverywhere, match="cyd"):
            receipt.delivered(SECONDS)
        outcome = receipt.delivered(SECONDS, allow_missing=True)
        assert named(outcome.members) == ("ada", "bea")
        assert named(outcome.missing) == ("cyd",)


@pytest.mark.parametrize("mode", MODES)
def test_messages_for_a_member_that_is_cut_off_are_not_stable(group_name: str, mode: str) -> None:
    with members(group_name, mode) as (ada, bea, cyd):
        cut(cyd, ada, bea)
        receipts = [ada.send(b"%d" % i, to=["cyd"]) for i in range(20)]
        ada.wait_for(["ada", "bea"], SECONDS)
        for receipt in receipts:
            with pytest.raises(phalanx.NotEverywhere) as raised:
                receipt.stable(SECONDS)
            assert named(raised.value.missing) == ("cyd",)


@contextmanager
def sent_during_a_change(
    group: str, mode: str, to: list[str] | None
) -> Iterator[tuple[list[blocking.Receipt], list[blocking.Group]]]:
    """Messages that ada sends while it waits for bea's answer to a view without cyd, and ada, bea
    and cyd, when that view is installed."""
    with members(group, mode, leave_ns=100_000_000) as (ada, bea, cyd):
        view, runner = ada.view, ada._runner
        bea.faults.delay(200_000_000)
        cut(cyd, ada, bea)
        ada._loop.call_soon(lambda now: runner.step(now, SuspectMember(cyd.me)))
        assert until(lambda: runner.member.changing, SECONDS)
        receipts: list[blocking.Receipt] = []
        while ada.view == view and len(receipts) < 3:
            receipts.append(ada.send(b"x", to=to))
        assert receipts
        bea.faults.heal()
        cut(cyd, ada, bea)
        ada.wait_for(2, SECONDS, gone="cyd")
        yield receipts, [ada, bea, cyd]


def outcomes_without(
    gone: phalanx.MemberId, receipt: blocking.Receipt, view: ViewId
) -> Iterator[phalanx.Outcome]:
    """What `stable()` and `delivered()` report of a message that has its place in this view and was
    meant for a member that is gone as well."""
    assert receipt.ordered(SECONDS).view == view
    for wait in (receipt.stable, receipt.delivered):
        with pytest.raises(phalanx.NotEverywhere) as raised:
            wait(SECONDS)
        assert raised.value.missing == (gone,)
        yield raised.value.outcome


@pytest.mark.parametrize("mode", MODES)
def test_messages_sent_during_a_change_belong_to_the_next_view(group_name: str, mode: str) -> None:
    with sent_during_a_change(group_name, mode, None) as (receipts, (ada, bea, cyd)):
        for receipt in receipts:
            for outcome in outcomes_without(cyd.me, receipt, ada.view.id):
                assert outcome.members == (ada.me, bea.me)
                assert outcome.view == ada.view.id
                assert not outcome.transitional


@pytest.mark.parametrize("mode", MODES)
def test_receivers_that_are_gone_are_named_and_the_others_get_the_message(
    group_name: str, mode: str
) -> None:
    with sent_during_a_change(group_name, mode, ["bea", "cyd"]) as (receipts, (ada, bea, cyd)):
        for receipt in receipts:
            for outcome in outcomes_without(cyd.me, receipt, ada.view.id):
                assert outcome.members == (bea.me,)


@pytest.mark.parametrize("mode", MODES)
def test_a_message_all_of_whose_receivers_are_gone_is_not_delivered(
    group_name: str, mode: str
) -> None:
    """Also if the receipt is asked when the group has gone on."""
    with sent_during_a_change(group_name, mode, ["cyd"]) as (receipts, (ada, _, cyd)):
        ada.send(b"later").stable(SECONDS)
        for receipt in receipts:
            for wait in (receipt.ordered, receipt.stable, receipt.delivered):
                with pytest.raises(phalanx.NotDelivered) as raised:
                    wait(SECONDS)
                assert raised.value.missing == (cyd.me,)


def test_a_member_that_left_gracefully_is_named_too(group_name: str) -> None:
    with members(group_name, "hold") as (ada, bea, cyd):
        cut(cyd, ada)  # it leaves before it can acknowledge
        receipt = ada.send(b"x")
        cyd.leave()
        outcome = receipt.stable(SECONDS, allow_missing=True)
        assert named(outcome.missing) in ((), ("cyd",))
        assert {"ada", "bea"} <= set(named(outcome.members))
        bea.wait_for(2, SECONDS)


@pytest.mark.parametrize("mode", MODES)
def test_a_receipt_ends_with_its_member(group_name: str, mode: str) -> None:
    with members(group_name, mode, leave_ns=100_000_000) as (ada, bea, cyd):
        cut(ada, bea, cyd)
        receipt = ada.send(b"x", phalanx.SAFE)
        ada.leave()
        for wait in (receipt.ordered, receipt.stable, receipt.delivered):
            with pytest.raises(MemberClosed):
                wait(SECONDS)


def test_delivery_that_is_asked_for_after_the_end_fails_at_once(group_name: str) -> None:
    with members(group_name, "flow") as (ada, bea, cyd):
        receipt = ada.send(b"x")
        receipt.stable(SECONDS)
        cut(ada, bea, cyd)
        ada.leave()
        with pytest.raises(phalanx.PhalanxError, match="left its group"):
            receipt.delivered(SECONDS)
        assert named(receipt.stable().members) == NAMES
