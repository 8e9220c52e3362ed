"""Guided walks: schedules that chance alone seldom draws.

A plain walk (`walks`) draws every step from all that can happen. Most defects of a membership
protocol need a few messages to be late while many others are not, and suspicions that contradict
each other. A guided walk is drawn from policies that bring that about:

    order        links have priorities, changed at a few points (PCT); some links starve; one
                 receiver drains all its queues; some members are deaf to some others for a
                 while; or any link, by chance
    suspicions   storms of them; members that are deaf to the same ones suspect these together, as
                 members behind a bad link do; now and then any member any other
    network      splits that heal, lost packets, packets that arrive again much later
    groups       4 to 7 members that boot in one view, in two, in pairs or alone; joins at any time
    messages     of all services, in both modes
    calm         nobody alive is suspected and nothing is lost: no time-out may be needed (JN)

Where two ways are open, the walk is worth repeating: when all entries of a proposal have issued it
and one of them has outgrown it, some members may install it and others not. From the first such
step several branches go on with other orders (importance splitting). And stories that once showed
a defect are changed at random (`edits`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import msgspec

from phalanx.core.effects import Service
from phalanx.explore import stories
from phalanx.explore.crowd import Crowd, Setting
from phalanx.explore.edits import edited
from phalanx.explore.histories import Finding
from phalanx.explore.stories import Story

BRANCHES = 3
FLUSHED = 60
"""So many packets arrive at the end of a walk that is not settled."""
SETTLED = 0.3
"""So much of the walks is settled, which takes longer than the walk; calm ones always."""
EDITED = 0.15
"""So much of the walks are edited stories, where there are some."""

KINDS = {
    "deliver": 0.62,
    "send": 0.08,
    "suspect": 0.06,
    "fetch": 0.06,
    "meet": 0.05,
    "collect": 0.05,
    "ack": 0.03,
    "late": 0.03,
    "disturb": 0.02,
}
"""What can happen, and how often on average."""
SWARM = (0.2, 1.0, 1.0, 4.0)
"""A walk has much of some kinds and little of others."""


class Walked(msgspec.Struct, frozen=True):
    """A walk and what went wrong in it."""

    seed: int
    branch: int
    story: Story
    finding: Finding | None


class _Policy:
    """In which order packets arrive."""

    def __init__(self, dice: Random, n: int, steps: int) -> None:
        self._dice = dice
        links = [(p, q) for p in range(n) for q in range(n) if p != q]
        self._priority = {link: dice.random() for link in links}
        for link in dice.sample(links, dice.choice((0, 0, 1, 2, n))):
            self._priority[link] -= 1  # it starves
        self._greed = dice.choice((0.0, 0.5, 0.8, 0.95, 1.0))
        self._drains = dice.random() < 0.2
        self._turns = {dice.randrange(steps) for _ in range(dice.randrange(7))}
        self._n = n
        self._parts = dice.random() < 0.6
        self.deaf: list[int] = []
        self.mute: list[int] = []
        """The deaf do not hear the mute."""
        self._part()

    def turn(self, step: int) -> None:
        """At a few points priorities change, and who is deaf to whom."""
        if step in self._turns:
            links, dice = sorted(self._priority), self._dice
            for link in dice.sample(links, max(1, len(links) // 3)):
                self._priority[link] = dice.random() - dice.choice((0, 0, 1))
            self._part()

    def _part(self) -> None:
        dice = self._dice
        self.deaf, self.mute = [], []
        if self._parts and dice.random() < 0.8:
            order = list(range(self._n))
            dice.shuffle(order)
            k = dice.randrange(1, self._n)
            self.deaf, rest = order[:k], order[k:]
            self.mute = rest[: dice.randrange(1, len(rest) + 1)]

    def is_open(self, way: tuple[int, int]) -> bool:
        return way[0] not in self.deaf or way[1] not in self.mute

    def choose(self, ways: list[tuple[int, int]]) -> tuple[int, int]:
        ways = [way for way in ways if self.is_open(way)] or ways
        if self._dice.random() < self._greed:
            if self._drains:
                return max(ways, key=lambda way: (way[0], self._priority[way]))
            return max(ways, key=self._priority.__getitem__)
        return self._dice.choice(ways)


class Guided:
    """The guided walk of a seed."""

    def __init__(self, seed: int, branch: int = 0, lo: int = 4, hi: int = 7) -> None:
        dice = Random(f"guided {seed}")
        n = dice.randrange(lo, hi + 1)
        self._calm = dice.random() < 0.2
        self._wild = dice.random() < 0.4
        hold = dice.random() < 0.3
        service = dice.choice((Service.CAUSAL, Service.AGREED, Service.SAFE))
        self.setting = Setting(_boots(dice, n), hold, service, None, self._calm)
        self._steps = dice.randrange(10, (60 if self._wild else 35) * n)
        self._suspicions = (
            0 if self._calm else dice.randrange(4, 13) if self._wild else (dice.randrange(5))
        )
        self._crashes = dice.choice((0, 0, 0, 1, 2))
        self._sends = dice.choice((0, 2, 4, 8))
        self._attempts = dice.choice((0, 0, 1, 3, 6))
        self._leaves = dice.choice((0, 0, 0, 1))
        self._losses = 0 if self._calm else dice.choice((0, 0, 2, 8))
        self._late = dice.choice((0, 0, 3))
        self._splits = 0 if self._calm else dice.choice((0, 0, 0, 1, 2))
        self._time_outs = 0 if self._calm else dice.choice((0, 0, 1, 3))
        self._settles = self._calm or dice.random() < SETTLED
        self._weights = [weight * dice.choice(SWARM) for weight in KINDS.values()]
        self._branch = branch
        self._seed = seed
        self._dice = dice
        self.torn_at: int | None = None
        """The first step after which some members could install what others have outgrown."""

    def run(self, prefix: Sequence[str] = ()) -> Walked:
        """Walk. A branch takes the steps of `prefix` first, then its own way."""
        crowd = Crowd(self.setting)
        for done in prefix:
            stories.do(crowd, done)
        dice = self._dice
        if self._branch:
            dice = self._dice = Random(f"guided {self._seed} branch {self._branch}")
        policy = _Policy(dice, crowd.n, self._steps)
        for step in range(len(crowd.steps), self._steps):
            if crowd.wrong is not None or not crowd.live():
                break
            policy.turn(step)
            self._step(crowd, policy)
            if self.torn_at is None and not prefix and _is_torn(crowd):
                self.torn_at = len(crowd.steps)
        self._finish(crowd, policy)
        story = Story(self.setting, tuple(crowd.steps))
        found = crowd.verdict()
        if found is None and self._settles:
            found = crowd.settle()
        return Walked(self._seed, self._branch, story, found)

    def _finish(self, crowd: Crowd, policy: _Policy) -> None:
        """Most of what is on its way arrives."""
        if not self._settles:
            crowd.split([0] * crowd.n)
            policy.deaf.clear()
            for _ in range(FLUSHED):
                if crowd.wrong is None:
                    self._deliver(crowd, policy)

    def _step(self, crowd: Crowd, policy: _Policy) -> None:
        (kind,) = self._dice.choices(tuple(KINDS), self._weights)
        if not self._try(kind, crowd, policy):
            self._deliver(crowd, policy)

    def _try(self, kind: str, crowd: Crowd, policy: _Policy) -> bool:
        """Do something of this kind, if anything of it can be done now."""
        dice = self._dice
        p = dice.choice(crowd.live())
        match kind:
            case "suspect":
                self._suspect(crowd, policy, p)
            case "send" if self._sends and not crowd.members[p]._closed:
                self._sends -= 1
                crowd.send(p, dice.randrange(4))
            case "meet":
                self._meet(crowd, p)
            case "collect":
                collecting = [q for q in crowd.live() if crowd.members[q].stage == "COLLECTING"]
                if not collecting:
                    return False
                crowd.pass_timer(dice.choice(collecting), "collect")
            case "disturb":
                self._disturb(crowd, p)
            case "ack":
                crowd.pass_timer(p, "ack")
            case "late" if self._late:
                q = dice.choice([q for q in range(crowd.n) if q != p])
                if crowd.sent[q] and crowd.reaches(p, q):
                    self._late -= 1
                    crowd.late(p, q, dice.randrange(len(crowd.sent[q])))
            case "fetch" if crowd.members[p].missing():
                wanted = crowd.wanted(p)
                if wanted:
                    crowd.fetch(p, *dice.choice(wanted))
            case _:
                return False
        return True

    def _deliver(self, crowd: Crowd, policy: _Policy) -> None:
        ways = [
            (p, q)
            for p in crowd.live()
            for q in range(crowd.n)
            if crowd.inbox[p][q] and crowd.reaches(p, q)
        ]
        if ways:
            p, q = policy.choose(ways)
            if self._losses and self._dice.random() < 0.05:
                self._losses -= 1
                crowd.drop(p, q)
            else:
                crowd.deliver(p, q)

    def _suspect(self, crowd: Crowd, policy: _Policy, p: int) -> None:
        dice = self._dice
        if self._suspicions and policy.deaf and not self._calm and dice.random() < 0.7:
            q = dice.choice(policy.mute)
            self._suspicions -= 1
            for deaf in policy.deaf:
                if deaf not in crowd.gone and dice.random() < 0.8:
                    crowd.break_with(deaf, q)
            return
        known = sorted(crowd.index[m] for m in crowd.members[p].known)
        if self._calm:
            known = [q for q in known if q in crowd.gone]
        if not known or not (self._calm or self._suspicions):
            return
        q = dice.choice(known)
        self._suspicions -= 0 if self._calm else 1
        crowd.break_with(p, q)
        if not self._calm and dice.random() < 0.5:  # real faults are seen by several
            others = [r for r in crowd.live() if r not in (p, q)]
            if others:
                crowd.break_with(dice.choice(others), q)

    def _meet(self, crowd: Crowd, p: int) -> None:
        view = crowd.members[p].view.members
        near = [q for q in crowd.live() if crowd.reaches(p, q) and crowd.ids[q] not in view]
        if self._attempts and near and not crowd.members[p].busy:
            self._attempts -= 1
            crowd.attempt(p, self._dice.choice(near))

    def _disturb(self, crowd: Crowd, p: int) -> None:
        dice = self._dice
        what = dice.choice(("crash", "leave", "split", "heal", "time"))
        if what == "crash" and self._crashes and len(crowd.live()) > 2:
            self._crashes -= 1
            crowd.crash(p)
            for q in crowd.live():
                crowd.lose(q, p, dice.randrange(len(crowd.inbox[q][p]) + 1))
        elif what == "leave" and self._leaves and not crowd.members[p]._closed:
            self._leaves -= 1
            crowd.leave(p)
        elif what == "split" and self._splits:
            self._splits -= 1
            crowd.split([dice.randrange(2) for _ in range(crowd.n)])
        elif what == "heal" and len(set(crowd.side)) > 1:
            crowd.split([0] * crowd.n)
        elif what == "time" and self._time_outs and crowd.members[p].busy:
            self._time_outs -= 1
            crowd.pass_timer(p, "answer")


def _is_torn(crowd: Crowd) -> bool:
    """Whether a proposal was issued by all its entries and outgrown by one of them."""
    protocols = [crowd.members[p]._protocol for p in crowd.live()]
    for protocol in protocols:
        for proposal in protocol.issued[:-1]:
            said = [q for q in protocols if proposal in q.issued or q.view == proposal.view]
            if len(said) >= len(proposal.entries):
                return True
    return False


def _boots(dice: Random, n: int) -> list[list[int]]:
    """Who boots together: all, two parts, pairs, or everybody alone."""
    order = list(range(n))
    dice.shuffle(order)
    match dice.choice(("one", "one", "one", "two", "two", "pairs", "alone")):
        case "one":
            return [order]
        case "two":
            k = dice.randrange(1, n)
            return [order[:k], order[k:]]
        case "pairs":
            return [order[i : i + 2] for i in range(0, n, 2)]
        case _:
            return [[p] for p in order]


def walks(seeds: range, lo: int = 4, hi: int = 7, corpus: Sequence[Story] = ()) -> Iterator[Walked]:
    """The walks of these seeds, each with its branches."""
    for seed in seeds:
        dice = Random(f"edit {seed}")
        if corpus and dice.random() < EDITED:
            story = edited(dice.choice(corpus), dice)
            yield Walked(seed, 0, story, stories.play(story))
            continue
        first = Guided(seed, 0, lo, hi)
        walked = first.run()
        yield walked
        if walked.finding is None and first.torn_at is not None:
            prefix = walked.story.steps[: first.torn_at]
            for branch in range(1, BRANCHES + 1):
                yield Guided(seed, branch, lo, hi).run(prefix)
