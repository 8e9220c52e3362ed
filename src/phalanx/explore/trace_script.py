"""Paths of the search as text, and their replay.

    members 2
    start 0|1
    attempts 2
    ...

    attempt 0 1
    deliver 1 0        # AJ of m0

The settings of the search come first, then an empty line, then the actions. After the line `settle`
attempts to join are free. Text after # is a comment.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from phalanx.core.effects import Service
from phalanx.errors import ConfigurationError, FileError
from phalanx.explore.member_history import (
    Addressed,
    Broke,
    DeliveredEvent,
    Event,
    Finding,
    Installed,
    Marked,
)
from phalanx.explore.process_state import Action
from phalanx.explore.settle import SETTLE, Settling
from phalanx.explore.state_space import BUDGET, Options, State, StateSpace

WORDS = {
    "deliver": 2,
    "collect": 1,
    "fetch": 3,
    "attempt": 2,
    "break": 2,
    "data": 1,
    "drop": 2,
    "crash": 1,
    "lose": 2,
    "notice": 2,
    "ack": 1,
    "answer": 1,
    "speak": 1,
    "settle": 0,
}
"""How many numbers follow each word."""
COMMENT_AT = 18
MEMBERS_MAX = 8


class TraceScript(msgspec.Struct, frozen=True):
    """A path, and the search it belongs to."""

    options: Options
    path: tuple[Action, ...]
    mutant: str | None = None


# ------------------------------------------------------------------ writing


def line(action: Action) -> str:
    """An action as it stands in a path."""
    return " ".join(map(str, (action[0], *action[1 : 1 + WORDS[action[0]]])))


def header(options: Options, mutant: str | None = None) -> list[str]:
    """The settings of the search, one per line."""
    out = [f"members {options.members}", f"start {start_text(options)}"]
    out += [f"{name} {getattr(options, name)}" for name in BUDGET]
    out += [f"mode {options.mode}", f"service {options.service.name.lower()}"]
    out += ["young"] if options.young else []
    return out + ([f"mutant {mutant}"] if mutant else [])


def start_text(options: Options) -> str:
    return "|".join(",".join(map(str, sorted(c))) for c in options.components)


# ------------------------------------------------------------------ reading


def start_of(text: str, members: int) -> tuple[tuple[int, ...], ...]:
    """Components as written: 0,1|2. ConfigurationError unless each process stands in one."""
    try:
        components = tuple(
            tuple(sorted(int(p) for p in part.split(","))) for part in text.split("|")
        )
    except ValueError:
        components = ()
    if sorted(p for component in components for p in component) != list(range(members)):
        remedy = f"name each of 0 to {members - 1} once, for example {_example(members)}"
        raise ConfigurationError("start", text, remedy)
    return components


def _example(members: int) -> str:
    both = ",".join(map(str, range(min(2, members))))
    return "|".join([both, *map(str, range(2, members))])


def parse(text: str, file: str) -> TraceScript:
    """A script; FileError with the line that is wrong."""
    settings: dict[str, str] = {}
    path: list[Action] = []
    acting = False
    for number, raw in enumerate(text.splitlines(), start=1):
        words = raw.partition("#")[0].split()
        if not raw.strip():
            acting = acting or bool(settings)
        elif words and acting:
            if words[0] not in WORDS:
                raise FileError(file, number, f"unknown action {words[0]!r}", _choices(WORDS))
            path.append(_action(words, number, file))
        elif words:
            settings[words[0]] = " ".join(words[1:])
    return _script(settings, tuple(path), file)


def _action(words: list[str], number: int, file: str) -> Action:
    wanted = WORDS[words[0]]
    given = [int(word) for word in words[1:] if word.isascii() and word.isdigit()]
    if len(given) != wanted or len(words) != wanted + 1:
        remedy = f"write {words[0]} and {wanted} number{'s' * (wanted != 1)}"
        raise FileError(file, number, f"{' '.join(words)!r} is no action", remedy)
    who, whom, which = (*given, 0, 0, 0)[:3]
    return words[0], who, whom, which


def _script(settings: dict[str, str], path: tuple[Action, ...], file: str) -> TraceScript:
    known = ("members", "start", *BUDGET, "mode", "service", "young", "mutant")
    for name in settings:
        if name not in known:
            raise FileError(file, None, f"unknown setting {name!r}", _choices(known))
    try:
        members = int(settings.get("members", "2"))
        if not 1 <= members <= MEMBERS_MAX:
            raise ValueError(f"members {members}")
        options = Options(
            members=members,
            start=start_of(settings["start"], members) if "start" in settings else (),
            mode="flow" if settings.get("mode") == "flow" else "hold",
            service=Service[settings.get("service", "agreed").upper()],
            young="young" in settings,
            **{name: int(settings.get(name, "0")) for name in BUDGET},
        )
    except (ValueError, KeyError) as error:
        raise FileError(file, None, f"bad setting: {error}", "write it as --save does") from None
    return TraceScript(options, path, settings.get("mutant"))


def _choices(names: Iterable[str]) -> str:
    return f"choose among {', '.join(names)}"


# ------------------------------------------------------------------ playing


class Player:
    """Replays a path action by action and describes the effects."""

    def __init__(self, options: Options) -> None:
        self.world = StateSpace(options)
        self._settling = Settling(self.world)
        self.state = self._settling.begun()

    def play(self, action: Action) -> list[str]:
        """One action; the line and what it brings about. LookupError if it cannot happen."""
        world, before = self.world, self.state
        if action == SETTLE:
            self.state = (*before[:-1], world.endless)
            return ["settle"]
        steps = world.needed(before) + world.chances(before)
        after = next((state for known, state in steps if known == action), None)
        if after is None:
            offered = ", ".join(line(known) for known, _ in steps) or "nothing"
            raise LookupError(f"{line(action)!r} cannot happen here; {offered} can")
        self.state = after
        return [self._titled(before, action), *self._explained(before, after, action[1])]

    def finding(self) -> Finding | None:
        """The first violation so far."""
        wrong = self.world.verdict(self.state)
        if wrong is None and not self.world.needed(self.state):
            found = self._settling.finding(self.state)
            wrong = None if found is None else found[0]
        return wrong

    def _titled(self, before: State, action: Action) -> str:
        text, what, p, q = line(action), *action[:3]
        if what in ("deliver", "drop"):
            unit = self.world.processes.states[before[p]].inbox[q][0]
            return f"{text:<{COMMENT_AT}} # {self.world.actors.units[unit].label}"
        return text

    def _explained(self, before: State, after: State, p: int) -> list[str]:
        """What a process sent and its application saw in a step."""
        processes, stories = self.world.processes, self.world.histories.stories
        out = []
        others = [q for q in range(self.world.n) if q != p and after[q] != before[q]]
        if others:
            q = others[0]
            queued = len(processes.states[before[q]].inbox[p])
            sent = processes.states[after[q]].inbox[p][queued:]
            labels = [self.world.actors.units[unit].label for unit in sent]
            out += [f"    # m{p} sends {label}" for label in labels]
        known = len(stories[processes.history[before[p]]].events)
        news = stories[processes.history[after[p]]].events[known:]
        return out + [f"    # m{p} {_seen(event)}" for event in news]


def _seen(event: Event) -> str:
    match event:
        case Installed():
            names = " ".join(f"m{q}" for q in event.members)
            return f"installs {event.view}: {names} ({event.cause})"
        case DeliveredEvent((sender, number)):
            return f"delivers message {number} of m{sender} in {event.view}"
        case Broke(error):
            return f"raises {error}"
        case Marked(view, pos):
            return f"has the marker of {view} at position {pos}"
        case Addressed(number, to):
            return f"has message {number} for " + " ".join(f"m{q}" for q in to)
    return f"has sent its message {event.number} in {event.view}"


def explained(options: Options, path: Iterable[Action]) -> list[str]:
    """A path, line by line, with the effects of each action."""
    player = Player(options)
    return [text for action in path for text in player.play(action)]
