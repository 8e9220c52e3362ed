"""How members are driven: packets, timers and submissions in, effects out.

This is what an engine does on sockets, under virtual time. A member that is not free, because
it is paused or its last step still costs time, lets everything wait until it wakes; then it
takes what waits in one turn. Every effect goes where it belongs: packets to the network, rows
to the journal, and to those who watch: `inserted`, `cases`.

This is the hot path of sweeps; stale timer events are skipped by asking for the deadline again.
"""

from __future__ import annotations

from phalanx.core.effects import (
    AwaitDelivery,
    Datagrams,
    DeadlinePassed,
    Effect,
    Input,
    LinkStats,
    Stopped,
    Submit,
    Transmit,
    ViewInstalled,
    WindowClosed,
    WindowOpened,
)
from phalanx.core.ids import MemberId
from phalanx.errors import MemberClosed, NoReceiver, OutboxFull, UnknownMember
from phalanx.journal.schema import Event
from phalanx.sim.coverage import ScenarioCoverage
from phalanx.sim.faults.corruption import CorruptPackets
from phalanx.sim.faults.forged_packets import PacketForger
from phalanx.sim.network import Links
from phalanx.sim.population import Population
from phalanx.sim.process import SimProcess
from phalanx.sim.run_outcome import Inserted
from phalanx.sim.scenario.model import Scenario
from phalanx.sim.schedule import HAND, TIMER, WAKE, Schedule
from phalanx.sim.traffic import Library, PlannedSubmission

_SPINS_MAX = 1000

DEEP_EVERY = 16
"""Invariants that cost as much as a step are checked after every so many steps, others always."""


class Driver:
    """Drives the processes of a population."""

    def __init__(
        self,
        scenario: Scenario,
        schedule: Schedule,
        links: Links,
        population: Population,
        rubbish: CorruptPackets,
        forger: PacketForger,
        faults: dict[str, int],
        rows: list[Event] | None = None,
    ) -> None:
        self._put = schedule.put
        self._links = links
        self._at = population.at
        self._rubbish = rubbish
        self._forger = forger
        self._faults = faults
        self._archived = any(g.kind == "replayed" for g in scenario.garbage)
        self._loopback = scenario.network.loopback
        self._local_ns = scenario.network.delay_ns
        self._ask_delivery = scenario.ask_delivery
        self.rows: list[Event] = [] if rows is None else rows
        self.inserted: Inserted = {}
        self.library = Library(scenario.members)
        self.cases = ScenarioCoverage()
        self.steps = 0
        self.changed_ns = 0
        """When a view was last installed."""
        self.stopped: list[tuple[SimProcess, str]] = []
        """Processes that have ended themselves and that nobody has buried yet, and why."""

    # ------------------------------------------------------------------ what comes to a member

    def start(self, now: int, seat: SimProcess) -> None:
        """The first step of a process."""
        self._perform(now, seat, seat.member.start(now + seat.clock))

    def arrive(self, now: int, machine: int, packets: list[bytes]) -> None:
        """Packets have come to a machine: everybody there hears them."""
        if packets:  # else they were lost in a crash, on their way
            for seat in self._at[machine]:
                self.hand(now, seat, packets)

    def hand(self, now: int, seat: SimProcess, packets: list[bytes]) -> None:
        """Packets have come to a process."""
        if seat.free_at > now or seat.wake_at >= 0:
            if not seat.gone:
                self._faults["overflow"] += seat.take(packets)
                if seat.paused_until <= now:
                    self._faults["slow"] += 1
                self._wake_later(seat)
        elif not seat.gone:
            self._step(now, seat, Datagrams(packets))

    def order(self, now: int, seat: SimProcess, given: Input) -> None:
        """Tell the process to do something, as soon as it is free."""
        seat.orders.append(given)
        self._soon(now, seat)

    def submit(self, now: int, seat: SimProcess, submission: PlannedSubmission) -> None:
        """Its application has something to say; it waits behind what was not yet taken."""
        seat.backlog.append(submission)
        seat.accepted += len(submission.sizes)
        if seat.free_at > now or seat.wake_at >= 0:
            self._wake_later(seat)
        elif len(seat.backlog) == 1:
            self._say(now, seat)

    def count_links(self, now: int, seat: SimProcess) -> None:
        """Its life ends: what happened on its links is written down."""
        self.rows += seat.recorder.record(now + seat.clock, seat.member.links(), now)

    def count_queue(self, now: int, seat: SimProcess, reason: str | None = None) -> None:
        """Its life ends, or what it accepted is refused: what became of that is written down."""
        counts = (seat.accepted, seat.submitted, seat.refused)
        self.rows.append(seat.recorder.queue(now + seat.clock, *counts, reason, now))

    def pause(self, seat: SimProcess, until: int) -> None:
        seat.paused_until = max(seat.paused_until, until)
        seat.free_at = max(seat.free_at, until)
        self._wake_later(seat)

    def timer(self, now: int, seat: SimProcess) -> None:
        """A timer event has come."""
        if now != seat.armed_at:
            return  # an earlier timer event replaced this one
        seat.armed_at = -1
        if seat.free_at > now or seat.wake_at >= 0:
            self._wake_later(seat)
        else:
            self._expire(now, seat)

    def _expire(self, now: int, seat: SimProcess) -> None:
        """Give the member its deadline if it has come; arm the timer for the next."""
        if seat.gone:
            return
        deadline = seat.deadline()
        if deadline is not None and deadline - seat.clock <= now:
            self._step(now, seat, DeadlinePassed())
            after = seat.deadline()
            still = after is not None and after - seat.clock <= now
            seat.spins = seat.spins + 1 if still else 0
            assert seat.spins < _SPINS_MAX, f"{seat.label}: its deadline never moves on"
        else:
            self.arm(now, seat)

    def arm(self, now: int, seat: SimProcess) -> None:
        """See to it that a timer event comes at the member's deadline."""
        deadline = seat.deadline()
        if deadline is not None:
            at = max(deadline - seat.clock, now)
            if seat.armed_at < 0 or at < seat.armed_at:
                seat.armed_at = at
                self._put(at, TIMER, 0, seat)

    # ------------------------------------------------------------------ members that wait

    def _soon(self, now: int, seat: SimProcess) -> None:
        if seat.free_at > now or seat.wake_at >= 0:
            self._wake_later(seat)
        else:
            self._turn(now, seat)

    def _wake_later(self, seat: SimProcess) -> None:
        if seat.wake_at < 0:
            seat.wake_at = seat.free_at
            self._put(seat.free_at, WAKE, 0, seat)

    def wake(self, now: int, seat: SimProcess) -> None:
        """A wake event has come."""
        seat.wake_at = -1
        if seat.gone:
            return
        if seat.free_at > now:
            self._wake_later(seat)
        else:
            self._turn(now, seat)

    def _turn(self, now: int, seat: SimProcess) -> None:
        """Packets that wait go in first, in one input, then what is said, then the timer.

        One turn of an engine: else a member that is too slow for its packets would never
        come to its timers.
        """
        if seat.inbox:
            packets, seat.inbox = seat.inbox, []
            self._faults["batch"] += len(packets) > 1
            self._step(now, seat, Datagrams(packets))
        self._say(now, seat)
        while seat.orders and not seat.gone:
            self._step(now, seat, seat.orders.pop(0))
        self._expire(now, seat)

    def _say(self, now: int, seat: SimProcess) -> None:
        """Submit what the application of this member has to say, while it is taken."""
        seat.saying = True
        while seat.backlog and not seat.gone:
            submission = seat.backlog[0]
            to = _resolved(seat, submission.to)
            if to == ():
                self._faults["no_receiver"] += 1
                self._refuse(now, seat, "NoReceiver")
                continue
            bodies = self.library.write(seat.me, submission.sizes)
            try:
                effects = seat.step(now + seat.clock, Submit(bodies, submission.service, to))
            except OutboxFull:
                self._faults["outbox_full"] += 1
                break  # until WindowOpened
            except (UnknownMember, NoReceiver, MemberClosed) as refusal:
                kind = "unsaid" if isinstance(refusal, MemberClosed) else "no_receiver"
                self._faults[kind] += 1
                self._refuse(now, seat, type(refusal).__name__)
                continue
            seat.backlog.popleft()
            seat.submitted += len(bodies)
            self.library.keep(seat.me, submission.sizes, effects)
            self._faults["subset"] += to is not None
            self._faults["large"] += sum(n > seat.frame_max for n in submission.sizes)
            self._after(now, seat, effects)
            if self._ask_delivery and seat.machine % 2 == 0 and not seat.gone:
                asked = AwaitDelivery(seat.submitted)
                self._perform(now, seat, seat.step(now + seat.clock, asked))
        seat.saying = False

    def _refuse(self, now: int, seat: SimProcess, reason: str) -> None:
        """The submission in front is not taken."""
        seat.refused += len(seat.backlog.popleft().sizes)
        self.count_queue(now, seat, reason)

    # ------------------------------------------------------------------ steps

    def _step(self, now: int, seat: SimProcess, given: Input) -> None:
        self._after(now, seat, seat.step(now + seat.clock, given))

    def _after(self, now: int, seat: SimProcess, effects: list[Effect]) -> None:
        self.steps += 1
        seat.member.validate(deep=not self.steps % DEEP_EVERY)
        if seat.cpu:
            seat.free_at = max(seat.free_at, now) + seat.cpu
        self._perform(now, seat, effects)

    def _perform(self, now: int, seat: SimProcess, effects: list[Effect]) -> None:
        opened = False
        if effects:
            for effect in effects:
                kind = type(effect)
                if kind is Transmit:
                    self._transmit(now, seat, effect.packets)  # type: ignore[union-attr]
                elif kind is WindowOpened:
                    opened = True
                elif kind is WindowClosed:
                    self._faults["window_closed"] += 1
                elif kind is ViewInstalled:
                    self.changed_ns = now
                    self._forger.saw(effect.view)  # type: ignore[union-attr, arg-type]
                elif kind is Stopped:
                    self._faults["unsaid"] += seat.end()
                    self.stopped.append((seat, effect.reason))  # type: ignore[union-attr]
            if len(effects) > 1 or kind is not Transmit:
                self.rows += seat.recorder.record(now + seat.clock, effects, now)
                self.cases.note(seat, effects)
        member = seat.member
        if member.have != seat.have or member.view is not seat.view:
            self._watch(now, seat, effects)
        if not seat.gone:
            self.arm(now, seat)
            if opened and seat.backlog and not seat.saying:
                self._say(now, seat)

    def _transmit(self, now: int, seat: SimProcess, packets: list[bytes]) -> None:
        self._rubbish.seen.append(packets[-1])
        if self._archived:
            self._rubbish.archive.append(packets[-1])
        self._links.broadcast(now, seat.machine, packets)
        neighbours = self._at[seat.machine]
        if len(neighbours) > 1 and not self._loopback:
            for other in neighbours:
                if other is not seat:
                    self._put(now + self._local_ns, HAND, 0, (other, packets))

    def _watch(self, now: int, seat: SimProcess, effects: list[Effect]) -> None:
        """Frames have entered the member's DAG, or its view is another one."""
        member = seat.member
        if member.view is not seat.view:  # maybe by way of another, all in this step
            for effect in effects:
                if type(effect) is LinkStats:
                    base = effect.upto - effect.frames
                    self._insert(now, seat, effect.peer, base, effect.upto)
            seat.base = {link.peer: link.upto - link.frames for link in member.links()}
        for sender, upto in zip(member.view.members, member.have, strict=True):
            self._insert(now, seat, sender, seat.base.get(sender, 0), upto)
        seat.view = member.view
        seat.have = list(member.have)

    def _insert(self, now: int, seat: SimProcess, sender: MemberId, base: int, upto: int) -> None:
        """Frames of a sender up to a number are here, those up to `base` as everybody's past: of
        them only those count that entered in an earlier view."""
        before = max(seat.had.get(sender, 0), base)
        if upto > before:
            seat.had[sender] = upto
            me, inserted = seat.me, self.inserted
            name, incarnation = sender.name, sender.incarnation
            for number in range(before + 1, upto + 1):
                inserted[me.name, me.incarnation, name, incarnation, number] = now


def _resolved(seat: SimProcess, names: tuple[str, ...] | None) -> tuple[MemberId, ...] | None:
    """Who bears these names in the member's present view."""
    if names is None:
        return None
    return tuple(m for m in seat.member.view.members if m.name in names)
