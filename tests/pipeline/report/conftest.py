"""Journals in memory for the tests of the report, what it tells of them, and a browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.journal.journal_folder import header
from tests.verify.trace_builder import odyssey

from phalanx.journal.schema import Event
from phalanx.journal.segment import Header
from phalanx.pipeline.group_tables import GroupTables, groups_of_rows
from phalanx.pipeline.report.collect import collect
from phalanx.pipeline.report.model import Caps, EvidenceRow, Example, Page, ReportFinding
from phalanx.sim.demo import demo_scenario
from phalanx.sim.world import World

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Journals = list[tuple[Header, Sequence[Event]]]


def journals(rows: Iterable[Event], **given: Any) -> Journals:
    """One journal for each life; each on a machine of its own unless `boot_id` is given."""
    lives: dict[tuple[str, int], list[Event]] = {}
    for row in rows:
        lives.setdefault((row.member, row.incarnation), []).append(row)
    made: Journals = []
    for (member, incarnation), mine in sorted(lives.items()):
        known = {"boot_id": f"boot of {member}"} | given
        name = f"{mine[0].run}-{member}-{incarnation}"
        group = mine[0].group
        made.append(
            (
                header(journal=name, member=member, incarnation=incarnation, group=group, **known),
                mine,
            )
        )
    return made


def renamed(rows: Iterable[Event], run: str, simulated: bool) -> list[Event]:
    """The rows under the name of another run; without the simulator's clock if they are to be
    those of real members."""
    replace = msgspec.structs.replace
    if simulated:
        return [replace(row, run=run) for row in rows]
    real = [row for row in rows if getattr(row, "op", "") != "CRASH"]
    return [replace(row, run=run, sim_ns=None) for row in real]


@pytest.fixture(scope="session")
def simulated() -> list[Event]:
    """Five members: a crash, a partition, a merge, a restart."""
    return World(demo_scenario(1)).run().rows


@pytest.fixture(scope="session")
def groups(simulated: list[Event]) -> list[GroupTables]:
    """Three runs: simulated; the same as if all had shared a machine; and of several machines."""
    together = renamed(simulated, "together", simulated=False)
    apart = renamed(odyssey().rows, "apart", simulated=False)
    return groups_of_rows(
        [
            *journals(renamed(simulated, "simulated", simulated=True)),
            *journals(together, boot_id="one"),
            *journals(apart),
        ],
    )


@pytest.fixture(scope="session")
def findings(simulated: list[Event]) -> dict[tuple[str, str, str], list[ReportFinding]]:
    """Made up: one guarantee of each verdict."""
    row = next(row for row in simulated if type(row).__name__ == "Deliver")
    example = Example("made up", [row.member], [EvidenceRow(row.member, row.incarnation, row.lseq)])
    return {
        ("c", "simulated", row.group): [
            ReportFinding("fifo", "violated", 9, 7, examples=[example] * 7),
            ReportFinding("causal", "holds", 12, 0),
            ReportFinding("safe-marker", "unverifiable", 0, 0, why="nothing put it to the test"),
        ]
    }


@pytest.fixture(scope="session")
def page(
    groups: list[GroupTables], findings: dict[tuple[str, str, str], list[ReportFinding]]
) -> Page:
    return collect(groups, findings, version="0")


@pytest.fixture(scope="session")
def small(groups: list[GroupTables]) -> Page:
    """The same with hardly any room."""
    caps = Caps(
        runs=2, lanes=3, bands=8, sends=20, deliveries=60, marks=4, removals=4, steps=3, buckets=10
    )
    return collect(groups, {}, caps=caps)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium as the system has it; nothing is downloaded. Its driver runs an event loop in this
    thread until it ends: tests of other modules have loops of their own."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if found is None:
        pytest.skip("there is no chromium")
    with api.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield started
        started.close()
