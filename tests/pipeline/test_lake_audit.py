"""Audits of lakes: the verdicts of their journals, and no violation for want of deleted rows."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from phalanx.cli.main import main
from phalanx.journal.blocks import rows_block
from phalanx.journal.schema import Topology
from phalanx.journal.segment_file import SegmentFile
from phalanx.pipeline.ingest import ingest
from phalanx.pipeline.lake.lake import Lake
from phalanx.pipeline.lake.lake_maintenance import compact, retain
from phalanx.sim.generators import scenario_of
from phalanx.sim.journal_export import journals
from phalanx.sim.run import run

BEGIN = datetime(2026, 1, 1, 12, tzinfo=UTC)
BEGIN_NS = int(BEGIN.timestamp()) * 10**9
DAY_NS = 86_400 * 10**9
DAYS = 5


def on_several_days(folder: Path, seed: int) -> Path:
    """The journals of a simulated run as real members would have written them, a segment a day."""
    folder.mkdir()
    for header, rows in journals(run(scenario_of(seed, 3, 5, "membership"))):
        kept = [row for row in rows if not isinstance(row, Topology)]
        kept = [row for row in kept if getattr(row, "op", "") != "CRASH"]
        plain = [
            msgspec.structs.replace(row, lseq=lseq, sim_ns=None) for lseq, row in enumerate(kept, 1)
        ]
        for day in range(DAYS):
            some = plain[len(plain) * day // DAYS : len(plain) * (day + 1) // DAYS]
            clock = {"wall_ns": BEGIN_NS + day * DAY_NS, "mono_ns": some[0].t_ns if some else 0}
            facts = {"number": day + 1, "config": {"mode": header.config["mode"]}}
            file = SegmentFile(folder, msgspec.structs.replace(header, **clock, **facts))
            if some:
                file.append(rows_block(some), some)
            file.seal()
    return folder


def verdicts(*arguments: object) -> dict[str, Any]:
    words = ["audit", *map(str, arguments), "--engine", "local", "--json"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_an_audit_of_a_lake_finds_what_one_of_its_journals_finds(tmp_path: Path, seed: int) -> None:
    folder = on_several_days(tmp_path / "journals", seed)
    for day in range(1, DAYS + 1):
        ingest(sorted(folder.glob(f"*-{day:06}.phj")), tmp_path / "lake")
    assert verdicts(tmp_path / "lake") == verdicts(folder)
    compact(Lake(tmp_path / "lake"))
    assert verdicts(tmp_path / "lake") == verdicts(folder)


@pytest.mark.parametrize("seed", [1, 2])
def test_retention_makes_no_violation(tmp_path: Path, seed: int) -> None:
    """Every day that is deleted leaves less to verify, and nothing is violated."""
    folder = on_several_days(tmp_path / "journals", seed)
    ingest([folder], tmp_path / "lake")
    for day in range(1, DAYS):
        done = retain(Lake(tmp_path / "lake"), BEGIN + timedelta(days=day, hours=-1))
        assert done.rows > 0
        verdicts(tmp_path / "lake")
