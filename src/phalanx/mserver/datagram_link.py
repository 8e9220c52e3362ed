"""One UDP socket that carries messages of any length up to the limit of the service.

Nothing blocks and no failure of the network raises: packets that the system refuses are counted,
and the protocol above repeats what was lost.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections import Counter, deque

from phalanx.errors import NetworkError
from phalanx.mserver.fragment_codec import Reassembly, fragments_of
from phalanx.transport.addresses import host_and_port

Address = tuple[str, int]
PACKET_BYTES_MAX = 2048
RECEIVES_MAX = 512
"""Packets that one call of `receive` reads at most, so that timers get their turn."""
SENDS_MAX = 256
"""Packets that one call of `flush` sends at most."""
WAITING_MAX = 65_536
"""Packets that may wait to be sent; more are dropped and counted."""
BUFFER_BYTES = 4 << 20


class DatagramLink:
    """A UDP socket with fragments. `counts`: packets that could not be sent (`unsent`), dropped
    because too many waited (`overflow`), and all that the reassembly refused."""

    def __init__(self, bind: str) -> None:
        host, port = host_and_port_or_any(bind)
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE)
            family, kind, protocol, _, address = found[0]
            self._socket = socket.socket(family, kind, protocol)
        except OSError as error:
            remedy = "give an address of this machine"
            raise NetworkError("address", bind, error.strerror or str(error), remedy) from error
        try:
            self._socket.setblocking(False)
            with contextlib.suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
            self._socket.bind(address)
        except OSError as error:
            self._socket.close()
            remedy = "give a free port and an address of this machine"
            raise NetworkError("address", bind, error.strerror or str(error), remedy) from error
        self._family = family
        self._reassembly = Reassembly()
        self._waiting: deque[tuple[bytes, Address]] = deque()
        self._number = secrets.randbits(62)
        self._counts: Counter[str] = Counter()

    @property
    def counts(self) -> Counter[str]:
        return self._counts + self._reassembly.refused

    @property
    def local(self) -> Address:
        """The address that the socket is bound to."""
        host, port = self._socket.getsockname()[:2]
        return str(host), int(port)

    @property
    def has_waiting(self) -> bool:
        """Whether packets wait until the socket is writable."""
        return bool(self._waiting)

    def fileno(self) -> int:
        return self._socket.fileno()

    def resolved(self, text: str) -> Address | None:
        """The socket address of host:port, or None if the name has none now."""
        host, port = host_and_port("address", text)
        try:
            found = socket.getaddrinfo(host, port, self._family, socket.SOCK_DGRAM)
        except OSError:
            return None
        first = found[0][4]
        return str(first[0]), int(first[1])

    def send(self, message: bytes, to: Address) -> None:
        """Queue a message and send as much as the system takes."""
        self._number += 1
        packets = fragments_of(message, self._number)
        if len(self._waiting) + len(packets) > WAITING_MAX:
            self._counts["overflow"] += len(packets)
            return
        self._waiting.extend((packet, to) for packet in packets)
        self.flush()

    def flush(self) -> None:
        """Send packets that wait."""
        for _ in range(SENDS_MAX):
            if not self._waiting:
                return
            packet, to = self._waiting[0]
            try:
                self._socket.sendto(packet, to)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                self._counts["unsent"] += 1
            self._waiting.popleft()

    def receive(self, now: int) -> list[tuple[Address, bytes]]:
        """Complete messages that have arrived, each with the address it came from."""
        out: list[tuple[Address, bytes]] = []
        for _ in range(RECEIVES_MAX):
            try:
                packet, source = self._socket.recvfrom(PACKET_BYTES_MAX)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:  # the answer of a closed port to an earlier packet
                self._counts["unsent"] += 1
                continue
            address = (str(source[0]), int(source[1]))
            message = self._reassembly.take(now, address, packet)
            if message is not None:
                out.append((address, message))
        return out

    def close(self) -> None:
        """Safe to call twice."""
        self._socket.close()


def host_and_port_or_any(text: str) -> tuple[str | None, int]:
    """The address to bind: any port of any interface if the text is empty, any port for port 0."""
    if not text:
        return "0.0.0.0", 0
    host, colon, port = text.rpartition(":")
    if colon and port == "0":
        return host.strip("[]"), 0
    return host_and_port("address", text)
