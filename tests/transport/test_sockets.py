"""Runs of packets, and what a socket may answer to them."""

from __future__ import annotations

import errno
import socket
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from phalanx.transport import sockets
from phalanx.transport.sockets import (
    RUN_BYTES_MAX,
    SEGMENTS_MAX,
    DatagramReceiver,
    SegmentedSender,
    runs,
)

TO = ("127.0.0.1", 9)


def lengths(sizes: list[int], size_max: int = 2000) -> list[list[int]]:
    return [list(map(len, run)) for run in runs([bytes(n) for n in sizes], size_max)]


def test_a_run_is_of_one_size_and_may_end_in_a_shorter_one() -> None:
    assert lengths([9, 9, 9, 4, 9]) == [[9, 9, 9, 4], [9]]
    assert lengths([4, 9, 9]) == [[4], [9, 9]]
    assert lengths([9, 4, 4]) == [[9, 4], [4]]
    assert lengths([]) == []


def test_a_run_is_bounded_in_packets_and_bytes() -> None:
    assert lengths([9] * (SEGMENTS_MAX + 2)) == [[9] * SEGMENTS_MAX, [9, 9]]
    count = RUN_BYTES_MAX // 1472
    assert lengths([1472] * (count + 1)) == [[1472] * count, [1472]]


def test_large_and_empty_packets_go_alone() -> None:
    assert lengths([9, 9, 0, 0], size_max=8) == [[9], [9], [0], [0]]
    assert lengths([8, 8, 0, 8], size_max=8) == [[8, 8], [0], [8]]


class Refusing:
    """A socket that answers sends with errors, then takes them."""

    def __init__(self, sock: socket.socket, errors: list[int], of_runs_only: bool = False) -> None:
        self._sock = sock
        self._errors = errors
        self._of_runs_only = of_runs_only
        self.sent: list[list[bytes]] = []
        self.asked = 0

    def sendmsg(self, run: list[bytes], control: list[Any], flags: int, target: object) -> None:
        self.asked += 1
        if self._errors and (control or not self._of_runs_only):
            code = self._errors[0]
            if not self._of_runs_only:
                self._errors.pop(0)
            raise OSError(code, "no")
        self.sent.append(list(run))

    def setsockopt(self, *args: int) -> None:
        pass

    def fileno(self) -> int:
        return self._sock.fileno()


@pytest.fixture
def sock() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.setblocking(False)
        yield one


def outlet(refusing: Refusing) -> tuple[SegmentedSender, Counter[str]]:
    counts: Counter[str] = Counter()
    made: Any = refusing
    return SegmentedSender(made, True, counts), counts


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EIO, errno.ENOPROTOOPT])
def test_where_the_kernel_refuses_runs_packets_go_singly_and_it_is_remembered(
    sock: socket.socket, code: int
) -> None:
    refusing = Refusing(sock, [code], of_runs_only=True)
    out, counts = outlet(refusing)
    out.send([b"a", b"b", b"c"], [TO])
    assert refusing.sent == [[b"a"], [b"b"], [b"c"]]
    assert refusing.asked == 4
    assert not out.offload
    out.send([b"a", b"b"], [TO])
    assert refusing.asked == 6
    assert not counts


def test_a_refused_size_leaves_smaller_ones_to_go_in_runs(sock: socket.socket) -> None:
    refusing = Refusing(sock, [errno.EINVAL])
    out, counts = outlet(refusing)
    out.send([b"aaaa", b"bbbb"], [TO])
    out.send([b"c", b"d"], [TO])
    assert refusing.sent == [[b"aaaa"], [b"bbbb"], [b"c", b"d"]]
    assert out.offload
    assert not counts


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.ENOBUFS])
def test_a_full_buffer_is_waited_for(sock: socket.socket, code: int) -> None:
    refusing = Refusing(sock, [code, code])
    out, counts = outlet(refusing)
    out.send([b"a", b"b"], [TO])
    assert refusing.sent == [[b"a", b"b"]]
    assert not counts


def test_a_buffer_that_stays_full_costs_packets_and_not_time(sock: socket.socket) -> None:
    refusing = Refusing(sock, [errno.ENOBUFS] * 1000)
    out, counts = outlet(refusing)
    out.send([b"a"] * 200, [TO, TO])
    assert counts == {"unsent": 400}
    assert refusing.asked < 20


def test_what_the_network_refuses_is_counted_and_the_rest_goes_on(sock: socket.socket) -> None:
    codes = [errno.ENETUNREACH, errno.ENETDOWN, errno.EPERM, errno.EMSGSIZE]
    refusing = Refusing(sock, list(codes))
    out, counts = outlet(refusing)
    for _ in range(5):
        out.send([b"a"], [TO])
    assert counts == {"unreachable": 3, "oversized": 1}
    assert refusing.sent == [[b"a"]]


def test_a_kernel_without_segmentation_is_never_given_a_run(
    sock: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "segmentation", lambda sock: False)
    refusing = Refusing(sock, [])
    out, _ = outlet(refusing)
    out.send([b"a", b"b"], [TO])
    assert refusing.sent == [[b"a"], [b"b"]]


@pytest.mark.parametrize("flag", [socket.MSG_TRUNC, socket.MSG_CTRUNC])
def test_what_came_only_in_part_is_counted_and_dropped(sock: socket.socket, flag: int) -> None:
    counts: Counter[str] = Counter()
    inlet = DatagramReceiver(sock, True, counts)
    inlet._receive = lambda *sizes: (b"half", [], flag, TO)
    assert inlet.take() == (TO, [])
    assert counts == {"truncated": 1}


def test_an_error_of_the_network_does_not_look_like_an_empty_socket(sock: socket.socket) -> None:
    def fail(*sizes: int) -> Any:
        raise OSError(errno.ECONNREFUSED, "no")

    counts: Counter[str] = Counter()
    inlet = DatagramReceiver(sock, True, counts)
    inlet._receive = fail
    assert inlet.take() == (("", 0), [])
    assert counts == {"unreachable": 1}


def test_a_socket_that_only_sends_keeps_nothing_that_comes(sock: socket.socket) -> None:
    sock.bind(("127.0.0.1", 0))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        assert sockets.refuse_all(sock)
        other.sendto(b"x", sock.getsockname())
        assert DatagramReceiver(sock, True, Counter()).take() is None


def test_the_filter_refuses_one_source_only(sock: socket.socket) -> None:
    sock.bind(("127.0.0.1", 0))
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as same_port,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as same_host,
    ):
        one.bind(("127.0.0.1", 0))
        same_port.bind(("127.0.0.2", one.getsockname()[1]))
        same_host.bind(("127.0.0.1", 0))
        assert sockets.refuse_own(sock, one.getsockname())
        for sender in (one, same_port, same_host):
            sender.sendto(b"x", sock.getsockname())
        inlet = DatagramReceiver(sock, True, Counter())
        sources = []
        while (taken := inlet.take()) is not None:
            sources.append(taken[0])
    assert [s[0] for s in sources] == ["127.0.0.2", "127.0.0.1"]
    assert len({s[1] for s in sources}) == 2
