"""Bad datagrams at members that go on talking."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.fuzz import campaign


@pytest.mark.parametrize("datagrams", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_bad_datagrams_are_counted_and_break_nothing(datagrams: int, tmp_path: Path) -> None:
    found = campaign(datagrams, 1, tmp_path, progress=False)
    assert found["violations"] == []
    assert found["datagrams"] == datagrams
    for refused in found["refused"].values():
        assert {"short", "checksum", "cluster", "group", "version"} <= set(refused)
        assert sum(refused.values()) > datagrams // 2
    for before, after in zip(found["rss_kb_at_a_quarter"], found["rss_kb"], strict=True):
        assert after < before * 1.5 + 8_000
    delivered = {str(sorted(told.items())) for told in found["delivered"].values()}
    if all(views == 2 for views in found["views"].values()):
        assert len(delivered) == 1
