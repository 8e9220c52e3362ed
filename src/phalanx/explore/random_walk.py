"""Random walks of small groups: one way through what can happen, drawn from a seed.

Where `search` follows everything, a walk follows one way, so the group may be larger and the way
longer: messages, splits and heals, crashes, goodbyes, false suspicions, attempts to join, lost
packets, slow links, early time-outs. Then all heals, and the group must settle (`crowd`). What is
found has the names of `member_history` and `settle`. `models/membership3.py` walks a model of the
membership rules in the same way; this one walks the product.
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
from phalanx.sim.mutation_testing import Played

STEPS_MAX = 200
SERVICES = (Service.AGREED, Service.AGREED, Service.SAFE, Service.CAUSAL)

Chance = tuple[float, Callable[[], None]]
"""How likely something is, against the others, and how to do it."""


class Walk:
    """The walk of a seed, with groups of lo to hi: the same in every process."""

    def __init__(
        self, seed: int, lo: int = 2, hi: int = 5, scribe: JournalObserver | None = None
    ) -> None:
        rng = self._rng = Random(f"walk {seed}")
        n = rng.randrange(lo, hi + 1)
        components, hold = _components(rng, n), rng.random() < 0.25
        self.setting = Setting(components, hold, rng.choice(SERVICES))
        self.crowd = LiveGroup(self.setting, scribe)
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
        """What went wrong, None if nothing did. `told` is the way it took."""
        rng, crowd = self._rng, self.crowd
        for _ in range(rng.randrange(8, STEPS_MAX)):
            chances = list(self._chances())
            if not chances:
                break
            rng.choices([do for _, do in chances], [weight for weight, _ in chances])[0]()
            if crowd.wrong is not None:
                break
        self.told = Story(self.setting, tuple(crowd.steps))
        return crowd.verdict() or crowd.settle()

    # -------------------------------------------------------------- what can happen

    def _chances(self) -> Iterator[Chance]:
        crowd = self.crowd
        for p in crowd.live():
            yield from self._arrivals(p)
            if not crowd.members[p].closed:
                yield from self._own(p)
                yield from self._breaks(p)
                yield from self._greetings(p)
        if self._calms:
            yield 0.06, self._calm
        if self._splits:
            yield 0.08, self._split
        if len(set(crowd.side)) > 1:
            yield 0.12, self._heal

    def _arrivals(self, p: int) -> Iterator[Chance]:
        crowd = self.crowd
        for q in range(crowd.n):
            if crowd.inbox[p][q] and crowd.reaches(p, q):
                yield self._speed[q][p], lambda q=q: crowd.deliver(p, q)  # type: ignore[misc]
                if self._losses:
                    yield 0.04, lambda q=q: self._drop(p, q)  # type: ignore[misc]
        if crowd.members[p].missing():
            yield 0.5, lambda: self._fetch(p)

    def _own(self, p: int) -> Iterator[Chance]:
        crowd, member = self.crowd, self.crowd.members[p]
        yield 0.05, lambda: crowd.pass_timer(p, "ack")
        if self._messages:
            yield 0.2, lambda: self._data(p)
        if member.stage == "COLLECTING":
            yield 0.25, lambda: crowd.pass_timer(p, "collect")
        if self._time_outs and member.busy:
            yield 0.03, lambda: self._time_out(p)
        if self._crashes:
            yield 0.02, lambda: self._crash(p)
        if self._goodbyes:
            yield 0.03, lambda: self._leave(p)

    def _breaks(self, p: int) -> Iterator[Chance]:
        crowd = self.crowd
        for who in sorted(crowd.members[p].known):
            q = crowd.index[who]
            if q in crowd.gone or not crowd.reaches(p, q):
                yield 0.25, lambda q=q: crowd.break_with(p, q)  # type: ignore[misc]
            elif self._suspicions:
                yield 0.04, lambda q=q: self._suspect(p, q)  # type: ignore[misc]

    def _greetings(self, p: int) -> Iterator[Chance]:
        crowd, member = self.crowd, self.crowd.members[p]
        if self._attempts and not member.busy:
            for q in crowd.live():
                if crowd.reaches(p, q) and crowd.ids[q] not in member.view.members:
                    yield 0.15, lambda q=q: self._attempt(p, q)  # type: ignore[misc]

    # -------------------------------------------------------------- what costs

    def _data(self, p: int) -> None:
        self._messages -= 1
        self.crowd.data(p)

    def _drop(self, p: int, q: int) -> None:
        self._losses -= 1
        self.crowd.drop(p, q)

    def _fetch(self, p: int) -> None:
        found = self.crowd.wanted(p)
        if found:
            self.crowd.fetch(p, *self._rng.choice(found))

    def _suspect(self, p: int, q: int) -> None:
        self._suspicions -= 1
        self.crowd.break_with(p, q)

    def _attempt(self, p: int, q: int) -> None:
        self._attempts -= 1
        self.crowd.attempt(p, q)

    def _time_out(self, p: int) -> None:
        self._time_outs -= 1
        self.crowd.pass_timer(p, "answer")

    def _leave(self, p: int) -> None:
        self._goodbyes -= 1
        self.crowd.leave(p)

    def _crash(self, p: int) -> None:
        """Of what it sent last, each of the others loses an end."""
        self._crashes -= 1
        self.crowd.crash(p)
        for q in self.crowd.live():
            self.crowd.lose(q, p, self._rng.randrange(len(self.crowd.inbox[q][p]) + 1))

    def _calm(self) -> None:
        """All is quiet; then some things may happen again."""
        rng = self._rng
        self._calms -= 1
        self.crowd.calm()
        self._messages += rng.randrange(4)
        self._suspicions += rng.randrange(2)
        self._attempts += rng.randrange(3)

    def _split(self) -> None:
        """What is on its way to the other side gets there after the heal, or never."""
        crowd, rng = self.crowd, self._rng
        self._splits -= 1
        crowd.split([rng.randrange(2) for _ in range(crowd.n)])
        for p in range(crowd.n):
            for q in range(crowd.n):
                if not crowd.reaches(p, q) and rng.random() < 0.5:
                    crowd.lose(p, q, len(crowd.inbox[p][q]))

    def _heal(self) -> None:
        self.crowd.split([0] * self.crowd.n)


def play(what: int | Path) -> Played:
    """The walk of a seed, or a story in a file, for those who only want to know how it ended."""
    if isinstance(what, int):
        walk = Walk(what)
        finding, size = walk.run(), walk.crowd.n
    else:
        story = stories.load(what)
        finding, size = stories.play(story), sum(map(len, story.setting.components))
    return Played(() if finding is None else (finding.check,), size)


def _components(rng: Random, n: int) -> list[list[int]]:
    """Who boots together."""
    order = list(range(n))
    rng.shuffle(order)
    often = rng.choice((0.0, 0.3, 0.6))
    components: list[list[int]] = [[]]
    for p in order:
        if components[-1] and rng.random() < often:
            components.append([])
        components[-1].append(p)
    return components
