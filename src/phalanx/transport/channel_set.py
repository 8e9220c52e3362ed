"""The sockets of a mesh: the listener and all channels, behind one epoll descriptor.

Accepts and opens connections, within limits for those whose peers are not known yet: whoever can
reach the port can open connections and send nothing.
"""

from __future__ import annotations

import errno
import ipaddress
import select
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

from phalanx.transport.addresses import SocketAddress, text_of
from phalanx.transport.channel import Channel
from phalanx.transport.channel_log import ChannelLog
from phalanx.transport.mesh_listener import set_options
from phalanx.transport.tls_identity import TlsIdentity

QUEUE_BYTES_MAX = 4 << 20
"""Bytes that wait for one peer; beyond this, copies for it are dropped."""
ACCEPTS_MAX = 32
"""Connections accepted in one turn."""
PENDING_MAX = 256
"""Accepted connections whose peers are not known yet."""
PENDING_PER_HOST_MAX = 128
"""Twice as many as members of a group: all of them may be on one machine, and call each other."""
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class ChannelSet:
    """All channels of one transport."""

    def __init__(
        self, listener: socket.socket, silent_ns: int, counts: Counter[str], log: ChannelLog
    ) -> None:
        self.all: dict[int, Channel] = {}
        """All channels, by descriptor."""
        self.listener = listener
        self._silent_ns = silent_ns
        self._counts = counts
        self._log = log
        self._is_paused = False
        self._epoll = select.epoll()
        self._epoll.register(listener.fileno(), select.EPOLLIN)

    def fileno(self) -> int:
        return -1 if self._epoll.closed else self._epoll.fileno()

    def listen(self, listener: socket.socket) -> None:
        """Accept connections at this socket from now on."""
        if not self._is_paused:
            self._epoll.unregister(self.listener.fileno())
        self._is_paused = False
        self.listener.close()
        self.listener = listener
        self._epoll.register(listener.fileno(), select.EPOLLIN)

    def ready(self) -> Iterator[tuple[Channel | None, int]]:
        """The channels that are ready, each with the events; None stands for the listener. One that
        is removed meanwhile is left out."""
        listening = self.listener.fileno()
        for fd, events in self._epoll.poll(0):
            if fd == listening:
                yield None, events
            elif fd in self.all:
                yield self.all[fd], events

    def undrained(self) -> list[Channel]:
        """Channels with bytes that the descriptor does not report."""
        return [channel for channel in self.all.values() if channel.is_undrained]

    def has_undrained(self) -> bool:
        return any(channel.is_undrained for channel in self.all.values())

    @property
    def calls(self) -> int:
        """Connections of this member that are not up yet."""
        return sum(c.dialed is not None and c.state != "up" for c in self.all.values())

    # ------------------------------------------------- opening

    def accept(self, now: int, tls: TlsIdentity | None) -> None:
        """Accept the connections that wait."""
        for _ in range(ACCEPTS_MAX):
            try:
                sock, source = self.listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._pause(now)
                return
            pending = [c for c in self.all.values() if c.dialed is None and c.state != "up"]
            if sum(c.address[0] == source[0] for c in pending) >= PENDING_PER_HOST_MAX:
                self._refuse_crowd(now, source)
                sock.close()
                continue
            if len(pending) >= PENDING_MAX:
                oldest = min(pending, key=lambda c: c.opened_ns)
                self._refuse_crowd(now, oldest.address)
                self.remove(oldest)
            self._add(now, sock, source, None, tls)

    def _pause(self, now: int) -> None:
        """Accept nothing for a while: no descriptors are left, and a connection that waits would
        make the event loop spin."""
        self._counts["refused-files"] += 1
        self._log.refused(now, "files", "a caller", "the process has no descriptors left", "")
        self._epoll.unregister(self.listener.fileno())
        self._is_paused = True

    def resume(self) -> None:
        """Accept again."""
        if self._is_paused:
            self._is_paused = False
            self._epoll.register(self.listener.fileno(), select.EPOLLIN)

    def _refuse_crowd(self, now: int, source: SocketAddress) -> None:
        self._counts["refused-crowd"] += 1
        text = "too many connections have not said whose they are"
        self._log.refused(now, "crowd", text_of(source), text, text_of(source))

    def dial(self, now: int, address: SocketAddress, tls: TlsIdentity | None) -> bool:
        """Open a connection. Returns False if the system refuses at once."""
        family = socket.AF_INET6 if len(address) == 4 else socket.AF_INET
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError:  # no descriptors are left
            return False
        try:
            sock.setblocking(False)
            bound = self.listener.getsockname()
            # Peers know this member by the address that it listens on.
            if not ipaddress.ip_address(bound[0].partition("%")[0]).is_unspecified:
                sock.bind((bound[0], 0, *bound[2:]))
            with suppress(BlockingIOError):
                sock.connect(address)
        except OSError:
            sock.close()
            return False
        return self._add(now, sock, address, address, tls)

    def _add(
        self,
        now: int,
        sock: socket.socket,
        source: SocketAddress,
        dialed: SocketAddress | None,
        tls: TlsIdentity | None,
    ) -> bool:
        try:
            set_options(sock, self._silent_ns)
        except OSError:  # the peer is gone already
            sock.close()
            return False
        channel = Channel(sock, source, dialed, tls, QUEUE_BYTES_MAX, now)
        self.all[channel.fd] = channel
        channel.mask = channel.wanted_mask
        self._epoll.register(channel.fd, channel.mask)
        return True

    # ------------------------------------------------- events and closing

    def watch(self, channel: Channel) -> None:
        """Wait for the events that the channel waits for now."""
        mask = channel.wanted_mask
        if mask != channel.mask:
            channel.mask = mask
            self._epoll.modify(channel.fd, mask)

    def remove(self, channel: Channel) -> bool:
        """Close a channel. Returns False if that was done before."""
        if self.all.pop(channel.fd, None) is None:
            return False
        with suppress(OSError):
            self._epoll.unregister(channel.fd)
        channel.close()
        return True

    def close(self, flush: bool) -> None:
        """Close everything; with `flush`, write first what the sockets take."""
        self._epoll.close()
        for channel in self.all.values():
            if flush and channel.state == "up":
                channel.flush()
            channel.close()
        self.all.clear()
        self.listener.close()
