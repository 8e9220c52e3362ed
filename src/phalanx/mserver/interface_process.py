"""One interface as a process: its machine, its records, and the sockets of its clients.

Clients connect to a Unix socket of the state directory, which only its owner may use, and to a TCP
socket if one is asked for. TCP beyond the loopback interface needs TLS.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from phalanx.config import Tls
from phalanx.core.ids import MemberId
from phalanx.errors import ConfigurationError, NetworkError, StateError
from phalanx.mserver.datagram_link import DatagramLink
from phalanx.mserver.durable_rows import DurableRows
from phalanx.mserver.interface_server import InterfaceServer
from phalanx.mserver.notice_outbox import NoticeOutbox
from phalanx.mserver.peer_sessions import Address
from phalanx.mserver.record_store import RecordStore
from phalanx.mserver.service_journal import ServiceJournal
from phalanx.mserver.service_process import ServiceMachine, ServiceProcess
from phalanx.service.inputs import CallSubmitted
from phalanx.service.message_codec import MessageCodec
from phalanx.transport.addresses import host_and_port
from phalanx.transport.tls_identity import open_tls

CLIENT_GRACE_SECONDS = 3.0
"""A client that is gone for longer leaves all its groups."""


@dataclass(frozen=True)
class ClientPlaces:
    """Where clients connect."""

    unix: Path
    tcp: str = ""
    """host:port; none if empty."""
    tls: Tls | None = None
    """How TCP clients are encrypted and prove that they belong here."""
    insecure: bool = False
    """Allow TCP without TLS beyond the loopback interface."""
    grace_seconds: float = CLIENT_GRACE_SECONDS

    def check(self) -> None:
        """ConfigurationError if clients could connect over a network without TLS."""
        if not self.tcp or self.tls is not None or self.insecure:
            return
        host, _ = host_and_port("listen", self.tcp)
        try:
            loopback = ipaddress.ip_address(host).is_loopback
        except ValueError:
            loopback = host == "localhost"
        if not loopback:
            remedy = "give a certificate or a shared key, or --insecure for plain TCP"
            raise ConfigurationError("listen", self.tcp, remedy)


@dataclass
class InterfaceProcess:
    """An interface that runs on the current asyncio loop. Whoever makes it closes the records."""

    me: MemberId
    machine: ServiceMachine
    records: RecordStore
    rows: DurableRows
    link: DatagramLink
    codec: MessageCodec
    servers: Mapping[str, Address]
    places: ClientPlaces
    journal: ServiceJournal | None = None
    _listeners: list[asyncio.Server] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.places.check()
        outbox = NoticeOutbox(self.records.load())
        self.server = InterfaceServer(
            self.me.name,
            outbox,
            self._submit,
            self._write,
            self.places.grace_seconds,
            self.journal.call_refused if self.journal is not None else None,
        )
        self.process = ServiceProcess(
            self.me,
            self.machine,
            self.records,
            self.rows,
            self.link,
            self.codec,
            self.servers,
            more_records=self.server.more_records,
            take_effect=self.server.take_effect,
            journal=self.journal,
        )

    def _submit(self, call: CallSubmitted) -> None:
        self.process.feed(call)

    def _write(self, rows: Mapping[str, bytes | None]) -> None:
        self.process.write(rows)

    @property
    def counts(self) -> Counter[str]:
        """What was sent, received, refused and dropped, by reason."""
        return self.process.counts + self.server.counts + self.link.counts

    async def start(self) -> None:
        """Listen for clients and take part. NetworkError or StateError if a socket cannot be."""
        unix = self.places.unix
        with contextlib.suppress(FileNotFoundError):
            unix.unlink()  # of an earlier process; the lock of the records keeps a live one out
        try:
            listener = await asyncio.start_unix_server(self.server.serve, unix)
            self._listeners.append(listener)
            unix.chmod(0o600)
        except OSError as error:
            remedy = "give a shorter path of a directory that this process may write to"
            raise StateError(str(unix), error.strerror or str(error), remedy) from error
        if self.places.tcp:
            host, port = host_and_port("listen", self.places.tcp)
            tls = open_tls(self.places.tls).server if self.places.tls is not None else None
            try:
                listener = await asyncio.start_server(self.server.serve, host, port, ssl=tls)
                self._listeners.append(listener)
            except OSError as error:
                problem = error.strerror or str(error)
                remedy = "give a free port and an address of this machine"
                raise NetworkError("listen", self.places.tcp, problem, remedy) from error
        self.server.resume()
        self.process.start()

    async def stop(self) -> None:
        """End all connections and sockets. Members stay in their groups for clients that come back
        to the next process. Safe to call twice."""
        self.process.stop()
        for listener in self._listeners:
            listener.close()
        await self.server.close()
        for listener in self._listeners:
            await listener.wait_closed()
        self._listeners.clear()
        with contextlib.suppress(FileNotFoundError):
            self.places.unix.unlink()
        self.link.close()
