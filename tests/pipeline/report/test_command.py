"""`phalanx report`: the page is written whole, and what is wrong is one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from phalanx.cli.main import main
from phalanx.cli.report import write_page
from phalanx.pipeline.report.model import Page, ReportFinding
from phalanx.pipeline.tables import Tables


def phalanx(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture
def given(
    monkeypatch: pytest.MonkeyPatch,
    tables: Tables,
    page: Page,
    findings: dict[tuple[str, str, str], list[ReportFinding]],
) -> None:
    """Spark is that of the tests, and what it would be asked is known."""

    @contextmanager
    def asked(paths: Any, master: Any, at: Any) -> Iterator[Tables]:
        yield tables

    monkeypatch.setattr("phalanx.cli.report.asked", asked)
    monkeypatch.setattr("phalanx.pipeline.audit.audit", lambda tables: None)
    monkeypatch.setattr("phalanx.pipeline.report.verdicts.findings_of", lambda audit: findings)
    monkeypatch.setattr("phalanx.pipeline.report.collect.collect", lambda *_, **__: page)


@pytest.mark.usefixtures("given")
def test_a_violation_is_exit_1_and_the_page_is_there(tmp_path: Path, page: Page) -> None:
    out = tmp_path / "report.html"
    result = phalanx("report", tmp_path, "--out", out, "--json")
    assert result.exit_code == 1
    facts = json.loads(result.stdout)
    assert facts["bytes"] == out.stat().st_size
    assert [run["run"] for run in facts["runs"]] == [run.run for run in page.runs]
    assert [run["violated"] for run in facts["runs"]] == [[], ["fifo"], []]
    assert list(tmp_path.iterdir()) == [out]
    assert out.read_text("utf-8").startswith("<!doctype html>")


@pytest.mark.usefixtures("given")
def test_the_lines_name_the_file_and_each_run(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    result = phalanx("report", tmp_path, "--out", out)
    first, *runs = result.stdout.splitlines()
    assert first.startswith(f"{out}: ")
    assert len(runs) == 3
    assert "1 hold, 1 violated, 1 not verified" in runs[1]


@pytest.mark.usefixtures("given")
def test_a_violation_in_a_run_that_is_not_shown_counts_and_is_told(
    tmp_path: Path,
    page: Page,
    findings: dict[tuple[str, str, str], list[ReportFinding]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = [run for run in page.runs if all(f.verdict != "violated" for f in run.findings)]
    monkeypatch.setattr(page, "runs", held)
    out = tmp_path / "report.html"
    result = phalanx("report", tmp_path, "--out", out)
    assert result.exit_code == 1
    assert "1 of those not shown violate a guarantee: phalanx audit" in result.stdout
    facts = json.loads(phalanx("report", tmp_path, "--out", out, "--json").stdout)
    assert facts["violated_left_out"] == 1
    asked = phalanx("report", tmp_path, "--out", out, "--run", held[0].run)
    assert asked.exit_code == 0, "of a run that was not asked for nothing is said"


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
