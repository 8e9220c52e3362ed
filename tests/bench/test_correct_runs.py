"""Correct runs that are audited together: played once, and judged as one folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import correct_runs


def test_runs_are_played_once_and_audited_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(correct_runs, "FILE_RUNS", 2)
    tasks = list(correct_runs.tasks(tmp_path, 3))
    assert [count for _, _, count in tasks] == [2, 1]
    assert sum(map(correct_runs.play, tasks)) == 3
    with monkeypatch.context() as patch:
        patch.setattr(correct_runs, "run", lambda _: pytest.fail("played again"))
        assert sum(map(correct_runs.play, tasks)) == 3
    found = correct_runs.audited(tmp_path)
    assert (found["runs"], found["violated"]) == (3, [])
    (tmp_path / "runs-0-2.json").unlink()  # it was stopped before its end
    assert correct_runs.play(tasks[0]) == 2
    assert correct_runs.audited(tmp_path) == found
