"""Guided walks: random schedules directed at orders that uniform draws seldom produce.

A plain walk (`random_walk`) draws every step from all possible ones. Most defects of a membership
protocol need a few messages to be late while many others are not, and suspicions that contradict
each other. A guided walk goes in rounds. In each, packets arrive by a policy (`schedule_policy`:
priorities of links with change points, deaf and mute members, blocked links, bursts), and a few
disturbances are inserted: suspicions, mostly of several members together, joins, crashes, splits,
lost and late packets, messages of all services in both modes. Each tree draws its own weights of
the disturbances, so that it has many of some kinds and none of others (swarm testing).

The walks of a seed are a tree: after a round several branches may continue, each with a policy of
its own. It grows where a member could install one of two proposals (`walk_branch`), because there
only the rules keep members together (importance splitting). A walk ends when all packets in flight
have arrived, or when an undecided member has received everything there is; some are settled. In
calm trees no live member is suspected and nothing is lost, all walks are settled, and no time-out
may be needed (JN). Some trees are random mutations of stories that once showed a defect
(`story_mutation`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import msgspec

from phalanx.core.effects import Service
from phalanx.explore import story as stories
from phalanx.explore.disturbances import Disturbances, ready_links
from phalanx.explore.live_group import LiveGroup, Setting
from phalanx.explore.member_history import Finding
from phalanx.explore.schedule_policy import Policy
from phalanx.explore.story import Story
from phalanx.explore.story_mutation import edited
from phalanx.explore.walk_branch import AT_RISK, OPEN, UNDECIDED, Branch

STEPS_MAX = 120
"""After so many steps no further round begins."""
FLUSHED, HEARD = 90, 40
"""So many packets arrive at the end of a walk: at all members, or at an undecided one."""
CALM = 0.15
SETTLED = 0.1
"""So much of the walks is settled, which takes longer than the walk; calm ones always."""
ENDED = 0.3
"""So many branches without undecided members are walked to an end, and the first one."""
EDITED, EDITIONS = 0.15, 8
"""So many trees are edited stories instead, where there are some; of one story so many."""
SMALL_SHARE = 0.1
"""So many trees have small frames, and large messages that leave in parts."""
FORGOTTEN = (0, 1, 1, 2)
"""So many attempts to join are made before the first round; most are given up at once."""


class Walked(msgspec.Struct, frozen=True):
    """A walk and what went wrong in it."""

    seed: int
    branch: int
    story: Story
    finding: Finding | None


class WalkTree:
    """The guided walks of a seed."""

    def __init__(self, seed: int, lo: int = 4, hi: int = 7) -> None:
        self._seed = seed
        rng = self._rng = Random(f"guided {seed}")
        self._calm = rng.random() < CALM
        n = min(rng.randrange(lo, hi + 1), rng.randrange(lo, hi + 1))
        self._n = n = min(n, rng.randrange(lo, hi + 1)) if self._calm else n
        service = rng.choice((Service.CAUSAL, Service.AGREED, Service.SAFE))
        hold, small = rng.random() < 0.3, rng.random() < SMALL_SHARE
        self.setting = Setting(_boots(rng, n, self._calm), hold, service, None, self._calm, small)
        self._rounds = rng.choice((2, 3, 3, 4, 4, 5, 6))
        self._budget = 6 if self._calm else rng.choice((8, 8, 25, 80))
        self._disturbances = Disturbances(rng, self._calm, self.setting.small)
        self._ended = 0
        self.undecided = 0
        """Rounds after which some members were undecided."""

    def walks(self) -> Iterator[Walked]:
        """Every walk, as it ends. The one in which something is found is the last."""
        branch, policy = Branch(LiveGroup(self.setting)), Policy(self._rng, self._n)
        for _ in range(self._rng.choice(FORGOTTEN)):
            self._disturbances.meet(branch.group, policy, 0.8)
        branch.observe()
        for walked in self._grow(branch, policy, 0, 0):
            yield walked
            if walked.finding is not None:
                return

    # -------------------------------------------------------------- the tree

    def _grow(self, branch: Branch, policy: Policy, depth: int, best: int) -> Iterator[Walked]:
        """A round, and what may follow. `best`: how near to a violation the tree has come here."""
        rng = self._rng
        self._round(branch, policy, best)
        wrong = branch.group.verdict()
        if wrong is not None:
            yield self._walked(branch, wrong)
            return
        undecided, nearness = branch.undecided()
        self.undecided += bool(undecided)
        more = 4 if nearness >= AT_RISK else min(nearness, 1)
        if depth + 1 >= self._rounds + more or len(branch.group.steps) > STEPS_MAX:
            yield from self._finish(branch, policy, undecided, nearness)
            return
        width = rng.choice((1, 1, 2))
        if nearness > best:
            width = rng.choice((4, 6, 8)) if nearness >= AT_RISK else nearness + 1
        elif nearness >= UNDECIDED:
            width = rng.choice((1, 2, 3))
        if self._ended > self._budget:
            width = 1
        for child in branch.branches(width):
            yield from self._grow(child, policy.next(), depth + 1, max(best, nearness))

    def _finish(
        self, branch: Branch, policy: Policy, undecided: list[int], nearness: int
    ) -> Iterator[Walked]:
        if not undecided:
            if self._calm or not self._ended or self._rng.random() < ENDED:
                yield self._flush(branch, policy)
            return
        for child in branch.branches(2 if nearness == UNDECIDED else 6):
            yield self._hear(child, policy.next(), undecided)

    def _walked(self, branch: Branch, wrong: Finding | None) -> Walked:
        """The walk ends here."""
        group = branch.group
        self._ended += 1
        story = Story(self.setting, tuple(group.steps))
        if wrong is None and (self._calm or self._rng.random() < SETTLED):
            wrong = group.settle()
        return Walked(self._seed, self._ended - 1, story, wrong)

    # -------------------------------------------------------------- how a walk goes on and ends

    def _round(self, branch: Branch, policy: Policy, best: int) -> None:
        """Packets arrive, and a few disturbances are inserted, or come first."""
        rng, group = self._rng, branch.group
        count, moves = rng.choice((1, 2, 2, 3, 4)), rng.choice((2, 5, 10, 18, 30))
        if best == OPEN:
            count, moves = rng.choice((1, 1, 2, 3)), rng.choice((1, 2, 4, 8, 18))
        elif best >= AT_RISK:
            count, moves = rng.choice((0, 1, 1, 2)), rng.choice((1, 2, 4, 8, 12))
        early = rng.random() < 0.5
        at = sorted(0 if early else rng.randrange(moves + 1) for _ in range(count))
        for move in range(moves + 1):
            while at and at[0] <= move:
                at.pop(0)
                self._disturbances.happen(group, policy, best)
                branch.observe()
            ready = [link for link in ready_links(group, policy.links) if policy.is_open(link)]
            if group.wrong is not None or not (ready or at):
                return
            if ready:
                group.deliver(*policy.choose(ready))
                branch.observe()

    def _flush(self, branch: Branch, policy: Policy) -> Walked:
        """Everything arrives, in some order, perhaps with a disturbance in between."""
        rng, group = self._rng, branch.group
        if len(set(group.side)) > 1:
            group.split([0] * group.n)
        if rng.random() < 0.5:
            rng.shuffle(policy.links)
        count = rng.choice((0, 0, 1, 1, 2))
        patient = not self._calm and rng.random() < 0.5
        for _ in range(FLUSHED):
            if group.wrong is not None:
                break
            if count and rng.random() < 0.1:
                count -= 1
                self._disturbances.happen(group, policy)
                continue
            ready = ready_links(group, policy.links)
            if ready:
                group.deliver(*ready[0])
                if rng.random() < 0.1:
                    policy.demote(ready[0])
            elif not self._wake(group) and not (patient and self._give_up(group)):
                break
        return self._walked(branch, group.verdict())

    def _wake(self, group: LiveGroup) -> bool:
        """Nothing is on its way: somebody fetches what it lacks, or ends its collection."""
        for p in group.live():
            wanted = group.wanted(p) if group.members[p].missing() else []
            if wanted:
                before = group.members[p].missing()
                group.fetch(p, *wanted[0])
                if p in group.gone or group.members[p].missing() != before:
                    return True
            elif group.members[p].stage == "COLLECTING":
                group.pass_timer(p, "collect")
                return True
        return False

    def _give_up(self, group: LiveGroup) -> bool:
        """Nothing else can happen: somebody waits no longer for an answer."""
        busy = [p for p in group.live() if group.members[p].busy]
        if not busy or len(group.steps) > 2 * STEPS_MAX:
            return False
        group.pass_timer(self._rng.choice(busy), "answer")
        return True

    def _hear(self, branch: Branch, policy: Policy, undecided: list[int]) -> Walked:
        """An undecided member hears what there is, in some order, perhaps disturbed."""
        rng, group = self._rng, branch.group
        p = rng.choice(undecided)
        hearers = {p, rng.choice(group.live())} if rng.random() < 0.5 else {p}
        links = [link for link in policy.links if link[0] in hearers]
        rng.shuffle(links)
        if len(set(group.side)) > 1:
            group.split([0] * group.n)
        count = rng.choice((0, 1, 1, 2))
        for _ in range(HEARD):
            if group.wrong is not None:
                break
            if count and rng.random() < 0.15:
                count -= 1
                if self._calm or rng.random() < 0.4 or p in group.gone:
                    self._disturbances.happen(group, policy)
                else:
                    self._disturbances.suspect_any(group, p)
                continue
            ready = ready_links(group, links)
            if ready:
                group.deliver(*ready[0])
                if rng.random() < 0.15:
                    links.remove(ready[0])
                    links.append(ready[0])
            elif rng.random() < 0.3 or not self._disturbances.fetch(group, policy):
                break
        return self._walked(branch, group.verdict())


def _boots(rng: Random, n: int, calm: bool) -> list[list[int]]:
    """Who boots together: all, all but one, or two or three parts, or pairs, or nobody. Of calm
    groups few boot in one view: what happens there are joins."""
    order = list(range(n))
    rng.shuffle(order)
    kinds = ("one", "one", "one", "most", "most", "two", "two", "three", "pairs", "alone")
    match rng.choice((*kinds[2:], "alone", "alone") if calm else kinds):
        case "one":
            return [order]
        case "most":
            return [order[1:], order[:1]]
        case "pairs":
            return [order[i : i + 2] for i in range(0, n, 2)]
        case "alone":
            return [[p] for p in order]
        case parts:
            cuts = sorted(rng.sample(range(1, n), min(n - 1, 1 if parts == "two" else 2)))
            return [order[a:b] for a, b in zip([0, *cuts], [*cuts, n], strict=True)]


def walks(seeds: range, lo: int = 4, hi: int = 7, corpus: Sequence[Story] = ()) -> Iterator[Walked]:
    """The walks of these seeds."""
    for seed in seeds:
        rng = Random(f"edit {seed}")
        if corpus and rng.random() < EDITED:
            yield from _editions(seed, rng.choice(corpus), rng)
        else:
            yield from WalkTree(seed, lo, hi).walks()


def _editions(seed: int, known: Story, rng: Random) -> Iterator[Walked]:
    for number in range(EDITIONS):
        story = edited(known, rng)
        finding = stories.play(story)
        yield Walked(seed, number, story, finding)
        if finding is not None:
            return
