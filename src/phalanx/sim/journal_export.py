"""Simulated runs as journals: what the members of a run would have left on their disks.

`write_journals` writes one run as its members would, sealed segments in a folder of its own.
`JournalExporter` takes many runs straight to the layout that `journal.parquet_export` writes, some
runs a file, so that thousands can be audited together. Both say the same: every row, its `sim_ns`
included, and headers that tell under `truth` what only a simulator knows.

The same run gives the same bytes. The UUID of a journal names the run, its digest and the member,
so two runs that share a name are not mistaken for copies of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import msgspec

from phalanx.journal import parquet_export as parquet
from phalanx.journal.arrow_schema import arrow, schema
from phalanx.journal.blocks import rows_block
from phalanx.journal.columnar_reader import ScanSummary
from phalanx.journal.ground_truth import GroundTruth
from phalanx.journal.parquet_writer import ParquetTableWriter
from phalanx.journal.schema import SCHEMA_VERSION, Event, Life
from phalanx.journal.segment import Header
from phalanx.journal.segment_file import SegmentFile
from phalanx.sim.run import RunResult
from phalanx.sim.scenario.model import Scenario

CLUSTER = "sim"
BLOCK_ROWS = 4096
SEGMENT_ROWS = 1 << 18
GROUP_ROWS = 1 << 17
"""Rows of one table that are held before they are written."""


def name_of(scenario: Scenario) -> str:
    """What the rows of a run say under `run`."""
    return f"{scenario.name}-{scenario.seed}"


def truth(result: RunResult) -> GroundTruth:
    """What the simulator knows of the run; of one that an error ended, little."""
    return GroundTruth(
        settled=result.expect_liveness,
        undisturbed_ns=result.scenario.undisturbed_ns(),
        changes_max=result.scenario.changes_max,
    )


def header(first: Event, scenario: Scenario, known: GroundTruth, digest: str) -> Header:
    """Of the journal that begins with this row.

    The clocks of two machines are apart, and so are their boots. An imposter sits on a machine
    that its rows do not name: its boot is its own.
    """
    member, incarnation = first.member, first.incarnation
    life = f"{first.run}/{digest}/{member}"
    boot = life if scenario.in_line(member, incarnation) else f"{life}/{incarnation}"
    mode = scenario.config_of(member).mode
    facts = {"mode": mode, "seed": scenario.seed, "truth": msgspec.to_builtins(known)}
    return Header(
        journal=_uuid(f"journal/{life}/{incarnation}"),
        cluster=CLUSTER,
        group=first.group,
        member=member,
        incarnation=incarnation,
        number=1,
        schema=SCHEMA_VERSION,
        wall_ns=first.sim_ns or 0,
        mono_ns=first.t_ns,
        boot_id=_uuid(f"boot/{boot}"),
        config=facts,
    )


def _uuid(text: str) -> str:
    return uuid5(NAMESPACE_URL, f"phalanx:sim/{text}").hex


def journals(result: RunResult) -> list[tuple[Header, list[Event]]]:
    """Each life of each member, in the order of names, with its rows in theirs."""
    lives: dict[tuple[str, int], list[Event]] = {}
    for row in result.rows:
        lives.setdefault((row.member, row.incarnation), []).append(row)
    known = truth(result)
    return [
        (header(rows[0], result.scenario, known, result.digest), rows)
        for _, rows in sorted(lives.items())
    ]


# ---------------------------------------------------------------------- as members write them


def write_journals(result: RunResult, folder: Path) -> Path:
    """Sealed segments in a folder below this one that is named after the run. OSError where it
    cannot be written, FileExistsError where a journal of the same member lies there already."""
    place = folder / name_of(result.scenario)
    place.mkdir(parents=True, exist_ok=True)
    for head, rows in journals(result):
        for number, some in enumerate(_cut(rows, SEGMENT_ROWS), 1):
            file = SegmentFile(place, msgspec.structs.replace(head, number=number))
            for block in _cut(some, BLOCK_ROWS):
                file.append(rows_block(block), block)
            file.seal()
    return place


def _cut(rows: Sequence[Event], size: int) -> Iterator[list[Event]]:
    """About so many rows at a time; rows of one step stay together."""
    part: list[Event] = []
    for _, step in groupby(rows, key=attrgetter("step")):
        part += step
        if len(part) >= size:
            yield part
            part = []
    if part:
        yield part


# ---------------------------------------------------------------------- as tables, many runs a file


class JournalExporter:
    """Runs into one file a table, `DIR/<table>/<name>.parquet`, and a note a journal.

    A context manager. Files appear whole when it ends well, the notes last; after an exception
    nothing is there. Holds no more than some rows of each table in memory.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._files = ParquetTableWriter(lambda table: folder / table / f"{name}.parquet")
        self._pending: dict[str, list[tuple[str, Event]]] = {}
        self._known: dict[str, _Known] = {}

    def __enter__(self) -> JournalExporter:
        return self

    def add(self, result: RunResult) -> None:
        """All journals of a run."""
        for head, rows in journals(result):
            self.add_rows(head, rows)

    def add_rows(self, head: Header, rows: Iterable[Event]) -> None:
        """Rows of one journal, in their order; may be called again with more."""
        known = self._known.get(head.journal)
        if known is None:
            known = self._known[head.journal] = _Known(head)
        for row in rows:
            table = str(row.__struct_config__.tag)
            known.see(table, row)
            pending = self._pending.setdefault(table, [])
            pending.append((head.journal, row))
            if len(pending) >= GROUP_ROWS:
                self._flush(table)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._files.abandon()
            return
        for table in list(self._pending):
            self._flush(table)
        written = self._files.finish().values()
        size = sum(file.bytes for file in written) / max(1, sum(file.rows for file in written))
        for journal, known in self._known.items():
            note = known.note(self._name, round(known.found.rows * size))
            path = self._folder / parquet.NOTES / f"{self._name}-{journal}.json"
            parquet.write_note(path, note)

    def _flush(self, table: str) -> None:
        rows = self._pending.pop(table)
        wanted = schema(table)
        columns: dict[str, list[Any]] = {
            "cluster": [CLUSTER] * len(rows),
            "journal": [journal for journal, _ in rows],
        }
        for name in wanted.names[len(columns) :]:
            columns[name] = [getattr(row, name) for _, row in rows]
        self._files.add_batch(table, arrow().record_batch(columns, schema=wanted))


class _Known:
    """What the note of a journal will say."""

    def __init__(self, head: Header) -> None:
        self.head = head
        self.tables: dict[str, int] = {}
        self.found = ScanSummary(first=1, sealed=1)

    def see(self, table: str, row: Event) -> None:
        self.tables[table] = self.tables.get(table, 0) + 1
        found = self.found
        found.rows += 1
        found.run, found.last = row.run, row.lseq
        found.end_t_ns, found.end_sim_ns = row.t_ns, row.sim_ns
        if isinstance(row, Life) and row.op == "STOP":
            found.stopped = 1

    def note(self, name: str, size: int) -> parquet.Note:
        return parquet.Note(
            file=f"{name}.parquet",
            bytes=size,
            sealed=True,
            header=self.head,
            tables=self.tables,
            layout=parquet.LAYOUT,
            found=msgspec.to_builtins(self.found),
            shared=name,
        )
