"""A union has to wait for a change that was acknowledged on the same base, also if that change came
to nothing: then the base has to be left."""

from __future__ import annotations

from phalanx.core.ids import MemberId
from phalanx.service import inputs
from phalanx.service.effects import ChangeDropped, Send, SetRecord, StateApplied
from phalanx.service.entries import ChangeId, SetChange
from phalanx.service.messages import Ack, Initiate
from phalanx.service.promises import Promises
from phalanx.service.service_times import ServiceTimes
from phalanx.service.set_log import SetLog
from phalanx.service.set_state import founded
from phalanx.service.set_union import united

A, D = MemberId("a"), MemberId("d")
MINE, THEIRS = founded("s", (A,), A), founded("s", (D,), D)


def come_back(promises: Promises) -> SetLog:
    """A server alone in its component, which has acknowledged a change before it was killed."""
    return SetLog(A, SetRecord(MINE, MINE, (), promises), ServiceTimes(), 0)


def asked(log: SetLog) -> list[object]:
    change = SetChange(ChangeId(D, 1), 3)
    message = Initiate("s", THEIRS.vid, change, other=log.state.vid)
    return list(log.step(0, inputs.MessageReceived(D, message)))


def statuses(given: list[object]) -> list[str]:
    sent = [each.message for each in given if isinstance(each, Send)]
    return [message.status for message in sent if isinstance(message, Ack)]


def test_a_union_that_is_refused_for_an_earlier_change_leads_to_a_free_base() -> None:
    log = come_back(Promises(apart=()))
    given = asked(log)
    assert statuses(given) == ["busy"]
    assert [each.state.view for each in given if isinstance(each, StateApplied)] == [(A,)]
    assert log.state.vid != MINE.vid
    assert statuses(asked(log)) == ["acked"]


def test_who_has_acknowledged_a_change_proposes_no_union_on_that_base() -> None:
    log, change = come_back(Promises(apart=())), SetChange(ChangeId(A, 1), 3)
    proposal = inputs.ProposeUnion(change, THEIRS.vid, united(MINE, THEIRS, None))
    given = log.step(0, proposal)
    assert ChangeDropped(change.id) in given
    assert log.state.vid != MINE.vid
    free = inputs.ProposeUnion(change, THEIRS.vid, united(log.state, THEIRS, None))
    sent = [each for each in log.step(0, free) if isinstance(each, Send)]
    assert [(each.to, type(each.message)) for each in sent] == [(D, Initiate)]
