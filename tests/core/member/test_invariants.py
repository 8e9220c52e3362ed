"""The invariants between the parts of a member can fail: each is broken once by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from phalanx.config import lan
from phalanx.core.effects import Submit
from phalanx.core.ids import MemberId, boot_view
from phalanx.core.member.member import Member

ADA, BEA = MemberId("ada"), MemberId("bea")


def member() -> Member:
    """A member that waits for another one and has sent a message."""
    made = Member(ADA, boot_view([ADA, BEA]), "g", lan(), 1)
    made.start(0)
    made.step(1_000_000, Submit([b"hello"]))
    return made


def test_a_member_is_valid_after_a_step() -> None:
    member().validate()


def test_a_member_that_stopped_is_not_checked() -> None:
    made = member()
    made._stopped, made._sender.accepted = True, 99
    made.validate()


def other_view(made: Member) -> None:
    made._protocol.view = boot_view([ADA])


def other_base(made: Member) -> None:
    made._protocol.base = Member(BEA, boot_view([BEA]), "g", lan(), 1)._protocol.base


def other_rank(made: Member) -> None:
    made._active.state.rank = 1


def slot_missing(made: Member) -> None:
    made._control_plane.detector.heard_ns.pop()


def not_steady(made: Member) -> None:
    made._active.state.broadcast.steady = False


def issue_unknown(made: Member) -> None:
    made._active.state.issued = 7


def complete_too_early(made: Member) -> None:
    made._active.state.broadcast.awaiting_first_frames = False


def uncounted_message(made: Member) -> None:
    made._sender.accepted += 1


def receipt_for_nothing(made: Member) -> None:
    made._sender.receipts._stable_upto = 5


def speaks_after_leave(made: Member) -> None:
    made._protocol.stage = "LEAVING"
    made._active.state.broadcast.steady = False


def left_deferred(made: Member) -> None:
    made._active.state.broadcast.has_deferred = True


def unknown_frame(made: Member) -> None:
    made._active.state.broadcast.heard[0] = 0


@pytest.mark.parametrize(
    "broken",
    [
        other_view,
        other_base,
        other_rank,
        slot_missing,
        not_steady,
        issue_unknown,
        complete_too_early,
        uncounted_message,
        receipt_for_nothing,
        speaks_after_leave,
        left_deferred,
        unknown_frame,
    ],
)
def test_parts_that_disagree_are_found(broken: Callable[[Member], None]) -> None:
    made = member()
    broken(made)
    with pytest.raises(AssertionError):
        made.validate(deep=False)


def window_not_exact(made: Member) -> None:
    made._active.state.broadcast.store.bytes += 1


def own_window_not_exact(made: Member) -> None:
    made._active.state.broadcast.store.own_bytes -= 1


def waiting_not_exact(made: Member) -> None:
    made._active.state.broadcast.store.waiting_bytes += 1


def frame_forgotten(made: Member) -> None:
    made._active.state.dag.frames[0].clear()
    made._active.state.broadcast.store.bytes = made._active.state.broadcast.store.own_bytes = 0


def waits_twice(made: Member) -> None:
    store = made._active.state.broadcast.store
    store.add_waiting(store.dag.frames[0][1])


def asks_for_what_is_here(made: Member) -> None:
    made._active.state.broadcast.retransmission.lost(0, 0, 1, 1)


@pytest.mark.parametrize(
    "broken",
    [
        window_not_exact,
        own_window_not_exact,
        waiting_not_exact,
        frame_forgotten,
        waits_twice,
        asks_for_what_is_here,
    ],
)
def test_frames_that_are_counted_wrong_are_found(broken: Callable[[Member], None]) -> None:
    made = member()
    broken(made)
    with pytest.raises(AssertionError):
        made.validate()
