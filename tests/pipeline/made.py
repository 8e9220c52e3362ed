"""Journals for tests of history and measures: made by hand, and of simulated runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from phalanx.journal import schema as ev
from phalanx.journal.blocks import rows_block
from phalanx.journal.segment import Header
from phalanx.journal.segment_file import SegmentFile
from phalanx.pipeline.group_tables import GroupTables
from phalanx.sim.generators import scenario_of
from phalanx.sim.run import run

MS = 1_000_000
SECOND = 1000 * MS
WALL = 1_800_000_000 * SECOND
"""What the wall clock shows when the clocks of journals made by hand show 0."""
SEEDS = (1, 6, 10, 25, 27)
"""Membership scenarios with crashes, leaves, partitions, restarts and wrong suspicions."""

Row = TypeVar("Row")
Journal = tuple[Header, Sequence[ev.Event]]


def parted(who: str) -> tuple[str, int]:
    name, _, incarnation = who.rpartition(".")
    return name, int(incarnation)


class Hand:
    """Writes the journal of one member; times in milliseconds of its own clock."""

    def __init__(
        self,
        who: str,
        run: str = "r",
        group: str = "g",
        boot: str = "one",
        simulated: bool = False,
    ) -> None:
        self.member, self.incarnation = parted(who)
        self.run, self.group, self.boot, self.simulated = run, group, boot, simulated
        self.rows: list[Any] = []

    def put(self, at_ms: float, table: type[ev.Row], **columns: Any) -> Hand:
        t_ns = int(at_ms * MS)
        lseq = len(self.rows) + 1
        common: dict[str, Any] = {"run": self.run, "profile": "T", "group": self.group}
        common |= {
            "member": self.member,
            "incarnation": self.incarnation,
            "lseq": lseq,
            "step": lseq,
            "t_ns": t_ns,
        }
        common["sim_ns"] = t_ns if self.simulated else None
        self.rows.append(table(**common | columns))
        return self

    def view(self, at_ms: float, view: str, members: str, **columns: Any) -> Hand:
        """`members` as "ada.1 bea.1"."""
        pairs = [parted(member) for member in members.split()]
        views = [row.view for row in self.rows if isinstance(row, ev.ViewInstalled)]
        known: dict[str, Any] = {"view": view, "joins": 0, "removals": 0, "context": "c"}
        known |= {
            "members": [name for name, _ in pairs],
            "member_incarnations": [incarnation for _, incarnation in pairs],
        }
        known |= {"cause": "removal" if views else "boot", "previous": views[-1] if views else None}
        return self.put(at_ms, ev.ViewInstalled, **known | columns)

    def suspect(self, at_ms: float, target: str, state: str, **columns: Any) -> Hand:
        name, incarnation = parted(target)
        mine = [
            row.state
            for row in self.rows
            if isinstance(row, ev.PeerSuspicion)
            and (row.target, row.target_incarnation) == (name, incarnation)
        ]
        known = {
            "target": name,
            "target_incarnation": incarnation,
            "state": state,
            "evidence": "SILENCE",
        }
        known["previous"] = mine[-1] if mine else "OPERATIONAL"
        return self.put(at_ms, ev.PeerSuspicion, **known | columns)

    def step(self, at_ms: float, action: str, failed: str = "", stage: str = "IDLE") -> Hand:
        known = {"context": "c", "stage": stage, "action": action, "failed_after": failed.split()}
        return self.put(at_ms, ev.ViewChangeStep, **known)

    def life(self, at_ms: float, op: str) -> Hand:
        return self.put(at_ms, ev.Life, op=op)

    def clock(self, at_ms: float, ahead_ms: int) -> Hand:
        """The wall clock is so much further than it was at first."""
        wall = WALL + int(at_ms * MS) + ahead_ms * MS
        return self.put(at_ms, ev.Clock, wall_ns=wall, boot_id=self.boot)

    def submit(self, at_ms: float, first: int, last: int, size: int, service: str) -> Hand:
        total = size * (last - first + 1)
        return self.put(at_ms, ev.Accepted, first=first, last=last, service=service, size=total)

    def deliver(self, at_ms: float, sender: str, first: int, last: int, service: str) -> Hand:
        name, incarnation = parted(sender)
        known = {"sender": name, "sender_incarnation": incarnation, "first": first, "last": last}
        known |= {"service": service, "view": "v1", "phase": 0, "region": "REGULAR", "frame": 1}
        return self.put(at_ms, ev.Deliver, origin="v1", **known)

    @property
    def journal(self) -> Journal:
        return header(self.rows[0], self.boot), self.rows


def header(first: ev.Event, boot: str) -> Header:
    return Header(
        journal=f"{first.run}/{first.group}/{first.member}.{first.incarnation}",
        cluster="c",
        group=first.group,
        member=first.member,
        incarnation=first.incarnation,
        number=1,
        schema=ev.SCHEMA_VERSION,
        wall_ns=WALL,
        mono_ns=0,
        boot_id=boot,
        config={},
    )


def write_journal(folder: Path, journal: Journal) -> Path:
    """One journal as a file of one segment that is not sealed."""
    head, rows = journal
    folder.mkdir(parents=True, exist_ok=True)
    own = msgspec.structs.replace(head, journal=head.journal.replace("/", "-"))
    file = SegmentFile(folder, own)
    file.append(rows_block(list(rows)), list(rows))
    file.abandon()
    return folder


def of_rows(rows: Iterable[ev.Event]) -> list[Journal]:
    """The journals of all lives that these rows are of; each machine has a boot of its own."""
    lives: dict[tuple[str, str, int], list[ev.Event]] = {}
    for row in rows:
        lives.setdefault((row.run, row.member, row.incarnation), []).append(row)
    return [(header(own[0], own[0].member), own) for own in lives.values()]


def simulated(seeds: Sequence[int] = SEEDS) -> dict[str, list[ev.Event]]:
    """The rows of some runs, by the name of the run."""
    found = {}
    for seed in seeds:
        rows = run(scenario_of(seed, 3, 6, "membership")).rows
        found[rows[0].run] = rows
    return found


def each(
    measure: Callable[[GroupTables], Iterable[Row]], groups: Iterable[GroupTables]
) -> list[Row]:
    """The rows of all groups."""
    return [row for group in groups for row in measure(group)]


def rows_of(rows: Iterable[Any], *columns: str) -> list[tuple[Any, ...]]:
    """These columns of all rows, sorted as text."""
    found = [tuple(getattr(row, column) for column in columns) for row in rows]
    return sorted(found, key=lambda row: tuple((value is not None, str(value)) for value in row))
