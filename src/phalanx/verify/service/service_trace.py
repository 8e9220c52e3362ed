"""The rows of a service in one run, by process: what the checkers read.

A *process* is a server or an interface with its incarnation, `name.incarnation`, which may live
more than once. A life is *complete* if its journal ends with a stop or a crash that a simulator
wrote down; behind the end of another one rows may be missing. A life is *torn* if rows are missing
before its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from phalanx.journal import service_schema as rows
from phalanx.journal.schema import Corrupt, Event, Gap, Life
from phalanx.verify.checkers.findings import PropertyResult, Report, RowPlace, Violation
from phalanx.verify.service.service_properties import SERVICE_PROPERTIES

KEPT_MAX = 100


@dataclass(slots=True)
class ProcessLife:
    """One life of one process."""

    host: str
    life: int
    process: str
    rows: list[Event]
    complete: bool
    torn: bool
    up: bool
    """It was running at the end of its journal: it was not crashed before, as far as is known."""

    def of(self, *kinds: type) -> Iterator[Event]:
        return (row for row in self.rows if isinstance(row, kinds))


@dataclass(slots=True)
class ServiceTrace:
    """All lives, in order, and who is named without a journal."""

    lives: list[ProcessLife]
    absent: list[str] = field(default_factory=list)
    """Servers, `name.incarnation`, and interfaces that rows name and that have no journal."""

    @property
    def torn(self) -> list[ProcessLife]:
        return [life for life in self.lives if life.torn]

    def processes(self) -> dict[str, list[ProcessLife]]:
        """The lives of each process, in order."""
        out: dict[str, list[ProcessLife]] = {}
        for life in self.lives:
            out.setdefault(life.process, []).append(life)
        return out

    def last_lives(self) -> list[ProcessLife]:
        """The last life of each host."""
        return list({life.host: life for life in self.lives}.values())

    def configured(self) -> dict[str, rows.SetConfigured]:
        """The sets of the configuration, as far as processes named them."""
        found = (row for life in self.lives for row in life.rows)
        return {row.set: row for row in found if isinstance(row, rows.SetConfigured)}


def trace_of(journals: Mapping[tuple[str, int], Sequence[Event]]) -> ServiceTrace:
    """The trace of journals by host and life; rows of a journal in their order."""
    lives = []
    for (host, life), found in sorted(journals.items()):
        last = found[-1] if found else None
        ended = isinstance(last, Life) and last.op in ("STOP", "CRASH")
        crashed = isinstance(last, Life) and last.op == "CRASH"
        started = next((r for r in found if isinstance(r, rows.ProcessStarted)), None)
        process = started.process if started is not None else f"{host}.0"
        numbers = [row.lseq for row in found]
        lost = any(isinstance(row, Gap | Corrupt) for row in found)
        torn = lost or numbers != list(range(1, len(numbers) + 1))
        lives.append(ProcessLife(host, life, process, list(found), ended, torn, not crashed))
    trace = ServiceTrace(lives)
    trace.absent = _absent(trace)
    return trace


def _absent(trace: ServiceTrace) -> list[str]:
    servers: set[str] = set()
    interfaces: set[str] = set()
    for row in (row for life in trace.lives for row in life.rows):
        if isinstance(row, rows.SetStateHeld | rows.SetStateApplied):
            servers.update(row.members)
        elif isinstance(row, rows.GroupViewInstalled):
            interfaces.update(member.rpartition("/")[0] for member in row.members)
    known = {life.process for life in trace.lives}
    hosts = {life.host for life in trace.lives}
    return [*sorted(servers - known), *sorted(interfaces - hosts)]


class ServiceFindings:
    """Collects the results while checkers run."""

    def __init__(self) -> None:
        self.report = Report({name: PropertyResult() for name in SERVICE_PROPERTIES})

    def evaluated(self, name: str, times: int = 1) -> None:
        self.report.properties[name].evaluated += times

    def violated(self, name: str, text: str, found: Iterable[Event], *others: str) -> None:
        """`others` are processes involved without a row."""
        result = self.report.properties[name]
        result.found += 1
        if len(result.violations) >= KEPT_MAX:
            return
        places = tuple(RowPlace(r.member, r.incarnation, r.lseq, r.sim_ns) for r in found)
        members = tuple(dict.fromkeys((*(p.member for p in places), *others)))
        result.violations.append(Violation(name, text, members, places))


def number_of(vid: str) -> int:
    """The number of a state or view; 0 for none."""
    number = vid.partition(":")[0]
    return int(number) if number.isdecimal() else 0
