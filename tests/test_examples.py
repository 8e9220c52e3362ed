"""The programs in examples/ run, and `make lint` checks their types strictly."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str, given: str, group: str, *arguments: str, tmp_path: Path) -> str:
    """What the program prints; in a group of its own, for another one may be in use here."""
    text = (EXAMPLES / name).read_text()
    assert group in text
    program = tmp_path / name
    program.write_text(text.replace(group, f'"examples-{os.getpid()}-{tmp_path.name}"'))
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program), *arguments],
        input=given,
        text=True,
        capture_output=True,
        timeout=60,
        check=True,
    )
    return done.stdout + done.stderr


def test_hello_is_the_program_of_the_readme() -> None:
    readme = (EXAMPLES.parent / "README.md").read_text()
    assert (EXAMPLES / "hello.py").read_text().split('"""\n\n', 1)[1] in readme


def test_a_request_is_answered_with_the_members_that_have_it(tmp_path: Path) -> None:
    said = run("acknowledge.py", "debit 100\n", '"ledger"', "ada", tmp_path=tmp_path)
    assert "stored at ada" in said
    assert "[ada] debit 100" in said


def test_lines_are_published(tmp_path: Path) -> None:
    said = run("publish.py", "one\ntwo\n", '"log"', tmp_path=tmp_path)
    assert "the last line was delivered by 1 members" in said
