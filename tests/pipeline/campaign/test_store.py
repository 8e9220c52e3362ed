"""Waves in a folder: whole or not there, and what is still to do."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from phalanx.errors import PipelineError
from phalanx.journal.arrow_schema import arrow
from phalanx.pipeline.campaign import store
from phalanx.pipeline.campaign.seed_task import SeedResult, Status, schema
from phalanx.pipeline.campaign.store import Wave
from phalanx.pipeline.campaign.summary import summaries, summary


def played(seed: int, status: Status = "ok", cpu_ms: int = 10) -> SeedResult:
    violated = ["fifo"] if status == "violated" else []
    return SeedResult(
        campaign="fixed-2-2",
        code_version="0a",
        seed=seed,
        status=status,
        steps=5,
        sim_ns=10**9,
        digest=f"d{seed}",
        violated=violated,
        error=None if status == "ok" else f"{status} it is",
        rows=7,
        delivered=3,
        counts={"property.fifo": 2, "fault.loss": 1},
        cpu_ms=cpu_ms,
    )


def table(rows: Iterable[SeedResult]) -> Any:
    pa = arrow()
    return pa.Table.from_pylist([msgspec.to_builtins(row) for row in rows], schema=schema())


def wave(first: int, end: int) -> Wave:
    return Wave("fixed-2-2", "0a", first, end)


@pytest.mark.parametrize(
    ("there", "todo"),
    [
        ([], [(10, 50)]),
        ([(0, 100)], []),
        ([(10, 20)], [(20, 50)]),
        ([(40, 60)], [(10, 40)]),
        ([(0, 12), (20, 30), (45, 50)], [(12, 20), (30, 45)]),
        ([(60, 70), (0, 5)], [(10, 50)]),
        ([(15, 40), (20, 25)], [(10, 15), (40, 50)]),
    ],
)
def test_what_is_left_is_what_no_wave_covers(
    there: list[tuple[int, int]], todo: list[tuple[int, int]]
) -> None:
    assert list(store.left([wave(*ends) for ends in there], 10, 50)) == todo


def test_a_wave_comes_back_in_the_order_of_seeds(tmp_path: Path) -> None:
    store.publish(tmp_path, wave(3, 6), table(map(played, (5, 3, 4))), 1500)
    assert store.waves_in(tmp_path) == [wave(3, 6)]
    assert store.waves_of(tmp_path, "fixed-2-2", "0b") == []
    assert store.rows(tmp_path, [wave(3, 6)]).equals(table(map(played, (3, 4, 5))))
    assert store.wall_ms(tmp_path, [wave(3, 6)]) == 1500


def test_a_wave_that_was_not_written_to_its_end_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            store.publish(tmp_path, wave(0, 1), table([played(0)]), 1)
    assert store.waves_in(tmp_path) == []
    store.publish(tmp_path, wave(0, 1), table([played(0)]), 1)
    assert store.waves_in(tmp_path) == [wave(0, 1)]


def test_a_wave_that_lacks_a_seed_is_not_published(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="not each seed once"):
        store.publish(tmp_path, wave(0, 3), table(map(played, (0, 2))), 1)
    assert store.waves_in(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError, match=r"/file: cannot be written"):
        store.publish(tmp_path / "file", wave(0, 1), table([played(0)]), 1)


def test_a_file_that_is_damaged_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / wave(0, 1).file).write_bytes(b"PAR1")
    with pytest.raises(PipelineError, match=r"0000000001\.parquet: .*delete it"):
        store.rows(tmp_path, [wave(0, 1)])


def test_a_summary_adds_up_the_waves_of_one_code(tmp_path: Path) -> None:
    store.publish(tmp_path, wave(0, 2), table([played(0), played(1, "violated")]), 500)
    store.publish(tmp_path, wave(2, 4), table([played(2, "inconclusive"), played(3)]), 500)
    other = Wave("fixed-2-2", "0b", 0, 1)
    store.publish(tmp_path, other, table([played(0)]), 500)
    found, newer = summaries(tmp_path)
    assert (found.code_version, newer.code_version) == ("0a", "0b")
    assert found.status == {"inconclusive": 1, "ok": 2, "violated": 1}
    assert [f.seed for f in found.failing] == [1]
    assert [f.seed for f in found.inconclusive] == [2]
    assert (found.failed, newer.failed) == (True, False)
    assert (found.seeds_per_second, found.cpu_seconds) == (4.0, 0.04)
    assert (found.properties, found.faults) == ({"fifo": 8}, {"loss": 4})
    assert "integrity" in found.never_evaluated
    part = summary(tmp_path, [wave(0, 2), wave(2, 4)], (2, 4))
    assert (part.seeds, part.failed) == (2, False)


def test_equal_results_have_equal_digests_whatever_the_waves_and_the_times(tmp_path: Path) -> None:
    rows = [played(seed, "ok", cpu_ms=seed) for seed in range(4)]
    store.publish(tmp_path / "a", wave(0, 4), table(rows), 10)
    store.publish(tmp_path / "b", wave(0, 1), table(map(played, (0,))), 1)
    store.publish(tmp_path / "b", wave(1, 4), table(map(played, (1, 2, 3))), 1)
    store.publish(tmp_path / "c", wave(0, 4), table([*rows[:3], played(3, "stuck")]), 10)
    one, two, three = (summaries(tmp_path / name)[0].digest for name in "abc")
    assert one == two != three


def test_files_that_are_no_waves_are_passed_over_and_bad_ones_named(tmp_path: Path) -> None:
    pa = arrow()
    whole = wave(0, 4)
    store.publish(tmp_path, whole, table(map(played, range(4))), 10)
    rows = pa.parquet.read_table(tmp_path / whole.file)
    pa.parquet.write_table(rows, tmp_path / "else.0a.0000000000-0000000004.parquet")
    (tmp_path / wave(4, 8).file).mkdir()
    assert [found.seeds for found in summaries(tmp_path)] == [4]
    pa.parquet.write_table(rows.slice(1), tmp_path / whole.file)
    with pytest.raises(PipelineError, match="its seeds are not those of its name; delete it"):
        summaries(tmp_path)
    pa.parquet.write_table(pa.table({"a": [1]}), tmp_path / whole.file)
    with pytest.raises(PipelineError, match=r"cannot be read .*; delete it"):
        summaries(tmp_path)


def test_cores_are_busy_with_all_seeds_of_the_waves_also_those_not_asked_for(
    tmp_path: Path,
) -> None:
    store.publish(tmp_path, wave(0, 4), table(played(n, cpu_ms=500) for n in range(4)), 1000)
    assert summary(tmp_path, [wave(0, 4)], (0, 1)).cores_busy == 2.0


def test_a_place_for_waves_is_looked_at_before_anything_is_played(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError, match=r"cannot be written .*; choose a place"):
        store.prepare(tmp_path / "file" / "rows")
