"""Simulated runs as journals: what is written is what was played, and is judged alike."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from phalanx.cli.main import main
from phalanx.journal import parquet_export as parquet
from phalanx.journal.arrow_schema import arrow, schema
from phalanx.journal.ground_truth import truth_of
from phalanx.journal.reader import read_all
from phalanx.journal.schema import TABLES, Event
from phalanx.sim.generators import scenario_of
from phalanx.sim.journal_export import JournalExporter, journals, truth, write_journals
from phalanx.sim.run import RunResult, run
from phalanx.sim.sweep import Seeds, sweep
from phalanx.verify.evidence import judge
from phalanx.verify.properties import Needs, needing


@pytest.fixture(scope="module")
def changing() -> RunResult:
    return run(scenario_of(3, 4, 4, "membership"))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def ordered(rows: list[Event]) -> list[Event]:
    return sorted(rows, key=lambda row: (row.member, row.incarnation, row.lseq))


def test_the_journals_of_a_run_hold_its_rows_and_are_whole(
    changing: RunResult, tmp_path: Path
) -> None:
    write_journals(changing, tmp_path)
    reading = read_all([tmp_path])
    assert ordered(reading.rows) == ordered(changing.rows)
    assert all(segment.sealed and not segment.problems for segment in reading.segments)
    lives = {(row.member, row.incarnation) for row in changing.rows}
    assert {(h.member, h.incarnation) for h in reading.headers.values()} == lives
    assert len(reading.journals) == len(lives)


def test_the_same_run_gives_the_same_bytes(changing: RunResult, tmp_path: Path) -> None:
    write_journals(changing, tmp_path / "a")
    write_journals(run(changing.scenario), tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_two_runs_of_one_name_are_no_copies_of_each_other(changing: RunResult) -> None:
    other = msgspec.structs.replace(changing, digest="another")
    mine, theirs = ({head.journal for head, _ in journals(r)} for r in (changing, other))
    assert not mine & theirs


def test_a_simulated_run_that_settled_is_judged_with_liveness(
    changing: RunResult, tmp_path: Path
) -> None:
    """All but what needs the frames and the bodies, which journals do not hold."""
    write_journals(changing, tmp_path)
    (found,) = judge(read_all([tmp_path]))
    assert found.truth == truth(changing)
    for name in needing(Needs.SETTLED_RUN):
        mine, theirs = found.report.properties[name], changing.report.properties[name]
        assert (mine.evaluated, mine.found) == (theirs.evaluated, theirs.found), name
        assert found.judgement(name).verdict == theirs.verdict


def test_with_a_journal_missing_liveness_is_not_asked_for(
    changing: RunResult, tmp_path: Path
) -> None:
    place = write_journals(changing, tmp_path)
    sorted(place.glob("*.phj"))[0].unlink()
    (found,) = judge(read_all([tmp_path]))
    assert not found.truth.settled
    assert {found.judgement(name).verdict for name in needing(Needs.SETTLED_RUN)} == {
        "unverifiable"
    }
    assert not found.report.violated


def test_a_journal_whose_end_is_torn_off_is_held_against_nobody(
    changing: RunResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others delivered what its member sent in the part that is missing."""
    monkeypatch.setattr("phalanx.sim.journal_export.BLOCK_ROWS", 16)
    place = write_journals(changing, tmp_path)
    victim = max(place.iterdir(), key=lambda path: path.stat().st_size)
    victim.write_bytes(victim.read_bytes()[: victim.stat().st_size * 2 // 3])
    (found,) = judge(read_all([place]))
    assert found.unended
    assert not found.torn
    assert found.report.violated == ()
    assert found.judgement("multicast-liveness").verdict == "unverifiable"


def test_a_run_that_an_error_ended_is_not_taken_for_settled(changing: RunResult) -> None:
    broken = msgspec.structs.replace(changing, exception="Traceback")
    assert not truth(broken).settled
    assert all(not truth_of(head.config).settled for head, _ in journals(broken))


def test_exported_runs_are_the_rows_of_their_journals(changing: RunResult, tmp_path: Path) -> None:
    results = [changing, run(scenario_of(5, 2, 3, "fixed"))]
    with JournalExporter(tmp_path, "two") as export:
        for result in results:
            export.add(result)
    pa = arrow()
    found: Counter[Any] = Counter()
    for table in TABLES:
        path = tmp_path / table / "two.parquet"
        if not path.exists():
            continue
        read = pa.parquet.read_table(path)
        assert read.schema.equals(schema(table))
        for known in read.to_pylist():
            assert known.pop("cluster") == "sim"
            journal = known.pop("journal")
            found[journal, msgspec.json.encode(TABLES[table](**known))] += 1
    wanted = Counter(
        (head.journal, msgspec.json.encode(row))
        for result in results
        for head, rows in journals(result)
        for row in rows
    )
    assert found == wanted
    notes = [
        msgspec.json.decode(path.read_bytes(), type=parquet.Note)
        for path in (tmp_path / parquet.NOTES).glob("*.json")
    ]
    assert {note.header.journal for note in notes} == {journal for journal, _ in wanted}
    assert sum(sum(note.tables.values()) for note in notes) == sum(wanted.values())


def test_an_export_that_is_interrupted_leaves_nothing_that_is_read(
    changing: RunResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phalanx.sim.journal_export.GROUP_ROWS", 10)

    def interrupted() -> None:
        with JournalExporter(tmp_path, "one") as export:
            export.add(changing)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert contents(tmp_path) == {}


def test_the_commands_write_journals_and_check_judges_them(tmp_path: Path) -> None:
    scenario = tmp_path / "small.toml"
    scenario.write_text('members = ["a", "b"]\n[[traffic]]\nfrom = "a"\ncount = 3\n')
    place = str(tmp_path / "journals")
    played = CliRunner().invoke(main, ["sim", "run", str(scenario), "--journals", place])
    assert played.exit_code == 0, played.output
    checked = CliRunner().invoke(main, ["check", place, "--json"])
    (group,) = json.loads(checked.stdout)["groups"]
    assert group["properties"]["multicast-liveness"]["verdict"] == "holds"
    again = CliRunner().invoke(main, ["sim", "run", str(scenario), "--journals", place])
    assert (again.exit_code, again.stderr.count("\n")) == (2, 1)


def test_a_sweep_writes_the_journals_of_all_its_runs(tmp_path: Path) -> None:
    sweep(Seeds(0, 3, 2, 3), jobs=1, journals=tmp_path)
    notes = [
        msgspec.json.decode(path.read_bytes(), type=parquet.Note)
        for path in (tmp_path / parquet.NOTES).glob("*.json")
    ]
    assert {note.header.config["seed"] for note in notes} == {0, 1, 2}
