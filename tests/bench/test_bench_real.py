"""`bench/bench_real.py` leaves nothing behind when it is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from bench.namespaces import available

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(bool(available()), reason=available())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_takes_its_namespaces_away(number: signal.Signals) -> None:
    command = [sys.executable, str(ROOT / "bench/bench_real.py"), "throughput", "--members", "2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(
        [*command, "--seconds", "60"], stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stderr
    line = ""
    while "trial 1" not in line:
        line = process.stderr.readline()
        assert line, "it ended by itself"
    assert f"phx-{process.pid}-" in names()
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == 1
    assert f"phx-{process.pid}-" not in names()


def names() -> str:
    return subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout
