"""The UDP sockets of one process, which carry messages of any length up to the service's limit.

One socket sends and hears everything that is for this process alone; for each set whose multicast
address it hears there is one more (S3 section IV: two sockets, and the fan-out emulator for members
that multicast does not reach). With a key every packet is sealed, and the sessions of the peers
decide what is taken (`peer_sessions.py`).

Nothing blocks and no failure of the network raises: packets that the system refuses are counted,
and the protocol above repeats what was lost.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from hashlib import blake2b

from phalanx.errors import NetworkError
from phalanx.mserver.addressed_message import addressed, for_me
from phalanx.mserver.fragment_codec import Reassembly, fragments_of
from phalanx.mserver.multicast_group import MulticastGroup, open_receiver, prepare_sender
from phalanx.mserver.peer_sessions import Address, PeerSessions
from phalanx.mserver.refusal_log import RefusalLog, TakeRefusals
from phalanx.transport.addresses import host_and_port

PACKET_BYTES_MAX = 2048
RECEIVES_MAX = 512
"""Packets that one call of `receive` reads at most, so that timers get their turn."""
SENDS_MAX = 256
"""Packets that one call of `flush` sends at most."""
WAITING_MAX = 65_536
"""Packets that may wait to be sent; more are dropped and counted."""
BUFFER_BYTES = 4 << 20
REPEATED_NS = 2_000_000_000
"""A message that is sent to a set again within this time goes as copies: multicast may have lost
the first one, and may lose all."""
REPEATED_MAX = 64


class DatagramLink:
    """UDP sockets with fragments. `counts`: packets that could not be sent (`unsent`), dropped
    because too many waited (`overflow`), all that the reassembly and the sessions refused, messages
    for others (`other-recipient`), and messages sent by multicast (`multicast`)."""

    def __init__(
        self,
        bind: str,
        *,
        name: str = "",
        sessions: PeerSessions | None = None,
        groups: Mapping[str, MulticastGroup] | None = None,
        refused: TakeRefusals = lambda refusal: None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`name` is that of this process: messages for others are dropped. `groups`: the multicast
        addresses of its sets. `refused` gets bounded reports of dropped packets."""
        self._name = name
        self._sessions = sessions
        self._groups = {n: g for n, g in (groups or {}).items() if name in g.members}
        self._socket = _bound_socket(bind)
        self._receivers = [self._socket]
        try:
            if self._groups:
                prepare_sender(self._socket)
            self._receivers += [
                open_receiver(each, group, self._socket) for each, group in self._groups.items()
            ]
        except BaseException:
            self.close()
            raise
        self._clock = clock
        self._refusals = RefusalLog(refused)
        self._reassembly = Reassembly()
        self._waiting: deque[tuple[bytes, Address]] = deque()
        self._number = secrets.randbits(62)
        self._counts: Counter[str] = Counter()
        self._recent: dict[bytes, int] = {}

    @property
    def counts(self) -> Counter[str]:
        refused = self._sessions.refused if self._sessions is not None else Counter[str]()
        return self._counts + self._reassembly.refused + refused

    @property
    def local(self) -> Address:
        """The address that the socket is bound to."""
        host, port = self._socket.getsockname()[:2]
        return str(host), int(port)

    @property
    def has_waiting(self) -> bool:
        """Whether packets wait until the socket is writable."""
        return bool(self._waiting)

    @property
    def keys(self) -> list[str]:
        """The ids of the keys that open packets, the one that seals first; none without a key."""
        return self._sessions.keys if self._sessions is not None else []

    def fileno(self) -> int:
        return self._socket.fileno()

    def receivers(self) -> list[int]:
        """All sockets on which packets arrive."""
        return [each.fileno() for each in self._receivers]

    def resolved(self, text: str) -> Address | None:
        """The socket address of host:port, or None if the name has none now."""
        host, port = host_and_port("address", text)
        try:
            found = socket.getaddrinfo(host, port, self._socket.family, socket.SOCK_DGRAM)
        except OSError:
            return None
        first = found[0][4]
        return str(first[0]), int(first[1])

    # ------------------------------------------------------------------ sending

    def send(self, message: bytes, to: Address, name: str = "") -> None:
        """Queue a message and send as much as the system takes. `name`: who it is for; anybody at
        the address if there is none."""
        self._send_copies(addressed((name,) if name else (), message), [to], None)
        self.flush()

    def send_all(
        self, message: bytes, to: Mapping[str, Address], set_name: str, *, anybody: bool = False
    ) -> None:
        """Send a message to several servers: one packet to the multicast address of the set for
        those that it reaches, and a copy to each other one. `anybody`: whoever hears it may take
        it."""
        whole = addressed(() if anybody else tuple(to), message)
        group = self._groups.get(set_name)
        reached: list[str] = []
        if group is not None:
            reached = [name for name in to if name in group.members and self._knows(to[name])]
        if group is None or len(reached) < 2 or self._is_repeated(whole):
            self._send_copies(whole, list(to.values()), None)
        else:
            self._counts["multicast"] += 1
            rest = [address for name, address in to.items() if name not in reached]
            self._send_copies(whole, [group.address, *rest], group.address)
        self.flush()

    def _send_copies(self, whole: bytes, to: list[Address], group: Address | None) -> None:
        """Queue a message once for each address; it waits for peers that have no session yet."""
        ready = [each for each in to if each == group or self._knows(each)]
        if self._sessions is not None and len(ready) < len(to):
            now = self._clock()
            for each in to:
                if each not in ready:
                    questions = self._sessions.hold(now, each, whole)
                    self._waiting.extend((packet, each) for packet in questions)
        if not ready:
            return
        self._number += 1
        packets = fragments_of(whole, self._number)
        if len(self._waiting) + len(packets) * len(ready) > WAITING_MAX:
            self._counts["overflow"] += len(packets) * len(ready)
            return
        if self._sessions is not None:
            packets = [self._sessions.sealed(packet) for packet in packets]
        self._waiting.extend((packet, each) for each in ready for packet in packets)

    def _knows(self, peer: Address) -> bool:
        return self._sessions is None or self._sessions.is_known(self._clock(), peer)

    def _is_repeated(self, whole: bytes) -> bool:
        now = self._clock()
        digest = blake2b(whole, digest_size=16).digest()
        before = self._recent.pop(digest, None)
        if before is not None and now - before < REPEATED_NS:
            self._counts["multicast-repeated"] += 1
            return True
        if len(self._recent) >= REPEATED_MAX:
            del self._recent[next(iter(self._recent))]
        self._recent[digest] = now
        return False

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

    # ------------------------------------------------------------------ receiving

    def receive(self, now: int) -> list[tuple[Address, bytes]]:
        """Complete messages that have arrived, each with the address it came from."""
        out: list[tuple[Address, bytes]] = []
        for receiver in self._receivers:
            for _ in range(RECEIVES_MAX):
                try:
                    packet, source = receiver.recvfrom(PACKET_BYTES_MAX)
                except (BlockingIOError, InterruptedError):
                    break
                except OSError:  # the answer of a closed port to an earlier packet
                    self._counts["unsent"] += 1
                    continue
                address = (str(source[0]), int(source[1]))
                message = self._take(now, address, packet)
                if message is not None:
                    out.append((address, message))
        if self._waiting:
            self.flush()
        return out

    def _take(self, now: int, source: Address, packet: bytes) -> bytes | None:
        """The message that this packet completes, if it is for this process."""
        if self._sessions is not None:
            received = self._sessions.take(now, source, packet)
            if received.refused:
                self._refusals.note(now, received.refused, source)
            self._waiting.extend((each, source) for each in received.replies)
            for held in received.released:
                self._send_copies(held, [source], None)
            if received.body is None:
                return None
            packet = received.body
        whole = self._reassembly.take(now, source, packet)
        if whole is None:
            return None
        message = for_me(self._name, whole)
        if isinstance(message, str):
            self._counts[message] += 1  # ordinary where multicast reaches more than the recipients
            return None
        return message

    def close(self) -> None:
        """Safe to call twice."""
        for each in self._receivers:
            each.close()


def _bound_socket(bind: str) -> socket.socket:
    host, port = host_and_port_or_any(bind)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        remedy = "give an address of this machine"
        raise NetworkError("address", bind, error.strerror or str(error), remedy) from error
    try:
        bound.setblocking(False)
        with contextlib.suppress(OSError):
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        bound.bind(address)
    except OSError as error:
        bound.close()
        remedy = "give a free port and an address of this machine"
        raise NetworkError("address", bind, error.strerror or str(error), remedy) from error
    return bound


def host_and_port_or_any(text: str) -> tuple[str | None, int]:
    """The address to bind: any port of any interface if the text is empty, any port for port 0."""
    if not text:
        return "0.0.0.0", 0
    host, colon, port = text.rpartition(":")
    if colon and port == "0":
        return host.strip("[]"), 0
    return host_and_port("address", text)
