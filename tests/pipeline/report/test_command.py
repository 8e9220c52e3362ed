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
from phalanx.pipeline.report.model import Finding, Page
from phalanx.pipeline.tables import Tables


def phalanx(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture
def given(
    monkeypatch: pytest.MonkeyPatch,
    tables: Tables,
    page: Page,
    findings: dict[tuple[str, str, str], list[Finding]],
) -> None:
    """Spark is that of the tests, and what it would be asked is known."""

    @contextmanager
    def asked(paths: Any, master: Any) -> Iterator[Tables]:
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


def test_a_place_that_cannot_be_written_is_told_before_any_work(tmp_path: Path) -> None:
    result = phalanx("report", tmp_path, "--out", tmp_path / "nowhere" / "report.html")
    assert result.exit_code == 2
    assert "nowhere is not a directory" in result.stderr
    assert len(result.stderr.splitlines()) == 1
