"""What a client remembers over its connections."""

from __future__ import annotations

import pytest

from phalanx.mserver.client_messages import (
    BadFrame,
    CallReply,
    ClientHello,
    ClientRefused,
    InterfaceWelcome,
    MemberNotice,
    NoticesSeen,
)
from phalanx.mserver.client_state import ClientState


def view(number: int) -> MemberNotice:
    return MemberNotice("h/1", number, "view", "u", f"{number}:aa")


def test_a_notice_that_is_repeated_is_given_once() -> None:
    """The acknowledgement was lost with the connection, also that of the last notice."""
    state = ClientState("t" * 32)
    over = MemberNotice("h/1", 2, "excluded", "u")
    assert state.take(view(1)) == (view(1), [NoticesSeen("h/1", 1)])
    assert state.take(over) == (over, [NoticesSeen("h/1", 2)])
    assert state.resumed() == [ClientHello(1, "t" * 32, {"h/1": 2})]
    for notice in (view(1), over):
        assert state.take(notice) == (None, [])


def test_open_calls_are_asked_again_and_answered_once() -> None:
    state = ClientState("t" * 32)
    one = state.call("get_view", {"group": "a"}, 1000)
    two = state.call("get_view", {"group": "b"}, 1000)
    assert state.take(CallReply(one.number))[0] == CallReply(one.number)
    assert state.take(CallReply(one.number))[0] is None
    assert state.resumed()[1:] == [two]
    state.close_call(two.number)
    assert state.take(CallReply(two.number))[0] is None
    assert len(state.resumed()) == 1


def test_an_interface_of_another_version_or_that_refuses_is_reported() -> None:
    state = ClientState("t" * 32)
    state.take(InterfaceWelcome(1, "h"))
    assert state.interface == "h"
    with pytest.raises(BadFrame, match="version 9"):
        state.take(InterfaceWelcome(9, "h"))
    with pytest.raises(BadFrame, match="bad-frame: no"):
        state.take(ClientRefused("bad-frame: no"))
