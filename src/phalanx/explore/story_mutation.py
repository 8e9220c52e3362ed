"""Random mutations of stories.

A story in which a rule once mattered is close to others in which it does, and to some that violate
another rule. Walks seldom reach these; a few steps added, removed or moved do.
"""

from __future__ import annotations

from random import Random

import msgspec

from phalanx.core.effects import Service
from phalanx.explore.story import Story

STEPS_MAX = 260
EDITS = (1, 1, 2, 3, 5, 8)
SERVICES = (Service.CAUSAL, Service.AGREED, Service.SAFE)


def edited(story: Story, rng: Random) -> Story:
    """A story with some steps changed, and now and then in another mode or with another service.
    How many view changes there is cause for is not known any more, nor whether a time-out is
    needed."""
    setting = msgspec.structs.replace(story.setting, changes_max=None, calm=False)
    size = sum(map(len, setting.components))
    steps = list(story.steps)
    for _ in range(rng.choice(EDITS)):
        _edit(steps, size, rng)
    if rng.random() < 0.2:
        setting = msgspec.structs.replace(setting, hold=not setting.hold)
    if rng.random() < 0.2:
        setting = msgspec.structs.replace(setting, service=rng.choice(SERVICES))
    return Story(setting, tuple(steps[:STEPS_MAX]))


def _edit(steps: list[str], size: int, rng: Random) -> None:
    at = rng.randrange(len(steps) + 1)
    match rng.choice(("add", "add", "leave out", "move")):
        case "add":
            steps.insert(at, _step(size, rng))
        case "leave out":
            del steps[at : at + rng.choice((1, 1, 2, 3))]
        case "move" if at < len(steps):
            step = steps.pop(at)
            steps.insert(max(0, at + rng.randrange(-8, 9)), step)


def _step(size: int, rng: Random) -> str:
    """A random step."""
    p = rng.randrange(size)
    q = rng.choice([other for other in range(size) if other != p] or [p])
    sides = " ".join(str(rng.randrange(2)) for _ in range(size))
    words = (
        f"data {p}",
        f"send {p} {rng.randrange(4)}",
        f"whisper {p} {q} {rng.randrange(4)}",
        f"late {p} {q} {rng.randrange(8)}",
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
    return rng.choice(words)
