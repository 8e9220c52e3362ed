"""Drives simulated members: gives them packets, timers and submissions, and performs their effects.

This is the work of the event loop on sockets, under virtual time. A member that is not free,
because it is paused or its last step still takes CPU time, leaves all input waiting until it wakes;
then it takes what waits in one turn. Effects go to the network (packets), to the journal (rows) and
to the observers `inserted` and `cases`.

This is the hot path of sweeps. Stale timer events are not removed from the heap: the driver asks
the member for its deadline again and skips them.
"""

from __future__ import annotations

from phalanx.core.effects import (
    AwaitDelivery,
    Datagrams,
    DeadlinePassed,
    Effect,
    Input,
    LinkStats,
    NameContested,
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
from phalanx.sim.scenario.model import Crash, Scenario
from phalanx.sim.schedule import HAND, TIMER, WAKE, Schedule
from phalanx.sim.traffic import Library, PlannedSubmission

_SPINS_MAX = 1000

DEEP_EVERY = 16
"""Expensive invariants are checked once in this many steps, the others after each step."""


class Driver:
    """Drives the processes of a population."""

    def __init__(
        self,
        scenario: Scenario,
        schedule: Schedule,
        links: Links,
        population: Population,
        corrupt: CorruptPackets,
        forger: PacketForger,
        faults: dict[str, int],
        rows: list[Event] | None = None,
    ) -> None:
        self._put = schedule.put
        self._links = links
        self._at = population.at
        self._corrupt = corrupt
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
        """Time of the last view installation."""
        self.stopped: list[tuple[SimProcess, str | Crash]] = []
        """Processes that have stopped and are still in the population, with the reason; and those
        that must crash now."""
        self.contests: list[SimProcess] = []
        """Processes that have just reported that another process has their name, or has it no
        more."""
        self._doomed: list[tuple[SimProcess, Crash, int]] = []
        """Processes that crash when they have proposed, and their steps since then."""

    # ------------------------------------------------------------------ inputs

    def start(self, now: int, process: SimProcess) -> None:
        """Run the first step of a process."""
        self._perform(now, process, process.member.start(now + process.clock))

    def arrive(self, now: int, machine: int, packets: list[bytes]) -> None:
        """Packets arrive at a machine: every process on it receives them."""
        if packets:  # else they were lost in a crash, on their way
            for process in self._at[machine]:
                self.hand(now, process, packets)

    def hand(self, now: int, process: SimProcess, packets: list[bytes]) -> None:
        """Packets arrive at a process."""
        if process.free_at > now or process.wake_at >= 0:
            if not process.gone:
                self._faults["overflow"] += process.take(packets)
                if process.paused_until <= now:
                    self._faults["slow"] += 1
                self._wake_later(process)
        elif not process.gone:
            self._step(now, process, Datagrams(packets))

    def order(self, now: int, process: SimProcess, given: Input) -> None:
        """Give the process an input as soon as it is free."""
        process.orders.append(given)
        self._soon(now, process)

    def submit(self, now: int, process: SimProcess, submission: PlannedSubmission) -> None:
        """The application submits messages; they wait behind earlier submissions not yet taken."""
        process.backlog.append(submission)
        process.accepted += len(submission.sizes)
        if process.free_at > now or process.wake_at >= 0:
            self._wake_later(process)
        elif len(process.backlog) == 1:
            self._say(now, process)

    def count_links(self, now: int, process: SimProcess) -> None:
        """Record the statistics of a process that ends."""
        links = process.member.links()
        self.rows += process.recorder.record(now + process.clock, links, now)
        self.cases.linked(links)
        self.cases.situations(process.member.situations)

    def count_queue(self, now: int, process: SimProcess, reason: str | None = None) -> None:
        """Record the message counts of a process that ends, or that has refused a submission."""
        counts = (process.accepted, process.submitted, process.refused)
        self.rows.append(process.recorder.queue(now + process.clock, *counts, reason, now))

    def pause(self, process: SimProcess, until: int) -> None:
        process.paused_until = max(process.paused_until, until)
        process.free_at = max(process.free_at, until)
        self._wake_later(process)

    def doom(self, process: SimProcess, crash: Crash) -> None:
        """Let a process crash once it has proposed a view change."""
        self._doomed.append((process, crash, 0))

    def _approach_crash(self, now: int, process: SimProcess) -> None:
        """A process has taken a step: let it crash if this was the last one that it has."""
        kept = []
        for doomed, crash, steps in self._doomed:
            over = doomed.gone or now > crash.at_ns + (crash.for_ns or 0)
            if doomed is process and not over and (steps or self.cases.has_proposed(process.me)):
                steps += 1
                if crash.after_proposal is not None and steps > crash.after_proposal:
                    self.stopped.append((process, crash))
                    continue
            if not over:
                kept.append((doomed, crash, steps))
        self._doomed = kept

    def timer(self, now: int, process: SimProcess) -> None:
        """Handle a timer event."""
        if now != process.armed_at:
            return  # an earlier timer event replaced this one
        process.armed_at = -1
        if process.free_at > now or process.wake_at >= 0:
            self._wake_later(process)
        else:
            self._expire(now, process)

    def _expire(self, now: int, process: SimProcess) -> None:
        """Report the deadline to the member if it has passed; arm the timer for the next."""
        if process.gone:
            return
        deadline = process.deadline()
        if deadline is not None and deadline - process.clock <= now:
            self._step(now, process, DeadlinePassed())
            after = process.deadline()
            still = after is not None and after - process.clock <= now
            process.spins = process.spins + 1 if still else 0
            assert process.spins < _SPINS_MAX, f"{process.label}: its deadline never moves on"
        else:
            self.arm(now, process)

    def arm(self, now: int, process: SimProcess) -> None:
        """Schedule a timer event at the member's deadline."""
        deadline = process.deadline()
        if deadline is not None:
            at = max(deadline - process.clock, now)
            if process.armed_at < 0 or at < process.armed_at:
                process.armed_at = at
                self._put(at, TIMER, 0, process)

    # ------------------------------------------------------------------ waiting processes

    def _soon(self, now: int, process: SimProcess) -> None:
        if process.free_at > now or process.wake_at >= 0:
            self._wake_later(process)
        else:
            self._turn(now, process)

    def _wake_later(self, process: SimProcess) -> None:
        if process.wake_at < 0:
            process.wake_at = process.free_at
            self._put(process.free_at, WAKE, 0, process)

    def wake(self, now: int, process: SimProcess) -> None:
        """Handle a wake event."""
        process.wake_at = -1
        if process.gone:
            return
        if process.free_at > now:
            self._wake_later(process)
        else:
            self._turn(now, process)

    def _turn(self, now: int, process: SimProcess) -> None:
        """Process waiting packets in one input, then submissions and orders, then the timer.

        One turn of an event loop: otherwise a member that is too slow for its packets would never
        process its timers.
        """
        if process.inbox:
            packets, process.inbox = process.inbox, []
            self._faults["batch"] += len(packets) > 1
            self._step(now, process, Datagrams(packets))
        self._say(now, process)
        while process.orders and not process.gone:
            self._step(now, process, process.orders.pop(0))
        self._expire(now, process)

    def _say(self, now: int, process: SimProcess) -> None:
        """Submit the waiting messages of the application until the member refuses them."""
        process.saying = True
        while process.backlog and not process.gone:
            submission = process.backlog[0]
            to = _resolved(process, submission.to)
            if to == ():
                self._faults["no_receiver"] += 1
                self._refuse(now, process, "NoReceiver")
                continue
            bodies = self.library.write(process.me, submission.sizes)
            try:
                effects = process.step(now + process.clock, Submit(bodies, submission.service, to))
            except OutboxFull:
                self._faults["outbox_full"] += 1
                break  # until WindowOpened
            except (UnknownMember, NoReceiver, MemberClosed) as refusal:
                kind = "unsaid" if isinstance(refusal, MemberClosed) else "no_receiver"
                self._faults[kind] += 1
                self._refuse(now, process, type(refusal).__name__)
                continue
            process.backlog.popleft()
            process.submitted += len(bodies)
            self.library.keep(process.me, submission.sizes, effects)
            self._faults["subset"] += to is not None
            self._faults["large"] += sum(n > process.frame_max for n in submission.sizes)
            self._after(now, process, effects)
            if self._ask_delivery and process.machine % 2 == 0 and not process.gone:
                asked = AwaitDelivery(process.submitted)
                self._perform(now, process, process.step(now + process.clock, asked))
        process.saying = False

    def _refuse(self, now: int, process: SimProcess, reason: str) -> None:
        """Drop the first submission and record the reason."""
        process.refused += len(process.backlog.popleft().sizes)
        self.count_queue(now, process, reason)

    # ------------------------------------------------------------------ steps

    def _step(self, now: int, process: SimProcess, given: Input) -> None:
        self._after(now, process, process.step(now + process.clock, given))

    def _after(self, now: int, process: SimProcess, effects: list[Effect]) -> None:
        self.steps += 1
        process.member.validate(deep=not self.steps % DEEP_EVERY)
        if process.cpu:
            process.free_at = max(process.free_at, now) + process.cpu
        self._perform(now, process, effects)
        if self._doomed:
            self._approach_crash(now, process)

    def _perform(self, now: int, process: SimProcess, effects: list[Effect]) -> None:
        opened = False
        if effects:
            for effect in effects:
                kind = type(effect)
                if kind is Transmit:
                    self._transmit(now, process, effect.packets)  # type: ignore[union-attr]
                elif kind is WindowOpened:
                    opened = True
                elif kind is WindowClosed:
                    self._faults["window_closed"] += 1
                elif kind is ViewInstalled:
                    self.changed_ns = now
                    self._forger.saw(effect.view)  # type: ignore[union-attr, arg-type]
                elif kind is NameContested:
                    process.contested = effect.rival is not None  # type: ignore[union-attr]
                    self.contests.append(process)
                elif kind is Stopped:
                    self._faults["unsaid"] += process.end()
                    self.stopped.append((process, effect.reason))  # type: ignore[union-attr]
            if len(effects) > 1 or kind is not Transmit:
                self.rows += process.recorder.record(now + process.clock, effects, now)
                self.cases.note(process, effects)
        member = process.member
        if member.have != process.have or member.view is not process.view:
            self._watch(now, process, effects)
        if not process.gone:
            self.arm(now, process)
            if opened and process.backlog and not process.saying:
                self._say(now, process)

    def _transmit(self, now: int, process: SimProcess, packets: list[bytes]) -> None:
        self._corrupt.seen.append(packets[-1])
        if self._archived:
            self._corrupt.archive.append(packets[-1])
        self.cases.transmitted(packets)
        self._links.broadcast(now, process.machine, packets)
        neighbours = self._at[process.machine]
        if len(neighbours) > 1 and not self._loopback:
            for other in neighbours:
                if other is not process:
                    self._put(now + self._local_ns, HAND, 0, (other, packets))

    def _watch(self, now: int, process: SimProcess, effects: list[Effect]) -> None:
        """Note frames that have entered the member's DAG, and a change of its view."""
        member = process.member
        if member.view is not process.view:  # maybe by way of another, all in this step
            for effect in effects:
                if type(effect) is LinkStats:
                    base = effect.upto - effect.frames
                    self._insert(now, process, effect.peer, base, effect.upto)
            process.base = {link.peer: link.upto - link.frames for link in member.links()}
        for sender, upto in zip(member.view.members, member.have, strict=True):
            self._insert(now, process, sender, process.base.get(sender, 0), upto)
        process.view = member.view
        process.have = list(member.have)

    def _insert(
        self, now: int, process: SimProcess, sender: MemberId, base: int, upto: int
    ) -> None:
        """Note a sender's frames up to `upto`. Frames up to `base` belong to the common past of the
        view and count only if they entered in an earlier view."""
        before = max(process.had.get(sender, 0), base)
        if upto > before:
            process.had[sender] = upto
            me, inserted = process.me, self.inserted
            name, incarnation = sender.name, sender.incarnation
            for number in range(before + 1, upto + 1):
                inserted[me.name, me.incarnation, name, incarnation, number] = now


def _resolved(process: SimProcess, names: tuple[str, ...] | None) -> tuple[MemberId, ...] | None:
    """The members of the current view with these names."""
    if names is None:
        return None
    return tuple(m for m in process.member.view.members if m.name in names)
