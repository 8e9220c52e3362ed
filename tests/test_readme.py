"""What the README shows is true: its programs run, its commands exist."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
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


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_the_readme_prints_what_its_comment_says(program: str) -> None:
    shown = re.findall(r"print\(.*\)  # (.*)", program)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines() == shown


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
