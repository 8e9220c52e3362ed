"""The network in namespaces: who hears whom, with and without faults, and what it leaves behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from bench.namespaces import IPV6, PREFIX, Lan, available

pytestmark = pytest.mark.skipif(bool(available()), reason=available())

# Prints what it receives on both families, and sends what it reads: `address times text`. A
# `times` above 1 asks the kernel to cut one send into that many datagrams (UDP_SEGMENT is 103).
STATION = """
import os, select, socket, struct, sys
four = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
four.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
four.bind(("", 7000))
card = socket.if_nametoindex("eth0")
join = socket.inet_aton("239.77.0.1") + struct.pack("=4si", bytes(4), card)
four.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, join)
four.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
four.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
sockets = {socket.AF_INET: four}
if socket.has_dualstack_ipv6():
    six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    six.bind(("", 7000))
    join = socket.inet_pton(socket.AF_INET6, "ff02::77") + struct.pack("=i", card)
    six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, join)
    six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 0)
    sockets[socket.AF_INET6] = six
print("ready", flush=True)
while True:
    for ready in select.select([0, *sockets.values()], [], [])[0]:
        if ready == 0:
            for line in os.read(0, 65536).decode().splitlines() or sys.exit():
                address, times, text = line.split()
                family, *_, to = socket.getaddrinfo(address, 7000, type=socket.SOCK_DGRAM)[0]
                cut = [(socket.IPPROTO_UDP, 103, struct.pack("=H", len(text)))]
                data = text.encode() * int(times)
                sockets[family].sendmsg([data], cut if int(times) > 1 else [], 0, to)
        else:
            print(ready.recv(2048).decode(), flush=True)
"""
EVERYBODY = [
    "239.77.0.1",
    "10.77.255.255",
    "255.255.255.255",
    *(["ff02::77%eth0"] if IPV6.exists() else []),
]


class Stations:
    """One station a member."""

    def __init__(self, lan: Lan) -> None:
        command = [sys.executable, "-ISc", STATION]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        processes = [lan.run(i, command, **pipes, text=True) for i in range(lan.n)]
        self._in = [process.stdin for process in processes if process.stdin]
        self._out = [process.stdout for process in processes if process.stdout]
        for out in self._out:
            assert out.readline() == "ready\n"
        self._turn = 0

    def say(self, i: int, address: str, text: str, times: int = 1) -> None:
        self._in[i].write(f"{address} {times} {text}\n")
        self._in[i].flush()

    def heard(self) -> list[list[str]]:
        """All that each member heard since the last call."""
        time.sleep(0.1)  # what was sent is on its way; nothing tells us when it has arrived
        self._turn += 1
        heard = []
        for i, out in enumerate(self._out):
            last = f"last-{self._turn}"
            self.say(i, "127.0.0.1", last)
            lines = iter(out.readline, f"{last}\n")
            heard.append([line.strip() for line in lines])
        return heard

    def pairs(self, address: str = "239.77.0.1") -> set[tuple[int, int]]:
        """Who reaches whom."""
        for i in range(len(self._in)):
            self.say(i, address, str(i))
        heard = enumerate(self.heard())
        pairs = {(int(i), j) for j, senders in heard for i in senders}
        return {(i, j) for i, j in pairs if i != j}  # a broadcast comes back to its sender, too


@contextmanager
def stations(n: int, **options: bool) -> Iterator[tuple[Lan, Stations]]:
    with Lan(n, **options) as lan:
        yield lan, Stations(lan)


def all_pairs(n: int) -> set[tuple[int, int]]:
    return {(i, j) for i in range(n) for j in range(n) if i != j}


def test_everybody_reaches_everybody() -> None:
    with stations(3) as (lan, talk):
        for address in EVERYBODY:
            assert talk.pairs(address) == all_pairs(3), address
        for address in (lan.address(1), *([lan.address6(1)] if IPV6.exists() else [])):
            talk.say(0, address, "hello")
            assert talk.heard() == [[], ["hello"], []]


def test_a_cut_holds_for_every_kind_of_address_until_it_heals() -> None:
    with stations(3) as (lan, talk):
        lan.cut(0, 2)
        for address in EVERYBODY:
            assert talk.pairs(address) == all_pairs(3) - {(0, 2), (2, 0)}
        talk.say(0, lan.address(2), "unicast")
        assert talk.heard() == [[], [], []]
        lan.cut_one_way(0, 1)
        assert talk.pairs() == all_pairs(3) - {(0, 1), (0, 2), (2, 0)}
        lan.heal()
        assert talk.pairs() == all_pairs(3)


def test_members_and_parts_can_be_cut_off() -> None:
    with stations(4) as (lan, talk):
        lan.isolate(1)
        assert talk.pairs() == {(i, j) for i, j in all_pairs(4) if 1 not in (i, j)}
        lan.heal()
        lan.partition([0, 3], [1])
        assert talk.pairs() == {(0, 3), (3, 0)}


def test_losses_take_their_share_of_what_a_member_would_hear() -> None:
    with stations(3) as (lan, talk):
        lan.lose(1, 1.0)
        assert talk.pairs() == {(i, j) for i, j in all_pairs(3) if j != 1}
        lan.lose(1, 0.5)
        for k in range(400):
            talk.say(0, "239.77.0.1", f"message-{k}")
        heard = talk.heard()
        assert len(heard[2]) == 400
        assert 120 < len(heard[1]) < 280  # eight standard deviations
        lan.lose(1, 0)
        assert talk.pairs() == all_pairs(3)


@pytest.mark.parametrize("offload", [True, False])
def test_what_the_kernel_is_to_cut_is_lost_whole_or_datagram_by_datagram(offload: bool) -> None:
    with stations(2, offload=offload) as (lan, talk):
        lan.lose(1, 0.5)
        for k in range(20):  # few enough for anybody's receive buffer
            talk.say(0, "239.77.0.1", f"send-{k:02}", times=8)
        arrived = Counter(talk.heard()[1])
    assert 0 < len(arrived) <= 20
    assert all(count == 8 for count in arrived.values()) == offload


def test_nothing_is_left_of_it_even_after_an_exception() -> None:
    with suppress(ZeroDivisionError), Lan(2) as lan:
        process = lan.run(0, ["sh", "-c", "sleep 1000 & echo $!; wait"], stdout=subprocess.PIPE)
        assert process.stdout
        grandchild = int(process.stdout.readline())
        os.kill(grandchild, 0)
        raise ZeroDivisionError
    assert process.returncode is not None
    assert not alive(grandchild)
    assert f"{PREFIX}-{os.getpid()}-" not in names()


def test_what_a_killed_run_left_is_taken_away() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = f"{PREFIX}-{ended.pid}-0-hub"
    subprocess.run(["ip", "netns", "add", left], check=True)
    with Lan(1):
        assert left not in names()


def test_a_member_that_is_not_there_is_refused() -> None:
    with Lan(2) as lan:
        for call in (lan.isolate, lan.address, lambda i: lan.cut(0, i), lambda i: lan.lose(i, 0.1)):
            with pytest.raises(ValueError, match="member 2"):
                call(2)
        with pytest.raises(ValueError, match="itself"):
            lan.cut(1, 1)
        with pytest.raises(ValueError, match="share"):
            lan.lose(1, 5)
    with pytest.raises(ValueError, match="n = 0"):
        Lan(0)


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return False
        except FileNotFoundError:
            return False
        time.sleep(0.01)
    return True


def names() -> str:
    return subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout
