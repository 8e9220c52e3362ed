"""The command itself: version, help, and errors in one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from phalanx.cli.main import main


def test_the_version_is_printed() -> None:
    result = CliRunner().invoke(main, ["--version"])
    assert result.exit_code == 0
    assert result.output.startswith("phalanx, version ")


@pytest.mark.parametrize(
    "command", [[], ["sim"], *(["sim", c] for c in ("run", "sweep", "replay", "demo"))]
)
def test_every_command_has_help_with_an_example(command: list[str]) -> None:
    result = CliRunner().invoke(main, [*command, "--help"])
    assert result.exit_code == 0
    assert "Example" in result.output
    assert "phalanx sim" in result.output


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["bogus"], "No such command 'bogus'"),
        (["sim", "bogus"], "No such command 'bogus'"),
        (["sim", "sweep"], "Missing option '--seeds'"),
        (["sim", "sweep", "--seeds", "7"], "'7' is not A:B"),
        (["sim", "sweep", "--seeds", "7:7"], "A is at least 0 and below B"),
        (["sim", "sweep", "--seeds", "0:1_0"], "'0:1_0' is not A:B"),
        (["sim", "sweep", "--seeds", "0:\u0661"], "is not A:B"),
        (["sim", "sweep", "--seeds", f"0:{1 << 63}"], "B is at most 9223372036854775807"),
        (["sim", "sweep", "--seeds", "0:1", "--members", "3:2"], "A is at least 1 and at most B"),
        (["sim", "sweep", "--seeds", "0:1", "--members", "2:65"], "B is at most 64"),
        (["sim", "sweep", "--seeds", "0:1", "--jobs", "x"], "'x' is not a whole number from 1 to"),
        (["sim", "replay", "--seed", str(1 << 63)], "from 0 to 9223372036854775807"),
        (["sim", "replay", "--seed", "\u0661"], "not a whole number"),
        (["sim", "replay", "--seed", "9" * 6000], "not a whole number"),
        (["sim", "replay", "--seed", "1", "--members", "9" * 11 + ":" + "9" * 11], "at most 64"),
        (["sim", "run", "a", "b\nc"], "b\\nc"),
        (["sim", "run", "a\nb"], "a\\nb: No such file"),
        (["sim", "run", "a", "--mutant", "nonesuch"], "nonesuch"),
        (["sim", "replay", "a\nb"], "a\\nb: cannot be read"),
        (["sim", "replay", "x", "--mutant", "y"], "--mutant goes with --seed N"),
        (["sim", "replay", "x", "--save", "y"], "--save goes with --seed N"),
        (["sim", "replay", "x", "--shrink", "y"], "--shrink goes with --seed N"),
        (["sim", "replay", "x", "--members", "2:8"], "--members goes with --seed N"),
        (["sim", "sweep", "--seeds", "0:1", "--members", "0:2"], "A is at least 1"),
        (["sim", "sweep", "--seeds", "0:1", "--jobs", "0"], "--jobs"),
        (["sim", "sweep", "--seeds", "0:1", "--mutant", "nonesuch"], "nonesuch"),
        (["sim", "run"], "Missing argument"),
        (["sim", "replay"], "either a FILE of events or --seed N"),
        (["sim", "replay", "x", "--seed", "1"], "either a FILE of events or --seed N"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_2(command: list[str], message: str) -> None:
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("phalanx: ")
    assert message in result.stderr


@pytest.mark.parametrize("command", [[], ["sim"]])
def test_a_group_of_commands_alone_prints_its_help_readably(command: list[str]) -> None:
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: ")
    assert "\nCommands:\n" in result.stdout
    assert result.stderr == ""


COMMAND = [sys.executable, "-m", "phalanx.cli.main"]


def test_output_that_finds_no_room_is_one_line_and_exit_2() -> None:
    device = Path("/dev/full")
    if not device.exists():
        pytest.skip(f"there is no {device}")
    with device.open("w") as full:
        done = subprocess.run(
            [*COMMAND, "sim", "demo"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize("command", [["--help"], ["sim", "demo"]])
def test_a_reader_that_goes_away_ends_the_command_quietly(command: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*COMMAND, *command],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writing)
    assert done.returncode == 141
    assert done.stderr == ""


INTERRUPTED_WHILE_IMPORTING = """
import sys
class Finder:
    def find_spec(self, name, path, target=None):
        if name == sys.argv[1]:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Finder())
from phalanx.cli.main import main
main(["sim", "demo"])
"""


@pytest.mark.parametrize("module", ["phalanx.cli.options", "phalanx.cli.sim", "phalanx.sim.demo"])
def test_an_interrupt_at_the_start_is_quiet_and_exit_130(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_WHILE_IMPORTING, module],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_interrupt_of_a_sweep_prints_what_was_done_and_exits_130() -> None:
    sweep = subprocess.Popen(
        [*COMMAND, "sim", "sweep", "--seeds", "0:999999999999", "--members", "2:2", "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with pytest.raises(subprocess.TimeoutExpired):  # it has started, and does not end by itself
        sweep.wait(3)
    os.killpg(sweep.pid, signal.SIGINT)  # as a terminal does: the workers get it too
    try:
        out, err = sweep.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        os.killpg(sweep.pid, signal.SIGKILL)
        raise
    assert sweep.returncode == 130
    assert " runs, 0 violations, 0 stuck\n" in out
    assert err == "phalanx: interrupted\n"


def test_the_package_can_be_run_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "phalanx", "--version"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "phalanx, version " in done.stdout


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("raise RuntimeError('a bug')", "RuntimeError: a bug"),
        ("import nonesuch", "No module named 'nonesuch'"),
        ("raise type('PanicException', (BaseException,), {})('a panic')", "PanicException: a pan"),
    ],
)
def test_an_error_of_our_own_exits_with_3_and_not_with_1(line: str, shown: str) -> None:
    """1 means that something was found, such as a violated guarantee."""
    program = (
        "from phalanx.cli.main import main\n"
        "@main.command()\n"
        "def crash():\n"
        f"    {line}\n"
        "main(['crash'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 3
    assert shown in done.stderr
    assert done.stderr.splitlines()[-1].startswith("phalanx: an error in phalanx itself")


@pytest.mark.parametrize("module", ["phalanx.cli.options", "phalanx.cli.audit"])
def test_an_installation_that_cannot_be_imported_exits_with_3_and_not_with_1(module: str) -> None:
    program = f"import sys\nsys.modules[{module!r}] = None\n"
    program += "from phalanx.cli.main import main\nmain(['audit', '.'])\n"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 3
    assert module in done.stderr
