"""`phalanx report`: the page is written whole, and what is wrong is one line."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from tests.journal.journal_folder import keep, segment
from tests.pipeline.report.conftest import journals, renamed
from tests.verify.trace_builder import odyssey

from phalanx.cli.main import main
from phalanx.cli.report import write_page
from phalanx.journal.reader import read_all
from phalanx.journal.schema import Event
from phalanx.pipeline.group_tables import GroupKey, GroupTables
from phalanx.pipeline.report.model import ReportFinding
from phalanx.verify.evidence import judge
from phalanx.verify.properties import Verdict


def phalanx(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def fifo_is_broken(group: GroupTables) -> list[ReportFinding]:
    """Made up: in the group of the simulated run fifo is violated."""
    verdict: Verdict = "violated" if group.key.run == "simulated" else "holds"
    return [
        ReportFinding("fifo", verdict, 9, 1),
        ReportFinding("causal", "holds", 12, 0),
        ReportFinding("safe-marker", "unverifiable", 0, 0, why="nothing put it to the test"),
    ]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, simulated: list[Event]) -> Path:
    """Two runs of one cluster, and verdicts that are made up."""
    monkeypatch.setattr("phalanx.pipeline.report.verdicts.judge_group", fifo_is_broken)
    for run in ("simulated", "together"):
        place = tmp_path / "journals" / run
        place.mkdir(parents=True)
        for header, rows in journals(renamed(simulated, run, simulated=run == "simulated")):
            segment(place, list(rows), **msgspec.structs.asdict(header))
    return tmp_path / "journals"


def test_a_violation_is_exit_1_and_the_page_is_there(tmp_path: Path, folder: Path) -> None:
    out = tmp_path / "report.html"
    result = phalanx("report", folder, "--out", out, "--json")
    assert result.exit_code == 1
    facts = json.loads(result.stdout)
    assert facts["bytes"] == out.stat().st_size
    assert [run["run"] for run in facts["runs"]] == ["simulated", "together"]
    assert [run["violated"] for run in facts["runs"]] == [["fifo"], []]
    assert sorted(tmp_path.iterdir()) == [folder, out]
    assert out.read_text("utf-8").startswith("<!doctype html>")
    assert result.stderr.startswith("engine: local, ")


def test_the_lines_name_the_file_and_each_run(tmp_path: Path, folder: Path) -> None:
    out = tmp_path / "report.html"
    first, *runs = phalanx("report", folder, "--out", out).stdout.splitlines()
    assert first.startswith(f"{out}: ")
    assert len(runs) == 2
    assert "1 hold, 1 violated, 1 not verified" in runs[0]


def test_a_violation_in_a_run_that_is_not_shown_counts_and_is_told(
    tmp_path: Path, folder: Path, simulated: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = GroupKey("c", "together", simulated[0].group)
    monkeypatch.setattr("phalanx.pipeline.report.collect.largest", lambda sizes, most: [key])
    out = tmp_path / "report.html"
    result = phalanx("report", folder, "--out", out)
    assert result.exit_code == 1
    assert "1 of those not shown violate a guarantee: phalanx audit" in result.stdout
    facts = json.loads(phalanx("report", folder, "--out", out, "--json").stdout)
    assert (facts["violated_left_out"], facts["runs_left_out"]) == (1, 1)
    asked = phalanx("report", folder, "--out", out, "--run", "together")
    assert asked.exit_code == 0, "of a run that was not asked for nothing is said"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--group", "nobody"), "group 'nobody': there is no journal of it"),
        (("--run", "nobody"), "run 'nobody': there is nothing to show"),
        (("--run", "together", "--since", "2100-01-01"), "there is nothing to show"),
        (("--run", "together", "--since", "soon"), "INSTANT 'soon': not an instant"),
        (("--at", "1"), "only a lake has versions"),
    ],
)
def test_what_is_not_there_is_one_line_and_exit_2(
    tmp_path: Path, folder: Path, options: tuple[str, ...], told: str
) -> None:
    result = phalanx("report", folder, "--out", tmp_path / "report.html", *options)
    assert result.exit_code == 2
    assert told in result.stderr.splitlines()[-1]
    assert not (tmp_path / "report.html").exists()


def test_the_checkers_judge_the_journals_of_real_members(tmp_path: Path) -> None:
    place = keep(tmp_path / "journals", odyssey().rows)
    out = tmp_path / "report.html"
    result = phalanx("report", place, "--out", out, "--json")
    (run,) = json.loads(result.stdout)["runs"]
    (evidence,) = judge(read_all([place]))
    properties = evidence.report.properties
    verdicts = Counter(evidence.judgement(name).verdict for name in properties)
    assert run["verdicts"] == {
        kind: verdicts[kind] for kind in ("holds", "violated", "unverifiable")
    }
    assert result.exit_code == bool(verdicts["violated"])


def test_links_are_followed_and_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "page.html"
    link.symlink_to(tmp_path / "real" / "page.html")
    write_page(link, "text")
    assert link.is_symlink()
    assert (tmp_path / "real" / "page.html").read_text() == "text"
    null = tmp_path / "null"
    null.symlink_to("/dev/null")
    write_page(null, "text")
    assert Path("/dev/null").is_char_device()


def test_a_place_that_cannot_be_written_is_told_before_any_work(tmp_path: Path) -> None:
    result = phalanx("report", tmp_path, "--out", tmp_path / "nowhere" / "report.html")
    assert result.exit_code == 2
    assert "nowhere is not a directory" in result.stderr
    assert len(result.stderr.splitlines()) == 1
