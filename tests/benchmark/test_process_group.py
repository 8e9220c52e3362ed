"""Process groups of programs that only pretend to be members."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

import pytest

from phalanx.benchmark import process_group as module
from phalanx.benchmark.process_group import ProcessGroup, TrialFailed

# Reports a view of n members, then a result for each line that it reads.
MEMBER = """
import json, sys, time
n, odd = int(sys.argv[1]), sys.argv[2]
def say(what): print(what if isinstance(what, str) else json.dumps(what), flush=True)
if odd == "dies":
    sys.exit("the reason")
if odd == "babbles":
    say("babble")
if odd != "silent":
    say({"view": [f"m{i}" for i in range(n)], "at": time.monotonic_ns()})
for line in sys.stdin:
    begin, end = map(int, line.split())
    time.sleep(max(0, end - time.monotonic_ns()) / 1e9)
    say({"result": {"begin": begin, "end": end}})
if odd == "stays":
    time.sleep(1000)
if odd == "grumbles":
    sys.exit("no way out")
"""


def start_with(n: int, odd: dict[int, str]) -> module.Start:
    def start(i: int, **popen: Any) -> subprocess.Popen[str]:
        argv = [sys.executable, "-ISc", MEMBER, str(n), odd.get(i, "sound")]
        return subprocess.Popen(argv, **popen)

    return start


def group_of(n: int, **odd: str) -> ProcessGroup:
    return ProcessGroup(n, start_with(n, {int(i.removeprefix("m")): how for i, how in odd.items()}))


def test_all_members_measure_the_same_stretch_of_time() -> None:
    with group_of(3) as group:
        window = group.window(0.05, 0.1)
        results = group.results()
    assert len(window.costs()) == 3
    assert window.others() >= 0
    assert {(r["begin"], r["end"]) for r in results} == {(results[0]["begin"], results[0]["end"])}
    assert results[0]["end"] - results[0]["begin"] == 100_000_000
    assert group.complaints == []


def test_a_member_that_ends_early_is_named_with_its_last_error() -> None:
    with (
        pytest.raises(TrialFailed, match="m1: ended early; m1: the reason"),
        group_of(2, m1="dies"),
    ):
        pass


def test_a_member_that_talks_nonsense_is_named() -> None:
    with pytest.raises(TrialFailed, match=r"m0: wrote .*babble"), group_of(2, m0="babbles"):
        pass


def test_waiting_for_a_view_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BEGIN_SECONDS", 0.5)
    with pytest.raises(TrialFailed, match="no view of m0, m1 within"), group_of(2, m1="silent"):
        pass


def test_a_view_counts_only_if_it_is_newer_than_what_was_asked_for() -> None:
    with group_of(2) as group:
        at = group.kill(1)
        with pytest.raises(TrialFailed, match="no view"):
            group.wait_for_view([0, 1][:1], at, 0.2)
        group.start(1)
        since = group.wait_for_view([0, 1], 0, 5)
        assert since > at
        with pytest.raises(TrialFailed, match="no view"):
            group.wait_for_view([0, 1], since + 1, 0.2)


def test_members_that_do_not_leave_are_reported_and_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAVE_SECONDS", 0.5)
    with group_of(3, m1="stays", m2="grumbles") as group:
        pids = [group.pids(i)[0] for i in range(3)]
    assert group.complaints == ["m1 did not leave: exit -9", "m2 did not leave: no way out"]
    assert not any(alive(pid) for pid in pids)


def test_an_exception_ends_all_members_at_once() -> None:
    began = time.monotonic()
    pids = []
    with suppress(ZeroDivisionError), group_of(2, m0="stays") as group:
        pids += [group.pids(i)[0] for i in range(2)]
        raise ZeroDivisionError
    assert time.monotonic() - began < 5
    assert not any(alive(pid) for pid in pids)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
