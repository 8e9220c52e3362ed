"""A client of the membership service for programs without asyncio.

    with connect_blocking("/run/phalanx/host-1.sock") as service:
        joined = service.join_group("orders")
        for notice in service.notices(timeout=60):
            print(notice.kind, notice.members)

A thread of its own drives an asyncio client; all methods may be called from any thread.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Coroutine, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from phalanx.config import Tls
from phalanx.mserver.asyncio_client import CONNECT_SECONDS, ServiceClient, connect
from phalanx.mserver.call_method import CALL_SECONDS, blocking_method
from phalanx.mserver.client_messages import MemberNotice

T = TypeVar("T")


class BlockingServiceClient:
    """As `ServiceClient`, with calls that return their result."""

    create_group = blocking_method("create_group")
    set_group_attributes = blocking_method("set_group_attributes")
    delete_group = blocking_method("delete_group")
    set_member_attributes = blocking_method("set_member_attributes")
    split_group = blocking_method("split_group")
    merge_group = blocking_method("merge_group")
    is_member = blocking_method("is_member")
    get_view = blocking_method("get_view")
    get_list = blocking_method("get_list")
    get_groups = blocking_method("get_groups")
    get_member_attributes = blocking_method("get_member_attributes")
    get_group_attributes = blocking_method("get_group_attributes")
    get_sites = blocking_method("get_sites")
    get_gsites = blocking_method("get_gsites")
    send_msg = blocking_method("send_msg")
    join_group = blocking_method("join_group")
    leave_group = blocking_method("leave_group")

    def __init__(self, interface: str, tls: Tls | None, timeout: float) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="phalanx-client", daemon=True)
        self._thread.start()
        self._closed = False
        self._news: queue.SimpleQueue[MemberNotice | None] = queue.SimpleQueue()
        try:
            self._client: ServiceClient = self._wait(connect(interface, tls=tls, timeout=timeout))
        except BaseException:
            self._end()
            raise
        self._reader = asyncio.run_coroutine_threadsafe(self._read(), self._loop)

    @property
    def interface(self) -> str:
        """The name of the interface."""
        return self._client.interface

    def call(
        self, name: str, arguments: dict[str, Any], timeout: float = CALL_SECONDS
    ) -> dict[str, Any]:
        """Make any call of the table by name."""
        return self._wait(self._client.call(name, arguments, timeout))

    def notices(self, timeout: float | None = None) -> Iterator[MemberNotice]:
        """Notices of all members of this client. Ends when the client is closed, or when there is
        none for `timeout` seconds."""
        while True:
            try:
                notice = self._news.get(timeout=timeout)
            except queue.Empty:
                return
            if notice is None:
                self._news.put(None)
                return
            yield notice

    def close(self) -> None:
        """Leave all groups and close the connection. Safe to call twice."""
        if self._closed:
            return
        self._wait(self._client.close())
        self._reader.result()
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    async def _read(self) -> None:
        async for notice in self._client.notices():
            self._news.put(notice)
        self._news.put(None)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end(self) -> None:
        self._closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


def connect_blocking(
    interface: str, *, tls: Tls | None = None, timeout: float = CONNECT_SECONDS
) -> BlockingServiceClient:
    """A client of the interface at this place: the path of a Unix socket, or host:port.
    Unavailable if it does not answer in time."""
    return BlockingServiceClient(interface, tls, timeout)
