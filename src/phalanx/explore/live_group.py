"""A group of live members and the packets in flight between them, driven step by step by walks.

The members are the product's own, with a clock that stands still (`frozen_member`). Each receives
the packets of every other one in order unless they are lost, and only from its own side of a split.
It can fetch missing frames from any member of its side that has them, as NACKs would.

`settle` heals everything and lets all needed steps happen in a fixed order, timers last. Then the
checks of `end_checks` must hold (J4, J6, J2f), and processes that hear of each other end up in one
view (J8). In a quiet group, a join changes each view once (JC) and no time-out removes a live
member (JN). Both can be required from the beginning: JC where the setting says how many view
changes there is cause for, JN in a calm setting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
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
from phalanx.core.ids import MemberId, ViewId, boot_view
from phalanx.explore.end_checks import FinalState, described_views, end_finding, is_united
from phalanx.explore.fast_copy import copied
from phalanx.explore.frozen_member import NOW, FrozenTimeMember, Timer
from phalanx.explore.journal_observer import JournalObserver
from phalanx.explore.lost_entries import lost_entries
from phalanx.explore.member_history import Finding, MemberHistories, events_of

Packets = tuple[bytes, ...]
Place = tuple[MemberId, int]

CHANGES_BY_A_JOIN = 1
"""View changes caused by one attempt to join in a quiet group without losses."""
ROUNDS_MAX = 1_000
"""A run that takes more rounds than this to settle is reported as endless."""


SMALL: dict[str, int] = {
    "frame_bytes_max": 128,
    "window_bytes_max": 2048,
    "window_bytes_min": 2048,
    "pace_ns_max": 0,
}
LARGE = b"x" * 900
"""With these settings, a message of which the window holds a part."""


class Setting(msgspec.Struct, frozen=True):
    """The initial state of a group, and what may be expected of it."""

    components: list[list[int]]
    """Processes that boot together."""
    hold: bool
    service: Service
    changes_max: int | None = None
    """How many view changes a member has cause for after its first view; None if unknown."""
    calm: bool = False
    """No time-out has cause to remove a live member (JN)."""
    small: bool = False
    """Frames and the window are small: a large message leaves in parts, not all of them at once."""


class LiveGroup:
    """A group of processes. The caller looks at `wrong` after each step."""

    def __init__(self, setting: Setting, observer: JournalObserver | None = None) -> None:
        self._observer = observer
        components, hold = setting.components, setting.hold
        self.service = setting.service
        n = self.n = sum(map(len, components))
        self.ids = [MemberId(f"m{i}") for i in range(n)]
        self.index = {member: i for i, member in enumerate(self.ids)}
        self.side = [0] * n
        """Processes with the same number can reach each other."""
        self.gone: set[int] = set()
        self.wrong: Finding | None = None
        self.steps: list[str] = []
        """The steps so far, as `story` replays them."""
        self._changes_max = setting.changes_max
        self._calm = setting.calm
        self.sent: list[list[Packets]] = [[] for _ in range(n)]
        """Per sender, all packets sent: any of them may arrive again, late."""
        self.attempts: list[tuple[int, int]] = []
        """Senders of attempts to join, and which of their packets these were."""
        self.issued_views: list[frozenset[ViewId]] = [frozenset()] * n
        """Per member, the views whose proposals it has issued."""
        self._histories = MemberHistories(hold)
        self._history = [0] * n
        self.inbox: list[list[deque[Packets]]] = [[deque() for _ in range(n)] for _ in range(n)]
        """Per receiver and sender."""
        self.shared: frozenset[int] = frozenset()
        """Members shared with a forked group: they are copied before they act."""
        config = lan(mode="hold" if hold else "flow", **(SMALL if setting.small else {}))
        self.members: list[FrozenTimeMember] = []
        for p in range(n):
            component = next(c for c in components if p in c)
            view = boot_view([self.ids[i] for i in sorted(component)])
            member = FrozenTimeMember(self.ids[p], view, config)
            self.members.append(member)
            effects = member.start(NOW)
            self._history[p] = self._histories.begin(p, events_of(effects, self.index))
            if observer is not None:
                observer.began(self.ids[p], effects)
        self._note_sides()

    def fork(self) -> LiveGroup:
        """A copy of the group that continues from here, without an observer."""
        made = copy(self)
        made._observer = None
        made.members = self.members.copy()
        made.inbox = [[box.copy() for box in boxes] for boxes in self.inbox]
        made.sent = [packets.copy() for packets in self.sent]
        made.attempts = self.attempts.copy()
        made.gone, made.side = self.gone.copy(), self.side.copy()
        made.steps, made._history = self.steps.copy(), self._history.copy()
        made.issued_views = self.issued_views.copy()
        self.shared = made.shared = frozenset(range(self.n))
        return made

    # -------------------------------------------------------------- queries

    def live(self) -> list[int]:
        return [p for p in range(self.n) if p not in self.gone]

    def reaches(self, p: int, q: int) -> bool:
        return self.side[p] == self.side[q]

    def verdict(self) -> Finding | None:
        """The first violation in the histories of the members."""
        return self.wrong or self._histories.verdict(tuple(self._history))

    def wanted(self, p: int) -> list[tuple[Place, Packets]]:
        """Frames that a process misses and that a member of its side can retransmit."""
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

    # -------------------------------------------------------------- steps

    def act(self, p: int, step: str, do: Callable[[FrozenTimeMember], list[Effect]]) -> None:
        """Let a process act. An exception is a finding and ends the process."""
        self.steps.append(step)
        if p in self.shared:
            self.shared -= {p}
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
        self._note_issued(p)
        if self._observer is not None:
            self._observer.did(p, effects)
        events = events_of(effects, self.index)
        if events:
            self._history[p] = self._histories.extend(p, self._history[p], events)

    def _send(self, p: int, packets: Packets) -> None:
        self.sent[p].append(packets)
        for q in self.live():
            if q != p and self.reaches(p, q):
                self.inbox[q][p].append(packets)

    def _take(self, p: int, step: str, packets: Packets) -> None:
        before, collects = len(self.sent[p]), self.members[p].stage == "COLLECTING"
        self.act(p, step, lambda member: member.step(NOW, Datagrams(packets)))
        if len(self.sent[p]) > before and not collects and self.members[p].stage == "COLLECTING":
            self.attempts.append((p, before))

    def deliver(self, p: int, q: int) -> None:
        """The oldest packets in flight from q to p arrive."""
        self._take(p, f"deliver {p} {q}", self.inbox[p][q].popleft())

    def drop(self, p: int, q: int) -> None:
        """The oldest packets in flight from q to p are lost."""
        self.steps.append(f"drop {p} {q}")
        self.inbox[p][q].popleft()

    def lose(self, p: int, q: int, count: int) -> None:
        """The newest `count` sends of q never reach p."""
        self.steps.append(f"lose {p} {q} {count}")
        for _ in range(count):
            self.inbox[p][q].pop()

    def fetch(self, p: int, place: Place, packets: Packets) -> None:
        self._take(p, f"fetch {p} {self.index[place[0]]} {place[1]}", packets)

    def attempt(self, p: int, q: int) -> None:
        """p receives a HELLO of q, a process of another view."""
        self._take(p, f"attempt {p} {q}", (self.members[q].hello(),))

    def break_with(self, p: int, q: int) -> None:
        self.act(p, f"break {p} {q}", lambda m: m.step(NOW, SuspectMember(self.ids[q])))

    def pass_timer(self, p: int, timer: Timer) -> None:
        effects: list[Effect] = []
        watched = self._calm and timer in ("answer", "speak")
        lost = lost_entries(self, p) if watched else ()

        def do(member: FrozenTimeMember) -> list[Effect]:
            effects.extend(member.pass_timer(timer))
            return effects

        self.act(p, f"{timer} {p}", do)
        if watched:
            self._note_needless(p, lost, effects)

    def _note_needless(self, p: int, lost: Sequence[int], effects: list[Effect]) -> None:
        """JN: a time-out removes a member that is alive and can be reached, and that is in the view
        it was counted from, or has left it, or may still come to it."""
        for effect in effects:
            if isinstance(effect, ViewChangeStep):
                for who in sorted(set(effect.failed_after) - set(effect.failed_before)):
                    q = self.index[who]
                    if q in self.gone or not self.reaches(p, q) or self.wrong is not None:
                        continue
                    if q not in lost:
                        text = f"m{p} leaves m{q} out, which is alive: time-out"
                        self.wrong = Finding("JN", text)

    def _note_issued(self, p: int) -> None:
        issued = self.members[p]._protocol.issued
        if issued and issued[-1].view.id not in self.issued_views[p]:
            self.issued_views[p] |= {proposal.view.id for proposal in issued}

    def late(self, p: int, q: int, number: int) -> None:
        """An earlier send of q arrives at p, perhaps for the second time."""
        self._take(p, f"late {p} {q} {number}", self.sent[q][number])

    def data(self, p: int) -> None:
        """The application of p submits a message."""
        self.act(p, f"data {p}", lambda m: m.step(NOW, Submit([b"x"], self.service)))

    def send(self, p: int, service: int) -> None:
        """The application of p submits a message with this service."""
        given = Submit([b"x"], Service(service))
        self.act(p, f"send {p} {service}", lambda member: member.step(NOW, given))

    def large(self, p: int, service: int) -> None:
        """The application of p submits a message that needs several frames if frames are small."""
        given = Submit([LARGE], Service(service))
        self.act(p, f"large {p} {service}", lambda member: member.step(NOW, given))

    def whisper(self, p: int, q: int, service: int) -> None:
        """The application of p submits a message that is for q alone, a member of its view."""
        given = Submit([b"x"], Service(service), (self.ids[q],))
        self.act(p, f"whisper {p} {q} {service}", lambda member: member.step(NOW, given))

    def leave(self, p: int) -> None:
        self.act(p, f"leave {p}", lambda member: member.step(NOW, LeaveRequest()))

    def crash(self, p: int) -> None:
        self.steps.append(f"crash {p}")
        self.gone.add(p)
        if self._observer is not None:
            self._observer.crashed(p)
            self._note_sides()

    def split(self, side: list[int]) -> None:
        """Split the network: processes reach only their own side. One side for all heals it."""
        self.steps.append(" ".join(["split", *map(str, side)]))
        self.side = side
        self._note_sides()

    def _note_sides(self) -> None:
        if self._observer is not None:
            self._observer.parted(self.live(), self.side)

    def calm(self) -> None:
        """Let each side of a split become quiet without further disturbance."""
        begun = len(self.steps)
        self.wrong = self._calm_down()
        self.steps[begun:] = ["calm"]

    # -------------------------------------------------------------- settling

    def settle(self) -> Finding | None:
        """Heal the network, let the group reach one view, and return the first violation."""
        self.split([0] * self.n)
        if self._observer is not None:
            self._observer.healed()
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
        """How often each process has changed its view."""
        return [len(self._histories.stories[history].views) - 1 for history in self._history]

    def _needless(self, most: int | None, before: list[int] | None = None) -> Finding | None:
        """JC: a process has changed its view more often than there was cause for."""
        changes = self.changes()
        for p, (now, then) in enumerate(zip(changes, before or [0] * self.n, strict=True)):
            if most is not None and now - then > most:
                text = f"m{p} has changed its view {now - then} times, not {most}"
                return Finding("JC", text)
        return None

    def _calm_down(self) -> Finding | None:
        """Let all needed steps happen, then check the quiet group."""
        for _ in range(ROUNDS_MAX):
            if self.wrong is not None:
                return self.wrong
            if not any(tier() for tier in self._tiers()):
                return self.verdict() or end_finding(self._final())
        return Finding("J4", f"it does not end: {self.shown()}")

    def _tiers(self) -> Iterator[Callable[[], bool]]:
        """Needed steps by kind; each returns whether it changed anything. A kind has its turn only
        if none before it did."""
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
        """Keep-alives: a process that lacks the last frame of another receives it."""
        for q in self.live():
            place = (self.ids[q], self.members[q].count(self.ids[q]))
            here = self.members[p]
            if q == p or not self.reaches(p, q) or here.count(place[0]) >= place[1]:
                continue
            packets = None if place in here.waiting() else self._repeated(q, place)
            if packets is not None and p not in self.gone:
                self.fetch(p, place, packets)

    def _acknowledge(self, p: int) -> None:
        """Send keep-alives that others wait for, or, in a view of one, its own safe messages."""
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
        """Suspect members of its view that are in another view and will not come back."""
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
