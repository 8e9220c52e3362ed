"""Real members through real faults: every message is accounted for."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.chaos import play
from bench.namespaces import available


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["flow", "hold"])
def test_every_message_is_accounted_for_after_a_minute_of_faults(mode: str, tmp_path: Path) -> None:
    if reason := available():
        pytest.skip(reason)
    found = play(1.0, mode, 1, tmp_path / "chaos")
    assert found["wrong"] == []
    assert found["counts"]["outcome"] > 1_000
    assert len(found["faults"]) >= 5


def test_every_message_is_accounted_for_after_some_faults(tmp_path: Path) -> None:
    if reason := available():
        pytest.skip(reason)
    found = play(0.05, "flow", 1, tmp_path / "chaos")
    assert found["wrong"] == []
    assert found["counts"]["outcome"] > 100
    assert found["faults"]
