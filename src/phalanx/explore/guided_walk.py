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
from phalanx.explore.live_group import LiveGroup, Setting
from phalanx.explore.member_history import Finding
from phalanx.explore.schedule_policy import Link, Policy
from phalanx.explore.story import Story
from phalanx.explore.story_mutation import edited
from phalanx.explore.walk_branch import AT_RISK, OPEN, UNDECIDED, Branch

STEPS_MAX = 120
"""After so many steps no further round begins."""
FLUSHED, HEARD = 90, 40
"""So many packets arrive at the end of a walk: at all members, or at an undecided one."""
CALM = 0.12
SETTLED = 0.1
"""So much of the walks is settled, which takes longer than the walk; calm ones always."""
ENDED = 0.3
"""So many branches without undecided members are walked to an end, and the first one."""
EDITED, EDITIONS = 0.15, 8
"""So many trees are edited stories instead, where there are some; of one story so many."""
SENDS_MAX = 8
SMALL_SHARE = 0.1
"""So many trees have small frames, and large messages that leave in parts."""
WHISPERED = 0.2
"""So many messages are for one member alone."""
SENT = ("send", "large", "whisper")
FORGOTTEN = (0, 1, 1, 2)
"""So many attempts to join are made before the first round; most are given up at once."""

DISTURBANCES: dict[str, tuple[float, float]] = {
    "suspect": (1.0, 4.0),
    "meet": (0.75, 1.5),
    "collect": (0.9, 2.0),
    "send": (0.6, 1.5),
    "ack": (0.6, 1.0),
    "time_out": (0.2, 0.5),
    "drop": (0.15, 0.6),
    "fetch": (0.3, 0.5),
    "late": (0.5, 1.0),
    "crash": (0.1, 0.2),
    "leave": (0.15, 0.3),
    "split": (0.1, 0.4),
    "rest": (0.25, 0.5),
    "summon": (0.3, 1.0),
    "turn": (0.3, 1.0),
    "chain": (0.3, 1.0),
    "secede": (0.15, 0.5),
    "last_words": (0.3, 1.0),
}
"""How many trees have each kind, and how often it happens there."""
HARSH = ("time_out", "drop", "split", "turn", "secede", "last_words")
"""Not in calm trees."""
THEMES: tuple[tuple[str, ...], ...] = (
    ("suspect", "meet", "summon", "turn", "collect"),
    ("suspect", "meet", "summon", "chain", "time_out"),
    ("meet", "collect", "secede", "summon", "late", "chain"),
    ("suspect", "send", "last_words", "late"),
    ("suspect", "fetch", "late", "time_out"),
)
"""Kinds that need each other. Some trees have only those of one theme."""
CALM_THEME = ("meet", "collect", "crash", "suspect", "late", "summon", "ack")
THEMED = 0.5
OPEN_KINDS = ("suspect", "turn", "chain", "summon", "collect")
"""What matters most where a removal and a join of one view are under way."""


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
        n = self._n = min(rng.randrange(lo, hi + 1), rng.randrange(lo, hi + 1))
        self._calm = rng.random() < CALM
        service = rng.choice((Service.CAUSAL, Service.AGREED, Service.SAFE))
        hold, small = rng.random() < 0.3, rng.random() < SMALL_SHARE
        self.setting = Setting(_boots(rng, n, self._calm), hold, service, None, self._calm, small)
        self._rounds = rng.choice((2, 3, 3, 4, 4, 5, 6))
        self._budget = 6 if self._calm else rng.choice((8, 8, 25, 80))
        self._together = rng.choice((0.3, 0.6, 0.9, 1.0))
        theme: tuple[str, ...] = rng.choice(THEMES) if rng.random() < THEMED else ()
        if self._calm and theme:
            theme = CALM_THEME
        self._weights = {
            kind: weight * rng.choice((0.5, 1.0, 2.0))
            for kind, (share, weight) in DISTURBANCES.items()
            if (kind in theme if theme else rng.random() < share)
            and not (self._calm and kind in HARSH)
        }
        self._ended = 0
        self.undecided = 0
        """Rounds after which some members were undecided."""

    def walks(self) -> Iterator[Walked]:
        """Every walk, as it ends. The one in which something is found is the last."""
        branch, policy = Branch(LiveGroup(self.setting)), Policy(self._rng, self._n)
        for _ in range(self._rng.choice(FORGOTTEN)):
            self._meet(branch.group, policy, 0.8)
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
        for left in reversed(range(width)):
            child = branch.fork() if left else branch
            yield from self._grow(child, policy.next(), depth + 1, max(best, nearness))

    def _finish(
        self, branch: Branch, policy: Policy, undecided: list[int], nearness: int
    ) -> Iterator[Walked]:
        if not undecided:
            if self._calm or not self._ended or self._rng.random() < ENDED:
                yield self._flush(branch, policy)
            return
        for left in reversed(range(2 if nearness == UNDECIDED else 6)):
            child = branch.fork() if left else branch
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
                self._disturb(group, policy, best)
                branch.observe()
            ready = [link for link in self._ready(group, policy.links) if policy.is_open(link)]
            if group.wrong is not None or not (ready or at):
                return
            if ready:
                group.deliver(*policy.choose(ready))
                branch.observe()

    def _ready(self, group: LiveGroup, links: list[Link]) -> list[Link]:
        """The links on which something can arrive."""
        inbox, side, gone = group.inbox, group.side, group.gone
        return [(p, q) for p, q in links if inbox[p][q] and side[p] == side[q] and p not in gone]

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
                self._disturb(group, policy)
                continue
            ready = self._ready(group, policy.links)
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
                    self._disturb(group, policy)
                else:
                    self._suspect_any(group, p)
                continue
            ready = self._ready(group, links)
            if ready:
                group.deliver(*ready[0])
                if rng.random() < 0.15:
                    links.remove(ready[0])
                    links.append(ready[0])
            elif rng.random() < 0.3 or not self._fetch(group, policy):
                break
        return self._walked(branch, group.verdict())

    # -------------------------------------------------------------- disturbances

    def _disturb(self, group: LiveGroup, policy: Policy, near: int = 0) -> None:
        """Something happens. What cannot happen now is drawn again a few times."""
        open_kinds = OPEN_KINDS if near == OPEN and self._rng.random() < 0.5 else ()
        for _ in range(5):
            if not group.live() or group.wrong is not None:
                return
            if open_kinds and not self._calm:
                kind = self._rng.choice(open_kinds)
            else:
                (kind,) = self._rng.choices(list(self._weights), list(self._weights.values()))
            if getattr(self, f"_{kind}")(group, policy):
                return

    def _members(self, group: LiveGroup) -> list[int]:
        return [p for p in group.live() if not group.members[p].closed]

    def _suspect(self, group: LiveGroup, policy: Policy) -> bool:
        """The deaf suspect, together, one whom they do not hear; now and then anybody another."""
        rng, live = self._rng, self._members(group)
        if not live:
            return False
        who = [p for p in live if p in policy.deaf] or live
        if rng.random() < 0.4:
            who = live
        p = rng.choice(who)
        known = self._suspectable(group, p)
        if not known:
            return False
        q = next((q for q in policy.victims if q in known), known[0])
        if rng.random() < 0.3:
            q = rng.choice(known)
        group.break_with(p, q)
        self._join_in(group, [other for other in who if other != p], q, self._together)
        if rng.random() < 0.7:
            policy.suspected(q)
        return True

    def _suspect_any(self, group: LiveGroup, p: int) -> None:
        known = self._suspectable(group, p)
        if known:
            group.break_with(p, self._rng.choice(known))

    def _suspectable(self, group: LiveGroup, p: int) -> list[int]:
        known = sorted(group.index[m] for m in group.members[p].known)
        return [q for q in known if q in group.gone] if self._calm else known

    def _meet(self, group: LiveGroup, policy: Policy, forgotten: float = 0.5) -> bool:
        rng, live = self._rng, group.live()
        pairs = [
            (p, q)
            for p in live
            if not group.members[p].busy
            for q in live
            if group.reaches(p, q) and group.ids[q] not in group.members[p].view.members
        ]
        if not pairs:
            return False
        p, q = rng.choice(pairs)
        group.attempt(p, q)
        if rng.random() < forgotten and group.members[p].stage == "COLLECTING":
            group.pass_timer(p, "collect")  # before anybody can answer
        return True

    def _collect(self, group: LiveGroup, policy: Policy) -> bool:
        collecting = [p for p in group.live() if group.members[p].stage == "COLLECTING"]
        if collecting:
            group.pass_timer(self._rng.choice(collecting), "collect")
        return bool(collecting)

    def _send(self, group: LiveGroup, policy: Policy) -> bool:
        live = self._members(group)
        if not live or self._has_sent_enough(group):
            return False
        busy = [p for p in live if group.members[p].busy]
        who = busy if busy and self._rng.random() < 0.4 else live
        self._submit(group, self._rng.choice(who), self._rng.randrange(len(Service)))
        return True

    def _submit(self, group: LiveGroup, p: int, service: int) -> None:
        """A message: for all or, seldom, for one member; in small frames often a large one."""
        rng = self._rng
        others = [group.index[m] for m in group.members[p].view.members if group.ids[p] != m]
        if self.setting.small and rng.random() < 0.4:
            group.large(p, service)
        elif others and rng.random() < WHISPERED:
            group.whisper(p, rng.choice(others), service)
        else:
            group.send(p, service)

    def _has_sent_enough(self, group: LiveGroup) -> bool:
        return sum(step.startswith(SENT) for step in group.steps) >= SENDS_MAX

    def _ack(self, group: LiveGroup, policy: Policy) -> bool:
        group.pass_timer(self._rng.choice(group.live()), "ack")
        return True

    def _time_out(self, group: LiveGroup, policy: Policy) -> bool:
        live = group.live()
        busy = [p for p in live if group.members[p].busy]
        lacking = [p for p in busy if group.members[p].missing()]
        who = live if self._rng.random() < 0.3 else lacking or busy or live
        p = self._rng.choice(who)
        group.pass_timer(p, "answer" if group.members[p].busy else "speak")
        return True

    def _summon(self, group: LiveGroup, policy: Policy) -> bool:
        """An attempt to join overtakes everything else on its way to several members. Its sender
        may have forgotten it."""
        rng = self._rng
        if not group.attempts:
            return False
        attempts = group.attempts[-2:] if rng.random() < 0.5 else group.attempts
        late = [attempt for attempt in group.attempts if attempt[0] in group.gone]
        q, number = rng.choice(late if late and rng.random() < 0.5 else attempts)
        who = [p for p in group.live() if p != q and group.reaches(p, q)]
        share = rng.choice((0.3, 0.7))
        some = [p for p in who if rng.random() < share]
        for p in some:
            if p not in group.gone and group.wrong is None:
                group.late(p, q, number)
        return bool(some)

    def _turn(self, group: LiveGroup, policy: Policy) -> bool:
        """Members with a join under way suspect, together, one who wanted it, or any other."""
        rng = self._rng
        busy = [p for p in self._members(group) if group.members[p].busy]
        if not busy:
            return False
        p = rng.choice(busy)
        known = self._suspectable(group, p)
        if not known:
            return False
        q = rng.choice([q for q, _ in group.attempts if q in known] or known)
        group.break_with(p, q)
        self._join_in(group, [r for r in busy if r not in (p, q)], q, 0.8)
        return True

    def _chain(self, group: LiveGroup, policy: Policy) -> bool:
        """A message, and one in answer to it."""
        rng, live = self._rng, self._members(group)
        if len(live) < 2 or self._has_sent_enough(group):
            return False
        p, q = rng.sample(live, 2)
        if rng.random() < 0.7:
            near = [r for r in live if r != p and group.ids[r] in group.members[p].view.members]
            q = rng.choice(near) if near else q
        service = rng.randrange(len(Service))
        if rng.random() < 0.5:
            self._hear_from(group, q, p)
        if rng.random() < 0.5 and q not in group.gone and not group.members[q].closed:
            group.send(q, service)
        group.send(p, service)
        self._hear_from(group, q, p)
        if q not in group.gone and not group.members[q].closed and group.wrong is None:
            group.send(q, service if rng.random() < 0.7 else rng.randrange(len(Service)))
        return True

    def _secede(self, group: LiveGroup, policy: Policy) -> bool:
        """A member suspects all others of its view, which some of them may not have installed yet,
        and wants to join somebody. Those that it left may hear of that first."""
        rng = self._rng
        live = [p for p in self._members(group) if 1 < len(group.members[p].view.members) < 6]
        if not live:
            return False
        p = rng.choice([p for p in live if self._behind(group, p)] or live)
        joining = [q for q in self._members(group) if group.members[q].joins]
        if not self._behind(group, p) and joining:
            p = rng.choice(joining)
            others = [q for q in joining if q != p]
            if others and rng.random() < 0.5 and not self._has_sent_enough(group):
                self._submit(group, rng.choice(others), rng.randrange(len(Service)))
            for q in group.live():
                self._hear_from(group, p, q)
        if p in group.gone or group.members[p].closed:
            return True
        behind = self._behind(group, p)
        for q in self._suspectable(group, p):
            if p not in group.gone and group.wrong is None:
                group.break_with(p, q)
        strangers = [
            q
            for q in group.live()
            if group.reaches(p, q) and group.ids[q] not in group.members[p].view.members
        ]
        if strangers and p not in group.gone and rng.random() < 0.7:
            newest = len(group.sent[p])
            group.attempt(p, rng.choice(strangers))
            for q in behind if rng.random() < 0.6 and len(group.sent[p]) > newest else ():
                if q not in group.gone and group.reaches(p, q) and rng.random() < 0.7:
                    group.late(q, p, newest)
        return True

    def _behind(self, group: LiveGroup, p: int) -> list[int]:
        """The members of its view that are in another one."""
        view = group.members[p].view
        inside = [group.index[m] for m in view.members]
        return [q for q in inside if group.members[q].view.id != view.id and q not in group.gone]

    def _last_words(self, group: LiveGroup, policy: Policy) -> bool:
        """A message of a member that others suspect arrives at some of them, before or after."""
        rng, live = self._rng, self._members(group)
        if len(live) < 3 or self._has_sent_enough(group):
            return False
        q = rng.choice(live)
        who = [p for p in live if p != q and q in self._suspectable(group, p)]
        if not who:
            return False
        self._submit(group, q, rng.randrange(len(Service)))
        p = rng.choice(who)
        group.break_with(p, q)
        self._join_in(group, [r for r in who if r != p], q, 0.2)
        eager = rng.choice((0.0, 0.4, 0.8))
        for r in who:
            if r != p and rng.random() < eager:
                self._hear_from(group, r, p)
        self._hear_from(group, p, q)
        if rng.random() < 0.5 and p not in group.gone:
            self._suspect_any(group, p)
        return True

    def _hear_from(self, group: LiveGroup, p: int, q: int) -> None:
        """All that is in flight from q to p arrives."""
        while group.inbox[p][q] and group.reaches(p, q) and p not in group.gone:
            group.deliver(p, q)

    def _join_in(self, group: LiveGroup, who: list[int], q: int, share: float) -> None:
        """Some others suspect it too."""
        for p in who:
            if p not in group.gone and group.wrong is None and self._rng.random() < share:
                if q in self._suspectable(group, p):
                    group.break_with(p, q)

    def _drop(self, group: LiveGroup, policy: Policy) -> bool:
        ready = self._ready(group, policy.links)
        if ready:
            group.drop(*self._rng.choice(ready))
        return bool(ready)

    def _fetch(self, group: LiveGroup, policy: Policy) -> bool:
        live = group.live()
        for p in self._rng.sample(live, len(live)):
            wanted = group.wanted(p) if group.members[p].missing() else []
            if wanted:
                group.fetch(p, *self._rng.choice(wanted))
                return True
        return False

    def _late(self, group: LiveGroup, policy: Policy) -> bool:
        """What somebody sent long ago arrives again, or its newest packet overtakes the others."""
        rng = self._rng
        p, q = rng.choice(group.live()), rng.randrange(group.n)
        if p == q or not group.sent[q] or not group.reaches(p, q):
            return False
        count = len(group.sent[q])
        newest = max(0, count - 3) if rng.random() < 0.6 else 0
        group.late(p, q, rng.randrange(newest, count))
        return True

    def _crash(self, group: LiveGroup, policy: Policy) -> bool:
        """A process ends, and so many of its last packets never leave it."""
        live = group.live()
        if len(live) < 3:
            return False
        p = self._rng.choice(live)
        group.crash(p)
        for q in group.live():
            group.lose(q, p, self._rng.randrange(len(group.inbox[q][p]) + 1))
        return True

    def _leave(self, group: LiveGroup, policy: Policy) -> bool:
        live = self._members(group)
        if len(live) < 2:
            return False
        group.leave(self._rng.choice(live))
        return True

    def _split(self, group: LiveGroup, policy: Policy) -> bool:
        """The network falls apart, between the deaf and the others; or heals."""
        whole = len(set(group.side)) == 1
        group.split([int(whole and p in policy.deaf) for p in range(group.n)])
        return True

    def _rest(self, group: LiveGroup, policy: Policy) -> bool:
        """All comes to rest before it goes on."""
        group.calm()
        return True


def _boots(rng: Random, n: int, calm: bool) -> list[list[int]]:
    """Who boots together: all, all but one, or two or three parts, or pairs, or nobody. Of calm
    groups few boot in one view: what happens there are joins."""
    order = list(range(n))
    rng.shuffle(order)
    kinds = ("one", "one", "one", "most", "most", "two", "two", "three", "pairs", "alone")
    match rng.choice(kinds[2:] + ("alone",) if calm else kinds):
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
