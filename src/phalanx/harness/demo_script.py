"""The script of `phalanx demo`: five real member processes on this machine.

They form one view and send messages with all four services. Then dov is killed, the others are
partitioned three ways, continue to send, and merge; dov is restarted. Each member writes a journal,
and the checkers read them all.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from phalanx.config import Config, SharedKey, local, mesh
from phalanx.harness.controller import MemberProcess, all_in_view, partition
from phalanx.harness.loopback_host import loopback_host

GROUP = "demo"
NAMES = ("ada", "bea", "cyd", "dov", "eli")
SERVICES = ("basic", "causal", "agreed", "safe")
PORT = 7117
ROUND = 250
"""Messages that each member sends with each service in one round."""
Print = Callable[[str], None]


class DemoScript:
    """The member processes, the time since the start, and the lines that are printed."""

    def __init__(
        self, folder: Path, cluster: str, print_line: Print, config_of: Callable[[str], Config]
    ) -> None:
        self._folder = folder
        self.journals = folder / "journals" / cluster
        self._config_of = config_of
        self._print = print_line
        self._began = time.monotonic()
        self.members: dict[str, MemberProcess] = {}
        self.timings: dict[str, float] = {}
        self.killed_ns = 0
        """When dov was killed, on the clock of the journals."""

    def print(self, line: str) -> None:
        self._print(f"{time.monotonic() - self._began:6.2f} s  {line}")

    def start(self, name: str) -> MemberProcess:
        part: dict[str, Any] = {
            "group": GROUP,
            "name": name,
            "config": msgspec.to_builtins(self._config_of(name)),
            "state": str(self._folder / "state"),
            "journal": str(self.journals),
        }
        self.members[name] = MemberProcess(part)
        return self.members[name]

    def of(self, *names: str) -> list[MemberProcess]:
        return [self.members[name] for name in names]

    @contextmanager
    def timed(self, what: str, members: list[MemberProcess]) -> Iterator[None]:
        """Measure the time until all of these members are in one view."""
        marks = {member.name: len(member.events) for member in members}
        began = time.monotonic_ns()
        yield
        names = [member.name for member in members]
        ends = [m.in_view(names, since=marks[m.name])["t_ns"] for m in members]
        self.timings[what] = max(0, max(ends) - began) / 1e9

    def exchange(self, *names: str) -> int:
        """Each member sends a round with every service. Returns the number of messages when all of
        them are stable."""
        marks = {name: len(self.members[name].events) for name in names}
        for member in self.of(*names):
            for service in SERVICES:
                member.do("send", count=ROUND, service=service, stable=service == SERVICES[-1])
        for member in self.of(*names):
            member.wait(_sent_last, 30, marks[member.name], "its messages are stable")
        return ROUND * len(SERVICES) * len(names)


def _sent_last(event: dict[str, Any]) -> bool:
    return bool(event["event"] == "sent" and event["service"] == SERVICES[-1])


def mesh_config(folder: Path, cluster: str) -> Callable[[str], Config]:
    """The settings of members in a mesh with TLS, each on an address of its own of the loopback
    interface. The key is made for this run."""
    folder.mkdir(parents=True, exist_ok=True)
    key = folder / "shared.key"
    key.touch(mode=0o600)
    key.write_text(secrets.token_hex(32))
    hosts = {name: loopback_host(i) for i, name in enumerate(NAMES)}
    peers = [f"{host}:{PORT}" for host in hosts.values()]
    tls = SharedKey(str(key))
    return lambda name: mesh(*peers, cluster=cluster, address=hosts[name], port=PORT, tls=tls)


def perform(folder: Path, cluster: str, print_line: Print, profile: str = "local") -> DemoScript:
    """Run the whole script with a profile, `local` or `mesh`, in a cluster of its own, so that two
    demos on one machine do not meet. The journals of the members are then in a folder of
    their own below `folder`/journals."""
    config_of = (
        mesh_config(folder, cluster) if profile == "mesh" else lambda name: local(cluster=cluster)
    )
    script = DemoScript(folder, cluster, print_line, config_of)
    with ExitStack() as undo:
        _run(script, undo)
    return script


def _run(script: DemoScript, undo: ExitStack) -> None:
    everybody = []
    for name in NAMES:
        everybody.append(script.start(name))
        undo.callback(everybody[-1].close)
    for member in everybody:
        member.joined()
    all_in_view(everybody)
    script.print(f"{', '.join(NAMES)}: five processes, one view")
    sent = script.exchange(*NAMES)
    script.print(f"{sent:,} messages with all four services, delivered by all five")

    rest = script.of("ada", "bea", "cyd", "eli")
    with script.timed("kill", rest):
        script.killed_ns = script.members["dov"].kill()
    script.print(f"dov is killed (kill -9); a view without it after {script.timings['kill']:.2f} s")

    sides = [script.of("ada", "bea"), script.of("cyd"), script.of("eli")]
    partition(sides)
    for side in sides:
        all_in_view(side)
    sent = script.exchange("ada", "bea", "cyd", "eli")
    parts = "partitioned three ways: ada with bea, cyd, eli"
    script.print(f"{parts}; {sent:,} messages, each within its part")

    with script.timed("heal", rest):
        for member in rest:
            member.run("heal")
    script.print(f"the partition is healed; one view after {script.timings['heal']:.2f} s")

    back = script.start("dov")
    undo.callback(back.close)
    back.joined()
    everybody = script.of(*NAMES)
    all_in_view(everybody)
    script.print("dov is restarted under its name; one view of five")
    sent = script.exchange(*NAMES)
    script.print(f"{sent:,} messages, delivered by all five")
    for member in everybody:
        member.leave()
    script.print("all members have left; checking their journals")
