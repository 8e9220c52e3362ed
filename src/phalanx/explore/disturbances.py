"""Disturbances of guided walks: what happens to members apart from packets that arrive.

Some are single events: a suspicion, an attempt to join, a lost or a late packet, a crash. Others
are patterns of a few steps that defects of membership need and single events seldom make up: an
attempt that overtakes everything else, though its sender has forgotten it (`summon`); members of
a join that turn against one of it (`turn`); a message and one in answer to it (`chain`); a member
that leaves those behind that have not installed its view yet (`secede`); the message of a member
that is being removed (`last_words`); a join whose packets reach no other member (`unite`).

Each tree of walks draws its own weights, or keeps to the kinds of one theme.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from phalanx.core.effects import Service
from phalanx.explore.live_group import LiveGroup
from phalanx.explore.schedule_policy import Link, Policy
from phalanx.explore.walk_branch import OPEN

UNITED_MAX = 4
SENDS_MAX = 8
WHISPERED = 0.2
"""So many messages are for one member alone."""
SENT = ("send", "large", "whisper")

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
    "unite": (0.1, 0.5),
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
    ("meet", "collect", "secede", "summon", "late", "chain"),
    ("suspect", "send", "last_words", "late"),
    ("suspect", "fetch", "late", "time_out"),
)
"""Kinds that need each other. Some trees have only those of one theme, all about as often.
The one that is listed twice needs the most steps in the right order."""
CALM_THEME = ("meet", "unite", "collect", "crash", "suspect", "summon", "ack")
THEMED = 0.5
OPEN_KINDS = ("suspect", "turn", "chain", "summon", "collect")
"""What matters most where a removal and a join of one view are under way."""


def ready_links(group: LiveGroup, links: list[Link]) -> list[Link]:
    """The links on which something can arrive."""
    inbox, side, gone = group.inbox, group.side, group.gone
    return [(p, q) for p, q in links if inbox[p][q] and side[p] == side[q] and p not in gone]


class Disturbances:
    """The disturbances of a tree."""

    def __init__(self, rng: Random, calm: bool, small: bool) -> None:
        self._rng = rng
        self._calm = calm
        self._small = small
        self._together = rng.choice((0.3, 0.6, 0.9, 1.0))
        theme: tuple[str, ...] = rng.choice(THEMES) if rng.random() < THEMED else ()
        if calm and theme:
            theme = CALM_THEME
        self._weights = {
            kind: (1.0 if theme else weight) * rng.choice((0.5, 1.0, 2.0))
            for kind, (share, weight) in DISTURBANCES.items()
            if (kind in theme if theme else rng.random() < share) and not (calm and kind in HARSH)
        }
        self._kinds: dict[str, Callable[[LiveGroup, Policy], bool]] = {
            "suspect": self._suspect,
            "meet": self.meet,
            "collect": self._collect,
            "send": self._send,
            "ack": self._ack,
            "time_out": self._time_out,
            "drop": self._drop,
            "fetch": self.fetch,
            "late": self._late,
            "crash": self._crash,
            "leave": self._leave,
            "split": self._split,
            "rest": self._rest,
            "unite": self._unite,
            "summon": self._summon,
            "turn": self._turn,
            "chain": self._chain,
            "secede": self._secede,
            "last_words": self._last_words,
        }

    def happen(self, group: LiveGroup, policy: Policy, near: int = 0) -> None:
        """Something happens. What cannot happen now is drawn again a few times."""
        open_kinds = OPEN_KINDS if near == OPEN and self._rng.random() < 0.5 else ()
        for _ in range(5):
            if not group.live() or group.wrong is not None:
                return
            if open_kinds and not self._calm:
                kind = self._rng.choice(open_kinds)
            else:
                (kind,) = self._rng.choices(list(self._weights), list(self._weights.values()))
            if self._kinds[kind](group, policy):
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

    def suspect_any(self, group: LiveGroup, p: int) -> None:
        known = self._suspectable(group, p)
        if known:
            group.break_with(p, self._rng.choice(known))

    def _suspectable(self, group: LiveGroup, p: int) -> list[int]:
        known = sorted(group.index[m] for m in group.members[p].known)
        return [q for q in known if q in group.gone] if self._calm else known

    def meet(self, group: LiveGroup, policy: Policy, forgotten: float = 0.5) -> bool:
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

    def _unite(self, group: LiveGroup, policy: Policy) -> bool:
        """Members of two small views join before anybody else hears of it, or nearly so."""
        rng, live = self._rng, group.live()
        steady = [p for p in live if not group.members[p].busy]
        pairs = [
            (p, q)
            for p in steady
            for q in steady
            if group.reaches(p, q) and group.ids[q] not in group.members[p].view.members
        ]
        if not pairs:
            return False
        p, q = rng.choice(pairs)
        inside = {*group.members[p].view.members, *group.members[q].view.members}
        who = [r for r in live if group.ids[r] in inside]
        if len(who) > UNITED_MAX:
            return False
        group.attempt(p, q)
        for _ in range(rng.choice((2, 4, 6, 6))):
            for r in who:
                for other in who:
                    if other != r:
                        self._hear_from(group, r, other)
            for r in who:
                if r not in group.gone and group.members[r].stage == "COLLECTING":
                    group.pass_timer(r, "collect")
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
        if self._small and rng.random() < 0.4:
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
            self.suspect_any(group, p)
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
        ready = ready_links(group, policy.links)
        if ready:
            group.drop(*self._rng.choice(ready))
        return bool(ready)

    def fetch(self, group: LiveGroup, policy: Policy) -> bool:
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
