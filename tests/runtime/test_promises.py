"""What `ordered()`, `stable()` and `delivered()` promise: a test for each cell of the table in
docs/receipts.md, on a virtual network and clock.

Where a promise speaks of other members, the test stops at the moment of the receipt and looks at
what these members have, or cuts them off then and looks at what they deliver. The last test breaks
rules of the core and shows that the tests of the promises that rest on them fail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.runtime.simulated_group import (
    SimulatedGroup,
    SimulatedMember,
    SimulatedReceipt,
    ids,
)

import phalanx
from phalanx.core import effects as fx
from phalanx.errors import MemberClosed, NameInUse, NotDelivered, NotEverywhere, PhalanxError
from phalanx.runtime.receipt_tracker import Outcome, State
from phalanx.sim import mutants

Simulate = Callable[..., SimulatedGroup]
SOON_MS = 200
"""Enough for packets to be repeated, not enough for a member to be removed."""
TO_SOME = pytest.mark.parametrize("to_some", [False, True], ids=["to all", "to some"])


@pytest.fixture
def simulate(monkeypatch: pytest.MonkeyPatch) -> Simulate:
    return lambda **settings: SimulatedGroup(monkeypatch, **settings)


@pytest.fixture(params=["hold", "flow"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def missing(call: Callable[[], Outcome], error: type[NotEverywhere] = NotEverywhere) -> Any:
    """The error of a receipt that names missing members."""
    with pytest.raises(NotEverywhere) as raised:
        call()
    assert type(raised.value) is error
    return raised.value


# ---------------------------------------------------------------------------- steady view


def place_is_final(group: SimulatedGroup, to_some: bool) -> None:
    """Three members send at once. When cyd's message is ordered, all that comes before it in the
    order of ada has been delivered at cyd."""
    ada, bea, cyd = group.join("ada", "bea", "cyd")
    for other in (ada, bea):
        group.send(other, b"of %s" % other.me.name.encode())
    receipt = group.send(cyd, b"x", to=[ada] if to_some else None)
    group.until(lambda: receipt.state >= State.ORDERED)
    delivered = cyd.bodies.copy()
    assert receipt.ordered() == Outcome(members=(), view=cyd.view.id)
    group.run(SOON_MS)
    assert ada.bodies == [b"of ada", b"of bea", b"x"]
    assert delivered == (ada.bodies[:2] if to_some else ada.bodies)


def stable_when_received(group: SimulatedGroup, to_some: bool) -> None:
    """A message is not stable while cyd does not hear it; when it is stable, cyd delivers it even
    if it is cut off at that moment."""
    ada, bea, cyd = group.join("ada", "bea", "cyd")
    view = ada.view
    group.cut([ada, bea], [cyd])
    receipt = group.send(ada, b"x", to=[cyd] if to_some else None)
    group.run(SOON_MS)
    assert receipt.state is State.ORDERED
    group.heal()
    expected = Outcome(members=(cyd.me,) if to_some else view.members, view=view.id)
    assert receipt.stable() == expected
    group.isolate(cyd)
    group.until(lambda: cyd.view.members == (cyd.me,))
    assert [message.view for message in cyd.messages if message.body == b"x"] == [view.id]


def delivered_when_all_have_delivered(group: SimulatedGroup, to_some: bool) -> None:
    """Cyd has a safe message and does not know that bea has it: it is stable and not delivered."""
    ada, bea, cyd = group.join("ada", "bea", "cyd")
    view = ada.view
    group.cut([bea], [cyd])
    receipt = group.send(ada, b"x", phalanx.SAFE, to=[cyd] if to_some else None)
    group.cut([ada], [cyd])  # the message is on its way
    receipt.ask_for_delivery()
    group.run(SOON_MS)
    assert (receipt.state, cyd.bodies) == (State.STABLE, [])
    group.heal()
    expected = Outcome(members=(cyd.me,) if to_some else view.members, view=view.id)
    assert receipt.delivered() == expected
    for member in (cyd,) if to_some else (ada, bea, cyd):
        assert member.bodies == [b"x"]


def test_steady_view_ordered(simulate: Simulate, mode: str) -> None:
    place_is_final(simulate(mode=mode), to_some=False)


@pytest.mark.parametrize("service", [phalanx.BASIC, phalanx.CAUSAL])
def test_steady_view_ordered_without_a_place(simulate: Simulate, service: phalanx.Service) -> None:
    group = simulate()
    ada, *_ = group.join("ada", "bea", "cyd")
    assert group.send(ada, b"x", service).state is State.ORDERED


def test_steady_view_stable(simulate: Simulate, mode: str) -> None:
    stable_when_received(simulate(mode=mode), to_some=False)


def test_steady_view_delivered(simulate: Simulate, mode: str) -> None:
    delivered_when_all_have_delivered(simulate(mode=mode), to_some=False)


def test_steady_view_to_some_ordered(simulate: Simulate, mode: str) -> None:
    place_is_final(simulate(mode=mode), to_some=True)


def test_steady_view_to_some_stable(simulate: Simulate, mode: str) -> None:
    stable_when_received(simulate(mode=mode), to_some=True)


def test_steady_view_to_some_delivered(simulate: Simulate, mode: str) -> None:
    delivered_when_all_have_delivered(simulate(mode=mode), to_some=True)


# ---------------------------------------------------------------------------- the view ends first


def test_view_ends_first_ordered(simulate: Simulate, mode: str) -> None:
    """With the order of all acknowledgements nothing gets a place without cyd."""
    group = simulate(mode=mode, order="all-ack")
    ada, bea, cyd = group.join("ada", "bea", "cyd")
    view = ada.view
    group.isolate(cyd)
    group.send(bea, b"of bea")
    receipt = group.send(ada, b"x")
    group.run(SOON_MS)
    assert receipt.state is State.ACCEPTED
    assert receipt.ordered() == Outcome(members=(), view=view.id)
    delivered = ada.bodies.copy()
    group.run(SOON_MS)
    assert b"x" in delivered
    assert delivered == ada.bodies == bea.bodies
    assert {message.view for message in ada.messages + bea.messages} == {view.id}


@TO_SOME
def test_view_ends_first_stable(simulate: Simulate, mode: str, to_some: bool) -> None:
    group = simulate(mode=mode)
    ada, bea, cyd = group.join("ada", "bea", "cyd")
    view = ada.view
    group.isolate(cyd)
    receipt = group.send(ada, b"x", phalanx.SAFE, to=[bea, cyd] if to_some else None)
    error = missing(receipt.stable)
    assert error.missing == (cyd.me,)
    have = (bea.me,) if to_some else ids(ada, bea)
    outcome = Outcome(members=have, view=view.id, transitional=True, missing=(cyd.me,))
    assert error.outcome == receipt.stable(allow_missing=True) == outcome
    group.run(SOON_MS)
    assert [message.view for message in bea.messages] == [view.id]
    assert cyd.bodies == []


@TO_SOME
def test_view_ends_first_delivered(simulate: Simulate, mode: str, to_some: bool) -> None:
    """Bea moves on too, but ada has not heard it in the next view."""
    group = simulate(mode=mode)
    ada, bea, cyd = group.join("ada", "bea", "cyd")
    view = ada.view
    group.isolate(cyd)
    receipt = group.send(ada, b"x", phalanx.SAFE, to=[bea, cyd] if to_some else None)
    group.until(lambda: ada.view != view)
    group.hold(bea, ada)
    receipt.ask_for_delivery()
    group.run(SOON_MS)
    assert receipt.state is State.STABLE
    group.heal()
    error = missing(receipt.delivered)
    assert error.missing == (cyd.me,)
    assert error.outcome.members == ((bea.me,) if to_some else ids(ada, bea))
    assert [message.view for message in bea.messages] == [view.id]


# ---------------------------------------------------------------------------- during a change


def sent_during_a_removal(
    group: SimulatedGroup, to: str = ""
) -> tuple[SimulatedReceipt, SimulatedMember, SimulatedMember, SimulatedMember]:
    """Ada has proposed a view without cyd and waits for bea; then it sends. `to` has the first
    letters of the receivers. The change goes on when the function returns."""
    ada, bea, cyd = group.join("ada", "bea", "cyd")
    group.isolate(cyd)
    group.hold(bea, ada)
    ada.step(group.now, fx.SuspectMember(cyd.me))
    receivers = [member for member in (ada, bea, cyd) if member.me.name[0] in to]
    receipt = group.send(ada, b"x", to=receivers or None)
    group.run(50)
    assert ada.proposes
    sent = [effect for effect in ada.effects if isinstance(effect, fx.Sent)]
    assert [effect.phase for effect in sent] == ([] if group.settings["mode"] == "hold" else [1])
    assert receipt.state is State.ACCEPTED
    group.heal()
    group.isolate(cyd)
    return receipt, ada, bea, cyd


def sent_during_a_join(group: SimulatedGroup) -> tuple[SimulatedReceipt, list[SimulatedMember]]:
    """Dov joins; the first member that proposes the view waits for the others, and sends. The
    sender comes first, dov last. The change goes on when the function returns."""
    members = group.join("ada", "bea", "cyd")
    members.append(group.start("dov", isolated=True))
    group.run(1_000)
    group.heal()
    group.until(lambda: any(member.proposes for member in members[:3]))
    sender = next(member for member in members if member.proposes)
    for other in members:
        if other is not sender:
            group.hold(other, sender)
    receipt = group.send(sender, b"x")
    group.run(20)
    assert sender.proposes
    assert receipt.state is State.ACCEPTED
    group.heal()
    members.remove(sender)
    return receipt, [sender, *members]


def test_sent_during_a_change_ordered(simulate: Simulate, mode: str) -> None:
    receipt, ada, bea, _ = sent_during_a_removal(simulate(mode=mode))
    outcome = receipt.ordered()
    assert outcome.view == ada.view.id
    assert ada.view.members == ids(ada, bea)
    assert [(m.body, m.view) for m in ada.messages] == [(b"x", outcome.view)]


def test_sent_during_a_change_stable(simulate: Simulate, mode: str) -> None:
    group = simulate(mode=mode)
    receipt, ada, bea, cyd = sent_during_a_removal(group)
    error = missing(receipt.stable)
    assert error.missing == (cyd.me,)
    expected = Outcome(members=ids(ada, bea), view=ada.view.id, missing=(cyd.me,))
    assert error.outcome == receipt.stable(allow_missing=True) == expected
    view = ada.view
    group.isolate(bea)
    group.until(lambda: bea.view.members == (bea.me,))
    assert [(m.body, m.view) for m in bea.messages] == [(b"x", view.id)]


def test_sent_during_a_change_delivered(simulate: Simulate, mode: str) -> None:
    receipt, ada, bea, cyd = sent_during_a_removal(simulate(mode=mode))
    error = missing(receipt.delivered)
    assert error.missing == (cyd.me,)
    expected = Outcome(members=ids(ada, bea), view=ada.view.id, missing=(cyd.me,))
    assert error.outcome == receipt.delivered(allow_missing=True) == expected
    assert [(m.body, m.view) for m in bea.messages] == [(b"x", ada.view.id)]


def test_sent_during_a_join_ordered(simulate: Simulate, mode: str) -> None:
    receipt, (sender, *others) = sent_during_a_join(simulate(mode=mode))
    outcome = receipt.ordered()
    assert outcome.view == sender.view.id
    assert sender.view.members == ids(sender, *others)
    assert [(m.body, m.view) for m in sender.messages] == [(b"x", outcome.view)]


def test_sent_during_a_join_stable(simulate: Simulate, mode: str) -> None:
    """Dov has the message when it is stable, although it was not in the view at the time of send:
    it delivers it, even if it is cut off then."""
    group = simulate(mode=mode)
    receipt, (sender, *others) = sent_during_a_join(group)
    assert receipt.stable() == Outcome(members=ids(sender, *others), view=sender.view.id)
    view, dov = sender.view, others[-1]
    group.isolate(dov)
    group.until(lambda: dov.view.members == (dov.me,))
    assert [(m.body, m.view) for m in dov.messages] == [(b"x", view.id)]


def test_sent_during_a_join_delivered(simulate: Simulate, mode: str) -> None:
    receipt, (sender, *others) = sent_during_a_join(simulate(mode=mode))
    assert receipt.delivered() == Outcome(members=ids(sender, *others), view=sender.view.id)
    for other in others:
        assert other.bodies == [b"x"]


# ---------------------------------------------------------------------------- receivers are gone


def sent_from_the_queue(
    group: SimulatedGroup, to: str
) -> tuple[SimulatedReceipt, SimulatedMember, SimulatedMember, SimulatedMember]:
    """As `sent_during_a_removal`, but the message waits in front of the core, which is full, and
    reaches it in the next view."""
    ada, bea, cyd = group.join("ada", "bea", "cyd")
    group.isolate(cyd)
    group.hold(bea, ada)
    ada.step(group.now, fx.SuspectMember(cyd.me))
    group.send(ada, bytes(group.settings["outbox_bytes_max"]))
    receivers = [member for member in (ada, bea, cyd) if member.me.name[0] in to]
    receipt = group.send(ada, b"x", to=receivers)
    group.run(50)
    assert (ada.proposes, receipt.state) == (True, State.WAITING)
    group.heal()
    group.isolate(cyd)
    return receipt, ada, bea, cyd


Sent = Callable[..., Any]
LATE = pytest.mark.parametrize(
    ("sent", "settings"),
    [
        (sent_during_a_removal, {"mode": "hold"}),
        (sent_during_a_removal, {"mode": "flow"}),
        (sent_from_the_queue, {"mode": "hold", "outbox_bytes_max": 1000}),
    ],
    ids=["hold", "flow", "queue"],
)
"""Ways of a message to a view without some of its receivers."""


@LATE
def test_some_receivers_gone_ordered(
    simulate: Simulate, sent: Sent, settings: dict[str, Any]
) -> None:
    receipt, ada, bea, _ = sent(simulate(**settings), to="bc")
    outcome = receipt.ordered()
    assert outcome == Outcome(members=(), view=ada.view.id)
    assert ada.view.members == ids(ada, bea)


@LATE
def test_some_receivers_gone_stable(
    simulate: Simulate, sent: Sent, settings: dict[str, Any]
) -> None:
    group = simulate(**settings)
    receipt, ada, bea, cyd = sent(group, to="bc")
    error = missing(receipt.stable)
    assert error.missing == (cyd.me,)
    expected = Outcome(members=(bea.me,), view=ada.view.id, missing=(cyd.me,))
    assert error.outcome == receipt.stable(allow_missing=True) == expected
    assert [(report.members, report.rest) for report in ada.not_sent] == [((cyd.me,), 1)]
    group.isolate(bea)
    group.run(2_000)
    assert bea.bodies.count(b"x") == 1


@LATE
def test_some_receivers_gone_delivered(
    simulate: Simulate, sent: Sent, settings: dict[str, Any]
) -> None:
    receipt, ada, bea, cyd = sent(simulate(**settings), to="bc")
    error = missing(receipt.delivered)
    assert error.missing == (cyd.me,)
    assert error.outcome == Outcome(members=(bea.me,), view=ada.view.id, missing=(cyd.me,))
    assert bea.bodies.count(b"x") == 1


def nobody_gets_it(call: Callable[[], Outcome], group: SimulatedGroup) -> None:
    """The call raises, whenever it is made."""
    ada, cyd = group.members["ada"], group.members["cyd"]
    assert missing(call, NotDelivered).missing == (cyd.me,)
    assert [(report.members, report.rest) for report in ada.not_sent] == [((cyd.me,), 0)]
    group.run(SOON_MS)
    assert missing(call, NotDelivered).missing == (cyd.me,)
    assert not any(b"x" in member.bodies for member in group.members.values())


@LATE
def test_all_receivers_gone_ordered(
    simulate: Simulate, sent: Sent, settings: dict[str, Any]
) -> None:
    group = simulate(**settings)
    nobody_gets_it(sent(group, to="c")[0].ordered, group)


@LATE
def test_all_receivers_gone_stable(
    simulate: Simulate, sent: Sent, settings: dict[str, Any]
) -> None:
    group = simulate(**settings)
    nobody_gets_it(sent(group, to="c")[0].stable, group)


@LATE
def test_all_receivers_gone_delivered(
    simulate: Simulate, sent: Sent, settings: dict[str, Any]
) -> None:
    group = simulate(**settings)
    nobody_gets_it(sent(group, to="c")[0].delivered, group)


# ---------------------------------------------------------------------------- alone and cut off


def sent_alone(group: SimulatedGroup, to_some: bool) -> tuple[SimulatedReceipt, SimulatedMember]:
    (ada,) = group.join("ada")
    return group.send(ada, b"x", phalanx.SAFE, to=[ada] if to_some else None), ada


@TO_SOME
def test_alone_ordered(simulate: Simulate, mode: str, to_some: bool) -> None:
    receipt, ada = sent_alone(simulate(mode=mode), to_some)
    assert receipt.state >= State.ORDERED, "at once"
    assert receipt.ordered() == Outcome(members=(), view=ada.view.id)


@TO_SOME
def test_alone_stable(simulate: Simulate, mode: str, to_some: bool) -> None:
    receipt, ada = sent_alone(simulate(mode=mode), to_some)
    assert receipt.state is State.STABLE, "at once"
    assert receipt.stable() == Outcome(members=(ada.me,), view=ada.view.id)


@TO_SOME
def test_alone_delivered(simulate: Simulate, mode: str, to_some: bool) -> None:
    receipt, ada = sent_alone(simulate(mode=mode), to_some)
    receipt.ask_for_delivery()
    assert receipt.state is State.DELIVERED, "at once"
    assert receipt.delivered() == Outcome(members=(ada.me,), view=ada.view.id)
    assert ada.bodies == [b"x"]


def sent_cut_off(
    group: SimulatedGroup, service: phalanx.Service = phalanx.SAFE, to_some: bool = False
) -> tuple[SimulatedReceipt, SimulatedMember, SimulatedMember, SimulatedMember]:
    ada, bea, cyd = group.join("ada", "bea", "cyd")
    group.isolate(ada)
    receipt = group.send(ada, b"x", service, to=[bea, cyd] if to_some else None)
    group.run(SOON_MS)
    assert receipt.state is State.ACCEPTED, "nothing is known yet"
    return receipt, ada, bea, cyd


@pytest.mark.parametrize("service", [phalanx.AGREED, phalanx.SAFE])
def test_cut_off_ordered(simulate: Simulate, mode: str, service: phalanx.Service) -> None:
    group = simulate(mode=mode)
    receipt, ada, *_ = sent_cut_off(group, service)
    view = ada.view
    group.until(lambda: receipt.state >= State.ORDERED)
    assert ada.view.members == (ada.me,), "not before the view has ended"
    assert receipt.ordered() == Outcome(members=(), view=view.id)
    assert [(m.body, m.view) for m in ada.messages] == [(b"x", view.id)]


@TO_SOME
def test_cut_off_stable(simulate: Simulate, mode: str, to_some: bool) -> None:
    group = simulate(mode=mode)
    receipt, ada, bea, cyd = sent_cut_off(group, to_some=to_some)
    view = ada.view
    have = () if to_some else (ada.me,)
    outcome = Outcome(members=have, view=view.id, transitional=True, missing=ids(bea, cyd))
    assert missing(receipt.stable).outcome == receipt.stable(allow_missing=True) == outcome
    group.run(SOON_MS)
    assert bea.bodies == cyd.bodies == []


@TO_SOME
def test_cut_off_delivered(simulate: Simulate, mode: str, to_some: bool) -> None:
    receipt, _, bea, cyd = sent_cut_off(simulate(mode=mode), to_some=to_some)
    assert missing(receipt.delivered).missing == ids(bea, cyd)
    assert bea.bodies == cyd.bodies == []


# ---------------------------------------------------------------------------- the member ends


def leaves(group: SimulatedGroup, member: SimulatedMember) -> None:
    member.leave(group.now)
    group.until(lambda: member.stopped)


def loses_its_name(group: SimulatedGroup, member: SimulatedMember) -> None:
    member._perform(group.now, [fx.Stopped("name-in-use")])


ENDS = pytest.mark.parametrize(
    ("end", "error"), [(leaves, MemberClosed), (loses_its_name, NameInUse)], ids=["left", "failed"]
)
End = Callable[[SimulatedGroup, SimulatedMember], None]


def ended(group: SimulatedGroup, end: End) -> SimulatedReceipt:
    receipt, ada, *_ = sent_cut_off(group)
    end(group, ada)
    return receipt


@ENDS
def test_member_ends_first_ordered(
    simulate: Simulate, mode: str, end: End, error: type[PhalanxError]
) -> None:
    receipt = ended(simulate(mode=mode, leave_ns=100_000_000), end)
    with pytest.raises(error):
        receipt.ordered()


@ENDS
def test_member_ends_first_stable(
    simulate: Simulate, mode: str, end: End, error: type[PhalanxError]
) -> None:
    receipt = ended(simulate(mode=mode, leave_ns=100_000_000), end)
    with pytest.raises(error):
        receipt.stable(allow_missing=True)


@ENDS
def test_member_ends_first_delivered(
    simulate: Simulate, mode: str, end: End, error: type[PhalanxError]
) -> None:
    receipt = ended(simulate(mode=mode, leave_ns=100_000_000), end)
    with pytest.raises(error):
        receipt.delivered(allow_missing=True)


# ---------------------------------------------------------------------------- broken rules

BROKEN: list[tuple[str, Callable[..., None], dict[str, Any]]] = [
    ("ordered-when-sent", test_steady_view_ordered, {}),
    ("ordered-when-sent", test_steady_view_to_some_ordered, {}),
    ("ordered-when-sent", test_view_ends_first_ordered, {}),
    ("ordered-when-sent", test_sent_during_a_change_ordered, {"mode": "hold"}),
    ("ordered-when-sent", test_cut_off_ordered, {"service": phalanx.SAFE}),
    ("stable-when-ordered", test_steady_view_stable, {}),
    ("stable-when-ordered", test_steady_view_to_some_stable, {}),
    ("stable-at-the-end", test_view_ends_first_stable, {"to_some": False}),
    ("stable-at-the-end", test_view_ends_first_stable, {"to_some": True}),
    ("stable-at-the-end", test_cut_off_stable, {"to_some": True}),
    ("delivered-when-stable", test_steady_view_delivered, {}),
    ("delivered-when-stable", test_steady_view_to_some_delivered, {}),
    ("delivered-when-the-view-ends", test_view_ends_first_delivered, {"to_some": False}),
    ("no-receipts-in-flow", test_sent_during_a_change_stable, {}),
    ("no-receipts-in-flow", test_sent_during_a_join_delivered, {}),
    ("not-sent-never", test_some_receivers_gone_stable, {"sent": sent_during_a_removal}),
    ("carried-in-silence", test_all_receivers_gone_delivered, {"sent": sent_during_a_removal}),
]


@pytest.mark.parametrize(
    ("mutant", "test", "given"), BROKEN, ids=[f"{name} {test.__name__}" for name, test, _ in BROKEN]
)
def test_the_test_of_a_promise_fails_when_its_rule_is_broken(
    simulate: Simulate, mutant: str, test: Callable[..., None], given: dict[str, Any]
) -> None:
    settings = {"settings": {"mode": "flow"}} if "sent" in given else {"mode": "flow"}
    with mutants.apply(mutant), pytest.raises((AssertionError, pytest.fail.Exception)):
        test(simulate, **(settings | given))
