"""The driver of Corosync: its client builds, and a group forms, loses a member and merges."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from bench.namespaces import Lan, available
from bench.peers.corosync.corosync import SOURCE, Corosync, missing

from phalanx.benchmark.measure import failover, flood, latency
from phalanx.benchmark.trial import Trial

REASON = missing()


@pytest.mark.skipif(bool(REASON), reason=REASON)
def test_the_client_builds_without_warnings(tmp_path: Path) -> None:
    command = ["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", str(SOURCE)]
    libraries = ["-o", str(tmp_path / "cpgbench"), "-lcpg", "-lcorosync_common"]
    subprocess.run([*command, *libraries], check=True)


def test_what_is_missing_is_told_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    assert "apt-get install corosync libcpg-dev" in missing()


@pytest.mark.slow
@pytest.mark.skipif(bool(REASON or available()), reason=REASON or available())
def test_a_group_of_corosync_delivers_fails_over_and_merges() -> None:
    with Lan(3) as lan:
        side = Corosync(lan)
        assert flood(side, Trial(mode="flood"), 0.5, 1).messages_per_second > 100
        assert latency(side, Trial(mode="latency", rate=100, senders=1), 0.5, 1).times[0] > 10_000
        kinds = [change.kind for change in failover(side, 1, lan, lambda: None)]
    assert kinds == ["kill", "cut", "heal"]
