"""Stories: the schedule of a walk as a text file, and its replay.

    # what it shows
    boot 0 1 2|3
    mode flow
    service agreed
    changes 2

    break 0 2
    deliver 1 0
    ...

`changes` is optional: how often a member has cause to change its view. The line `calm throughout`
states that no time-out has cause to remove a live member; `frames small`, that a large message
leaves in parts.

A line is a step of a `LiveGroup`: `deliver p q` (p receives the oldest packets in flight from q),
`drop p q`, `lose p q n` (the newest n sends), `late p q k` (p receives, perhaps again, the k-th
send of q, from 0), `fetch p q k` (frame k of q), `attempt p q` (p hears a HELLO of q), `break p q`,
`data p`, `send p s` (with service s), `large p s` (a large message), `whisper p q s` (for q alone),
`leave p`, `crash p`, `split 0 1 0` (the side of each), `calm`, and the timers `collect p`,
`answer p`, `speak p` and `ack p`. After the last step the network heals and the group settles. The
replay skips an impossible step, so a story outlives small changes of the protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from phalanx.core.effects import Service
from phalanx.errors import FileError
from phalanx.explore.frozen_member import TIMERS
from phalanx.explore.journal_observer import JournalObserver
from phalanx.explore.live_group import LiveGroup, Setting
from phalanx.explore.member_history import Finding

WORDS: dict[str, int] = {
    "deliver": 2,
    "drop": 2,
    "lose": 3,
    "fetch": 3,
    "late": 3,
    "attempt": 2,
    "break": 2,
    "send": 2,
    "large": 2,
    "whisper": 3,
    "data": 1,
    "leave": 1,
    "crash": 1,
    "calm": 0,
    "collect": 1,
    "answer": 1,
    "speak": 1,
    "ack": 1,
}
"""How many numbers follow each word; `split` has one for each member."""


class Story(msgspec.Struct, frozen=True):
    """The initial setting and the steps of a walk."""

    setting: Setting
    steps: tuple[str, ...]
    about: str = ""


def play(story: Story, observer: JournalObserver | None = None) -> Finding | None:
    """Replay a story; return the first violation, or None."""
    group = LiveGroup(story.setting, observer)
    for step in story.steps:
        do(group, step)
        if group.wrong is not None:
            break
    return group.verdict() or group.settle()


def do(group: LiveGroup, step: str) -> None:
    """Take one step, if it is possible."""
    word, *numbers = step.split()
    args = [int(number) for number in numbers]
    if word == "split":
        group.split(args)
    elif word == "calm":
        group.calm()
    elif word == "lose":
        p, q, count = args
        group.lose(p, q, min(count, len(group.inbox[p][q])))
    elif args[0] not in group.gone:
        _do_alone(group, word, args[0]) if len(args) == 1 else _do_with(group, word, *args)


def _do_alone(group: LiveGroup, word: str, p: int) -> None:
    for timer in TIMERS:
        if timer == word:
            group.pass_timer(p, timer)
    if word == "crash":
        group.crash(p)
    elif word in ("data", "leave") and not group.members[p].closed:
        getattr(group, word)(p)


def _do_with(group: LiveGroup, word: str, p: int, q: int, number: int = 0) -> None:
    """Take a step that involves another process."""
    if word == "break":
        group.break_with(p, q)
    elif word == "attempt":
        if q not in group.gone and group.reaches(p, q):
            group.attempt(p, q)
    elif word in ("send", "large"):
        if not group.members[p].closed:
            getattr(group, word)(p, q % len(Service))
    elif word == "whisper":
        if not group.members[p].closed and group.ids[q] in group.members[p].view.members:
            group.whisper(p, q, number % len(Service))
    elif word == "late":
        if number < len(group.sent[q]) and group.reaches(p, q):
            group.late(p, q, number)
    elif word == "fetch":
        for place, packets in group.wanted(p):
            if place == (group.ids[q], number):
                group.fetch(p, place, packets)
    elif group.inbox[p][q] and group.reaches(p, q):
        getattr(group, word)(p, q)


def shrunk(story: Story, fails: Callable[[Story], bool], runs_max: int = 2_000) -> Story:
    """A story that fails too, with as few steps as leaving some out can make it."""
    steps, size, runs = list(story.steps), max(1, len(story.steps) // 2), 0
    while size:
        at, helped = 0, False
        while at < len(steps) and runs < runs_max:
            fewer = steps[:at] + steps[at + size :]
            runs += 1
            if fails(msgspec.structs.replace(story, steps=tuple(fewer))):
                steps, helped = fewer, True
            else:
                at += size
        if not helped or size > 1:
            size //= 2
    return msgspec.structs.replace(story, steps=tuple(steps))


# ------------------------------------------------------------------ files


def load(path: Path) -> Story:
    """The story in a file; FileError if it is none."""
    return parse(path.read_text(encoding="utf-8"), str(path))


def parse(text: str, file: str = "story") -> Story:
    """The story in a text; `file` is only for the error messages."""
    setting: dict[str, str] = {}
    about: list[str] = []
    steps: list[tuple[int, list[str]]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if line.startswith("#"):
            about.append(line[1:].strip())
        elif words and (words[0] in _HEAD or words == ["calm", "throughout"]):
            setting[words[0]] = " ".join(words[1:])
        elif words:
            steps.append((number, words))
    begun = _setting(setting, file)
    size = sum(map(len, begun.components))
    for number, words in steps:
        _check(file, number, words, size)
    return Story(begun, tuple(" ".join(words) for _, words in steps), "\n".join(about))


def _setting(setting: dict[str, str], file: str) -> Setting:
    try:
        components = [[int(p) for p in part.split()] for part in setting["boot"].split("|")]
        service = Service[setting["service"].upper()]
        changes = int(setting["changes"]) if "changes" in setting else None
        hold = {"hold": True, "flow": False}[setting["mode"]]
    except (KeyError, ValueError):
        raise FileError(file, None, "it does not say how it begins", _BEGIN) from None
    members = sorted(p for part in components for p in part)
    if not all(components) or members != list(range(len(members))):
        remedy = "number the members from 0 and name each once, as in boot 0 1 2|3"
        raise FileError(file, None, f"nobody can boot so: {setting['boot']}", remedy)
    calm, small = "calm" in setting, setting.get("frames") == "small"
    return Setting(components, hold, service, changes, calm, small)


_HEAD = ("boot", "mode", "service", "changes", "frames")
_BEGIN = "begin with boot, mode (hold or flow) and service"


def _check(file: str, number: int, words: list[str], size: int) -> None:
    word, *numbers = words
    wanted = size if word == "split" else WORDS.get(word, -1)
    if len(numbers) != wanted or not all(given.isdecimal() for given in numbers):
        remedy = f"write split with a number for each member, or one of {', '.join(WORDS)}"
        raise FileError(file, number, f"no step: {' '.join(words)}", remedy)
    members = [] if word == "split" else numbers[: 1 if word in ("send", "large") else 2]
    if any(int(given) >= size for given in members):
        text = f"no such member: {' '.join(words)}"
        raise FileError(file, number, text, f"name members 0 to {size - 1}")


def text_of(story: Story) -> str:
    """The story as a file that `parse` turns into an equal one."""
    setting = story.setting
    boot = "|".join(" ".join(map(str, sorted(part))) for part in setting.components)
    mode = "hold" if setting.hold else "flow"
    lines = [f"# {line}" for line in story.about.splitlines()]
    lines += [f"boot {boot}", f"mode {mode}", f"service {setting.service.name.lower()}"]
    if setting.changes_max is not None:
        lines.append(f"changes {setting.changes_max}")
    if setting.calm:
        lines.append("calm throughout")
    if setting.small:
        lines.append("frames small")
    return "\n".join([*lines, "", *story.steps]) + "\n"
