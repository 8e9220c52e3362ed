"""`phalanx ms demo` in network namespaces: a small campus, and the whole one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from phalanx.cli.main import main
from phalanx.harness.campus_network import CampusNetwork, NetworkNotPossible, why_not

pytestmark = pytest.mark.xdist_group("mserver-processes")
needs_network = pytest.mark.skipif(bool(why_not()), reason=why_not() or "possible")


def demo(*words: str, timeout: float = 300) -> tuple[dict[str, Any], str]:
    """The result and what was printed besides."""
    command = [sys.executable, "-m", "phalanx", "ms", "demo", "--json", *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        out, lines = process.communicate(timeout=timeout)
        assert process.returncode == 0, lines[-4000:]
        left = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=False).stdout
        assert f"phxc-{process.pid}-" not in left
    facts: dict[str, Any] = json.loads(out)
    return facts, lines


def checked(facts: dict[str, Any], buildings: int, lans: int) -> None:
    assert (facts["mservers"], facts["interfaces"]) == (buildings + lans, lans)
    assert (facts["violations"], facts["refused"]) == ([], [])
    assert facts["members"] >= 2 * lans
    assert facts["pairs"] > 0
    assert facts["calls"] > 0


@needs_network
def test_a_small_campus_goes_through_a_kill_a_cut_and_a_merge(tmp_path: Path) -> None:
    page = tmp_path / "demo.html"
    facts, lines = demo("--lans", "2,1", "--html", str(page), "--keep", str(tmp_path / "kept"))
    checked(facts, buildings=2, lans=3)
    assert "lan-2 is killed (kill -9)" in lines
    assert "building-2, lan-3, cut off" in lines
    assert "chat is one group again" in page.read_text()
    assert (tmp_path / "kept" / "state" / "lan-2.log").exists()


@needs_network
@pytest.mark.slow
def test_the_whole_campus_goes_through_a_kill_a_cut_and_a_merge() -> None:
    facts, _ = demo()
    checked(facts, buildings=3, lans=11)
    assert facts["seconds"]["start"] + facts["seconds"]["repair"] < 180


@needs_network
@pytest.mark.slow
def test_the_demo_runs_without_root_in_a_user_namespace(tmp_path: Path) -> None:
    runuser = shutil.which("runuser")
    if os.geteuid() != 0 or runuser is None:
        pytest.skip("needs root and runuser, to become somebody else")
    trial = [runuser, "-u", "nobody", "--", "unshare", "-Urnm", "true"]
    if subprocess.run(trial, capture_output=True, check=False).returncode:
        pytest.skip("user namespaces are not permitted here")
    if subprocess.run(
        [runuser, "-u", "nobody", "--", sys.executable, "-c", ""], check=False
    ).returncode:
        pytest.skip("nobody may not run this Python")
    command = [sys.executable, "-m", "phalanx", "ms", "demo", "--json", "--lans", "2,1"]
    done = subprocess.run(
        [runuser, "-u", "nobody", "--", *command],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd="/tmp",
    )
    assert done.returncode == 0, done.stderr[-4000:]
    checked(json.loads(done.stdout), buildings=2, lans=3)


def test_a_system_without_namespaces_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phalanx.harness.campus_network.why_not", lambda: "there is no ip: get it")
    monkeypatch.setattr("phalanx.cli.ms_demo.as_root", lambda: None)
    result = CliRunner().invoke(main, ["ms", "demo"])
    assert result.exit_code == 2
    assert result.stderr == "phalanx: there is no ip: get it\n"
    with pytest.raises(NetworkNotPossible), CampusNetwork(["a"]):
        pass


@pytest.mark.parametrize(
    "lans", ["", "3", "a,b", "1,1", "2,2", "4,-1", "0,3,1", "200,1", "9999999999,1"]
)
def test_campuses_that_show_nothing_are_refused(lans: str) -> None:
    result = CliRunner().invoke(main, ["ms", "demo", "--lans", lans])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--lans" in result.stderr


@needs_network
def test_a_cut_building_hears_itself_and_nobody_else() -> None:
    def pings(network: CampusNetwork, one: str, other: str) -> bool:
        probe = (
            "import socket,sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM);"
            "s.bind((sys.argv[1], 7)); s.settimeout(0.4); s.sendto(b'x', (sys.argv[2], 7)); "
        )
        listener = network.spawn(
            other,
            [
                sys.executable,
                "-c",
                probe.replace(
                    "s.sendto(b'x', (sys.argv[2], 7))", "s.settimeout(5); print(1, flush=True)"
                )
                + "print(s.recv(9), flush=True)",
                network.address(other),
            ],
            stdout=subprocess.PIPE,
        )
        assert listener.stdout is not None
        listener.stdout.readline()
        sender = network.spawn(
            one, [sys.executable, "-c", probe, network.address(one), network.address(other)]
        )
        assert sender.wait(20) == 0
        try:
            return listener.wait(1.5) == 0
        except subprocess.TimeoutExpired:
            listener.kill()
            listener.wait(5)
            return False
        finally:
            listener.stdout.close()

    with CampusNetwork(["a", "b", "c"]) as network:
        assert pings(network, "a", "c")
        network.cut(["b", "c"])
        assert not pings(network, "a", "c")
        assert pings(network, "b", "c")
        network.heal()
        assert pings(network, "a", "c")
