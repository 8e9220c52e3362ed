"""Journals of a simulated service: the rows that its processes would have written.

Each life of each server and interface is one journal. Besides what processes record there are rows
of ground truth (`group_served`), and the headers say whether the run came to its end, so that
everything that was going to happen has happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

import msgspec

from phalanx.journal.blocks import rows_block
from phalanx.journal.ground_truth import GroundTruth
from phalanx.journal.schema import SCHEMA_VERSION, Event
from phalanx.journal.segment import Header
from phalanx.journal.segment_file import SegmentFile
from phalanx.journal.service_recorder import ServiceRecorder, configured_sets
from phalanx.journal.service_schema import SERVICE_GROUP
from phalanx.service.effects import ServiceEffect, StateApplied
from phalanx.service.entries import AdvanceGroup, PutGroup
from phalanx.service.group_messages import GroupCall
from phalanx.service.values import ServiceGroup
from phalanx.sim.service.group_checks import served_by
from phalanx.sim.service.simulated_hosts import Host, SimInterface, SimServer

if TYPE_CHECKING:
    from phalanx.sim.service.service_world import ServiceWorld

CLUSTER = "sim"
BLOCK_ROWS = 4096


class ServiceJournals:
    """Collects the rows of one run. `finish` once, at its end."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.lives: dict[tuple[str, int], list[Event]] = {}
        self._recorders: dict[str, ServiceRecorder] = {}
        self._known = GroundTruth()

    # ------------------------------------------------------------------ what happens

    def started(self, world: ServiceWorld, host: Host) -> None:
        """A host is up, with what is on its disk."""
        life = 1 + sum(name == host.name for name, _ in self.lives)
        recorder = ServiceRecorder(self.run, host.name, life, digests=True)
        self._recorders[host.name] = recorder
        configured = configured_sets(world.topology, host.name)
        records = list(host.disk.values())
        kind: Any = "SERVER" if isinstance(host, SimServer) else "INTERFACE"
        rows = recorder.start(world.now, host.gid, kind, configured, records, world.now)
        self.lives[host.name, life] = rows

    def crashed(self, world: ServiceWorld, host: Host) -> None:
        recorder = self._recorders.pop(host.name, None)
        if recorder is not None:
            self._keep(recorder, recorder.crash(world.now, world.now))

    def done(self, world: ServiceWorld, host: Host, effects: Sequence[ServiceEffect]) -> None:
        """Effects of a host that is up."""
        recorder = self._recorders[host.name]
        self._keep(recorder, recorder.record(world.now, effects, world.now))

    def submitted(self, world: ServiceWorld, host: Host, call: GroupCall) -> None:
        recorder = self._recorders[host.name]
        self._keep(recorder, recorder.submitted(world.now, call, world.now))

    def decided(self, world: ServiceWorld, server: SimServer, effect: StateApplied) -> None:
        """Whom all owners of the groups of a change serve at this instant. Servers that have
        decided another change of the set in the same step are not asked."""
        log = server.machine.logs.get(effect.state.set) if server.machine is not None else None
        if log is None or log.state.vid != effect.state.vid:
            return
        for entry in effect.commit.entries:
            if isinstance(entry, PutGroup | AdvanceGroup):
                own = _live(effect.state.groups.get(entry.uid))
                if own is None or not self._serve(world, server, effect.state.set, own):
                    continue
                for other, place, theirs in _owners(world, entry.uid):
                    if (other, place) != (server, effect.state.set):
                        self._serve(world, other, place, theirs)

    def _serve(self, world: ServiceWorld, server: SimServer, name: str, own: ServiceGroup) -> bool:
        members = served_by(world, server, name, own)
        if members:
            recorder = self._recorders[server.name]
            self._keep(recorder, recorder.served(world.now, name, own, members, world.now))
        return bool(members)

    def _keep(self, recorder: ServiceRecorder, rows: list[Event]) -> None:
        self.lives[recorder.name, recorder.life] += rows

    # ------------------------------------------------------------------ the end

    def finish(self, world: ServiceWorld, undisturbed_ns: int, settled: bool) -> None:
        """The last rows of all that are up. `settled`: whatever was going to happen has happened,
        and nothing was done to any host since `undisturbed_ns`."""
        self._known = GroundTruth(settled=settled, undisturbed_ns=undisturbed_ns)
        for name, recorder in sorted(self._recorders.items()):
            host = world.hosts[name]
            now = world.now
            if isinstance(host, SimInterface):
                machine = host.machine
                assert machine is not None
                path = [step.set for step in machine.home.path]
                members = machine.book.members.values()
                rows = recorder.stop_interface(now, machine.record, path, members, now)
            else:
                server = host.machine
                assert server is not None
                states = [(log.state, not log.is_idle) for _, log in sorted(server.logs.items())]
                rows = recorder.stop_server(now, states, sorted(server.joiners), now)
            self._keep(recorder, rows)
        self._recorders.clear()

    def journals(self) -> Iterator[tuple[Header, list[Event]]]:
        """Each life with its header, in the order of names."""
        for (member, life), rows in sorted(self.lives.items()):
            yield self._header(member, life, rows[0]), rows

    def write(self, folder: Path) -> Path:
        """Sealed segments in a folder below this one that is named after the run."""
        place = folder / self.run
        place.mkdir(parents=True, exist_ok=True)
        for header, rows in self.journals():
            file = SegmentFile(place, header)
            for begin in range(0, len(rows), BLOCK_ROWS):
                block = rows[begin : begin + BLOCK_ROWS]
                file.append(rows_block(block), block)
            file.seal()
        return place

    def _header(self, member: str, life: int, first: Event) -> Header:
        name = f"{self.run}/{member}/{life}"
        return Header(
            journal=_uuid(f"journal/{name}"),
            cluster=CLUSTER,
            group=SERVICE_GROUP,
            member=member,
            incarnation=life,
            number=1,
            schema=SCHEMA_VERSION,
            wall_ns=first.t_ns,
            mono_ns=first.t_ns,
            boot_id=_uuid(f"boot/{name}"),
            config={"truth": msgspec.to_builtins(self._known)},
        )


def _live(record: Any) -> ServiceGroup | None:
    own = record.own if record is not None else None
    return own if own is not None and own.ended is None else None


def _owners(world: ServiceWorld, uid: str) -> Iterator[tuple[SimServer, str, ServiceGroup]]:
    for server in world.servers.values():
        machine = server.machine
        for place in sorted(machine.groups.speakers) if machine is not None else ():
            if machine is not None and place in machine.logs:
                own = _live(machine.logs[place].state.groups.get(uid))
                if own is not None:
                    yield server, place, own


def _uuid(text: str) -> str:
    return uuid5(NAMESPACE_URL, f"phalanx:sim/service/{text}").hex
