"""`phalanx watch` killed with kill -9 at random moments: nothing is lost and nothing is doubled.

1. Each row of the journals is in the lake once.
2. Each view of each group has one verdict, and the same as in a lake that nobody disturbed.
3. So have findings.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
from tests.pipeline.lakes import held, written
from tests.pipeline.watch.live_journals import (
    LiveJournals,
    findings_of,
    simulated_journals,
    verdicts_of,
    with_a_lost_message,
)

from phalanx.pipeline.ingest import ingest
from phalanx.pipeline.lake.lake import Lake
from phalanx.pipeline.watch.fill_verdicts import fill_verdicts

READY = "import phalanx.pipeline.watch.watcher as w, deltalake, sys; print('ready', flush=True)"
RUN = "from phalanx.cli.main import main; main(sys.argv[1:])"
WATCH = ["--every", "0", "--grace", "100000", "--open-every", "0"]


def started(*arguments: str) -> subprocess.Popen[str]:
    """A watch that has imported everything, in a process of its own."""
    command = [sys.executable, "-c", f"{READY}; {RUN}", "watch", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def survive(folder: Path, seeds: tuple[int, ...], kills: int) -> None:
    made = with_a_lost_message(simulated_journals(*seeds))
    live, dice = LiveJournals(folder / "journals", made), Random(kills)
    paths = [str(folder / "journals"), "--into", str(folder / "lake")]
    for turn in range(1, kills + 1):
        live.grow(turn / kills)
        process = started(*paths, *WATCH)
        try:
            time.sleep(dice.uniform(0, 3))  # the moment is what is tested
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate(timeout=30)
    live.close()
    last = started(*paths, "--once")
    last.communicate(timeout=120)
    assert last.returncode in (0, 1), last.returncode
    ingest([folder / "journals"], folder / "other")
    fill_verdicts(Lake(folder / "other"))
    assert held(folder / "lake") == written(folder / "journals")
    assert verdicts_of(folder / "lake") == verdicts_of(folder / "other")
    assert findings_of(folder / "lake") == findings_of(folder / "other")
    assert "violated" in {verdict for _, verdict, _ in verdicts_of(folder / "lake").values()}


def test_a_watch_that_is_killed_loses_and_doubles_nothing(tmp_path: Path) -> None:
    survive(tmp_path, (1,), 3)


@pytest.mark.slow
def test_a_watch_that_is_killed_twenty_times_loses_and_doubles_nothing(tmp_path: Path) -> None:
    survive(tmp_path, (1, 6, 10), 20)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_watch_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    live = LiveJournals(tmp_path / "journals", simulated_journals(1))
    live.grow(1)
    live.close()
    paths = [str(tmp_path / "journals"), "--into", str(tmp_path / "lake")]
    process = started(*paths, *WATCH, "--json")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("{"), "the first verdict"
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 0
    verdicts_of(tmp_path / "lake")
