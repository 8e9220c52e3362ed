"""Live members and what is on its way between them: the ground that `walks` goes over.

The members are the product's own, with time standing still (`member`). Each hears the packets
of every other one in order, unless they are lost, and only from its own side of a split. Frames
that it misses it can fetch from anybody on its side who has them, as NACKs would bring about.

`settle` heals everything and lets all that need happen do so, in a fixed order, timers last: then
nobody may be stuck (J4), everybody has delivered its own messages (J6), those in one view have
delivered the same (J2f), and strangers that hear of each other end up in one view (J8). Once all is
quiet, a join changes each view once (JC) and no time-out leaves out a member that is alive (JN).
Both may hold from the beginning: where the setting says how many changes there is cause for, and
in a calm setting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from copy import copy

import msgspec

from phalanx.config import lan
from phalanx.core.effects import (
    Datagrams,
    Effect,
    LeaveRequest,
    Service,
    Stopped,
    Submit,
    SuspectMember,
    Transmit,
    ViewChangeStep,
)
from phalanx.core.ids import MemberId, boot_view
from phalanx.explore.end_checks import FinalState, described_views, end_finding, is_united
from phalanx.explore.fast_copy import copied
from phalanx.explore.frozen_member import NOW, FrozenTimeMember, Timer
from phalanx.explore.journal_observer import JournalObserver
from phalanx.explore.member_history import Finding, MemberHistories, events_of

Packets = tuple[bytes, ...]
Place = tuple[MemberId, int]

CHANGES_BY_A_JOIN = 1
"""Where all is quiet and nothing is lost, one attempt to join changes a view so often."""
ROUNDS_MAX = 1_000
"""A run that takes more rounds than this to settle is reported as endless."""


class Setting(msgspec.Struct, frozen=True):
    """How a crowd begins."""

    components: list[list[int]]
    """Who boots together."""
    hold: bool
    service: Service
    changes_max: int | None = None
    """Nothing gives anybody cause for more views than its first and so many. None: who knows."""
    calm: bool = False
    """Nobody alive has cause to be left out by a time-out (JN)."""


class LiveGroup:
    """A group of processes. Whoever moves it looks at `wrong` after each step."""

    def __init__(self, setting: Setting, scribe: JournalObserver | None = None) -> None:
        self._scribe = scribe
        components, hold = setting.components, setting.hold
        self.service = setting.service
        n = self.n = sum(map(len, components))
        self.ids = [MemberId(f"m{i}") for i in range(n)]
        self.index = {member: i for i, member in enumerate(self.ids)}
        self.side = [0] * n
        """Who is on the same side can reach each other."""
        self.gone: set[int] = set()
        self.wrong: Finding | None = None
        self.steps: list[str] = []
        """What was done, in order, as `stories` can do it again."""
        self._changes_max = setting.changes_max
        self._calm = setting.calm
        self.sent: list[list[Packets]] = [[] for _ in range(n)]
        """Per sender, all that it has sent: any of it may arrive again, late."""
        self._histories = MemberHistories(hold)
        self._history = [0] * n
        self.inbox: list[list[deque[Packets]]] = [[deque() for _ in range(n)] for _ in range(n)]
        """Per receiver and sender."""
        self._shared: set[int] = set()
        """Members that another crowd has too: they are copied before they act."""
        config = lan(mode="hold" if hold else "flow")
        self.members: list[FrozenTimeMember] = []
        for p in range(n):
            component = next(c for c in components if p in c)
            view = boot_view([self.ids[i] for i in sorted(component)])
            member = FrozenTimeMember(self.ids[p], view, config)
            self.members.append(member)
            effects = member.start(NOW)
            self._history[p] = self._histories.begin(p, events_of(effects, self.index))
            if scribe is not None:
                scribe.began(self.ids[p], effects)
        self._note_sides()

    def fork(self) -> LiveGroup:
        """Another crowd that goes on from here. It is not written down (`scribe`)."""
        made = copy(self)
        made._scribe = None
        made.members = self.members.copy()
        made.inbox = [[box.copy() for box in boxes] for boxes in self.inbox]
        made.sent = [packets.copy() for packets in self.sent]
        made.gone, made.side = self.gone.copy(), self.side.copy()
        made.steps, made._history = self.steps.copy(), self._history.copy()
        self._shared, made._shared = set(range(self.n)), set(range(self.n))
        return made

    # -------------------------------------------------------------- what can be asked

    def live(self) -> list[int]:
        return [p for p in range(self.n) if p not in self.gone]

    def reaches(self, p: int, q: int) -> bool:
        return self.side[p] == self.side[q]

    def verdict(self) -> Finding | None:
        """What is wrong with what the members have seen."""
        return self.wrong or self._histories.verdict(tuple(self._history))

    def wanted(self, p: int) -> list[tuple[Place, Packets]]:
        """Frames that a process misses and somebody on its side can repeat."""
        found = []
        for place in self.members[p].missing():
            for r in self.live():
                packets = self._repeated(r, place) if r != p and self.reaches(p, r) else None
                if packets is not None:
                    found.append((place, packets))
                    break
        return found

    def _repeated(self, p: int, place: Place) -> Packets | None:
        member, (who, number) = self.members[p], place
        state = member._active.state
        rank = state.ranked.get(who)
        frame = None if rank is None else state.broadcast.store.get((rank, number))
        frame = frame or member._resources.past_frames.get(who, number)
        return None if frame is None else tuple(member._codec.fragments(frame, frame.wire, 1))

    # -------------------------------------------------------------- what can be done

    def act(self, p: int, step: str, do: Callable[[FrozenTimeMember], list[Effect]]) -> None:
        """A process does something. An exception is a finding, and its end."""
        self.steps.append(step)
        if p in self._shared:
            self._shared.remove(p)
            self.members[p] = copied(self.members[p])
        try:
            effects = do(self.members[p])
        except Exception as error:
            self.wrong = Finding("JX", f"m{p} raised {type(error).__name__}: {error}")
            self.gone.add(p)
            return
        for effect in effects:
            if isinstance(effect, Transmit):
                self._send(p, tuple(effect.packets))
            elif isinstance(effect, Stopped):
                self.gone.add(p)
        if self._scribe is not None:
            self._scribe.did(p, effects)
        events = events_of(effects, self.index)
        if events:
            self._history[p] = self._histories.extend(p, self._history[p], events)

    def _send(self, p: int, packets: Packets) -> None:
        self.sent[p].append(packets)
        for q in self.live():
            if q != p and self.reaches(p, q):
                self.inbox[q][p].append(packets)

    def _take(self, p: int, step: str, packets: Packets) -> None:
        self.act(p, step, lambda member: member.step(NOW, Datagrams(packets)))

    def deliver(self, p: int, q: int) -> None:
        """What q sent first of all that is on its way to p arrives."""
        self._take(p, f"deliver {p} {q}", self.inbox[p][q].popleft())

    def drop(self, p: int, q: int) -> None:
        """... or does not."""
        self.steps.append(f"drop {p} {q}")
        self.inbox[p][q].popleft()

    def lose(self, p: int, q: int, count: int) -> None:
        """Nor does so much of what q sent last."""
        self.steps.append(f"lose {p} {q} {count}")
        for _ in range(count):
            self.inbox[p][q].pop()

    def fetch(self, p: int, place: Place, packets: Packets) -> None:
        self._take(p, f"fetch {p} {self.index[place[0]]} {place[1]}", packets)

    def attempt(self, p: int, q: int) -> None:
        """A HELLO of a stranger is heard."""
        self._take(p, f"attempt {p} {q}", (self.members[q].hello(),))

    def break_with(self, p: int, q: int) -> None:
        self.act(p, f"break {p} {q}", lambda m: m.step(NOW, SuspectMember(self.ids[q])))

    def pass_timer(self, p: int, timer: Timer) -> None:
        effects: list[Effect] = []

        def do(member: FrozenTimeMember) -> list[Effect]:
            effects.extend(member.pass_timer(timer))
            return effects

        self.act(p, f"{timer} {p}", do)
        if self._calm and timer in ("answer", "speak"):
            self._note_needless(p, effects)

    def _note_needless(self, p: int, effects: list[Effect]) -> None:
        """JN: a time-out leaves out a member that is alive and can be reached."""
        for effect in effects:
            if isinstance(effect, ViewChangeStep):
                for who in sorted(set(effect.failed_after) - set(effect.failed_before)):
                    q = self.index[who]
                    if q not in self.gone and self.reaches(p, q) and self.wrong is None:
                        text = f"m{p} leaves m{q} out, which is alive: time-out"
                        self.wrong = Finding("JN", text)

    def late(self, p: int, q: int, number: int) -> None:
        """What q sent once arrives at p, perhaps again."""
        self._take(p, f"late {p} {q} {number}", self.sent[q][number])

    def data(self, p: int) -> None:
        """Its user says something."""
        self.act(p, f"data {p}", lambda m: m.step(NOW, Submit([b"x"], self.service)))

    def send(self, p: int, service: int) -> None:
        """Its user says something with a service of its own choice."""
        given = Submit([b"x"], Service(service))
        self.act(p, f"send {p} {service}", lambda member: member.step(NOW, given))

    def leave(self, p: int) -> None:
        self.act(p, f"leave {p}", lambda member: member.step(NOW, LeaveRequest()))

    def crash(self, p: int) -> None:
        self.steps.append(f"crash {p}")
        self.gone.add(p)
        if self._scribe is not None:
            self._scribe.crashed(p)
            self._note_sides()

    def split(self, side: list[int]) -> None:
        """Only who is on one side can reach each other; with all on one, it heals."""
        self.steps.append(" ".join(["split", *map(str, side)]))
        self.side = side
        self._note_sides()

    def _note_sides(self) -> None:
        if self._scribe is not None:
            self._scribe.parted(self.live(), self.side)

    def calm(self) -> None:
        """Nothing more happens until all is quiet, on each side of a split for itself."""
        begun = len(self.steps)
        self.wrong = self._calm_down()
        self.steps[begun:] = ["calm"]

    # -------------------------------------------------------------- settling

    def settle(self) -> Finding | None:
        """Everything heals, and nobody but chance has been in the way of one common view."""
        self.split([0] * self.n)
        if self._scribe is not None:
            self._scribe.healed()
        found = self._calm_down()
        self._calm = True
        for _ in range(4 + 2 * self.n):
            if found is not None or is_united(self._final()):
                return found or self._needless(self._changes_max)
            before = self.changes()
            if not self._strangers_meet():
                return self.wrong or Finding("J8", f"no two find each other: {self.shown()}")
            found = self._calm_down() or self._needless(CHANGES_BY_A_JOIN, before)
        return Finding("J8", f"no common view: {self.shown()}")

    def changes(self) -> list[int]:
        """How often each has changed its view."""
        return [len(self._histories.stories[history].views) - 1 for history in self._history]

    def _needless(self, most: int | None, before: list[int] | None = None) -> Finding | None:
        """JC: somebody has changed its view more often than there was cause for."""
        changes = self.changes()
        for p, (now, then) in enumerate(zip(changes, before or [0] * self.n, strict=True)):
            if most is not None and now - then > most:
                text = f"m{p} has changed its view {now - then} times, not {most}"
                return Finding("JC", text)
        return None

    def _calm_down(self) -> Finding | None:
        """All that need happen happens."""
        for _ in range(ROUNDS_MAX):
            if self.wrong is not None:
                return self.wrong
            if not any(tier() for tier in self._tiers()):
                return self.verdict() or end_finding(self._final())
        return Finding("J4", f"it does not end: {self.shown()}")

    def _tiers(self) -> Iterator[Callable[[], bool]]:
        """What happens by itself; each only if nothing before it does. All tell if it did."""
        yield lambda: self._each(self._hear_all)
        yield lambda: self._any(self._collect)
        yield lambda: self._each(self._hear_last)
        yield lambda: self._each(self._acknowledge)
        yield lambda: self._any(self._answer)
        yield lambda: self._any(self._stop)
        yield lambda: self._any(self._notice)

    def _each(self, do: Callable[[int], None]) -> bool:
        changed = False
        for p in self.live():
            if p not in self.gone and self.wrong is None:
                before = self._state(p)
                do(p)
                changed = changed or self._state(p) != before
        return changed

    def _any(self, do: Callable[[int], None]) -> bool:
        for p in self.live():
            before = self._state(p)
            do(p)
            if self._state(p) != before:
                return True
        return False

    def _state(self, p: int) -> tuple[object, ...]:
        member, protocol = self.members[p], self.members[p]._protocol
        coming = sum(map(len, self.inbox[p]))
        sent = sum(len(self.inbox[q][p]) for q in self.live())
        issued = tuple(proposal.digest for proposal in protocol.issued)
        sets = (issued, tuple(protocol.collected), protocol._grace)
        have = [member.count(who) for who in self.ids]
        waits = (member.waiting(), member.missing())
        return (member.view.id, member.stage, sets, have, waits, coming, sent, p in self.gone)

    def _hear_all(self, p: int) -> None:
        for q in range(self.n):
            while self.inbox[p][q] and self.reaches(p, q) and p not in self.gone:
                self.deliver(p, q)
        for place, packets in self.wanted(p):
            if p not in self.gone:
                self.fetch(p, place, packets)
        for q in [self.index[who] for who in sorted(self.members[p].known)]:
            if (q in self.gone or not self.reaches(p, q)) and p not in self.gone:
                self.break_with(p, q)

    def _collect(self, p: int) -> None:
        if self.members[p].stage == "COLLECTING":
            self.pass_timer(p, "collect")

    def _hear_last(self, p: int) -> None:
        """Keep-alives: whoever lacks another's last frame gets it."""
        for q in self.live():
            place = (self.ids[q], self.members[q].count(self.ids[q]))
            here = self.members[p]
            if q == p or not self.reaches(p, q) or here.count(place[0]) >= place[1]:
                continue
            packets = None if place in here.waiting() else self._repeated(q, place)
            if packets is not None and p not in self.gone:
                self.fetch(p, place, packets)

    def _acknowledge(self, p: int) -> None:
        """Keep-alives that somebody waits for: others, or its own safe messages if it is alone."""
        member = self.members[p]
        alone = len(member.view.members) == 1 and not (member.busy or member.resting)
        if (member.owes or alone) and not member._protocol.leaving:
            self.pass_timer(p, "ack")

    def _answer(self, p: int) -> None:
        self.pass_timer(p, "answer")
        if p not in self.gone:
            self.pass_timer(p, "speak")

    def _stop(self, p: int) -> None:
        if self.members[p]._protocol.leaving:
            self.crash(p)

    def _notice(self, p: int) -> None:
        """A member of its view is in another one and will not come back."""
        member = self.members[p]
        for who in sorted(member.known):
            q = self.index[who]
            if not member.busy and self.members[q].view.id != member.view.id:
                self.break_with(p, q)

    def _strangers_meet(self) -> bool:
        for p in self.live():
            for q in self.live():
                if q != p and self.ids[q] not in self.members[p].view.members:
                    self.attempt(p, q)
                    if self.members[p].busy:
                        return True
        return False

    def _final(self) -> list[FinalState]:
        final = []
        for p in self.live():
            member, history = self.members[p], self._histories.stories[self._history[p]]
            shown = (member.view, member.busy, member.resting, member.accepted)
            final.append(FinalState(p, *shown, history))
        return final

    def shown(self) -> str:
        """The view of each live member, in one line."""
        return described_views(self._final())
