"""The processes of a run: which live where, which are gone, and who can reach whom.

Each member of the scenario has a machine and on it a *line* of processes, one after the other:
a restart makes the next one. An imposter is a process beside the line of the name it took.
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
    """All processes that there are. Whoever ends one says so with `bury`."""

    def __init__(self, scenario: Scenario, make: Maker, links: Links) -> None:
        self._scenario = scenario
        self._make = make
        self._links = links
        self._own = {p.name: p for p in scenario.member}
        self._shared = [shared_digest(scenario.config_of(name)) for name in scenario.members]
        """Per machine, what its member's settings that must agree are."""
        self._imposters = 0
        self._ended: list[tuple[MemberId, int]] = []
        self._groups: list[list[SimProcess]] = []
        self.everybody = boot_view([MemberId(name) for name in scenario.members])
        alone = scenario.start == "alone"
        self.line = [
            self._seat(MemberId(name), i, None if alone else self.everybody)
            for i, name in enumerate(scenario.members)
        ]
        """Per machine, the latest process of the member that it belongs to."""
        self.at: list[tuple[SimProcess, ...]] = [(seat,) for seat in self.line]
        """Per machine, the processes that live there."""
        self.live: tuple[SimProcess, ...] = tuple(self.line)
        """All that live, in the order of their starts."""

    def _seat(self, me: MemberId, machine: int, view: View | None) -> SimProcess:
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
        """The next process of a line, alone. Its machine's clock has gone on."""
        before = self.line[machine]
        assert before.gone, f"{before.me} still lives"
        seat = self._seat(MemberId(before.me.name, before.me.incarnation + 1), machine, None)
        seat.clock = before.clock
        self.line[machine] = seat
        self._settle(seat)
        return seat

    def intrude(self, imposter: Imposter) -> SimProcess:
        """A second process with a name, alone, on another member's machine."""
        names = self._scenario.members
        self._imposters += 1
        line = self.line[names.index(imposter.member)].me
        incarnation = imposter.incarnation
        if incarnation is None:
            incarnation = line.incarnation + IMPOSTERS_FROM * self._imposters
        machine = names.index(imposter.beside)
        seat = self._seat(MemberId(line.name, incarnation), machine, None)
        seat.clock = self.line[machine].clock
        self._settle(seat)
        return seat

    def _settle(self, seat: SimProcess) -> None:
        self.at[seat.machine] = (*self.at[seat.machine], seat)
        self.live = (*self.live, seat)

    def rivals(self, seat: SimProcess) -> list[MemberId]:
        """Who else has borne its name while it lived."""
        living = [s.me for s in self.live if s.me.name == seat.me.name and s is not seat]
        ended = [m for m, at in self._ended if m.name == seat.me.name and at >= seat.started_ns]
        return living + ended

    def bury(self, now: int, seat: SimProcess) -> None:
        """The process is gone."""
        assert seat.gone
        self._ended.append((seat.me, now))
        self.at[seat.machine] = tuple(s for s in self.at[seat.machine] if s is not seat)
        self.live = tuple(s for s in self.live if s is not seat)

    # ------------------------------------------------------------------ who reaches whom

    def survey(self) -> list[SimProcess]:
        """Find out anew who reaches whom; the processes for which that changed."""
        machines = [i for i, seats in enumerate(self.at) if seats]
        self._groups = [
            [seat for machine in group for seat in self.at[machine]]
            for group in components(machines, self._joined)
        ]
        changed: list[SimProcess] = []
        for group in self._groups:
            names = sorted(seat.me.name for seat in group)
            for seat in group:
                if seat.component != names:
                    seat.component = names
                    changed.append(seat)
        return changed

    def _joined(self, one: int, other: int) -> bool:
        """Whether processes of two machines may be in one view: packets pass, settings agree."""
        return self._shared[one] == self._shared[other] and self._links.linked(one, other)

    def agrees(self) -> bool:
        """Whether all who reach each other are in one view, and nobody else is in it."""
        return all(map(_agree, self._groups))

    def complaint(self) -> str:
        """Who keeps the run from its end, in one line."""
        busy = [s.label for s in self.live if s.leaving or not s.member.settled or s.backlog]
        if busy:
            return f"{', '.join(busy)} not settled"
        for group in self._groups:
            if not _agree(group):
                views = ", ".join(f"{s.label} in {shown(s.member.view)}" for s in group)
                return f"of those who reach each other, {views}"
        return "views agree, but not for long enough"


def _agree(group: list[SimProcess]) -> bool:
    view = group[0].member.view
    return list(view.members) == sorted(seat.me for seat in group) and all(
        seat.member.view.id == view.id for seat in group
    )


def shown(view: View) -> str:
    return f"{view.id.joins}.{view.id.removals} of {' '.join(map(str, view.members))}"
