"""A group that is judged in parts of a few rows gets the verdicts and counts of the whole.

Parts are pure functions of files: here Parquet files with few rows in a row group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.audit.played import Played, groups_of

from phalanx.journal.arrow_schema import arrow
from phalanx.pipeline.audit import RunVerdicts, judge_group
from phalanx.pipeline.audit.judge import judge_large_group
from phalanx.pipeline.audit.large_group import run_large_task
from phalanx.pipeline.audit.part_reader import GroupFiles
from phalanx.pipeline.group_tables import GroupTables
from phalanx.pipeline.lake.lake_file import LakeFile

ROWS = 7
"""Deliveries in a part: so few that most views and senders are split."""
EVERY = 6
"""Of the traces, every so many; all of them in the slow test."""
PARTS = 10
"""Of the longest traces about so many for each way of cutting; the slow test cuts all alike."""


def here(shared: bytes, tasks: Sequence[bytes]) -> Iterator[bytes]:
    return (run_large_task(shared, task) for task in tasks)


def in_files(group: GroupTables, folder: Path) -> GroupFiles:
    """Two files for each table."""
    files: dict[str, list[LakeFile]] = {}
    for name in group.names:
        table = group[name]
        half = table.num_rows // 2
        for i, part in enumerate((table.slice(0, half), table.slice(half))):
            if part.num_rows:
                path = folder / f"{name}-{i}.parquet"
                arrow().parquet.write_table(part, path, row_group_size=16)
                files.setdefault(name, []).append(
                    LakeFile(str(path), part.num_rows, path.stat().st_size)
                )
    return GroupFiles(group.key, list(group.journals), files)


def facts(run: RunVerdicts) -> dict[str, Any]:
    """What must be the same: verdicts, and how often each property is violated."""
    return {name: (r.verdict, r.violations) for name, r in run.properties.items()}


def compare(runs: Sequence[Played], folder: Path, part_rows: int, parts_max: int = 0) -> None:
    for group in groups_of(runs):
        place = folder / str(len(list(folder.iterdir())))
        place.mkdir()
        rows = max(part_rows, group["deliver"].num_rows // parts_max if parts_max else 0)
        parts = judge_large_group(in_files(group, place), here, part_rows=rows)
        whole = judge_group(group)
        assert facts(parts) == facts(whole), group.key
        assert (parts.absent, parts.torn, parts.mode) == (whole.absent, whole.torn, whole.mode)


def test_traces_are_judged_in_parts_as_in_one(traces: dict[str, Played], tmp_path: Path) -> None:
    compare(list(traces.values())[::EVERY], tmp_path, ROWS, PARTS)


@pytest.mark.slow
def test_all_traces_are_judged_in_parts_as_in_one(
    traces: dict[str, Played], good: list[Played], bad: list[Played], tmp_path: Path
) -> None:
    compare(list(traces.values()), tmp_path, ROWS)
    compare([*good, *bad], tmp_path, 150)
