"""The examples in the help of every command: options and mutants that exist, and one for each
command."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.journal.journal_folder import keep
from tests.verify.trace_builder import odyssey

from phalanx.cli.main import COMMANDS, main
from phalanx.sim.mutants import MUTANTS
from phalanx.sim.service.service_mutants import service_mutant

ROOT = Path(__file__).resolve().parents[2]


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """All commands below this one, with their names from the top."""
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, (*path, name))


ALL = list(commands(main))


def found(path: tuple[str, ...]) -> click.Command:
    command: click.Command = main
    for name in path:
        assert isinstance(command, click.Group)
        below = command.get_command(click.Context(command), name)
        assert below is not None
        command = below
    return command


def examples(path: tuple[str, ...]) -> list[list[str]]:
    """The calls of phalanx in the examples of a help text: the words behind `phalanx`."""
    _, _, shown = (found(path).help or "").partition("Example")
    calls: list[list[str]] = []
    for line in shown.splitlines():
        open_call: list[str] | None = None
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        for word in lexer:
            if word == "phalanx" and open_call is None:
                open_call = []
                calls.append(open_call)
            elif not word.strip("|<>&"):
                open_call = None
            elif open_call is not None:
                open_call.append(word)
    return calls


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_has_examples_that_it_accepts(
    path: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arguments are read and checked; nothing is run. Files and folders of the repository exist,
    and others are made."""
    keep(tmp_path / "journals", odyssey().rows)
    for name in ("lake", "campaigns", "exported"):
        (tmp_path / name).mkdir()
    for name in ("scenarios", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    shown = examples(path)
    assert shown
    for words in shown:
        name, command, rest = "phalanx", found(()), words
        while isinstance(command, click.Group):
            below = command.get_command(click.Context(command), rest[0])
            assert below is not None, words
            name, command, rest = f"{name} {rest[0]}", below, rest[1:]
        context = command.make_context(name, list(rest))
        for mutant in (context.params.get("mutant"), *(context.params.get("only") or ())):
            if mutant is not None and name == "phalanx sim service":
                with service_mutant(mutant):
                    pass
            elif mutant is not None and name.startswith(("phalanx sim", "phalanx explore")):
                assert mutant in MUTANTS, words


SIMULATE = {"campaign", "explore", "sim"}


def test_only_commands_that_simulate_load_the_simulator() -> None:
    program = (
        "import click, sys; from phalanx.cli.main import main\n"
        "for name in sys.argv[1:]: main.get_command(click.Context(main), name)\n"
        "print(*(n for n in sys.modules if f'{n}.'.startswith('phalanx.sim.')))"
    )

    def loaded(*names: str) -> list[str]:
        run = [sys.executable, "-c", program, *names]
        done = subprocess.run(run, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.split()

    assert loaded(*COMMANDS.keys() - SIMULATE) == []
    assert "phalanx.sim.sweep" in loaded("sim")
