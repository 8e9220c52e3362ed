"""The audit benchmark: its journals are sound, and its SQL says what the checkers say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench import audit_data, audit_duckdb, bench_audit
from phalanx.journal.arrow_schema import arrow
from phalanx.journal.parquet_export import NOTES

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which a member crashes and comes back."""
    folder = tmp_path_factory.mktemp("audit")
    facts = audit_data.make((folder, 0, 60_000))
    assert facts["deliveries"] > 40_000
    assert sum(facts["views"].values()) > 32, "everybody saw a second view"
    return folder / str(facts["run"])


def altered(small: Path, into: Path, change: Callable[[Rows], Rows]) -> Path:
    """The same journals, with other deliveries."""
    pa = arrow()
    for path in small.rglob("*.parquet"):
        table = pa.parquet.read_table(path)
        if path.parent.name == "deliver":
            table = pa.Table.from_pylist(change(table.to_pylist()), schema=table.schema)
        place = into / path.relative_to(small)
        place.parent.mkdir(parents=True, exist_ok=True)
        pa.parquet.write_table(table, place)
    (into / NOTES).symlink_to(small / NOTES)
    return into


def same(rows: Rows) -> Rows:
    return rows


def lose_one(rows: Rows) -> Rows:
    """m03 delivered one message less of the first view."""
    some = (r for r in rows if r["member"] == "m03" and r["last"] > r["first"])
    next(some)["last"] -= 1
    return rows


def in_the_wrong_order(rows: Rows) -> Rows:
    """m03 delivers something before what it depends on: its own rows the other way round."""
    mine = [r for r in rows if r["member"] == "m03" and r["service"] == "CAUSAL"][:12]
    numbers = [row["lseq"] for row in mine]
    for row, lseq in zip(mine, reversed(numbers), strict=True):
        row["lseq"] = lseq
    return rows


def at_another_place(rows: Rows) -> Rows:
    """m03 has two agreed ranges where others have two others."""
    one, two = [r for r in rows if r["member"] == "m03" and r["pos"] is not None][3:5]
    one["pos"], two["pos"] = two["pos"], one["pos"]
    return rows


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        (same, set()),
        (lose_one, {"virtual-synchrony"}),
        (in_the_wrong_order, {"causal"}),
        (at_another_place, {"running-prefix"}),
    ],
)
def test_sql_and_checkers_agree(
    small: Path, tmp_path: Path, change: Callable[[Rows], Rows], broken: set[str]
) -> None:
    folder = altered(small, tmp_path / "journals", change)
    found = bench_audit.duckdb(folder)["verdicts"]
    proven = bench_audit.in_process(folder)["verdicts"]
    assert {name: proven[name] for name in found} == found
    assert {name for name, verdict in found.items() if verdict == "violated"} >= broken
    assert broken or set(found.values()) == {"holds"}


def test_a_run_that_was_made_is_not_made_again(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_data, "World", lambda *_: pytest.fail("made again"))
    assert audit_data.make((small.parent, 0, 60_000))["run"] == small.name


def test_every_property_that_sql_judges_is_one_of_the_checkers() -> None:
    from phalanx.verify.properties import PROPERTIES

    assert set(audit_duckdb.CHECKS) <= set(PROPERTIES)


def test_memory_is_that_of_all_descendants() -> None:
    import os
    import subprocess
    import sys

    def resident() -> int:
        return sum(size for size, _ in bench_audit._family(os.getpid()).values())

    before = resident()
    program = "import sys; block = b'x' * (64 << 20); print('ready', flush=True); sys.stdin.read()"
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdout.readline()
    assert resident() - before > 60 << 20
    child.stdin.close()
    child.stdout.close()
    assert child.wait(10) == 0
