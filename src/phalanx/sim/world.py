"""The simulation of one scenario: members, network and applications under one virtual clock.

One heap of events (time, sequence number, kind, machine, data), integer nanoseconds, and random
generators seeded by names: the same scenario and seed give the same rows, byte for byte, in any
process. The protocol core is the one that runs on sockets. `driver` drives it, `population` holds
the processes, and this module applies the scenario's events to them.

The world records facts that no member knows: when each frame entered each member's DAG
(`inserted`), the submitted bodies (`library`), connectivity (rows of `topology`), and the faults
that took effect (`faults`). An exception that leaves the core ends the run and is its verdict.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from phalanx.core.effects import LeaveRequest, ReaderLag, SetRole, SuspectMember
from phalanx.core.member import member as core
from phalanx.core.wire.packet_codec import PacketCodec
from phalanx.core.wire.shared_settings import shared_digest
from phalanx.journal.schema import Event
from phalanx.sim.driver import Driver
from phalanx.sim.faults.corruption import CorruptPackets, foreign_packets
from phalanx.sim.faults.forged_packets import PacketForger
from phalanx.sim.network import Links
from phalanx.sim.population import GROUP, Population
from phalanx.sim.process import Maker, SimProcess
from phalanx.sim.run_outcome import FAULTS, RunOutcome
from phalanx.sim.scenario import model as sc
from phalanx.sim.scenario.model import Busy, ClockJump, Crash, Imposter, Nonsense, Scenario
from phalanx.sim.schedule import ARRIVE, HAND, TIMER, WAKE, Kind, Schedule, agenda, next_said

_BACKLOG = (ReaderLag(0), ReaderLag(1), ReaderLag(2))


class World:
    """Runs one scenario once. Create a new one for each run.

    `rows` is the list that receives the rows; one that forwards them keeps a long run small.
    """

    def __init__(
        self, scenario: Scenario, make: Maker | None = None, rows: list[Event] | None = None
    ) -> None:
        made: Maker = make or core.Member
        self._scenario = scenario
        self._faults = dict.fromkeys(FAULTS, 0)
        self._planned = 0
        self._unsettled = 0
        self._calm = scenario.calm()
        self._calm_from = -1
        self._schedule = Schedule()
        self._links = Links(scenario, self._schedule.arrive, self._faults)
        self._population = Population(scenario, made, self._links)
        everybody = self._population.everybody
        config = scenario.config_of(everybody.members[0].name)
        foreign = partial(foreign_packets, made, everybody, GROUP, config)
        rng = Random(f"{scenario.seed} forger")
        forger = PacketForger(
            rng, PacketCodec(config.cluster, GROUP, shared_digest(config)), everybody
        )
        self._corrupt = CorruptPackets(scenario.seed, foreign, forger)
        self._driver = Driver(
            scenario,
            self._schedule,
            self._links,
            self._population,
            self._corrupt,
            forger,
            self._faults,
            rows,
        )
        self._events: dict[int, Callable[[int, int, Any], None]] = {
            Kind.SAY: self._say,
            Kind.PAUSE: self._pause,
            Kind.WEATHER: self._weather,
            Kind.GARBAGE: self._garbage,
            Kind.HEAL: partial(self._weather, kind="heal"),
            Kind.PARTITION: partial(self._weather, kind="partition"),
            Kind.CUT: partial(self._weather, kind="cut"),
            Kind.CRASH: self._crash,
            Kind.LEAVE: self._leave,
            Kind.RESTART: self._restart,
            Kind.IMPOSTER: self._imposter,
            Kind.BREAK: self._break,
            Kind.READER: self._reader,
            Kind.CLOCK: self._clock,
            Kind.BUSY: self._busy,
            Kind.ROLE: self._role,
        }

    # ------------------------------------------------------------------ the run

    def run(self) -> RunOutcome:
        """Run until every planned event has happened and every member has settled."""
        stuck = exception = None
        now = 0
        limit = self._scenario.horizon_ns() + self._calm + self._scenario.patience_ns
        driver, pop = self._driver, self._schedule.pop
        try:
            self._begin()
            while not (self._planned == 0 and self._over(now)):
                stuck = self._stuck(limit)
                if stuck:
                    break
                now, _, kind, machine, data = pop()
                if kind == ARRIVE:
                    driver.arrive(now, machine, data)
                elif kind == TIMER:
                    driver.timer(now, data)
                elif kind == WAKE:
                    driver.wake(now, data)
                elif kind == HAND:
                    driver.hand(now, *data)
                else:
                    self._planned -= 1
                    self._calm_from = -1
                    self._events[kind](now, machine, data)
                if driver.contests:
                    self._note_contests(now)
                if driver.stopped:
                    self._remove_stopped(now)
        except Exception:
            exception = traceback.format_exc()
        driver.cases.ended(self._scenario, self._links.flapped())
        for process in self._population.live:
            if exception is None:
                driver.count_links(now, process)
            driver.count_queue(now, process)
            driver.rows.append(process.recorder.stop(now + process.clock, now))
        return RunOutcome(
            rows=driver.rows,
            inserted=driver.inserted,
            library=driver.library,
            faults={kind: n for kind, n in self._faults.items() if n},
            cases=dict(sorted(driver.cases.counts.items())),
            steps=driver.steps,
            sim_ns=now,
            stuck=None if exception else stuck,
            exhausted=stuck is not None and self._could_go_on(limit),
            exception=exception,
            stories={process.label: process.story_or_error() for process in self._population.live},
        )

    def _begin(self) -> None:
        self._links.change_weather(0)  # cuts at time 0 take effect before the first packet
        self._population.survey()
        rows = self._driver.rows
        for process in self._population.latest:
            rows.append(process.recorder.start(process.clock, 0))
            rows.append(process.recorder.topology(process.clock, process.component, 0))
            self._driver.start(0, process)
        for entry in agenda(self._scenario):
            self._planned += 1
            self._schedule.put(*entry)

    def _over(self, now: int) -> bool:
        """Whether all members have settled in views of all they can reach, for long enough.

        Asks first the member that had not settled, last time. Packets that wait for a slow
        member only keep the run from ending now: keep-alives never end.
        """
        processes = self._population.live
        for _ in processes:
            process = processes[self._unsettled % len(processes)]
            member = process.member
            if process.leaving or process.backlog or not (member.settled and member.role_is_set):
                self._calm_from = -1
                return False
            self._unsettled += 1
        if not self._population.agrees():
            self._calm_from = -1
            return False
        if self._calm_from < 0:
            self._calm_from = now
        since = max(self._calm_from, self._driver.changed_ns)
        long_enough = now - since >= self._calm or not self._schedule.heap
        return long_enough and not any(process.inbox for process in processes)

    def _could_go_on(self, limit: int) -> bool:
        """Whether an event is scheduled within the time limit."""
        heap = self._schedule.heap
        return bool(heap) and heap[0][0] <= limit

    def _stuck(self, limit: int) -> str | None:
        """Why the run cannot settle any more; None while it can."""
        heap, steps = self._schedule.heap, self._driver.steps
        if not heap:
            problem = "nothing is under way and no member has a deadline"
        elif heap[0][0] > limit:
            patience = self._scenario.patience_ns
            problem = f"not settled {patience} ns after the last planned event"
        elif steps >= self._scenario.steps_max:
            problem = f"not settled after {steps} steps"
        else:
            return None
        return f"{problem}: {self._population.complaint()}"

    # ------------------------------------------------------------------ planned events

    def _say(self, now: int, machine: int, data: Any) -> None:
        submission, rest = data
        for entry in next_said(machine, rest):
            self._planned += 1
            self._schedule.put(*entry)
        process = self._population.latest[machine]
        if process.gone or process.leaving:
            self._faults["unsaid"] += 1
        else:
            self._driver.submit(now, process, submission)

    def _pause(self, now: int, machine: int, until: int) -> None:
        process = self._population.latest[machine]
        if not process.gone:
            self._faults["pause"] += 1
            self._driver.pause(process, until)
            self._driver.cases.paused(process.me, until - now)

    def _garbage(self, now: int, machine: int, kind: Nonsense) -> None:
        self._faults["garbage"] += 1
        if kind in ("replayed", "forged"):
            self._faults[kind] += 1
        self._schedule.arrive(now, machine, [self._corrupt.make(kind)])

    def _weather(self, now: int, machine: int, data: Any, kind: str | None = None) -> None:
        """A burst, a cut or a partition begins or ends."""
        if kind is not None:
            self._faults[kind] += 1
        self._links.change_weather(now)
        self._record_topology(now)

    def _clock(self, now: int, machine: int, jump: ClockJump) -> None:
        process = self._population.latest[machine]
        self._faults["clock"] += 1
        for other in self._population.at[machine]:
            other.clock += jump.by_ns
            self._driver.arm(now, other)
        if process.gone:
            process.clock += jump.by_ns  # for the next process there

    def _busy(self, now: int, machine: int, busy: Busy | None) -> None:
        """A busy period of a member begins, or (None) ends."""
        process = self._population.latest[machine]
        if busy is not None and not process.gone:
            self._faults["busy"] += 1
        process.cpu = self._cpu_of(process, now)

    def _cpu_of(self, process: SimProcess, now: int) -> int:
        costs = [
            busy.cpu_ns
            for busy in self._scenario.busy
            if busy.member == process.me.name and busy.at_ns <= now < busy.at_ns + busy.for_ns
        ]
        return max([process.own.cpu_ns, *costs])

    def _reader(self, now: int, machine: int, data: Any) -> None:
        """The application of a process falls behind with reading, or catches up. A process that
        starts in the middle of it has nothing to read yet, so it keeps up."""
        process = self._population.latest[machine]
        if process.gone:
            return
        level = max(
            (
                reader.level
                for reader in self._scenario.reader
                if reader.member == process.me.name
                and reader.at_ns <= now < reader.at_ns + reader.for_ns
            ),
            default=0,
        )
        if level != process.level:
            process.level = level
            self._faults["reader"] += level > 0
            self._driver.cases.reads(process.me, level)
            self._driver.order(now, process, _BACKLOG[level])

    def _break(self, now: int, machine: int, row: sc.OperatorBreak) -> None:
        """An operator tells a member to treat another as failed."""
        process = self._population.latest[machine]
        targets = [m for m in process.member.view.members if m.name == row.target]
        if not process.gone and targets:
            self._faults["break"] += 1
            if any(other.me == targets[0] for other in self._population.live):
                self._driver.cases.operator_break()
            self._driver.order(now, process, SuspectMember(targets[0]))

    def _role(self, now: int, machine: int, row: sc.PlannedRole) -> None:
        """The application of a process sets its role."""
        process = self._population.latest[machine]
        if not process.gone:
            self._faults["role"] += 1
            self._driver.order(now, process, SetRole(row.operations))

    # ------------------------------------------------------------------ process lifetimes

    def _crash(self, now: int, machine: int, crash: Crash) -> None:
        process = self._population.latest[machine]
        if process.gone:
            return
        if crash.after_proposal is not None:
            self._driver.doom(process, crash)
        else:
            self._end_by_crash(now, process, crash)

    def _end_by_crash(self, now: int, process: SimProcess, crash: Crash) -> None:
        self._faults["crash"] += 1
        self._faults["unsaid"] += process.end()
        self._driver.cases.crashed(process.me)
        if crash.lose:
            self._links.lose_flying(now, process.machine)
        self._driver.count_links(now, process)
        self._driver.rows.append(process.recorder.crash(now + process.clock, now))
        self._remove(now, process)

    def _leave(self, now: int, machine: int, data: Any) -> None:
        process = self._population.latest[machine]
        if process.gone:
            return
        self._faults["leave"] += 1
        self._faults["unsaid"] += process.refuse_all()
        process.leaving = True
        self._driver.cases.leave_requested(process.me)
        self._driver.order(now, process, LeaveRequest())

    def _restart(self, now: int, machine: int, data: Any) -> None:
        process = self._population.latest[machine]
        if not process.gone:
            if process.leaving and not process.restart_pending:
                process.restart_pending = True
                self._planned += 1  # until it has ended
            return  # still running: the fault that was to end it hit the process before
        self._faults["restart"] += 1
        self._start(now, self._population.restart(machine))

    def _imposter(self, now: int, machine: int, imposter: Imposter) -> None:
        self._faults["imposter"] += 1
        self._start(now, self._population.add_imposter(imposter))

    def _start(self, now: int, process: SimProcess) -> None:
        rivals = [other.me for other in self._population.live if other is not process]
        self._driver.cases.started(process.me, [m for m in rivals if m.name == process.me.name])
        process.cpu = self._cpu_of(process, now)
        process.started_ns = now
        self._driver.rows.append(process.recorder.start(now + process.clock, now))
        self._record_topology(now)
        self._driver.start(now, process)

    def _remove_stopped(self, now: int) -> None:
        """Remove processes that have stopped by themselves, or that must crash now."""
        while self._driver.stopped:
            process, reason = self._driver.stopped.pop(0)
            if isinstance(reason, Crash):
                if not process.gone:
                    self._faults["crash_proposing"] += 1
                    self._end_by_crash(now, process, reason)
                continue
            assert reason != "incarnation-used", f"no other process was {process.me}"
            if reason == "name-in-use" and not self._population.rivals(process):
                self._driver.cases.stopped_for_nothing()
            self._driver.count_links(now, process)
            self._driver.count_queue(now, process)
            self._driver.rows.append(process.recorder.stop(now + process.clock, now, reason))
            self._remove(now, process)

    def _note_contests(self, now: int) -> None:
        """Note for which processes another one has their name, or has it no more."""
        for process in self._driver.contests:
            if process.contested and not self._population.rivals(process):
                self._driver.cases.contested_for_nothing()
        self._driver.contests.clear()
        self._record_topology(now)

    def _remove(self, now: int, process: SimProcess) -> None:
        self._population.remove(now, process)
        self._record_topology(now)
        if process.restart_pending:
            self._planned -= 1
            self._restart(now, process.machine, None)

    def _record_topology(self, now: int) -> None:
        for process in self._population.survey():
            row = process.recorder.topology(now + process.clock, process.component, now)
            self._driver.rows.append(row)
