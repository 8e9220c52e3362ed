"""The setting `stretch_clock`: off by default, visible in the group and in the journal."""

from __future__ import annotations

from pathlib import Path

import phalanx
from phalanx import blocking
from phalanx.journal import reader


def test_by_default_time_outs_are_as_configured(group_name: str) -> None:
    with blocking.join(group_name, name="ada", config=phalanx.local()) as ada:
        assert not ada.config.stretch_clock
        assert ada._runner.clock._read_stats() is None, "the clock of the machine"
        assert ada.clock_stretch == 1.0


def test_groups_that_ask_for_it_share_one_clock_and_the_journal_has_the_setting(
    group_name: str, tmp_path: Path
) -> None:
    config = phalanx.local(stretch_clock=True)
    with (
        blocking.join(group_name, name="ada", config=config, journal=tmp_path) as ada,
        blocking.join(group_name, name="bea", config=config) as bea,
        blocking.join(group_name, name="cyd", config=phalanx.local()) as cyd,
    ):
        assert ada._runner.clock is bea._runner.clock
        assert cyd._runner.clock is not ada._runner.clock
        assert 1.0 <= ada.clock_stretch <= 16.0
    (header,) = reader.read_all([tmp_path]).headers.values()
    assert header.config["stretch_clock"] is True


def test_crowded_has_it() -> None:
    assert phalanx.crowded().stretch_clock
    assert not phalanx.crowded(stretch_clock=False).stretch_clock
    assert not phalanx.lan().stretch_clock
