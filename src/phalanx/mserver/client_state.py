"""What a client remembers: its token, its open calls and how far its members have read.

Pure: messages in, messages and events out. After a lost connection `resumed` gives what a new one
must begin with, so that open calls are asked again under the same number and no notice is missed
or given twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phalanx.mserver.client_messages import (
    CLIENT_VERSION,
    BadFrame,
    CallReply,
    ClientCall,
    ClientHello,
    ClientRefused,
    InterfaceWelcome,
    MemberNotice,
    NoticesSeen,
    ToClient,
    ToInterface,
)


class ClientState:
    """One client, over any number of connections."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.interface = ""
        """The name of the interface, once it has answered."""
        self._open: dict[int, ClientCall] = {}
        self._last_call = 0
        self._seen: dict[str, int] = {}

    def call(self, call: str, arguments: Mapping[str, Any], timeout_ms: int) -> ClientCall:
        """A new call, to be sent now and again on each new connection until `close_call`."""
        self._last_call += 1
        message = ClientCall(self._last_call, call, dict(arguments), timeout_ms)
        self._open[message.number] = message
        return message

    def close_call(self, number: int) -> None:
        """Forget a call: it has its answer, or nobody waits for it."""
        self._open.pop(number, None)

    def resumed(self) -> list[ToInterface]:
        """What a new connection begins with."""
        return [ClientHello(CLIENT_VERSION, self.token, dict(self._seen)), *self._open.values()]

    def take(self, message: ToClient) -> tuple[CallReply | MemberNotice | None, list[ToInterface]]:
        """What is new for the application, and what to send. BadFrame if the interface refuses
        this client or is of another version."""
        match message:
            case InterfaceWelcome(version, interface):
                if version != CLIENT_VERSION:
                    raise BadFrame(f"the interface speaks version {version}, not {CLIENT_VERSION}")
                self.interface = interface
                return None, []
            case CallReply(number=number):
                known = self._open.pop(number, None) is not None
                return (message if known else None), []
            case MemberNotice(member=member, number=number):
                if number <= self._seen.get(member, 0):
                    return None, []  # repeated after a reconnection
                self._seen[member] = number  # kept after the end, which may be repeated as well
                return message, [NoticesSeen(member, number)]
            case ClientRefused(reason):
                raise BadFrame(f"the interface has refused this client: {reason}")
