"""Stories changed at random: what nearly happened.

A story in which a rule once mattered lies near others in which it does, and near some in which
something else goes wrong. Walks seldom come there; a few steps added, left out or moved do.
"""

from __future__ import annotations

from random import Random

import msgspec

from phalanx.core.effects import Service
from phalanx.explore.stories import Story

STEPS_MAX = 260
EDITS = (1, 1, 2, 3, 5, 8)
SERVICES = (Service.CAUSAL, Service.AGREED, Service.SAFE)


def edited(story: Story, dice: Random) -> Story:
    """A story with some steps changed, and now and then in another mode or with another service.
    How many view changes there is cause for is not known any more, nor whether a time-out is
    needed."""
    setting = msgspec.structs.replace(story.setting, changes_max=None, calm=False)
    size = sum(map(len, setting.components))
    steps = list(story.steps)
    for _ in range(dice.choice(EDITS)):
        _edit(steps, size, dice)
    if dice.random() < 0.2:
        setting = msgspec.structs.replace(setting, hold=not setting.hold)
    if dice.random() < 0.2:
        setting = msgspec.structs.replace(setting, service=dice.choice(SERVICES))
    return Story(setting, tuple(steps[:STEPS_MAX]))


def _edit(steps: list[str], size: int, dice: Random) -> None:
    at = dice.randrange(len(steps) + 1)
    match dice.choice(("add", "add", "leave out", "move")):
        case "add":
            steps.insert(at, _step(size, dice))
        case "leave out":
            del steps[at : at + dice.choice((1, 1, 2, 3))]
        case "move" if at < len(steps):
            step = steps.pop(at)
            steps.insert(max(0, at + dice.randrange(-8, 9)), step)


def _step(size: int, dice: Random) -> str:
    """Something that can happen to anybody."""
    p = dice.randrange(size)
    q = dice.choice([other for other in range(size) if other != p] or [p])
    sides = " ".join(str(dice.randrange(2)) for _ in range(size))
    words = (
        f"data {p}",
        f"send {p} {dice.randrange(4)}",
        f"late {p} {q} {dice.randrange(8)}",
        f"break {p} {q}",
        f"attempt {p} {q}",
        f"ack {p}",
        f"collect {p}",
        f"answer {p}",
        f"deliver {p} {q}",
        f"deliver {p} {q}",
        f"deliver {p} {q}",
        f"drop {p} {q}",
        f"lose {p} {q} 1",
        f"split {sides}",
        "split " + " ".join("0" * size),
        "calm",
    )
    return dice.choice(words)
