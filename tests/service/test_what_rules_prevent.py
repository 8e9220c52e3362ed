"""What a rule prevents, beside what happens without it: one small case for each mutant that sweeps
of the simulator do not find, or seldom. Each case returns what it sees."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace
from tests.sim.service.calm_service import CalmService

from phalanx.core.ids import MemberId
from phalanx.service import group_duties, group_moves, set_union
from phalanx.service.effects import InterfaceRecord
from phalanx.service.grace_timers import GraceTimers
from phalanx.service.group_calls import carry_out
from phalanx.service.group_messages import GroupCall, PathStep, Query, Resolve, Served, Tell
from phalanx.service.group_union import joined
from phalanx.service.group_views import created, fits, next_view
from phalanx.service.home_choice import HomeChoice
from phalanx.service.inputs import MessageReceived
from phalanx.service.served_table import ServedTable
from phalanx.service.service_times import MILLISECOND, ServiceTimes
from phalanx.service.set_facts import SetFacts
from phalanx.service.set_state import founded
from phalanx.service.set_tree import ConfiguredSet, SetTree
from phalanx.service.state_draft import StateDraft
from phalanx.service.values import GroupRecord, HandOver, HomeOf, ServiceGroup, SetState
from phalanx.sim.service.service_mutants import service_mutant

TIMES = ServiceTimes()
P, Q, A, B = (MemberId(name) for name in "pqab")
TREE = SetTree(
    {
        "top": ConfiguredSet("top", 2, ("p", "q")),
        "lan": ConfiguredSet("lan", 1, ("p", "a", "b"), "top", "p"),
    },
    {"h": "a", "i": "b"},
)


def a_group(*members: str) -> ServiceGroup:
    new = next_view(created("u", "orders", "top", b"s"), members, "join", b"s")
    return replace(new, creator="h client")


def lan_state(**groups: GroupRecord) -> SetState:
    state = founded("lan", [P, A, B], P)
    homes = {"h": HomeOf(A, 0), "i": HomeOf(B, 0)}
    return replace(state, groups=dict(groups), homes=homes)


def top_state(**groups: GroupRecord) -> SetState:
    return replace(founded("top", [P, Q], None), groups=dict(groups), kids={"lan": (P,)})


def answered(state: SetState, ages_ms: dict[str, int], now_ms: int = 10_000) -> ServedTable:
    """A table in which interfaces have answered questions of so long ago."""
    table = ServedTable(TIMES)
    for interface, age in sorted(ages_ms.items(), key=lambda item: -item[1]):
        asked = table.begin((now_ms - age) * MILLISECOND, state.lineage)
        served = Served(interface, {f"{interface}/1": None}, {f"{interface}/1": "u"}, 1)
        home = state.homes[interface].server
        table.take(home, Tell(state.set, state.lineage, asked, served=(served,)))
    table.begin(now_ms * MILLISECOND, state.lineage)
    return table


def facts_of(
    state: SetState,
    table: ServedTable | None = None,
    me: MemberId = P,
    above: SetState | None = None,
    is_stable: bool = True,
) -> SetFacts:
    return SetFacts(
        10_000 * MILLISECOND,
        me,
        TREE,
        TIMES,
        state,
        state if is_stable else None,
        above,
        table or answered(state, {}),
        GraceTimers(0),
        ("lan", "top") if state.set == "lan" else ("top",),
        frozenset(),
        {},
    )


# ---------------------------------------------------------------------- cases


def taken_down_by() -> object:
    """Two components of a child set; a group is on its way down with the parent of one."""
    above = top_state(u=GroupRecord(pends=(HandOver("h1", "lan", a_group(), P),)))
    owners = []
    for parent in (P, Q):
        draft = StateDraft(lan_state())
        group_moves.take_from_above(facts_of(draft.state, me=parent), draft, above)
        owners += [parent.name] if draft.record("u").own else []
    return owners


def taken_back() -> object:
    """The carrier is gone, and nobody is served: its members may have gone down with the group."""
    pend = HandOver("h1", "lan", a_group("h/1"), Q)
    state = replace(top_state(u=GroupRecord(pends=(pend,))), kids={})
    draft = StateDraft(state)
    group_duties.owner_duties(facts_of(state), draft)
    own = draft.record("u").own
    return own.view.members if own is not None else None


def carried_before_stable() -> object:
    """A state that a fork may forget holds a RELEASE."""
    state = lan_state(u=GroupRecord(pends=(HandOver("h1", "up", a_group(), None),)))
    return [p.id for p in group_moves.groups_carried_up(facts_of(state, is_stable=False))]


def admitted_below() -> object:
    """The set above owns the group as well."""
    own = a_group()
    state = lan_state(u=GroupRecord(own=own))
    table = answered(state, {"h": 0, "i": 0})
    facts = facts_of(state, table, above=top_state(u=GroupRecord(own=own)))
    draft = StateDraft(state)
    carry_out(GroupCall("c/1", "join", "h", "u", "h/1", bound="u"), own, facts, draft)
    after = draft.record("u").own
    assert after is not None
    return after.view.members


def served_twice() -> object:
    """A child set has a record of a group that this set owns."""
    state = top_state()
    table = ServedTable(TIMES)
    asked = table.begin(10_000 * MILLISECOND, state.lineage)
    served = Served("h", {"h/1": None}, {"h/1": "u"}, 1)
    table.take(P, Tell("top", state.lineage, asked, "lan", (served,), ("u",)))
    return table.serves(10_000 * MILLISECOND, state, a_group("h/1"), "h/1")


def left_after_a_cut() -> object:
    """One interface is silent, and the other one has not answered just now."""
    own = a_group("h/1", "i/1")
    state = lan_state(u=GroupRecord(own=own))
    table = answered(state, {"h": 700, "i": 5_000})
    return group_duties.members_lost(facts_of(state, table), own)


def kept_by_the_view_that_yields() -> object:
    """A child set has one member's record, and another member is silent."""
    own = a_group("h/1", "i/1")
    state = replace(top_state(u=GroupRecord(own=own)), kids={"lan": (P,), "far": (Q,)})
    table = ServedTable(TIMES)
    asked = table.begin(10_000 * MILLISECOND, state.lineage)
    served = Served("h", {"h/1": None}, {"h/1": "u"}, 1)
    table.take(P, Tell("top", state.lineage, asked, "lan", (served,), ("u",)))
    return group_duties.members_lost(facts_of(state, table), own)


def settled_on_old_answers() -> object:
    """Before a union: an interface that may be on the other side by now."""
    own = a_group("h/1")
    state = lan_state(u=GroupRecord(own=own))
    return facts_of(state, answered(state, {"h": 700})).unsettled(own)


def served_by_a_new_lineage() -> object:
    """A fork begins with nobody."""
    state = lan_state()
    table = answered(state, {"h": 100})
    fork = replace(state, lineage=b"forked!!")
    table.begin(10_001 * MILLISECOND, fork.lineage)
    return table.serves(10_001 * MILLISECOND, fork, a_group("h/1"), "h/1")


def taken_from_before() -> object:
    """A directive that was sent before the interface came to its owner."""
    choice = HomeChoice(TREE, InterfaceRecord("h", 0, "a"), TIMES, 0)
    step = PathStep("lan", b"lineage1", P, 50)
    choice.polled(1, "a", Query("h", 0, (step,)))
    return choice.is_on_path(replace(step, asked=40))


def known_to_a_side_that_is_ahead() -> object:
    """One side of a union has gone on from the view that the other one still has."""
    behind = a_group("h/1")
    ahead = next_view(behind, ("h/1", "i/1"), "join", b"t")
    together, _ = joined(behind, ahead, b"w")
    return [fits(together, m, ahead.view.vid) for m in ("h/1", "i/1")]


def under_way_after_arrival() -> object:
    """One side of a union has finished a hand-over that the other one still has."""
    pend = HandOver("h1", "up", a_group(), None)
    one = replace(lan_state(u=GroupRecord(pends=(pend,))), view=(A,))
    other = replace(lan_state(), view=(B,), lineage=b"other!!!", seen=("done h1",))
    return [p.id for p in set_union.united(one, other, "p").groups["u"].pends]


def groups_of_one_name() -> object:
    """Two hosts of one scope, below different sets, ask for one name."""
    service = CalmService()
    calls = [service.call("create", i, "orders", properties={"scope": "M0"}) for i in ("m0", "m2")]
    return [call.error for call in calls]


def admitted_again() -> object:
    """A join arrives once more after its member has left."""
    service = CalmService()
    uid = service.call("create", "m0", "orders", properties={"scope": "L0"}).uid
    member = service.join("m0", "orders")
    service.call("leave", "m0", "orders", member)
    service.run(1)
    assert service.group(uid)[1].view.members == ()
    call = GroupCall("c/2", "join", "m0", "orders", member, bound=uid, arguments={"create": ""})
    request = Resolve("L0", MemberId("a0"), MemberId("m0"), call)
    home = service.world.servers["p0"]
    assert home.machine is not None
    given = MessageReceived(MemberId("a0"), request)
    service.world._carry_out(home, home.machine.step(service.world.now, given))
    service.run(0.5)
    return service.group(uid)[1].view.members


def settled_with_a_silent_member() -> object:
    """An interface has just stopped: its members may be on the other side of a union."""
    service = CalmService()
    service.call("create", "m0", "orders", properties={"scope": "L0"})
    service.join("m0", "orders")
    service.world.crash(service.world.interfaces["m0"])
    service.run(0.8)
    speaker = service.world.servers["p0"].machine
    assert speaker is not None
    return speaker.groups.is_settled(service.world.now, speaker.logs, "L0")


@pytest.mark.parametrize(
    ("mutant", "case", "with_rule", "without"),
    [
        ("free-carrier", taken_down_by, ["p"], ["p", "q"]),
        ("take-back-all", taken_back, (), ("h/1",)),
        ("unstable-handover", carried_before_stable, [], ["h1"]),
        ("admit-anywhere", admitted_below, (), ("h/1",)),
        ("no-yield", served_twice, False, True),
        ("stale-cut", left_after_a_cut, ("h/1", "i/1"), ("i/1",)),
        ("yield-some", kept_by_the_view_that_yields, ("h/1", "i/1"), ("h/1",)),
        ("stale-settle", settled_on_old_answers, ("h/1",), ()),
        ("unsettled-union", settled_with_a_silent_member, False, True),
        ("no-hello", served_by_a_new_lineage, False, True),
        ("no-stranger", taken_from_before, False, True),
        ("any-path", taken_from_before, False, True),
        ("ff-skip", known_to_a_side_that_is_ahead, [True, True], [False, True]),
        ("pend-again", under_way_after_arrival, [], ["h1"]),
        ("name-local", groups_of_one_name, ["", "name-in-use(orders)"], ["", ""]),
        ("admit-twice", admitted_again, (), ("m0/1",)),
    ],
)
def test_a_rule_prevents_what_its_mutant_does(
    mutant: str, case: Callable[[], object], with_rule: object, without: object
) -> None:
    assert case() == with_rule
    with service_mutant(mutant):
        assert case() == without
