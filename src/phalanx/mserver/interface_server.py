"""The interface of one host: clients on a Unix socket or TCP, and one `MemberInterface` machine.

A client names itself by a token. Its calls are checked against the table and given to the machine;
answers go to the connection that the token has then, so that a client may come back on another one.
A client that is gone for longer than a grace leaves all its groups (S3 I4). Bad frames are
counted and end their connection only.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from phalanx.mserver.client_messages import (
    CLIENT_VERSION,
    BadFrame,
    CallReply,
    ClientCall,
    ClientGoodbye,
    ClientHello,
    ClientRefused,
    FrameReader,
    InterfaceWelcome,
    NoticesSeen,
    ToClient,
    ToInterface,
    frame_of,
    reply_frame,
    to_interface,
)
from phalanx.mserver.group_call import call_reply, group_call
from phalanx.mserver.notice_outbox import NoticeOutbox
from phalanx.service.calls.argument_check import checked_call
from phalanx.service.calls.call_errors import ServiceError, Unavailable
from phalanx.service.effects import Answer, Notify, PassData, ServiceEffect
from phalanx.service.group_messages import GroupCall
from phalanx.service.inputs import CallSubmitted

CLIENTS_MAX = 1024
CALLS_MAX = 1024
"""Calls of one client that may be open."""
UNSENT_BYTES_MAX = 4 << 20
"""A client that reads too slowly for this is disconnected; it may come back."""
READ_BYTES = 1 << 16

SubmitCall = Callable[[CallSubmitted], None]
CallRefused = Callable[[str, str], None]
"""Takes the id of a call whose arguments are refused, and the error."""
WriteRows = Callable[[Mapping[str, bytes | None]], None]


class ClientSession:
    """One connection of one client."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.token = ""
        self._writer = writer
        self._sent: dict[str, int] = {}
        """For each member the number of the last notice that was sent."""

    def send(self, message: ToClient) -> None:
        if self._writer.is_closing():
            return
        if isinstance(message, CallReply):
            self._writer.write(reply_frame(message))
        else:
            self._writer.write(frame_of(message))
        if self._writer.transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            self._writer.transport.abort()

    def send_notices(self, outbox: NoticeOutbox, member: str) -> None:
        """Send the notices of a member that this connection has not carried yet."""
        for notice in outbox.waiting(member, self._sent.get(member, 0)):
            self.send(notice)
            self._sent[member] = notice.number

    def close(self) -> None:
        self._writer.close()


class InterfaceServer:
    """All clients of one interface. `submit` gives a call to the machine, `write` makes rows
    durable outside a step. `counts` counts what was refused."""

    def __init__(
        self,
        interface: str,
        outbox: NoticeOutbox,
        submit: SubmitCall,
        write: WriteRows,
        grace_seconds: float = 3.0,
        call_refused: CallRefused | None = None,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._interface = interface
        self._outbox = outbox
        self._submit = submit
        self._write = write
        self._grace_seconds = grace_seconds
        self._call_refused = call_refused
        self._sessions: dict[str, ClientSession] = {}
        self._calls: dict[str, dict[int, asyncio.TimerHandle]] = {}
        """The open calls of each client, with the timer of their time-out."""
        self._departures: dict[str, asyncio.TimerHandle] = {}
        self._joins: set[str] = set()
        """Ids of joins that are open: their answers name a new member."""
        self._tasks: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------------ the machine

    def more_records(self, effects: Sequence[ServiceEffect]) -> dict[str, bytes | None]:
        """The rows of the outbox that belong to a step."""
        rows: dict[str, bytes | None] = {}
        for effect in effects:
            if isinstance(effect, Notify):
                rows |= self._outbox.add(effect)
                if effect.view is not None and effect.call and effect.call not in self._joins:
                    # A join of an earlier process: nobody waits for the answer that names a member.
                    token = effect.call.rpartition("/")[0]
                    rows |= self._outbox.open(effect.member, token, effect.uid)
            elif isinstance(effect, PassData):
                rows |= self._outbox.add_data(effect)
            elif isinstance(effect, Answer) and not effect.result.error:
                result = effect.result
                member = result.values.get("member", "")
                if member and result.id in self._joins:
                    token, _, _ = result.id.rpartition("/")
                    rows |= self._outbox.open(member, token, result.uid)
        return rows

    def take_effect(self, effect: ServiceEffect) -> None:
        """Pass an effect on to the client that it concerns; its records are on disk."""
        match effect:
            case Notify(member=member):
                self._pass_on(member)
                self._expect_client(member)
            case PassData(member=member):
                self._pass_on(member)
            case Answer(result=result):
                token, _, number = result.id.rpartition("/")
                if number.isdigit():
                    self._reply(token, call_reply(int(number), result))
                if result.id in self._joins:
                    self._joins.discard(result.id)
                    self._pass_on(result.values.get("member", ""))
                    self._expect_client(result.values.get("member", ""))
            case _:
                self.counts["unexpected-effect"] += 1

    def _expect_client(self, member: str) -> None:
        """A member whose client is gone leaves, unless the client comes back in time."""
        token = self._outbox.client_of(member)
        if token and token not in self._sessions and token not in self._departures:
            if not self._outbox.is_over(member):
                self._depart_later(token)

    def _pass_on(self, member: str) -> None:
        token = self._outbox.client_of(member)
        session = self._sessions.get(token)
        if session is None:
            return
        if self._outbox.is_overfull(member):
            self.counts["slow-client"] += 1
            session.close()
            return
        session.send_notices(self._outbox, member)

    # ------------------------------------------------------------------ life

    def resume(self) -> None:
        """After a restart: clients of known members have the grace to come back."""
        for token in sorted(set(self._outbox.members.values())):
            self._depart_later(token)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until it ends."""
        session = ClientSession(writer)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._read(session, reader)
        except BadFrame as error:
            self.counts["bad-frame"] += 1
            session.send(ClientRefused(f"bad-frame: {error}"[:200]))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            self._ended(session)
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def close(self) -> None:
        """Close all connections. Members stay: clients may come back after a restart."""
        for timer in self._departures.values():
            timer.cancel()
        self._departures.clear()
        for calls in self._calls.values():
            for timer in calls.values():
                timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        while self._tasks:
            await asyncio.sleep(0.01)
        for timer in self._departures.values():
            timer.cancel()

    # ------------------------------------------------------------------ connections

    async def _read(self, session: ClientSession, reader: asyncio.StreamReader) -> None:
        frames = FrameReader()
        while data := await reader.read(READ_BYTES):
            for body in frames.take(data):
                self._take(session, to_interface(body))
                if session.token and self._sessions.get(session.token) is not session:
                    return

    def _take(self, session: ClientSession, message: ToInterface) -> None:
        if isinstance(message, ClientHello):
            self._greet(session, message)
        elif not session.token:
            raise BadFrame("the first message must be a hello")
        else:
            match message:
                case ClientCall():
                    self._call(session, message)
                case NoticesSeen(member, number):
                    self._seen(session.token, member, number)
                case ClientGoodbye():
                    self._sessions.pop(session.token, None)
                    self._depart(session.token)

    def _greet(self, session: ClientSession, hello: ClientHello) -> None:
        if hello.version != CLIENT_VERSION:
            raise BadFrame(f"version {hello.version}; this interface speaks {CLIENT_VERSION}")
        if "/" in hello.token or session.token:
            raise BadFrame("a token that cannot be")
        if len(self._sessions) >= CLIENTS_MAX and hello.token not in self._sessions:
            raise BadFrame(f"more than {CLIENTS_MAX} clients")
        session.token = hello.token
        before = self._sessions.get(hello.token)
        self._sessions[hello.token] = session
        if before is not None:
            before.close()
        timer = self._departures.pop(hello.token, None)
        if timer is not None:
            timer.cancel()
        for member, number in hello.seen.items():
            self._seen(hello.token, member, number)
        members = self._outbox.members_of(hello.token)
        session.send(InterfaceWelcome(CLIENT_VERSION, self._interface, members))
        for member in members:
            session.send_notices(self._outbox, member)

    def _seen(self, token: str, member: str, number: int) -> None:
        rows = self._outbox.acknowledge(token, member, number)
        if rows:
            self._write(rows)

    def _ended(self, session: ClientSession) -> None:
        if session.token and self._sessions.get(session.token) is session:
            del self._sessions[session.token]
            self._depart_later(session.token)

    # ------------------------------------------------------------------ calls

    def _call(self, session: ClientSession, message: ClientCall) -> None:
        calls = self._calls.setdefault(session.token, {})
        try:
            arguments = checked_call(message.call, message.arguments)
        except ServiceError as error:
            self.counts[f"call-{error.code}"] += 1
            if self._call_refused is not None:
                self._call_refused(f"{session.token}/{message.number}", error.code)
            session.send(CallReply(message.number, error.code, error.detail))
            return
        if message.number not in calls:
            if len(calls) >= CALLS_MAX:
                session.send(CallReply(message.number, Unavailable.code, "too many open calls"))
                return
            calls[message.number] = asyncio.get_running_loop().call_later(
                message.timeout_ms / 1000, self._time_out, session.token, message.number
            )
        id_ = f"{session.token}/{message.number}"
        if message.call == "join_group":
            self._joins.add(id_)
        call = self._group_call(id_, message.call, arguments)
        self._submit(CallSubmitted(call, message.timeout_ms * 1_000_000))

    def _group_call(self, id_: str, call: str, arguments: Mapping[str, Any]) -> GroupCall:
        return group_call(id_, self._interface, call, arguments, f"{self._interface}-{id_}")

    def _time_out(self, token: str, number: int) -> None:
        self._reply(token, CallReply(number, Unavailable.code))

    def _reply(self, token: str, reply: CallReply) -> None:
        timer = self._calls.get(token, {}).pop(reply.number, None)
        if timer is None:
            return  # answered before, or a call of ours
        timer.cancel()
        session = self._sessions.get(token)
        if session is not None:
            session.send(reply)

    # ------------------------------------------------------------------ the end of a client

    def _depart_later(self, token: str) -> None:
        loop = asyncio.get_running_loop()
        self._departures[token] = loop.call_later(self._grace_seconds, self._depart, token)

    def _depart(self, token: str) -> None:
        """The client is gone: its members leave, and its open calls are forgotten."""
        self._departures.pop(token, None)
        for timer in self._calls.pop(token, {}).values():
            timer.cancel()
        live = [m for m in self._outbox.members_of(token) if not self._outbox.is_over(m)]
        rows = self._outbox.depart(token)
        if rows:
            self._write(rows)
        for member in live:
            self._leave(token, member)

    def _leave(self, token: str, member: str) -> None:
        arguments = {"name": self._outbox.uid_of(member), "member": member}
        id_ = f"{token}/leave-{member.replace('/', ' ')}"  # the client is what stands before /
        self._submit(CallSubmitted(self._group_call(id_, "leave_group", arguments)))
