"""Random walks of small groups: one schedule drawn from a seed.

`search` follows every step; a walk follows one, so the group may be larger and the schedule longer:
messages, splits and heals, crashes, leaves, false suspicions, attempts to join, lost packets, slow
links, early time-outs. Then the network heals and the group must settle (`live_group`). Findings
have the codes of `check_codes`. `models/membership3.py` walks a model of the membership rules in
the same way; this module walks the product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from phalanx.core.effects import Service
from phalanx.explore import story as stories
from phalanx.explore.journal_observer import JournalObserver
from phalanx.explore.live_group import LiveGroup, Setting
from phalanx.explore.member_history import Finding
from phalanx.explore.story import Story
from phalanx.sim.mutation_testing import SeedOutcome

STEPS_MAX = 200
SERVICES = (Service.AGREED, Service.AGREED, Service.SAFE, Service.CAUSAL)

Chance = tuple[float, Callable[[], None]]
"""The weight of a step against the others, and the function that takes it."""


class Walk:
    """The walk of a seed, with groups of lo to hi: the same in every process."""

    def __init__(
        self, seed: int, lo: int = 2, hi: int = 5, observer: JournalObserver | None = None
    ) -> None:
        rng = self._rng = Random(f"walk {seed}")
        n = rng.randrange(lo, hi + 1)
        components, hold = _components(rng, n), rng.random() < 0.25
        self.setting = Setting(components, hold, rng.choice(SERVICES))
        self.group = LiveGroup(self.setting, observer)
        self._messages = rng.randrange(12)
        self._suspicions = rng.randrange(4)
        self._crashes = rng.choice((0, 0, 1))
        self._splits = rng.choice((0, 1, 1, 2, 3))
        self._goodbyes = rng.choice((0, 0, 0, 1))
        self._attempts = rng.randrange(1, 7)
        self._losses = rng.choice((0, 0, 2, 6))
        self._time_outs = rng.choice((0, 0, 1, 2))
        self._calms = rng.choice((0, 0, 1, 2))
        self._speed = [[rng.choice((1.0, 1.0, 1.0, 0.15)) for _ in range(n)] for _ in range(n)]

    def run(self) -> Finding | None:
        """The first violation, or None. Afterwards `story` is the schedule of the walk."""
        rng, group = self._rng, self.group
        for _ in range(rng.randrange(8, STEPS_MAX)):
            chances = list(self._chances())
            if not chances:
                break
            rng.choices([do for _, do in chances], [weight for weight, _ in chances])[0]()
            if group.wrong is not None:
                break
        self.story = Story(self.setting, tuple(group.steps))
        return group.verdict() or group.settle()

    # -------------------------------------------------------------- possible steps

    def _chances(self) -> Iterator[Chance]:
        group = self.group
        for p in group.live():
            yield from self._arrivals(p)
            if not group.members[p].closed:
                yield from self._own(p)
                yield from self._breaks(p)
                yield from self._greetings(p)
        if self._calms:
            yield 0.06, self._calm
        if self._splits:
            yield 0.08, self._split
        if len(set(group.side)) > 1:
            yield 0.12, self._heal

    def _arrivals(self, p: int) -> Iterator[Chance]:
        group = self.group
        for q in range(group.n):
            if group.inbox[p][q] and group.reaches(p, q):
                yield self._speed[q][p], lambda q=q: group.deliver(p, q)  # type: ignore[misc]
                if self._losses:
                    yield 0.04, lambda q=q: self._drop(p, q)  # type: ignore[misc]
        if group.members[p].missing():
            yield 0.5, lambda: self._fetch(p)

    def _own(self, p: int) -> Iterator[Chance]:
        group, member = self.group, self.group.members[p]
        yield 0.05, lambda: group.pass_timer(p, "ack")
        if self._messages:
            yield 0.2, lambda: self._data(p)
        if member.stage == "COLLECTING":
            yield 0.25, lambda: group.pass_timer(p, "collect")
        if self._time_outs and member.busy:
            yield 0.03, lambda: self._time_out(p)
        if self._crashes:
            yield 0.02, lambda: self._crash(p)
        if self._goodbyes:
            yield 0.03, lambda: self._leave(p)

    def _breaks(self, p: int) -> Iterator[Chance]:
        group = self.group
        for who in sorted(group.members[p].known):
            q = group.index[who]
            if q in group.gone or not group.reaches(p, q):
                yield 0.25, lambda q=q: group.break_with(p, q)  # type: ignore[misc]
            elif self._suspicions:
                yield 0.04, lambda q=q: self._suspect(p, q)  # type: ignore[misc]

    def _greetings(self, p: int) -> Iterator[Chance]:
        group, member = self.group, self.group.members[p]
        if self._attempts and not member.busy:
            for q in group.live():
                if group.reaches(p, q) and group.ids[q] not in member.view.members:
                    yield 0.15, lambda q=q: self._attempt(p, q)  # type: ignore[misc]

    # -------------------------------------------------------------- disturbances

    def _data(self, p: int) -> None:
        self._messages -= 1
        self.group.data(p)

    def _drop(self, p: int, q: int) -> None:
        self._losses -= 1
        self.group.drop(p, q)

    def _fetch(self, p: int) -> None:
        found = self.group.wanted(p)
        if found:
            self.group.fetch(p, *self._rng.choice(found))

    def _suspect(self, p: int, q: int) -> None:
        self._suspicions -= 1
        self.group.break_with(p, q)

    def _attempt(self, p: int, q: int) -> None:
        self._attempts -= 1
        self.group.attempt(p, q)

    def _time_out(self, p: int) -> None:
        self._time_outs -= 1
        self.group.pass_timer(p, "answer")

    def _leave(self, p: int) -> None:
        self._goodbyes -= 1
        self.group.leave(p)

    def _crash(self, p: int) -> None:
        """Crash p; each other process loses some of the last packets of p."""
        self._crashes -= 1
        self.group.crash(p)
        for q in self.group.live():
            self.group.lose(q, p, self._rng.randrange(len(self.group.inbox[q][p]) + 1))

    def _calm(self) -> None:
        """Let the group become quiet, then allow some more disturbances."""
        rng = self._rng
        self._calms -= 1
        self.group.calm()
        self._messages += rng.randrange(4)
        self._suspicions += rng.randrange(2)
        self._attempts += rng.randrange(3)

    def _split(self) -> None:
        """Split the network; packets in flight to the other side are late or lost."""
        group, rng = self.group, self._rng
        self._splits -= 1
        group.split([rng.randrange(2) for _ in range(group.n)])
        for p in range(group.n):
            for q in range(group.n):
                if not group.reaches(p, q) and rng.random() < 0.5:
                    group.lose(p, q, len(group.inbox[p][q]))

    def _heal(self) -> None:
        self.group.split([0] * self.group.n)


def play(what: int | Path) -> SeedOutcome:
    """Run the walk of a seed, or a story in a file, and return only how it ended."""
    if isinstance(what, int):
        walk = Walk(what)
        finding, size = walk.run(), walk.group.n
    else:
        story = stories.load(what)
        finding, size = stories.play(story), sum(map(len, story.setting.components))
    return SeedOutcome(() if finding is None else (finding.check,), size)


def _components(rng: Random, n: int) -> list[list[int]]:
    """Draw the processes that boot together."""
    order = list(range(n))
    rng.shuffle(order)
    often = rng.choice((0.0, 0.3, 0.6))
    components: list[list[int]] = [[]]
    for p in order:
        if components[-1] and rng.random() < often:
            components.append([])
        components[-1].append(p)
    return components
