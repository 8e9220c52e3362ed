"""The network of a campus in network namespaces: one machine each, on bridges that are its wires.

All machines hang on one bridge, in a namespace of its own, so that the network of the host is not
touched. A building is cut off by moving its wires to a bridge of its own. Needs `ip`, and root or a
user namespace in which one is root (`as_root`); nothing else.

    with CampusNetwork(["lan-1", "lan-2"]) as network:
        network.spawn("lan-1", ["ping", "-c", "1", network.address("lan-2")])
        network.cut(["lan-2"])
        network.heal()
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from itertools import count
from types import TracebackType
from typing import Any, Self

from phalanx.errors import PhalanxError

PREFIX = "phxc"
MACHINES_MAX = 250
WAIT_SECONDS = 10.0
INSIDE = "PHALANX_IN_USER_NAMESPACE"
_numbers = count()


class NetworkNotPossible(PhalanxError):
    """The system does not let this process make network namespaces; the message has the remedy."""


class CampusNetwork:
    """Machines by name, on one bridge until some are cut off."""

    def __init__(self, machines: Sequence[str]) -> None:
        assert 1 <= len(machines) <= MACHINES_MAX
        self._machines = list(machines)
        self._name = f"{PREFIX}-{os.getpid()}-{next(_numbers)}"
        self._hub = f"{self._name}-hub"

    def namespace(self, machine: str) -> str:
        """The name of the namespace, for `ip netns exec`."""
        return f"{self._name}-{self._machines.index(machine)}"

    def address(self, machine: str) -> str:
        return f"10.78.0.{self._machines.index(machine) + 1}"

    def spawn(self, machine: str, command: list[str], **popen: Any) -> subprocess.Popen[bytes]:
        """Start a process on a machine, in a session of its own, so that Ctrl-C reaches only us."""
        whole = ["ip", "netns", "exec", self.namespace(machine), *command]
        return subprocess.Popen(whole, start_new_session=True, **popen)

    def cut(self, machines: Sequence[str]) -> None:
        """Nothing passes between these machines and the others; among them everything does."""
        self._plug(machines, "apart")

    def heal(self) -> None:
        """All machines are on one bridge again."""
        self._plug(self._machines, "campus")

    def _plug(self, machines: Sequence[str], bridge: str) -> None:
        wires = [f"m{self._machines.index(each)}" for each in machines]
        lines = [f"link set {wire} master {bridge}" for wire in wires]
        _ip(["-n", self._hub, "-batch", "-"], "\n".join(lines) + "\n")

    # ------------------------------------------------------------------ making and ending

    def __enter__(self) -> Self:
        if reason := why_not():
            raise NetworkNotPossible(reason)
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
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _make(self) -> None:
        _ip(["netns", "add", self._hub])
        lines = []
        for bridge in ("campus", "apart"):
            lines.append(f"link add {bridge} type bridge stp_state 0 mcast_snooping 0")
            lines.append(f"link set {bridge} up")
        for at, machine in enumerate(self._machines):
            _ip(["netns", "add", self.namespace(machine)])
            lines.append(f"link add m{at} type veth peer name eth0 netns {self.namespace(machine)}")
            lines.append(f"link set m{at} master campus up")
        _ip(["-n", self._hub, "-batch", "-"], "\n".join(lines) + "\n")
        for machine in self._machines:
            own = [
                "link set lo up",
                f"addr add {self.address(machine)}/16 dev eth0",
                "link set eth0 up",
                "route add 224.0.0.0/4 dev eth0",
            ]
            _ip(["-n", self.namespace(machine), "-batch", "-"], "\n".join(own) + "\n")

    def _end(self) -> None:
        for name in [self._hub, *map(self.namespace, self._machines)]:
            for pid in _pids(name):  # nobody else can be in there
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


@cache
def why_not() -> str:
    """Empty if a network can be made here, or else the reason why not."""
    if shutil.which("ip") is None:
        return "there is no ip: apt-get install iproute2"
    name = f"{PREFIX}-{os.getpid()}-try"
    try:
        _ip(["netns", "add", name])
        _ip(["-n", name, "link", "add", "campus", "type", "bridge"])
        _ip(["-n", name, "link", "add", "m0", "type", "veth", "peer", "name", "eth0"])
        _ip(["netns", "exec", name, "true"])
    except NetworkNotPossible as error:
        return f"network namespaces are not permitted here ({error}); run it as root"
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return ""


def as_root() -> None:
    """Without root, run this command again in a user namespace in which it is root. Returns where
    that is not needed or not possible; `why_not` then has the reason."""
    if os.geteuid() == 0 or INSIDE in os.environ or shutil.which("unshare") is None:
        return
    inside = ["unshare", "--user", "--map-root-user", "--net", "--mount"]
    prepare = 'mount -t tmpfs tmpfs /run && exec "$0" "$@"'
    trial = subprocess.run([*inside, "sh", "-c", prepare, "true"], capture_output=True, check=False)
    if trial.returncode == 0:
        again = [sys.executable, "-m", "phalanx", *sys.argv[1:]]
        os.environ[INSIDE] = "1"
        os.execvp(inside[0], [*inside, "sh", "-c", prepare, *again])


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


def _ip(words: list[str], given: str = "") -> None:
    done = subprocess.run(["ip", *words], input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise NetworkNotPossible(f"ip {' '.join(words)}: {lines[0]}")
