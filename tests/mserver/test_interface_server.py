"""What an interface does for its clients with the effects of its machine."""

from __future__ import annotations

import asyncio
import json

from phalanx.mserver.client_messages import (
    FRAME_BYTES_MAX,
    CallReply,
    FrameReader,
    reply_frame,
    to_client,
)
from phalanx.mserver.interface_server import InterfaceServer
from phalanx.mserver.notice_outbox import NoticeOutbox
from phalanx.service.effects import Notify
from phalanx.service.inputs import CallSubmitted
from phalanx.service.values import GroupView, Vid


def test_a_reply_that_no_frame_can_carry_is_an_error_of_the_call() -> None:
    names = json.dumps(["n" * 100] * (FRAME_BYTES_MAX // 100))
    [body] = FrameReader().take(reply_frame(CallReply(7, result={"names": names})))
    reply = to_client(body)
    assert isinstance(reply, CallReply)
    assert (reply.number, reply.error, reply.result) == (7, "too-large", {})


def test_a_member_of_a_join_that_outlived_its_client_leaves() -> None:
    """The host stopped between the join and its answer; the client did not come back."""
    left: list[CallSubmitted] = []

    async def play() -> None:
        server = InterfaceServer("h", NoticeOutbox(), left.append, lambda rows: None, 0.01)
        server.resume()
        view = GroupView(Vid(2, bytes(8)), (), ("h/1",), {"h/1": None}, "join")
        joined = Notify("h/1", "uid", view, None, call="client-token/1")
        assert set(server.more_records([joined])) == {"notices/h/1", f"notice/h/1/{1:012d}"}
        server.take_effect(joined)
        async with asyncio.timeout(5):
            while not left:
                await asyncio.sleep(0.005)

    asyncio.run(play())
    assert [(each.call.kind, each.call.member) for each in left] == [("leave", "h/1")]
