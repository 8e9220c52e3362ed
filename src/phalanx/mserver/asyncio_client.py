"""A client of the membership service for asyncio.

    async with await connect("/run/phalanx/host-1.sock") as service:
        joined = await service.join_group("orders", properties={"role": "db"})
        async for notice in service.notices():
            print(notice.kind, notice.members)

A lost connection to the interface is made again for as long as the client lives. Calls that are
open then are asked again, and each is carried out once; no view is lost or given twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

from phalanx.config import Tls
from phalanx.errors import ConfigurationError
from phalanx.mserver.call_method import CALL_SECONDS, asyncio_method, with_selectors_as_text
from phalanx.mserver.client_messages import (
    BadFrame,
    CallReply,
    ClientGoodbye,
    FrameReader,
    MemberNotice,
    ToInterface,
    frame_of,
    to_client,
)
from phalanx.mserver.client_state import ClientState
from phalanx.service.calls.argument_check import checked_call
from phalanx.service.calls.call_errors import Unavailable, error_from_wire
from phalanx.transport.addresses import host_and_port
from phalanx.transport.tls_identity import open_tls

CONNECT_SECONDS = 10.0
RETRY_SECONDS = (0.05, 1.0)
"""The first and the longest wait before the next connection."""
CALL_SECONDS_MAX = 3600.0


class ServiceClient:
    """A client of one interface. Make one with `connect`; close it, or use it in `async with`.
    Every call raises a `ServiceError` if it is refused, `Unavailable` if there is no answer in
    time: it may still be carried out then."""

    create_group = asyncio_method("create_group")
    set_group_attributes = asyncio_method("set_group_attributes")
    delete_group = asyncio_method("delete_group")
    set_member_attributes = asyncio_method("set_member_attributes")
    split_group = asyncio_method("split_group")
    merge_group = asyncio_method("merge_group")
    is_member = asyncio_method("is_member")
    get_view = asyncio_method("get_view")
    get_list = asyncio_method("get_list")
    get_groups = asyncio_method("get_groups")
    get_member_attributes = asyncio_method("get_member_attributes")
    get_group_attributes = asyncio_method("get_group_attributes")
    get_sites = asyncio_method("get_sites")
    get_gsites = asyncio_method("get_gsites")
    send_msg = asyncio_method("send_msg")
    join_group = asyncio_method("join_group")
    leave_group = asyncio_method("leave_group")

    def __init__(self, place: str, tls: Tls | None) -> None:
        if "/" not in place:
            host_and_port("interface", place)
        self._place = place
        self._tls = open_tls(tls).client if tls is not None else None
        self._state = ClientState(uuid.uuid4().hex)
        self._writer: asyncio.StreamWriter | None = None
        self._answers: dict[int, asyncio.Future[CallReply]] = {}
        self._notices: asyncio.Queue[MemberNotice | None] = asyncio.Queue()
        self._welcome = asyncio.Event()
        self._problem = "no connection yet"
        self._closed = False
        self._task = asyncio.create_task(self._run())

    # ------------------------------------------------------------------ for the application

    @property
    def interface(self) -> str:
        """The name of the interface; empty before the first connection."""
        return self._state.interface

    @property
    def connected(self) -> bool:
        return self._welcome.is_set()

    async def call(
        self, name: str, arguments: dict[str, Any], timeout: float = CALL_SECONDS
    ) -> dict[str, Any]:
        """Make any call of the table by name. The methods of the calls do the same."""
        if not 0 < timeout <= CALL_SECONDS_MAX:
            remedy = f"must lie above 0 and up to {CALL_SECONDS_MAX:g} seconds"
            raise ConfigurationError("timeout", timeout, remedy)
        if self._closed:
            raise Unavailable("this client is closed")
        arguments = with_selectors_as_text(arguments)
        checked_call(name, arguments)
        message = self._state.call(name, arguments, max(1, round(timeout * 1000)))
        answer: asyncio.Future[CallReply] = asyncio.get_running_loop().create_future()
        self._answers[message.number] = answer
        self._send(message)
        try:
            async with asyncio.timeout(timeout + 0.25):  # the interface has the same time-out
                reply = await answer
        except TimeoutError:
            raise Unavailable("" if self.connected else self._problem) from None
        finally:
            self._state.close_call(message.number)
            self._answers.pop(message.number, None)
        if reply.error:
            raise error_from_wire(reply.error, reply.detail)
        return reply.result

    async def notices(self) -> AsyncIterator[MemberNotice]:
        """Views, ends of memberships and messages of all members of this client, in order for each
        member. Ends when the client is closed."""
        while (notice := await self._notices.get()) is not None:
            yield notice
        self._notices.put_nowait(None)  # for other readers

    async def close(self) -> None:
        """Leave all groups and close the connection. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._send(ClientGoodbye())
        writer = self._writer
        if writer is not None:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(1.0):
                    await writer.drain()
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(Unavailable("this client was closed"))
        self._notices.put_nowait(None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def wait_connected(self, timeout: float) -> None:
        """Wait for the interface. Unavailable, with the last problem, if it does not answer."""
        try:
            async with asyncio.timeout(timeout):
                await self._welcome.wait()
        except TimeoutError:
            raise Unavailable(f"{self._place}: {self._problem}") from None

    # ------------------------------------------------------------------ the connection

    async def _run(self) -> None:
        wait, longest = RETRY_SECONDS
        while True:
            try:
                await self._connection()
                self._problem = "the interface closed the connection"
            except (OSError, BadFrame) as error:
                self._problem = str(error)
            if self._welcome.is_set():
                wait = RETRY_SECONDS[0]
            self._welcome.clear()
            await asyncio.sleep(wait)
            wait = min(longest, wait * 2)

    async def _connection(self) -> None:
        reader, writer = await self._opened()
        self._writer = writer
        frames = FrameReader()
        try:
            for message in self._state.resumed():
                self._send(message)
            while data := await reader.read(1 << 16):
                for body in frames.take(data):
                    self._take(body)
        finally:
            self._writer = None
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _opened(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if "/" in self._place:
            return await asyncio.open_unix_connection(self._place)
        host, port = host_and_port("interface", self._place)
        name = host if self._tls is not None else None  # for SNI; certificates name no hosts
        return await asyncio.open_connection(host, port, ssl=self._tls, server_hostname=name)

    def _take(self, body: bytes) -> None:
        news, messages = self._state.take(to_client(body))
        if self._state.interface:
            self._welcome.set()
        for message in messages:
            self._send(message)
        if isinstance(news, CallReply):
            answer = self._answers.get(news.number)
            if answer is not None and not answer.done():
                answer.set_result(news)
        elif news is not None:
            self._notices.put_nowait(news)

    def _send(self, message: ToInterface) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(frame_of(message))


async def connect(
    interface: str, *, tls: Tls | None = None, timeout: float = CONNECT_SECONDS
) -> ServiceClient:
    """A client of the interface at this place: the path of a Unix socket, or host:port, with TLS
    if its certificates or its shared key are given. Unavailable if it does not answer in time."""
    client = ServiceClient(interface, tls)
    try:
        await client.wait_connected(timeout)
    except BaseException:
        await client.close()
        raise
    return client
