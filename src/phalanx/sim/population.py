"""The processes of a run: on which machine each runs, which have ended, which can reach each other.

Each member of the scenario has a machine, on which its processes run one after the other: a restart
starts the next one. An imposter is another process that takes the same name.
"""

from __future__ import annotations

from random import Random

from phalanx.core.ids import MemberId, View, boot_view
from phalanx.core.wire.shared_settings import shared_digest
from phalanx.journal.recorder import Recorder
from phalanx.sim.connectivity import components
from phalanx.sim.network import Links
from phalanx.sim.process import Maker, SimProcess
from phalanx.sim.scenario.model import IMPOSTERS_FROM, Imposter, Peculiarity, Scenario

GROUP = "sim"


class Population:
    """All processes of a run. A caller that ends a process reports it with `remove`."""

    def __init__(self, scenario: Scenario, make: Maker, links: Links) -> None:
        self._scenario = scenario
        self._make = make
        self._links = links
        self._own = {p.name: p for p in scenario.member}
        self._shared = [shared_digest(scenario.config_of(name)) for name in scenario.members]
        """Per machine, the digest of the settings that must agree in a group."""
        self._imposters = 0
        self._ended: list[tuple[MemberId, int]] = []
        self._groups: list[list[SimProcess]] = []
        self.everybody = boot_view([MemberId(name) for name in scenario.members])
        alone = scenario.start == "alone"
        self.latest = [
            self._make_process(MemberId(name), i, None if alone else self.everybody)
            for i, name in enumerate(scenario.members)
        ]
        """Per machine, the latest process of the member that it belongs to."""
        self.at: list[tuple[SimProcess, ...]] = [(process,) for process in self.latest]
        """Per machine, the processes that live there."""
        self.live: tuple[SimProcess, ...] = tuple(self.latest)
        """All live processes, in the order of their starts."""

    def _make_process(self, me: MemberId, machine: int, view: View | None) -> SimProcess:
        scenario = self._scenario
        config = scenario.config_of(me.name)
        life = "" if me.incarnation == 1 else f" {me.incarnation}"
        entropy = Random(f"{scenario.seed} member {me.name}{life}").getrandbits(62)
        member = self._make(me, view or boot_view([me]), GROUP, config, entropy)
        recorder = Recorder(f"{scenario.name}-{scenario.seed}", GROUP, me, digests=True)
        own = self._own.get(me.name) or Peculiarity(name=me.name)
        return SimProcess(member, recorder, machine, own, config.frame_bytes_max)

    # ------------------------------------------------------------------ lives

    def restart(self, machine: int) -> SimProcess:
        """Start the next process of a member, in a view of its own, with its machine's clock."""
        before = self.latest[machine]
        assert before.gone, f"{before.me} still lives"
        me = MemberId(before.me.name, before.me.incarnation + 1)
        process = self._make_process(me, machine, None)
        process.clock = before.clock
        self.latest[machine] = process
        self._add(process)
        return process

    def add_imposter(self, imposter: Imposter) -> SimProcess:
        """Start a second process with a member's name, in a view of its own, on another machine."""
        names = self._scenario.members
        self._imposters += 1
        genuine = self.latest[names.index(imposter.member)].me
        incarnation = imposter.incarnation
        if incarnation is None:
            incarnation = genuine.incarnation + IMPOSTERS_FROM * self._imposters
        machine = names.index(imposter.beside)
        process = self._make_process(MemberId(genuine.name, incarnation), machine, None)
        process.clock = self.latest[machine].clock
        self._add(process)
        return process

    def _add(self, process: SimProcess) -> None:
        self.at[process.machine] = (*self.at[process.machine], process)
        self.live = (*self.live, process)

    def rivals(self, process: SimProcess) -> list[MemberId]:
        """Other processes that had its name during its life."""
        living = [s.me for s in self.live if s.me.name == process.me.name and s is not process]
        ended = [
            m for m, at in self._ended if m.name == process.me.name and at >= process.started_ns
        ]
        return living + ended

    def remove(self, now: int, process: SimProcess) -> None:
        """Take a process that has ended out of the population."""
        assert process.gone
        self._ended.append((process.me, now))
        self.at[process.machine] = tuple(s for s in self.at[process.machine] if s is not process)
        self.live = tuple(s for s in self.live if s is not process)

    # ------------------------------------------------------------------ connectivity

    def survey(self) -> list[SimProcess]:
        """Recompute which processes reach each other; return those for which that changed."""
        machines = [i for i, processes in enumerate(self.at) if processes]
        self._groups = [
            part
            for group in components(machines, self._joined)
            for part in _parts([process for machine in group for process in self.at[machine]])
        ]
        changed: list[SimProcess] = []
        for group in self._groups:
            names = sorted(process.me.name for process in group)
            for process in group:
                if process.component != names:
                    process.component = names
                    changed.append(process)
        return changed

    def _joined(self, one: int, other: int) -> bool:
        """Whether processes of two machines may be in one view: packets pass, settings agree."""
        return self._shared[one] == self._shared[other] and self._links.linked(one, other)

    def agrees(self) -> bool:
        """Whether all processes that reach each other are in one view, without others."""
        return all(map(_agree, self._groups))

    def complaint(self) -> str:
        """The processes that keep the run from ending, in one line."""
        busy = [s.label for s in self.live if s.leaving or not s.member.settled or s.backlog]
        if busy:
            return f"{', '.join(busy)} not settled"
        for group in self._groups:
            if not _agree(group):
                views = ", ".join(f"{s.label} in {shown(s.member.view)}" for s in group)
                return f"of those who reach each other, {views}"
        return "views agree, but not for long enough"


def _parts(group: list[SimProcess]) -> list[list[SimProcess]]:
    """Processes that reach each other, as those that may be in one view: one that has reported that
    its name is contested stays alone, as long as a process that has the name is there."""
    holders = {process.me.name for process in group if not process.contested}
    apart = [p for p in group if p.contested and p.me.name in holders]
    together = [process for process in group if process not in apart]
    return [together, *([process] for process in apart)] if apart else [group]


def _agree(group: list[SimProcess]) -> bool:
    view = group[0].member.view
    return list(view.members) == sorted(process.me for process in group) and all(
        process.member.view.id == view.id for process in group
    )


def shown(view: View) -> str:
    return f"{view.id.joins}.{view.id.removals} of {' '.join(map(str, view.members))}"
