"""Calls that wait at the speaker of a set: what becomes of them without a network."""

from __future__ import annotations

from phalanx.core.ids import MemberId
from phalanx.service.call_desk import CallDesk
from phalanx.service.call_outcomes import WAITS, CallOutcome, CallRefused
from phalanx.service.grace_timers import GraceTimers
from phalanx.service.group_messages import GroupCall, Resolve
from phalanx.service.group_views import created, next_view
from phalanx.service.served_table import ServedTable
from phalanx.service.service_times import MILLISECOND, ServiceTimes
from phalanx.service.set_facts import SetFacts
from phalanx.service.set_state import founded
from phalanx.service.set_tree import ConfiguredSet, SetTree
from phalanx.service.values import GroupRecord, ServiceGroup, SetState

TIMES = ServiceTimes()
A = MemberId("a")
TREE = SetTree({"lan": ConfiguredSet("lan", 1, ("a",))}, {"h": "a"})


def a_group(uid: str, *members: str) -> ServiceGroup:
    new = created(uid, uid, "lan", b"state")
    grown = next_view(new, members, "join", b"state")
    return ServiceGroup(uid, uid, "lan", grown.view, grown.history, creator="h client")


def a_state(*groups: ServiceGroup) -> SetState:
    state = founded("lan", [A], None)
    for group in groups:
        state.groups[group.uid] = GroupRecord(own=group)
        state.names[group.uid] = group.uid
    return state


def facts(now_ms: int, state: SetState) -> SetFacts:
    """A set whose interfaces do not answer."""
    table = ServedTable(TIMES)
    table.begin(now_ms * MILLISECOND, state.lineage)
    grace = GraceTimers(TIMES.grace_ns)
    return SetFacts(
        now_ms * MILLISECOND,
        A,
        TREE,
        TIMES,
        state,
        state,
        None,
        table,
        grace,
        ("lan",),
        frozenset(),
        {},
    )


def outcome_after(ms: int, state: SetState, call: GroupCall) -> CallOutcome:
    """Of a call that is repeated for so long."""
    desk = CallDesk()
    request = Resolve("lan", A, MemberId("h"), call)
    for at in range(0, ms + 1, 300):
        desk.take(at * MILLISECOND, 600 * MILLISECOND, TIMES.pin_ttl_ns, request)
        desk.expire(at * MILLISECOND)
    return desk.outcome(desk.waiting[call.id], facts(ms, state))


def test_a_split_waits_for_members_and_is_refused_after_three_graces() -> None:
    names = {"child_1": "x", "child_2": "y"}
    call = GroupCall("client/1", "split", "h", "g", bound="g", arguments=names, new_uid="n")
    state = a_state(a_group("g", "h/1"))
    assert outcome_after(4200, state, call) == WAITS
    assert outcome_after(4500, state, call) == CallRefused("not-whole(h/1)")


def test_a_merge_is_refused_if_the_other_group_has_members_that_are_not_served() -> None:
    arguments = {"group_2": "o", "new": "n"}
    call = GroupCall("client/1", "merge", "h", "g", bound="g", arguments=arguments, new_uid="n")
    state = a_state(a_group("g"), a_group("o", "h/2"))
    assert outcome_after(4200, state, call) == WAITS
    assert outcome_after(4500, state, call) == CallRefused("not-whole(h/2)")


def test_a_delete_is_not_refused_for_members_that_are_not_served() -> None:
    call = GroupCall("client/1", "delete", "h", "g", bound="g")
    assert outcome_after(9000, a_state(a_group("g", "h/1")), call) == WAITS
