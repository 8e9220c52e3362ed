"""The world: members, network and applications under one virtual clock.

One heap of events (time, sequence number, kind, member, data), integer nanoseconds, and dice
that are seeded by names: the same scenario and seed give the same rows, byte for byte,
in any process. The core that runs here is the one that runs on sockets.

The world knows more than any member: it writes down when each frame entered each member's
DAG (`inserted`), what was really submitted (`library`), and which faults really happened
(`faults`). An exception that leaves the core ends the run and is its verdict.

This is the hot path of sweeps; stale timer events are skipped by asking for the deadline again.
"""

from __future__ import annotations

import traceback
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

from phalanx.core import member as core
from phalanx.core.effects import (
    Datagrams,
    DeadlinePassed,
    Effect,
    Given,
    Submit,
    Transmit,
    WindowClosed,
    WindowOpened,
)
from phalanx.core.ids import MemberId, View, boot_view
from phalanx.errors import OutboxFull
from phalanx.journal.events import Event
from phalanx.journal.recorder import Recorder
from phalanx.sim.agenda import ARRIVE, PAUSE, SAY, TIMER, WAKE, WEATHER, agenda, next_said
from phalanx.sim.garbage import Rubbish, foreign_packets
from phalanx.sim.network import Links
from phalanx.sim.outcome import FAULTS, Outcome
from phalanx.sim.scenario import Peculiarity, Scenario
from phalanx.sim.seat import Maker, Seat
from phalanx.sim.traffic import Library

GROUP = "sim"
_SPINS_MAX = 1000


class World:
    """Plays one scenario once. Make a new one for each run."""

    def __init__(self, scenario: Scenario, make: Maker | None = None) -> None:
        self._scenario = scenario
        self._make: Maker = make or core.Member
        self._seed = scenario.seed
        self._tick = count()
        self._heap: list[tuple[int, int, int, int, Any]] = []
        self._faults = dict.fromkeys(FAULTS, 0)
        self._rows: list[Event] = []
        self._inserted: dict[tuple[str, str, int], int] = {}
        self._library = Library(scenario.members)
        self._links = Links(scenario, self._arrive, self._faults)
        self._steps = 0
        self._planned = 0
        self._unsettled = 0
        self._view: View = boot_view([MemberId(name) for name in scenario.members])
        self._ranked = tuple(m.name for m in self._view.members)
        config = scenario.config_of(self._ranked[0])
        foreign = partial(foreign_packets, self._make, self._view, GROUP, config)
        self._rubbish = Rubbish(self._seed, foreign)
        own = {p.name: p for p in scenario.member}
        self._seats = [self._seat(own.get(n) or Peculiarity(name=n)) for n in scenario.members]

    def _seat(self, own: Peculiarity) -> Seat:
        me = MemberId(own.name)
        config = self._scenario.config_of(own.name)
        entropy = Random(f"{self._seed} member {own.name}").getrandbits(62)
        member = self._make(me, self._view, GROUP, config, entropy)
        recorder = Recorder(f"{self._scenario.name}-{self._seed}", GROUP, me, digests=True)
        return Seat(member, recorder, own, config.frame_bytes_max)

    # ------------------------------------------------------------------ the run

    def run(self) -> Outcome:
        """Play until everything planned was said and every member has settled."""
        stuck = exception = None
        now = 0
        limit = self._scenario.horizon_ns() + self._scenario.patience_ns
        try:
            self._begin()
            while not (self._planned == 0 and self._settled()):
                stuck = self._stuck(limit)
                if stuck:
                    break
                now, _, kind, index, data = heappop(self._heap)
                if kind == ARRIVE:
                    seat = self._seats[index]
                    if seat.free_at > now or seat.wake_at >= 0:
                        self._queue(now, index, seat, data)
                    else:
                        self._step(now, index, seat, Datagrams(data))
                elif kind == TIMER:
                    self._timer(now, index, self._seats[index])
                elif kind == WAKE:
                    self._wake(now, index, self._seats[index])
                else:
                    self._planned_event(now, kind, index, data)
        except Exception:
            exception = traceback.format_exc()
        for seat in self._seats:
            self._rows.append(seat.recorder.stop(now + seat.clock, now))
        return Outcome(
            rows=self._rows,
            inserted=self._inserted,
            library=self._library,
            faults={kind: n for kind, n in self._faults.items() if n},
            steps=self._steps,
            sim_ns=now,
            stuck=None if exception else stuck,
            exception=exception,
            stories={seat.name: seat.last_words() for seat in self._seats},
        )

    def _begin(self) -> None:
        scenario = self._scenario
        for i, seat in enumerate(self._seats):
            self._rows.append(seat.recorder.start(seat.clock, 0))
            self._rows.append(seat.recorder.topology(seat.clock, scenario.members, 0))
            self._perform(0, i, seat, seat.member.start(seat.clock))
        for entry in agenda(scenario):
            self._planned += 1
            self._push(*entry)

    def _stuck(self, limit: int) -> str | None:
        """Why there is no point in going on; None while there is."""
        if not self._heap:
            return "nothing is under way and no member has a deadline"
        if self._heap[0][0] > limit:
            return f"not settled {self._scenario.patience_ns} ns after the last planned event"
        if self._steps >= self._scenario.steps_max:
            return f"not settled after {self._steps} steps"
        return None

    def _settled(self) -> bool:
        """Whether all have settled; asks first the member that had not, last time."""
        seats = self._seats
        for _ in seats:
            seat = seats[self._unsettled]
            if seat.backlog or seat.inbox or not seat.member.settled:
                return False
            self._unsettled = (self._unsettled + 1) % len(seats)
        return True

    # ------------------------------------------------------------------ events

    def _push(self, at: int, kind: int, index: int, data: Any) -> None:
        heappush(self._heap, (at, next(self._tick), kind, index, data))

    def _arrive(self, at: int, index: int, packets: list[bytes]) -> None:
        heappush(self._heap, (at, next(self._tick), ARRIVE, index, packets))

    def _planned_event(self, now: int, kind: int, index: int, data: Any) -> None:
        seat = self._seats[index]
        self._planned -= 1
        if kind == SAY:
            submission, rest = data
            for entry in next_said(index, rest):
                self._planned += 1
                self._push(*entry)
            seat.backlog.append(submission)
            if seat.free_at > now or seat.wake_at >= 0:
                self._wake_later(index, seat)
            elif len(seat.backlog) == 1:
                self._say(now, index, seat)
        elif kind == PAUSE:
            self._faults["pause"] += 1
            seat.paused_until = max(seat.paused_until, data)
            seat.free_at = max(seat.free_at, data)
            self._wake_later(index, seat)
        elif kind == WEATHER:
            self._links.change_weather(now)
        else:
            self._faults["garbage"] += 1
            self._arrive(now, index, [self._rubbish.make(data)])

    def _timer(self, now: int, index: int, seat: Seat) -> None:
        if now != seat.armed_at:
            return  # an earlier timer event replaced this one
        seat.armed_at = -1
        if seat.free_at > now or seat.wake_at >= 0:
            self._wake_later(index, seat)
        else:
            self._expire(now, index, seat)

    def _expire(self, now: int, index: int, seat: Seat) -> None:
        """Give the member its deadline if it has come; arm the timer for the next."""
        deadline = seat.deadline()
        if deadline is not None and deadline - seat.clock <= now:
            self._step(now, index, seat, DeadlinePassed())
            after = seat.deadline()
            still = after is not None and after - seat.clock <= now
            seat.spins = seat.spins + 1 if still else 0
            assert seat.spins < _SPINS_MAX, f"{seat.name}: its deadline never moves on"
        else:
            self._arm(now, index, seat)

    def _arm(self, now: int, index: int, seat: Seat) -> None:
        deadline = seat.deadline()
        if deadline is not None:
            at = max(deadline - seat.clock, now)
            if seat.armed_at < 0 or at < seat.armed_at:
                seat.armed_at = at
                self._push(at, TIMER, index, None)

    # ------------------------------------------------------------------ members that wait

    def _queue(self, now: int, index: int, seat: Seat, packets: list[bytes]) -> None:
        self._faults["overflow"] += seat.take(packets)
        if seat.paused_until <= now:
            self._faults["slow"] += 1
        self._wake_later(index, seat)

    def _wake_later(self, index: int, seat: Seat) -> None:
        if seat.wake_at < 0:
            seat.wake_at = seat.free_at
            self._push(seat.free_at, WAKE, index, None)

    def _wake(self, now: int, index: int, seat: Seat) -> None:
        """Packets that wait go in first, in one input, then what is said, then the timer.

        One turn of an engine: else a member that is too slow for its packets would never
        come to its timers.
        """
        seat.wake_at = -1
        if seat.free_at > now:
            self._wake_later(index, seat)
            return
        if seat.inbox:
            packets, seat.inbox = seat.inbox, []
            self._faults["batch"] += len(packets) > 1
            self._step(now, index, seat, Datagrams(packets))
        self._say(now, index, seat)
        self._expire(now, index, seat)

    def _say(self, now: int, index: int, seat: Seat) -> None:
        """Submit what the application of this member has to say, while it is taken."""
        seat.saying = True
        while seat.backlog:
            submission = seat.backlog[0]
            bodies = self._library.write(seat.name, submission.sizes)
            given = Submit(bodies, submission.service, submission.to)
            try:
                effects = seat.step(now + seat.clock, given)
            except OutboxFull:
                self._faults["outbox_full"] += 1
                break  # until WindowOpened
            seat.backlog.popleft()
            self._library.keep(seat.name, submission.sizes, effects)
            self._faults["subset"] += submission.to is not None
            self._faults["large"] += sum(n > seat.frame_max for n in submission.sizes)
            self._after(now, index, seat, effects)
        seat.saying = False

    # ------------------------------------------------------------------ steps

    def _step(self, now: int, index: int, seat: Seat, given: Given) -> None:
        self._after(now, index, seat, seat.step(now + seat.clock, given))

    def _after(self, now: int, index: int, seat: Seat, effects: list[Effect]) -> None:
        self._steps += 1
        if seat.cpu:
            seat.free_at = max(seat.free_at, now) + seat.cpu
        self._perform(now, index, seat, effects)

    def _perform(self, now: int, index: int, seat: Seat, effects: list[Effect]) -> None:
        opened = False
        if effects:
            for effect in effects:
                kind = type(effect)
                if kind is Transmit:
                    packets = effect.packets  # type: ignore[union-attr]
                    self._rubbish.seen.append(packets[-1])
                    self._links.broadcast(now, index, packets)
                elif kind is WindowOpened:
                    opened = True
                elif kind is WindowClosed:
                    self._faults["window_closed"] += 1
            if len(effects) > 1 or kind is not Transmit:
                self._rows += seat.recorder.record(now + seat.clock, effects, now)
        have = seat.member.have
        if have != seat.have:
            for rank, upto in enumerate(have):
                for number in range(seat.have[rank] + 1, upto + 1):
                    self._inserted[seat.name, self._ranked[rank], number] = now
            seat.have = list(have)
        self._arm(now, index, seat)
        if opened and seat.backlog and not seat.saying:
            self._say(now, index, seat)
