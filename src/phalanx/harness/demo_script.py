"""The play that `phalanx demo` gives: five real processes on this machine, and what befalls them.

They find each other and talk with all four services; dov is killed; the others part three ways,
talk on, and meet again; dov comes back. Each writes a journal, and the checkers read all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from phalanx.harness.controller import MemberProcess, all_in_view, part_ways

NAMES = ("ada", "bea", "cyd", "dov", "eli")
SERVICES = ("basic", "causal", "agreed", "safe")
ROUND = 250
"""Messages that each sends with each service at a time."""
Say = Callable[[str], None]


class DemoScript:
    """The processes, their clock and what is said about them."""

    def __init__(self, folder: Path, group: str, say: Say) -> None:
        self._folder = folder
        self._group = group
        self._tell = say
        self._began = time.monotonic()
        self.cast: dict[str, MemberProcess] = {}
        self.timings: dict[str, float] = {}
        self.killed_ns = 0
        """When dov was killed, by the clock of the journals."""

    def say(self, line: str) -> None:
        self._tell(f"{time.monotonic() - self._began:6.2f} s  {line}")

    def start(self, name: str) -> MemberProcess:
        part: dict[str, Any] = {
            "group": self._group,
            "name": name,
            "config": {"interface": "127.0.0.1", "hops": 0},
            "state": str(self._folder / "state"),
            "journal": str(self._folder / "journals"),
        }
        self.cast[name] = MemberProcess(part)
        return self.cast[name]

    def of(self, *names: str) -> list[MemberProcess]:
        return [self.cast[name] for name in names]

    @contextmanager
    def timed(self, what: str, remotes: list[MemberProcess]) -> Iterator[None]:
        """Until all of them are in one view together."""
        marks = {remote.name: len(remote.told) for remote in remotes}
        began = time.monotonic_ns()
        yield
        names = [remote.name for remote in remotes]
        ends = [r.in_view(names, since=marks[r.name])["t_ns"] for r in remotes]
        self.timings[what] = max(0, max(ends) - began) / 1e9

    def talk(self, *names: str) -> int:
        """Each says a round with every service; returns when all of it is at all of them."""
        marks = {name: len(self.cast[name].told) for name in names}
        for remote in self.of(*names):
            for service in SERVICES:
                remote.do("send", count=ROUND, service=service, stable=service == SERVICES[-1])
        for remote in self.of(*names):
            remote.wait(_said_last, 30, marks[remote.name], "its messages are everywhere")
        return ROUND * len(SERVICES) * len(names)


def _said_last(told: dict[str, Any]) -> bool:
    return bool(told["told"] == "sent" and told["service"] == SERVICES[-1])


def perform(folder: Path, group: str, say: Say) -> DemoScript:
    """The whole play. What every member saw is then in `folder`/journals."""
    play = DemoScript(folder, group, say)
    with ExitStack() as curtain:
        _acts(play, curtain)
    return play


def _acts(play: DemoScript, curtain: ExitStack) -> None:
    everybody = []
    for name in NAMES:
        everybody.append(play.start(name))
        curtain.callback(everybody[-1].close)
    for remote in everybody:
        remote.joined()
    all_in_view(everybody)
    play.say(f"{', '.join(NAMES)}: five processes, one view")
    said = play.talk(*NAMES)
    play.say(f"{said:,} messages with all four services, delivered by all five")

    rest = play.of("ada", "bea", "cyd", "eli")
    with play.timed("kill", rest):
        play.killed_ns = play.cast["dov"].kill()
    play.say(f"dov is killed (kill -9); a view without it after {play.timings['kill']:.2f} s")

    sides = [play.of("ada", "bea"), play.of("cyd"), play.of("eli")]
    part_ways(sides)
    for side in sides:
        all_in_view(side)
    said = play.talk("ada", "bea", "cyd", "eli")
    play.say(f"parted three ways: ada with bea, cyd, eli; {said:,} messages, each to its own part")

    with play.timed("heal", rest):
        for remote in rest:
            remote.obeys("heal")
    play.say(f"the network is whole again; one view after {play.timings['heal']:.2f} s")

    back = play.start("dov")
    curtain.callback(back.close)
    back.joined()
    everybody = play.of(*NAMES)
    all_in_view(everybody)
    play.say("dov is back, in a new life under its name; one view of five")
    said = play.talk(*NAMES)
    play.say(f"{said:,} messages, delivered by all five")
    for remote in everybody:
        remote.leave()
    play.say("all have left; their journals are read")
