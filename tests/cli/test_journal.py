"""`phalanx journal`: segments listed, rows printed, tables exported."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from tests.journal.journal_folder import journal, keep, row, rows, segment
from tests.verify.trace_builder import odyssey

from phalanx.cli.main import main
from phalanx.journal import reader
from phalanx.journal import schema as ev


def phalanx(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def test_ls_tells_whose_a_segment_is_what_is_in_it_and_how_it_ended(tmp_path: Path) -> None:
    keep(tmp_path, odyssey().rows)
    path = segment(tmp_path, rows(1, 3), rows(4, 5), wall_ns=10**18, mono_ns=0)
    path.write_bytes(path.read_bytes()[:-3])
    live = journal(tmp_path, "bea")
    result = phalanx("journal", "ls", tmp_path)
    assert result.exit_code == 0
    lines = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert set(lines) == {"member", "a.1", "ada.1", "b.1", "bea.1", "c.1", "d.1", "d.2"}
    assert "sealed" in lines["a.1"]
    assert "open" in lines["bea.1"]
    assert "1..3" in lines["ada.1"]
    assert "2001-09-09 01:46:40.001" in lines["ada.1"]
    assert "cut short" in lines["ada.1"]
    assert "bytes torn off!" in lines["ada.1"]
    live.close()
    listed = [json.loads(x) for x in phalanx("journal", "ls", path, "--json").stdout.splitlines()]
    (facts,) = listed
    assert (facts["member"], facts["group"], facts["rows"]) == ("ada.1", "g", 3)
    assert (facts["first"], facts["last"], facts["state"]) == (1, 3, "cut short")


def test_ls_lists_the_others_when_one_cannot_be_read(tmp_path: Path) -> None:
    segment(tmp_path, rows(1, 3))
    (tmp_path / "x.phj").write_bytes(b"")
    result = phalanx("journal", "ls", tmp_path)
    assert result.exit_code == 2
    assert "ada.1" in result.stdout
    assert "x.phj: the file is empty; remove it" in result.stdout
    assert "error" in phalanx("journal", "ls", tmp_path, "--json").stdout


def test_cat_prints_rows_as_lines_or_json(tmp_path: Path) -> None:
    segment(tmp_path, [row(1, view="v\n1")], rows(2, 3))
    lines = phalanx("journal", "cat", tmp_path).stdout.splitlines()
    assert lines[0].split() == [
        "1", "0.001000", "ada.1", "stable", "sender=ada", "sender_incarnation=1",
        "upto=1", "view=v\\n1",
    ]  # fmt: skip
    assert len(lines) == 3
    printed = phalanx("journal", "cat", tmp_path, "--json").stdout.splitlines()
    decoded = [msgspec.json.decode(line, type=ev.Stable) for line in printed]
    assert decoded == reader.read_all([tmp_path]).rows
    assert len(phalanx("journal", "cat", tmp_path, "--limit", 2).stdout.splitlines()) == 2
    assert phalanx("journal", "cat", tmp_path, "--limit", 0).stdout == ""


def test_cat_of_one_table_shows_its_rows_only(tmp_path: Path) -> None:
    keep(tmp_path, odyssey().rows)
    shown = phalanx("journal", "cat", tmp_path, "--table", "view_installed", "--json").stdout
    installs = [r for r in reader.read_all([tmp_path]).rows if isinstance(r, ev.ViewInstalled)]
    assert [msgspec.json.decode(x, type=ev.ViewInstalled) for x in shown.splitlines()] == installs
    assert "members=a,b,c,d" in phalanx("journal", "cat", tmp_path).stdout
    assert phalanx("journal", "cat", tmp_path, "--table", "nonsense").exit_code == 2


def test_export_writes_tables_and_marks_what_it_took(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    keep(tmp_path / "j", odyssey().rows)
    export = ("journal", "export", tmp_path / "j", "--to", tmp_path / "lake", "--mark", "lake")
    result = phalanx(*export)
    assert result.exit_code == 0
    assert result.stdout.startswith("5 segments exported")
    assert list((tmp_path / "lake" / "deliver").glob("*.parquet"))
    assert (tmp_path / "j" / "marks" / "lake.json").exists()
    assert json.loads(phalanx(*export, "--json").stdout)["before"] == 5


@pytest.mark.parametrize("command", ["cat", "ls"])
def test_bad_paths_are_one_line_and_exit_2(command: str, tmp_path: Path) -> None:
    result = phalanx("journal", command, tmp_path)
    assert result.exit_code == 2
    assert "there are no journals" in result.stderr
    assert result.stderr.count("\n") == 1
