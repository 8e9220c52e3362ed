"""A network of our own: members in network namespaces on one bridge, with faults on demand.

Each member has a namespace with one card, `eth0`, whose other end is a port of a bridge. The bridge
lies in a namespace of its own, so the host's network is not touched. MTU 1500; IPv4 and IPv6,
unicast, broadcast and multicast reach every member.

Faults are rules of nftables on the bridge, so they hold for every protocol, nobody's `send` fails
for them, and each call is one transaction: a member is cut off from all others in one instant.

    with Lan(4) as lan:
        process = lan.run(0, ["ping", "-c", "1", lan.address(1)])
        lan.cut(0, 1)
        lan.heal()

Needs root, `ip` and `nft`; `available()` says what is missing. What ran in the namespaces is killed
when the block ends, also by an exception; names that a killed run left behind are taken away
by the next one.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

MEMBERS_MAX = 250
MTU = 1500
PREFIX = "phx"
PARTS = 10_000
"""A loss is told in parts of this many."""
WAIT_SECONDS = 10
IPV6 = Path("/proc/sys/net/ipv6")

_numbers = count()


class LanError(RuntimeError):
    """The system does not let us make or change the network; says which command failed."""


class Lan:
    """`n` members on one bridge, numbered from 0.

    With `offload` (what Linux does by default) a send that the kernel is to cut into datagrams
    crosses the bridge in one piece, and is lost in one piece. Without, it is cut at the sender's
    card, as on a wire, and every datagram crosses, and is lost, alone.
    """

    def __init__(self, n: int, *, offload: bool = True) -> None:
        if not 1 <= n <= MEMBERS_MAX:
            raise ValueError(f"n = {n}: must lie in 1..{MEMBERS_MAX}")
        self.n = n
        self._offload = offload
        self._name = f"{PREFIX}-{os.getpid()}-{next(_numbers)}"
        self._hub = f"{self._name}-hub"
        self._processes: list[subprocess.Popen[Any]] = []
        self._cuts: set[tuple[int, int]] = set()
        self._losses: dict[int, int] = {}

    def namespace(self, i: int) -> str:
        """The name of a member's namespace, for `ip netns exec`."""
        return f"{self._name}-{self._checked(i)}"

    def address(self, i: int) -> str:
        """A member's IPv4 address."""
        return f"10.77.0.{self._checked(i) + 1}"

    def address6(self, i: int) -> str:
        """A member's IPv6 address; it has a link-local one besides."""
        return f"fd77::{self._checked(i) + 1:x}"

    def run(self, i: int, argv: list[str], **popen: Any) -> subprocess.Popen[Any]:
        """Start a process in a member's namespace; the arguments are those of `Popen`.

        It leads a session of its own, so that Ctrl-C reaches only us, and it is killed with
        its whole process group when the network goes.
        """
        command = ["ip", "netns", "exec", self.namespace(i), *argv]
        process = subprocess.Popen(command, **{"start_new_session": True, **popen})
        self._processes.append(process)
        return process

    # ------------------------------------------------------------------ faults

    def cut(self, i: int, j: int) -> None:
        """Nothing passes between two members any more."""
        self._change(cuts={(i, j), (j, i)})

    def cut_one_way(self, i: int, j: int) -> None:
        """What `i` sends no longer reaches `j`; the other direction stays as it is."""
        self._change(cuts={(i, j)})

    def isolate(self, i: int) -> None:
        """Nothing passes between a member and all others any more."""
        others = [j for j in range(self.n) if j != i]
        self._change(cuts={(i, j) for j in others} | {(j, i) for j in others})

    def partition(self, *parts: list[int]) -> None:
        """Nothing passes between the parts; whoever is in none of them is a part alone."""
        everybody = range(self.n)
        part_of = {i: -1 - i for i in everybody}
        part_of |= {self._checked(i): k for k, part in enumerate(parts) for i in part}
        self._change(
            cuts={(i, j) for i in everybody for j in everybody if part_of[i] != part_of[j]}
        )

    def lose(self, i: int, share: float) -> None:
        """Drop this share of all packets on their way to a member, each by chance; 0 ends it."""
        if not 0 <= share <= 1:
            raise ValueError(f"share = {share}: must lie in 0..1")
        self._change(losses={i: round(share * PARTS)})

    def heal(self) -> None:
        """No cuts and no losses any more."""
        self._cuts.clear()
        self._losses.clear()
        self._change()

    def _change(
        self, cuts: set[tuple[int, int]] | None = None, losses: dict[int, int] | None = None
    ) -> None:
        for i, j in cuts or ():
            if self._checked(i) == self._checked(j):
                raise ValueError(f"cut({i}, {j}): a member cannot be cut from itself")
        for i in losses or ():
            self._checked(i)
        self._cuts |= cuts or set()
        self._losses |= losses or {}
        _command(["ip", "netns", "exec", self._hub, "nft", "-f", "-"], self._rules())

    def _rules(self) -> str:
        """All faults as one transaction; without faults no table, so that the bridge is as fast
        as ever."""
        lines = ["table bridge lan", "delete table bridge lan"]
        faults = [f'iifname "m{i}" oifname "m{j}" drop' for i, j in sorted(self._cuts)]
        for i, parts in sorted(self._losses.items()):
            if parts:
                faults.append(f'oifname "m{i}" numgen random mod {PARTS} <= {parts - 1} drop')
        if faults:
            hook = "type filter hook forward priority 0;"
            lines += ["table bridge lan {", "chain forward {", hook, *faults, "}", "}"]
        return "\n".join(lines) + "\n"

    def _checked(self, i: int) -> int:
        if not 0 <= i < self.n:
            raise ValueError(f"member {i}: must lie in 0..{self.n - 1}")
        return i

    # ------------------------------------------------------------------ making and ending

    def __enter__(self) -> Self:
        if reason := available():
            raise LanError(reason)
        sweep()
        try:
            self._make()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._end()

    def _make(self) -> None:
        cut = "" if self._offload else "gso_max_segs 1"
        _command(["ip", "netns", "add", self._hub])
        bridge = "link add lan type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
        lines = [bridge, f"link set lan mtu {MTU} addrgenmode none up"]
        for i in range(self.n):
            name = self.namespace(i)
            _command(["ip", "netns", "add", name])
            lines.append(f"link add m{i} type veth peer name eth0 netns {name}")
            lines.append(f"link set m{i} mtu {MTU} {cut} addrgenmode none master lan up")
        _command(["ip", "-n", self._hub, "-batch", "-"], "\n".join(lines) + "\n")
        for i in range(self.n):
            name = self.namespace(i)
            lines = ["link set lo up", f"link set eth0 mtu {MTU} {cut}"]
            if IPV6.exists():
                # Without duplicate detection the link-local address can be used at once, too.
                no_dad = f"echo 0 > {IPV6}/conf/eth0/accept_dad"
                _command(["ip", "netns", "exec", name, "sh", "-c", no_dad])
                lines.append(f"addr add {self.address6(i)}/64 dev eth0 nodad")
            lines += [
                f"addr add {self.address(i)}/16 broadcast 10.77.255.255 dev eth0",
                "link set eth0 up",
                # No default route: what looks up a name fails at once, and does not wait for a
                # server that nobody can reach.
                "route add 224.0.0.0/4 dev eth0",
                "route add 255.255.255.255 dev eth0",
            ]
            _command(["ip", "-n", name, "-batch", "-"], "\n".join(lines) + "\n")

    def _end(self) -> None:
        with _undisturbed():
            for process in self._processes:
                if process.poll() is None:
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(process.pid, signal.SIGKILL)
                    process.kill()
            for name in [*map(self.namespace, range(self.n)), self._hub]:
                for pid in _pids(name):  # grandchildren: nobody else can be in there
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            for process in self._processes:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(WAIT_SECONDS)
                for pipe in (process.stdin, process.stdout, process.stderr):
                    if pipe is not None:
                        with suppress(OSError):
                            pipe.close()
            self._processes.clear()
            # The hub goes first, and with it all cards.
            for name in [self._hub, *map(self.namespace, range(self.n))]:
                subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


@cache
def available() -> str:
    """Empty if a `Lan` can be made here, or else the reason why not."""
    missing = [program for program in ("ip", "nft") if shutil.which(program) is None]
    if missing:
        return f"there is no {' and no '.join(missing)}: apt-get install iproute2 nftables"
    name = f"{PREFIX}-{os.getpid()}-try"
    rules = "add table bridge x\nadd chain bridge x y { type filter hook forward priority 0; }\n"
    rules += 'add rule bridge x y oifname "m0" numgen random mod 100 < 5 drop\n'
    try:
        _command(["ip", "netns", "add", name])
        _command(["ip", "-n", name, "link", "add", "lan", "type", "bridge", "mcast_snooping", "0"])
        _command(["ip", "-n", name, "link", "add", "m0", "type", "veth", "peer", "name", "eth0"])
        _command(["ip", "netns", "exec", name, "nft", "-f", "-"], rules)
    except LanError as error:
        return f"network namespaces are not permitted here: {error}"
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return ""


def sweep() -> None:
    """Take away the namespaces of runs that ended without doing so, unless somebody is in one."""
    listing = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=False)
    for line in listing.stdout.splitlines():
        name = line.partition(" ")[0]
        prefix, _, rest = name.partition("-")
        owner = rest.partition("-")[0]
        if prefix == PREFIX and owner.isdigit() and not _lives(int(owner)) and not _pids(name):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _pids(name: str) -> list[int]:
    command = ["ip", "netns", "pids", name]
    listing = subprocess.run(command, capture_output=True, text=True, check=False)
    return [int(pid) for pid in listing.stdout.split()]


def _command(argv: list[str], given: str = "") -> None:
    done = subprocess.run(argv, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise LanError(f"{' '.join(argv)}: {said[0]}")


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A second Ctrl-C must not stop the clearing up that the first one began."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
