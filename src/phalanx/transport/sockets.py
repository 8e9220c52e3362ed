"""UDP sockets for all transports: segmented sending, batched receiving, buffers, packet filters.

A run is up to 64 packets of one size, the last of which may be shorter. The kernel takes a run in
one call and splits it (UDP_SEGMENT), and the receiving kernel returns it in one piece (UDP_GRO).
That doubles the throughput of a member. Without kernel support, packets are sent one by one.
"""

from __future__ import annotations

import ctypes
import errno
import select
import socket
import struct
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from time import monotonic_ns, sleep

from phalanx.transport.addresses import SocketAddress

SOL_UDP = 17
UDP_SEGMENT = 103
UDP_GRO = 104
SO_ATTACH_FILTER = 26
SO_SNDBUFFORCE = 32
SO_RCVBUFFORCE = 33
IP_MULTICAST_ALL = 49
IPV6_MULTICAST_ALL = 29

SEND_BYTES = 4 << 20
SEGMENTS_MAX = 64
RUN_BYTES_MAX = 65_000
DATAGRAM_BYTES_MAX = 65_536
PATIENCE_NS = 2_000_000
"""How long one call of `send` may wait for space in the kernel's buffer, over all its packets."""

_CONTROL_BYTES = socket.CMSG_SPACE(4)
_SEGMENT = struct.Struct("=H")
_SHORT = socket.MSG_TRUNC | socket.MSG_CTRUNC
_NO_ROOM = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS, errno.ENOMEM})
_TOO_LARGE_A_SEGMENT = frozenset({errno.EINVAL, errno.EMSGSIZE})
_NO_OFFLOAD = frozenset({errno.EIO, errno.ENOPROTOOPT, errno.EOPNOTSUPP})


def segmentation(sock: socket.socket) -> bool:
    """Whether the kernel splits runs. Older kernels would send the run as one datagram instead."""
    return _option(sock, UDP_SEGMENT, 0)


def joining(sock: socket.socket) -> bool:
    """Make the kernel return runs in one piece, if it can."""
    return _option(sock, UDP_GRO, 1)


def _option(sock: socket.socket, option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    try:
        sock.setsockopt(SOL_UDP, option, value)
    except OSError:
        return False
    return True


def set_buffer(sock: socket.socket, send: bool, wanted: int) -> int:
    """Request a buffer size and return the payload bytes that the system granted: root gets what
    it requests, others up to the limit of the system. Linux doubles the number for its own
    overhead, and reports the double."""
    option, force = (
        (socket.SO_SNDBUF, SO_SNDBUFFORCE) if send else (socket.SO_RCVBUF, SO_RCVBUFFORCE)
    )
    linux = sys.platform == "linux"
    for choice in (force, option) if linux else (option,):
        try:
            sock.setsockopt(socket.SOL_SOCKET, choice, wanted)
            break
        except OSError:
            continue
    return sock.getsockopt(socket.SOL_SOCKET, option) // (2 if linux else 1)


# ---------------------------------------------------------------------------- filters

_LOAD_WORD, _LOAD_HALF, _JUMP_EQUAL, _RETURN = 0x20, 0x28, 0x15, 0x06
_NETWORK_HEADER = 0xFFF00000  # SKF_NET_OFF: offsets from here count from the IP header
_EVERYTHING = 0xFFFFFFFF


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]


def refuse_own(sock: socket.socket, own: SocketAddress) -> bool:
    """Have the kernel drop packets from this address and port: the member's own multicast. The
    data that a UDP filter sees starts at the UDP header, whose first half-word is the port."""
    if len(own) == 4:
        words = struct.unpack("!4I", socket.inet_pton(socket.AF_INET6, own[0]))
        source_at = 8
    else:
        words = struct.unpack("!I", socket.inet_aton(own[0]))
        source_at = 12
    tests = [(_LOAD_HALF, 0, own[1])]
    tests += [(_LOAD_WORD, _NETWORK_HEADER + source_at + 4 * i, w) for i, w in enumerate(words)]
    code = []
    for i, (load, offset, value) in enumerate(tests):
        code.append((load, 0, 0, offset))
        # Unequal: jump to the last instruction, over the remaining tests and the refusal.
        code.append((_JUMP_EQUAL, 0, 2 * (len(tests) - i - 1) + 1, value))
    return _attach(sock, [*code, (_RETURN, 0, 0, 0), (_RETURN, 0, 0, _EVERYTHING)])


def refuse_all(sock: socket.socket) -> bool:
    """Have the kernel drop everything: for a socket that only sends, whose buffer is never read."""
    return _attach(sock, [(_RETURN, 0, 0, 0)])


def _attach(sock: socket.socket, code: list[tuple[int, int, int, int]]) -> bool:
    if sys.platform != "linux":
        return False
    room = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in code))
    program = _Program(len(code), ctypes.addressof(room))
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, bytes(program))
    except OSError:
        return False
    return True


# ---------------------------------------------------------------------------- sending


def runs(packets: list[bytes], size_max: int) -> Iterator[list[bytes]]:
    """The packets in order, in runs that the kernel can split; above `size_max`, one by one."""
    at, end = 0, len(packets)
    while at < end:
        size = len(packets[at])
        after = at + 1
        if 0 < size <= size_max:
            stop = min(end, at + min(SEGMENTS_MAX, RUN_BYTES_MAX // size))
            while after < stop and len(packets[after]) == size:
                after += 1
            if after < stop and 0 < len(packets[after]) < size:
                after += 1
        yield packets[at:after]
        at = after


class SegmentedSender:
    """The sending side of a non-blocking socket."""

    def __init__(self, sock: socket.socket, offload: bool, counts: Counter[str]) -> None:
        self._sock = sock
        self._counts = counts
        # Segments must fit the MTU of the route; a size that was refused is not tried again.
        self._segment_bytes_max = RUN_BYTES_MAX // 2 if offload and segmentation(sock) else 0
        self._poll = select.poll()
        self._poll.register(sock, select.POLLOUT)

    @property
    def offload(self) -> bool:
        """Whether packets are sent in runs."""
        return self._segment_bytes_max > 0

    def send(self, packets: list[bytes], targets: Sequence[SocketAddress]) -> None:
        """Send the packets to each target in order. Packets that find no space in the kernel's
        buffer within PATIENCE_NS, and packets that the network refuses, are counted and dropped."""
        patience = PATIENCE_NS
        unsent = len(packets) * len(targets)
        for run in runs(packets, self._segment_bytes_max):
            for target in targets:
                left = self._send_run(run, target, patience)
                if left is None:
                    self._counts["unsent"] += unsent
                    return
                patience = left
                unsent -= len(run)

    def _send_run(self, run: list[bytes], target: SocketAddress, patience: int) -> int | None:
        """The patience that is left; None if the run found no space."""
        control = []
        if len(run) > 1:
            if len(run[0]) > self._segment_bytes_max:  # refused just now, for an earlier run
                return self._send_singly(run, target, patience)
            control = [(SOL_UDP, UDP_SEGMENT, _SEGMENT.pack(len(run[0])))]
        while True:
            try:
                self._sock.sendmsg(run, control, 0, target)
                return patience
            except OSError as error:
                if error.errno in _NO_ROOM:
                    if patience <= 0:
                        return None
                    patience -= self._wait(error.errno)
                    continue
                if control and error.errno in _TOO_LARGE_A_SEGMENT:
                    self._segment_bytes_max = min(self._segment_bytes_max, len(run[0]) - 1)
                    return self._send_singly(run, target, patience)
                if control and error.errno in _NO_OFFLOAD:
                    self._segment_bytes_max = 0
                    return self._send_singly(run, target, patience)
                why = "oversized" if error.errno == errno.EMSGSIZE else "unreachable"
                self._counts[why] += len(run)
                return patience

    def _send_singly(
        self, run: list[bytes], target: SocketAddress, patience: int | None
    ) -> int | None:
        for packet in run:
            if patience is not None:
                patience = self._send_run([packet], target, patience)
        return patience

    def _wait(self, code: int | None) -> int:
        """Wait for space once and return the cost in patience. The cost is limited: if a busy
        machine makes a short wait take long, the next try may well succeed."""
        begun = monotonic_ns()
        if code == errno.EAGAIN:
            self._poll.poll(1)
            most = PATIENCE_NS // 2
        else:  # full below the socket, where poll does not look
            most = PATIENCE_NS // 8
            sleep(most / 1_000_000_000)
        return min(most, max(1, monotonic_ns() - begun))


# ---------------------------------------------------------------------------- receiving


class DatagramReceiver:
    """The receiving side of a non-blocking socket."""

    def __init__(self, sock: socket.socket, offload: bool, counts: Counter[str]) -> None:
        self._sock = sock
        self._counts = counts
        self.offload = offload and joining(sock)
        self._receive = sock.recvmsg

    def take(self) -> tuple[SocketAddress, list[bytes]] | None:
        """The source and packets of one run; None if nothing waits. The list is empty if the run
        could not be used."""
        try:
            data, control, flags, source = self._receive(DATAGRAM_BYTES_MAX, _CONTROL_BYTES)
        except OSError as error:
            if error.errno in _NO_ROOM:
                return None
            self._counts["unreachable"] += 1  # an ICMP error, or the network is down
            return ("", 0), []
        if flags & _SHORT:
            self._counts["truncated"] += 1
            return source, []
        if control:
            size = int.from_bytes(control[0][2][:4], sys.byteorder)
            if 0 < size < len(data):
                return source, [data[at : at + size] for at in range(0, len(data), size)]
        return source, [data]
