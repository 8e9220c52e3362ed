"""Rule Roles of the membership protocol: literal inputs, literal instructions, at the member a."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.forged_packets import made_up

from phalanx.config import lan
from phalanx.core.ids import MemberId, View, boot_view
from phalanx.core.membership.instructions import (
    Entered,
    Heard,
    InstallView,
    Instruction,
    IssueProposal,
    LeaveRequested,
    Resumed,
    RoleSet,
    Suspected,
)
from phalanx.core.membership.proposals import (
    Proposal,
    component_of,
    is_view,
    proposal_of,
    read_proposal,
)
from phalanx.core.membership.protocol import MembershipProtocol
from phalanx.core.membership.statements import Statement
from phalanx.core.roles import SERIALS_AHEAD_MAX, Role, covers, united
from phalanx.core.wire.frames import Component, DeliveredVector

A, B, C, X = (MemberId(name) for name in "abcx")
VIEW = boot_view([A, B, C])
HOME = component_of(VIEW)
READS, WRITES = Role(A, 1, ("read",)), Role(B, 1, ("write",))


def roles(*given: Role, out: tuple[MemberId, ...] = ()) -> Proposal:
    return proposal_of([HOME], [(member, VIEW.id) for member in out], given)


def issue(member: MemberId, number: int, proposal: Proposal, where: Component = HOME) -> Statement:
    return Statement(member, number, where, proposal, number, 0, DeliveredVector())


def issued(instructions: list[Instruction]) -> Proposal | None:
    last = instructions[-1] if instructions else None
    return last.proposal if isinstance(last, IssueProposal) else None


def protocol(view: View = VIEW) -> MembershipProtocol:
    return MembershipProtocol(A, view, lan())


def answered(made: MembershipProtocol, proposal: Proposal, number: int) -> InstallView:
    """a issues the proposal with this frame, and all others answer it."""
    base, out = made.base, list[Instruction]()
    for member in proposal.entries:
        out = made.step(0, Entered(issue(member, number, proposal, base)))
    assert isinstance(out[-1], InstallView)
    return out[-1]


# ---------------------------------------------------------------------------- proposals


def test_a_role_makes_another_view_of_the_same_members() -> None:
    plain, reads = proposal_of([HOME]), roles(READS)
    assert plain.view.members == reads.view.members
    assert (plain.view.id.joins, plain.view.id.removals) == (0, 1)
    assert (reads.view.id.joins, reads.view.id.removals) == (0, 1)
    assert plain.view.id != reads.view.id
    assert roles(Role(A, 1, ("read", "write"))).view.id != reads.view.id
    assert (plain.roles, reads.roles) == ((), (READS,))


def test_proposals_grow_by_roles() -> None:
    plain, reads, both = proposal_of([HOME]), roles(READS), roles(READS, WRITES)
    later = roles(Role(A, 2, ()))
    assert plain <= reads <= both
    assert reads <= later
    assert not both <= reads
    assert not later <= reads
    assert not reads <= plain
    assert not both <= later
    assert not later <= both


def test_a_proposal_without_roles_is_encoded_as_if_there_were_none() -> None:
    """Literal bytes: members of before and after this field understand each other."""
    home = component_of(boot_view([A]))
    made = proposal_of([home])
    brief: object = ([(home.view, home.members, home.context)], [])
    assert made.encoded == msgspec.msgpack.encode(brief)
    assert read_proposal(made.encoded) == made


@pytest.mark.parametrize(
    "given",
    [
        (Role(X, 1, ("read",)),),
        (READS, READS),
        (WRITES, READS),
        (Role(A, 1, ("write", "read")),),
        (Role(A, 1, ("read", "read")),),
        (Role(A, 1, tuple(f"op{i:02}" for i in range(17))),),
        (Role(A, 1, ("x" * 33,)),),
        (Role(A, 1, ("ä" * 17,)),),
        (Role(A, 1, ("two words",)),),
        (Role(A, 1, ("",)),),
        (Role(A, 1, ("\n",)),),
    ],
)
def test_roles_that_no_member_sets_are_refused(given: tuple[Role, ...]) -> None:
    assert read_proposal(proposal_of([HOME], (), given).encoded) is None


def test_damaged_roles_are_refused_and_raise_nothing() -> None:
    encoded = bytearray(roles(READS, Role(B, 7, ("audit", "write"))).encoded)
    for at in range(len(encoded)):
        for value in (0, 1, 0x7F, 0xC1, 0xFF):
            damaged = bytes(encoded[:at]) + bytes([value]) + bytes(encoded[at + 1 :])
            found = read_proposal(damaged)
            assert found is None or read_proposal(found.encoded) == found
    assert all(read_proposal(bytes(encoded[:size])) is None for size in range(len(encoded)))


def test_roles_of_a_proposal_come_back_from_the_wire() -> None:
    merged = proposal_of([component_of(roles(READS).view, (READS,)), made_up([X])], (), (WRITES,))
    assert read_proposal(merged.encoded) == merged
    assert merged.roles == (READS, WRITES)


def test_a_component_with_other_roles_than_its_view_is_refused() -> None:
    view = roles(READS).view
    assert is_view(component_of(view, (READS,)))
    assert not is_view(component_of(view, (Role(A, 2, ("read",)),)))
    assert not is_view(component_of(view))
    assert not is_view(component_of(VIEW, (READS,))), "a boot view has no roles"


def test_a_forged_serial_leaves_room_for_greater_ones() -> None:
    """The bound counts from the serial that is in force."""
    view = roles(Role(A, SERIALS_AHEAD_MAX, ())).view
    base = component_of(view, (Role(A, SERIALS_AHEAD_MAX, ()),))
    next_one = proposal_of([base], (), (Role(A, SERIALS_AHEAD_MAX + 1, ()),))
    assert read_proposal(next_one.encoded) == next_one


def test_roles_travel_with_components_and_only_with_the_entries_that_remain() -> None:
    base = component_of(roles(READS, WRITES).view, (READS, WRITES))
    other = made_up([X])
    assert proposal_of([base, other]).roles == (READS, WRITES)
    assert proposal_of([base, other], [(B, base.view)]).roles == (READS,)
    assert proposal_of([base], (), (Role(B, 2, ()),)).roles == (READS, Role(B, 2, ()))


def test_united_keeps_the_greatest_and_covers_knows_it() -> None:
    later = Role(A, 2, ())
    assert united((READS, WRITES), (later,)) == (later, WRITES)
    assert covers((later, WRITES), (READS,))
    assert not covers((READS,), (later,))
    assert not covers((), (READS,))
    assert covers((), ())


# ---------------------------------------------------------------------------- the protocol


def test_a_role_that_was_set_is_proposed_and_in_force_when_all_have_answered() -> None:
    made = protocol()
    assert issued(made.step(0, RoleSet(("read",)))) == roles(READS)
    assert not made.role_is_set
    install = answered(made, roles(READS), 1)
    assert (install.cause, install.proposal.roles) == ("role", (READS,))
    assert made.view.members == VIEW.members
    assert made.step(0, Resumed()) == []
    assert made.role_is_set


def test_setting_the_role_that_is_in_force_changes_nothing() -> None:
    made = protocol()
    assert made.step(0, RoleSet(())) == []
    assert made.role_is_set
    made.step(0, RoleSet(("read",)))
    answered(made, roles(READS), 1)
    assert made.step(0, RoleSet(("read",))) == []


def test_concurrent_changes_of_two_members_come_into_one_view() -> None:
    made, both = protocol(), roles(READS, WRITES)
    made.step(0, RoleSet(("read",)))
    assert issued(made.step(0, Entered(issue(B, 1, roles(WRITES))))) == both
    assert answered(made, both, 2).proposal.roles == (READS, WRITES)


def test_of_two_roles_of_one_member_the_later_is_united_with() -> None:
    made, later = protocol(), Role(B, 2, ())
    assert issued(made.step(0, Entered(issue(B, 1, roles(WRITES))))) == roles(WRITES)
    assert issued(made.step(0, Entered(issue(B, 2, roles(later))))) == roles(later)
    assert made.step(0, Entered(issue(C, 1, roles(WRITES)))) == []


def test_a_suspicion_and_a_role_make_one_view() -> None:
    made = protocol()
    made.step(0, RoleSet(("read",)))
    assert issued(made.step(0, Suspected((C,)))) == roles(READS, out=(C,))
    assert answered(made, roles(READS, out=(C,)), 2).cause == "removal"


def test_a_role_that_is_set_during_its_change_waits_for_the_install() -> None:
    made = protocol()
    made.step(0, RoleSet(("read",)))
    assert made.step(0, RoleSet(("write",))) == []
    answered(made, roles(READS), 1)
    assert not made.role_is_set
    out = made.step(0, Resumed())
    assert issued(out) == proposal_of([made.base], (), (Role(A, 2, ("write",)),))


def test_a_role_that_is_set_back_during_its_change_is_proposed_again() -> None:
    made = protocol()
    made.step(0, RoleSet(("read",)))
    assert made.step(0, RoleSet(())) == []
    answered(made, roles(READS), 1)
    assert issued(made.step(0, Resumed())) == proposal_of([made.base], (), (Role(A, 2, ()),))


def test_a_role_that_did_not_come_into_the_view_is_proposed_again_with_a_later_serial() -> None:
    """R3: others installed the proposal of before."""
    made, older = protocol(), roles(out=(C,))
    made.step(0, Suspected((C,)))
    made.step(0, Entered(issue(A, 1, older)))
    assert issued(made.step(0, RoleSet(("read",)))) == roles(READS, out=(C,))
    made.step(0, Entered(issue(A, 2, roles(READS, out=(C,)))))
    made.step(0, Entered(issue(B, 1, older)))
    witness = Statement(B, 2, component_of(older.view), None, 0, 0, None)
    out = made.step(0, Heard(witness, False))
    assert isinstance(out[-1], InstallView)
    assert out[-1].proposal == older
    again = made.step(0, Resumed())
    assert issued(again) == proposal_of([made.base], (), (Role(A, 2, ("read",)),))


def test_a_member_replaces_a_forged_role_of_its_own() -> None:
    made = protocol()
    made.step(0, RoleSet(("read",)))
    answered(made, roles(READS), 1)
    made.step(0, Resumed())
    forged = proposal_of([made.base], (), (Role(A, 900, ("evil",)),))
    assert issued(made.step(0, Entered(issue(B, 3, forged, made.base)))) == forged
    out = made.step(0, Entered(issue(A, 3, forged, made.base)))
    assert issued(out) == proposal_of([made.base], (), (Role(A, 901, ("read",)),))


def test_a_member_that_has_set_no_role_takes_a_forged_one_away() -> None:
    made, forged = protocol(), roles(Role(A, 3, ("evil",)))
    assert issued(made.step(0, Entered(issue(B, 1, forged)))) == forged
    assert issued(made.step(0, Entered(issue(A, 1, forged)))) == roles(Role(A, 4, ()))


def test_a_serial_at_the_bound_waits_for_the_next_view() -> None:
    """One above it would not come into force."""
    made, forged = protocol(), roles(Role(A, SERIALS_AHEAD_MAX, ("evil",)))
    assert issued(made.step(0, Entered(issue(B, 1, forged)))) == forged
    answered(made, forged, 2)
    again = issued(made.step(0, Resumed()))
    assert again == proposal_of([made.base], (), (Role(A, SERIALS_AHEAD_MAX + 1, ()),))
    assert read_proposal(again.encoded) == again


def test_a_serial_beyond_the_bound_does_not_come_into_force() -> None:
    """Nor that of a component from which the member does not come."""
    ahead = roles(Role(A, SERIALS_AHEAD_MAX + 1, ("evil",)))
    assert read_proposal(ahead.encoded) == ahead
    assert ahead.roles == ()
    other = roles(Role(A, SERIALS_AHEAD_MAX, ()))
    known = component_of(other.view, other.roles)
    lie = Role(A, SERIALS_AHEAD_MAX + 1, ("evil",))
    assert proposal_of([HOME, known], [(A, known.view)], (lie,)).roles == ()
    assert proposal_of([HOME, known], [(A, HOME.view)], (lie,)).roles == (lie,)


def test_a_serial_that_was_lost_at_the_bound_is_not_missed() -> None:
    """p raised its serial above a forged one at the bound, and others installed the proposal before
    that: R3. From the next view it begins again below the bound."""
    made, older = protocol(), roles(out=(C,))
    made.step(0, Suspected((C,)))
    made.step(0, Entered(issue(A, 1, older)))
    forged = roles(Role(A, SERIALS_AHEAD_MAX - 1, ("evil",)), out=(C,))
    assert issued(made.step(0, Heard(issue(B, 9, forged), False))) == forged
    mine = roles(Role(A, SERIALS_AHEAD_MAX, ()), out=(C,))
    assert issued(made.step(0, Entered(issue(A, 2, forged)))) == mine
    made.step(0, Entered(issue(A, 3, mine)))
    made.step(0, Entered(issue(B, 1, older)))
    witness = Statement(B, 12, component_of(older.view), None, 0, 0, None)
    assert isinstance(made.step(0, Heard(witness, False))[-1], InstallView)
    made.step(0, Resumed())
    again = issued(made.step(0, RoleSet(("read",))))
    assert again == proposal_of([made.base], (), (Role(A, 1, ("read",)),))


def test_a_member_that_leaves_sets_no_role() -> None:
    made = protocol()
    made.step(0, LeaveRequested())
    assert made.step(0, RoleSet(("read",))) == []
