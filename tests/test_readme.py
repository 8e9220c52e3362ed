"""What the README shows is true: its programs run, its commands exist."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import threading
from pathlib import Path

import click
import pytest

from phalanx.cli.main import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMANDS = re.findall(r"^(?:\$ .venv/bin/)?(phalanx [^\n#]+)", README, re.MULTILINE)


def test_the_readme_has_a_program_and_commands() -> None:
    assert PROGRAMS
    assert len(COMMANDS) > 3


def test_the_program_of_the_readme_does_what_is_shown(tmp_path: Path) -> None:
    """Three processes agree on views and order, and survive the kill of one."""
    (program,) = PROGRAMS
    # The group of the README may be in use on this network.
    mine = program.replace('"orders"', f'"readme-{os.getpid()}"')
    assert mine != program
    running = {}
    for name in ("ada", "bea", "cyd"):
        running[name] = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", mine, name], stdout=subprocess.PIPE, text=True
        )
    try:
        hellos = [_until(process, "hello", 3) for process in running.values()]
        assert hellos[0] == hellos[1] == hellos[2]
        assert sorted(hellos[0]) == [f"{name} b'hello from {name}'" for name in running]
        running["cyd"].kill()
        for name in ("ada", "bea"):
            assert _until(running[name], "view", 1) == ["view ada bea"]
    finally:
        for process in running.values():
            process.kill()
            process.communicate()


def _until(process: subprocess.Popen[str], word: str, count: int) -> list[str]:
    """The next lines with this word."""
    assert process.stdout is not None
    out: list[str] = []
    killer = threading.Timer(30, process.kill)
    killer.start()
    for line in process.stdout:
        if word in line:
            out.append(line.rstrip())
            if len(out) == count:
                break
    killer.cancel()
    return out


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_readme_can_be_given(line: str) -> None:
    words = shlex.split(line)[1:]
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group):
        found = command.get_command(context, words.pop(0))
        assert found is not None, line
        command = found
    command.make_context("phalanx", words)  # parses the rest, or raises


def test_documents_name_files_that_exist() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
