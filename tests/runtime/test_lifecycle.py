"""How a process and its groups end: by itself, by SIGTERM, in the child of a fork."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import phalanx
from phalanx import blocking

LOCAL = phalanx.local()
SECONDS = 20.0


def program(text: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(text), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def gone_by_farewell(ada: blocking.Group, began: float) -> None:
    """The other one left: it was not missed until a time-out."""
    while len(ada.view.members) > 1:
        assert time.monotonic() - began < SECONDS
        time.sleep(0.002)
    assert time.monotonic() - began < 0.6, "it was missed, it did not leave"


BOB = """
    import sys, phalanx
    group = phalanx.blocking.join(sys.argv[1], name="bob", config=phalanx.local())
    group.wait_for(2, 20)
    print("here", flush=True)
"""


@pytest.mark.parametrize(
    ("more", "end"),
    [
        ("sys.stdin.readline()", "line"),  # falls off the end of the program
        ("sys.stdin.readline(); sys.exit(3)", "line"),
        ("sys.stdin.readline(); raise RuntimeError('by accident')", "line"),
        ("sys.stdin.readline()", "SIGTERM"),
    ],
)
def test_a_process_that_ends_leaves_its_groups(group_name: str, more: str, end: str) -> None:
    with blocking.join(group_name, name="ada", config=LOCAL) as ada:
        bob = program(textwrap.dedent(BOB) + more, group_name)
        assert bob.stdout is not None
        assert bob.stdout.readline() == "here\n"
        ada.wait_for(2, SECONDS)
        began = time.monotonic()
        if end == "SIGTERM":
            bob.send_signal(signal.SIGTERM)
            bob.communicate(timeout=SECONDS)
            assert bob.returncode == -signal.SIGTERM
        else:
            bob.communicate("go\n", timeout=SECONDS)
        gone_by_farewell(ada, began)


def test_a_handler_of_the_application_is_left_alone(group_name: str) -> None:
    bob = program(
        """
        import signal, sys, phalanx
        signal.signal(signal.SIGTERM, lambda *_: print("mine", flush=True))
        group = phalanx.blocking.join(sys.argv[1], name="bob", config=phalanx.local())
        print("here", flush=True)
        sys.stdin.readline()
        """,
        group_name,
    )
    assert bob.stdout is not None
    assert bob.stdout.readline() == "here\n"
    bob.send_signal(signal.SIGTERM)
    assert bob.stdout.readline() == "mine\n"
    bob.communicate("go\n", timeout=SECONDS)
    assert bob.returncode == 0


def test_the_child_of_a_fork_cannot_use_its_parents_group_and_can_join(group_name: str) -> None:
    child = program(
        """
        import os, sys, phalanx
        from phalanx import blocking
        from phalanx.errors import Forked
        group = blocking.join(sys.argv[1], name="ada", config=phalanx.local())
        pid = os.fork()
        if not pid:
            for use in (lambda: group.send(b"x"), lambda: group.receive(1), group.leave,
                        lambda: group.wait_for(1)):
                try:
                    use()
                except Forked as error:
                    print(error, flush=True)
            with blocking.join(sys.argv[1], name="bob", config=phalanx.local()) as own:
                own.wait_for(2, 20)
                print("joined", flush=True)
            os._exit(0)
        group.wait_for(2, 20)
        os.waitpid(pid, 0)
        group.send(b"still mine").stable(20, allow_missing=True)
        group.leave()
        print("parent done", flush=True)
        """,
        group_name,
    )
    out, errors = child.communicate(timeout=60)
    lines = out.splitlines()
    assert [line for line in lines if "before a fork" in line] == lines[:4], errors
    assert lines[4:] == ["joined", "parent done"], errors
    assert child.returncode == 0


def test_memory_without_extras_is_modest(group_name: str) -> None:
    child = program(
        """
        import re, sys, phalanx
        with phalanx.blocking.join(sys.argv[1], name="ada", config=phalanx.local()) as group:
            group.send(b"x").stable(20, allow_missing=True)
        status = open("/proc/self/status").read()  # getrusage counts what was before exec
        print(re.search(r"VmHWM:\\s+(\\d+)", status)[1])
        """,
        group_name,
    )
    out, errors = child.communicate(timeout=60)
    assert int(out) < 45_000, errors


def test_an_engine_that_ended_can_be_started_again(group_name: str) -> None:
    for _ in range(3):
        with blocking.join(group_name, name="ada", config=LOCAL) as ada:
            ada.send(b"x").stable(SECONDS, allow_missing=True)


def test_the_process_id_tells_who_joined(group_name: str) -> None:
    with blocking.join(group_name, config=LOCAL) as me:
        assert me.me.name.endswith(f"-{os.getpid()}")


DROPPED = """
    import gc, os, sys, warnings, phalanx
    from phalanx import blocking
    group = blocking.join(sys.argv[1], name="bob", config=phalanx.local())
    group.wait_for(2, 20)
    print("here", flush=True)
    sys.stdin.readline()
"""


def test_a_group_that_is_dropped_warns_and_leaves(group_name: str) -> None:
    with blocking.join(group_name, name="ada", config=LOCAL) as ada:
        bob = program(
            textwrap.dedent(DROPPED)
            + textwrap.dedent(
                """
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    del group
                    gc.collect()
                print([(w.category.__name__, str(w.message)) for w in caught], flush=True)
                sys.stdin.readline()
                """
            ),
            group_name,
        )
        assert bob.stdin is not None
        assert bob.stdout is not None
        assert bob.stdout.readline() == "here\n"
        ada.wait_for(2, SECONDS)
        began = time.monotonic()
        bob.stdin.write("drop it\n")
        bob.stdin.flush()
        gone_by_farewell(ada, began)
        told = bob.stdout.readline()
        assert "ResourceWarning" in told
        assert "was dropped without leave()" in told
        _, errors = bob.communicate("go\n", timeout=SECONDS)
        assert (bob.returncode, errors) == (0, "")


def test_a_group_that_is_dropped_leaves_even_if_warnings_are_errors(group_name: str) -> None:
    with blocking.join(group_name, name="ada", config=LOCAL) as ada:
        more = "warnings.simplefilter('error'); del group; gc.collect(); sys.stdin.readline()"
        bob = program(textwrap.dedent(DROPPED) + more, group_name)
        assert bob.stdin is not None
        assert bob.stdout is not None
        assert bob.stdout.readline() == "here\n"
        ada.wait_for(2, SECONDS)
        bob.stdin.write("drop it\n")
        bob.stdin.flush()
        ada.wait_for(gone="bob", timeout=SECONDS)
        _, errors = bob.communicate("go\n", timeout=SECONDS)
        assert "ResourceWarning: group" in errors
        assert bob.returncode == 0


FORK = textwrap.dedent("""
    pid = os.fork()
    if not pid:
        del group
        gc.collect()
        os._exit(0)
    os.waitpid(pid, 0)
    group.send(b"still mine").stable(20, allow_missing=True)
""")


@pytest.mark.parametrize(
    "end",
    [
        "",  # falls off the end: the process leaves its groups
        "group.leave(); del group",
        "group.leave(); sys.exit()",
        FORK,
    ],
    ids=["end", "left", "exit", "fork"],
)
def test_no_warning_where_nothing_was_dropped(group_name: str, end: str) -> None:
    with blocking.join(group_name, name="ada", config=LOCAL):
        start = "import warnings; warnings.simplefilter('always')"
        bob = program("\n".join([start, textwrap.dedent(DROPPED), end]), group_name)
        out, errors = bob.communicate("go\n", timeout=SECONDS)
        warned = [line for line in errors.splitlines() if "ran late" not in line]  # a busy machine
        assert (out, warned, bob.returncode) == ("here\n", [], 0)


def test_a_group_cannot_be_copied(group_name: str) -> None:
    with blocking.join(group_name, name="ada", config=LOCAL) as ada:
        for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="join again"):
                duplicate(ada)
        ada.send(b"still here").stable(SECONDS, allow_missing=True)
