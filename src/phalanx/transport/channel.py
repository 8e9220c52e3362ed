"""One TCP connection between two members: connect, TLS handshake, bytes in and out.

    connecting -> securing -> greeting -> up
                  (TLS)       (hello)

The channel owns the socket and knows no policy: `tcp.py` decides which peers are admitted and what
records mean. No call blocks. Whatever ends a channel is raised as `ChannelBroke`; the owner then
closes it.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import ssl
from typing import Literal

from phalanx.transport.addresses import SocketAddress, text_of
from phalanx.transport.channel_hello import ChannelHello
from phalanx.transport.record_codec import (
    BEAT,
    RecordReader,
    encode_control,
)
from phalanx.transport.send_queue import SendQueue
from phalanx.transport.tls_identity import TlsIdentity, peer_names, refusal_of

READ_BYTES = 256 << 10
"""The most that one call reads from one channel, so that a flood does not starve the others."""
PIECE_BYTES = 128 << 10
CONTROLS_MAX = 200
"""Control records in a second, from one peer."""
SECOND_NS = 1_000_000_000

State = Literal["connecting", "securing", "greeting", "up"]


class ChannelBroke(Exception):
    """The channel cannot be used any more: a count, and the reason in one line."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(f"{reason}: {text}")
        self.reason = reason
        self.text = text


class Channel:
    """A connection that this member opened (`dialed` is the address) or accepted."""

    def __init__(
        self,
        sock: socket.socket,
        source: SocketAddress,
        dialed: SocketAddress | None,
        tls: TlsIdentity | None,
        queue_bytes_max: int,
        now: int,
    ) -> None:
        self.fd = sock.fileno()
        self.state: State = "connecting" if dialed else "securing"
        self.dialed = dialed
        self.address: SocketAddress = dialed or source
        """Where the peer accepts channels; for an accepted channel known after its hello."""
        self.peer: ChannelHello | None = None
        self.names: tuple[str, ...] = ()
        """The names in the peer's certificate."""
        self.cipher = "not encrypted"
        self.opened_ns = now
        self.up_ns = 0
        self.heard_ns = now
        self.sent_ns = now
        self.is_undrained = False
        """Bytes may wait that `select` does not report."""
        self.mask = 0
        """The events that the owner has registered."""
        self.queue = SendQueue(queue_bytes_max)
        self._sock = sock
        self._tls = tls
        self._reader = RecordReader()
        self._wants = select.EPOLLOUT if dialed else select.EPOLLIN
        self._blocked = False
        self._is_resumed = False
        """Records that came behind the hello may be read now."""
        self._is_broken = False
        """A write has failed."""
        self._controls = 0
        self._controls_ns = now

    @property
    def who(self) -> str:
        """The peer for people: its name once it has said it, and its address."""
        name = f"{self.peer.name} at " if self.peer is not None else ""
        return f"{name}{text_of(self.address)}"

    @property
    def is_opening(self) -> bool:
        """Whether the connection or its TLS handshake is under way."""
        return self.state in ("connecting", "securing")

    @property
    def wanted_mask(self) -> int:
        """The events that the channel waits for."""
        if self.is_opening:
            return self._wants
        return select.EPOLLIN | (select.EPOLLOUT if self._blocked else 0)

    # ------------------------------------------------- opening

    def advance(self) -> bool:
        """Continue to connect and to shake hands, as far as that goes. Returns whether hellos can
        be exchanged now."""
        if self.state == "connecting":
            code = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code == errno.EINPROGRESS:
                return False
            if code:
                raise ChannelBroke("unreachable", os.strerror(code))
            self.state = "securing"
        if self.state == "securing":
            if self._tls is None:
                self.state = "greeting"
            else:
                self._shake_hands(self._tls)
        return not self.is_opening

    def _shake_hands(self, tls: TlsIdentity) -> None:
        try:
            if not isinstance(self._sock, ssl.SSLSocket):
                context = tls.client if self.dialed else tls.server
                self._sock = context.wrap_socket(
                    self._sock, server_side=not self.dialed, do_handshake_on_connect=False
                )
            self._sock.do_handshake()
        except ssl.SSLWantReadError:
            self._wants = select.EPOLLIN
        except ssl.SSLWantWriteError:
            self._wants = select.EPOLLOUT
        except (OSError, ValueError) as error:  # ValueError: the peer is gone already
            given = error if isinstance(error, OSError) else OSError(str(error))
            raise self._refused(given) from None
        else:
            if tls.names_members:
                self.names = peer_names(self._sock)
            cipher = self._sock.cipher()
            self.cipher = f"{cipher[1]} {cipher[0]}" if cipher else "TLS"
            self.state = "greeting"
            self.is_undrained = True

    def _refused(self, error: OSError) -> ChannelBroke:
        assert self._tls is not None
        refusal = refusal_of(error, not self._tls.names_members)
        return ChannelBroke(refusal.reason, refusal.text)

    def open_up(self, now: int, hello: ChannelHello) -> None:
        """The peer is known and admitted."""
        self.peer = hello
        self.state = "up"
        self.up_ns = self.heard_ns = now
        self._reader.admit()
        self.is_undrained = self._is_resumed = True

    # ------------------------------------------------- reading

    def read(self, now: int) -> tuple[list[tuple[int, bytes]], list[bytes]]:
        """The control records and packets that have arrived, up to about READ_BYTES."""
        controls: list[tuple[int, bytes]] = []
        packets: list[bytes] = []
        self.is_undrained = False
        if self._is_resumed:
            self._is_resumed = False
            controls, packets = self._reader.feed(b"")
        left = READ_BYTES
        while left > 0:
            try:
                data = self._receive()
            except ChannelBroke:
                if not controls and not packets:
                    raise
                self.is_undrained = True  # the next call raises it; what came before counts
                break
            if data is None:
                break
            left -= len(data)
            self.heard_ns = now
            found, came = self._reader.feed(data)
            controls += found
            packets += came
        else:
            self.is_undrained = isinstance(self._sock, ssl.SSLSocket)
        if controls:
            self._count_controls(now, len(controls))
        return controls, packets

    def _receive(self) -> bytes | None:
        """Some bytes; None if none wait."""
        if self._reader.problem:
            raise ChannelBroke("malformed", self._reader.problem)
        try:
            data = self._sock.recv(PIECE_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if self._is_broken:
                raise ChannelBroke("closed", "the connection is broken") from None
            return None
        except ssl.SSLError as error:
            if self.state == "up":
                raise ChannelBroke("broken", str(error.reason or error)) from None
            raise self._refused(error) from None
        except OSError as error:
            raise ChannelBroke("closed", error.strerror or str(error)) from None
        if not data:
            raise ChannelBroke("closed", "the peer closed the connection")
        return data

    def _count_controls(self, now: int, count: int) -> None:
        if now - self._controls_ns >= SECOND_NS:
            self._controls_ns, self._controls = now, 0
        self._controls += count
        if self._controls > CONTROLS_MAX:
            raise ChannelBroke("flood", f"more than {CONTROLS_MAX} control records in a second")

    # ------------------------------------------------- writing

    def put(self, now: int, data: bytes, always: bool = False) -> bool:
        """Queue whole records and write what the socket takes. Returns False if they were dropped
        because the queue is full."""
        if self._is_broken:
            return True
        if not self.queue.put(data, always):
            return False
        self.sent_ns = now
        if not self._blocked:
            self.flush()
        return True

    def beat(self, now: int) -> None:
        """Show the peer that this end is alive, unless other bytes wait for it."""
        self.sent_ns = now
        if not self.queue:
            self.put(now, encode_control(BEAT), always=True)

    def flush(self) -> None:
        """Write as much as the socket takes. If the connection is broken, nothing is written any
        more, and `read` raises the reason after the last bytes that arrived."""
        queue = self.queue
        self._blocked = False
        while queue:
            try:
                queue.wrote(self._sock.send(queue.head()))
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                self._blocked = True
                return
            except OSError:
                self._is_broken = True
                self.is_undrained = True
                queue.clear()

    def close(self) -> None:
        self._sock.close()
