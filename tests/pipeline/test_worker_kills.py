"""kill -9 of a worker of a cluster, with its executor, while a command runs: the same result.

The fast tests kill a worker when a task is at work on it. The slow ones kill one of the two at a
random moment of the time that the command takes undisturbed, start of Java included; each prints
its seed and what it killed (`pytest -s`).
"""

from __future__ import annotations

import json
import os
import random as chance
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.journal.journal_folder import keep
from tests.pipeline.daemons import PACKAGES, Standalone
from tests.verify.trace_builder import TraceBuilder

from phalanx.journal import schema as ev
from phalanx.journal.arrow_schema import arrow
from phalanx.journal.segment import HEADER_BYTES_MAX, file_name, header_bytes, header_of
from phalanx.pipeline.audit import audit_groups
from phalanx.pipeline.campaign import store
from phalanx.pipeline.campaign.code_version import code_version
from phalanx.pipeline.campaign.seed_task import Campaign, play, schema
from phalanx.pipeline.campaign.store import Wave
from phalanx.pipeline.campaign.summary import summary
from phalanx.pipeline.group_tables import read_groups
from phalanx.pipeline.session import LOG

KILLS = 10
SECONDS_MAX = 300.0
GROUPS = 5
ROUNDS = 25_000
"""So many make a group of more than a megabyte, which is a task of its own."""
MEMBERS = (3, 4)
SEEDS = 16
MUTANT = "duplicate-let-through"


# ---------------------------------------------------------------------- what is asked


def busy_group() -> list[ev.Event]:
    """Three members that send in turn, in two views."""
    tale = TraceBuilder("abc", reports=True)
    first = dict.fromkeys("abc", 1)
    random = chance.Random(1)
    pos = 0
    for at in range(ROUNDS):
        if at == ROUNDS - 9:
            tale.install("abc", "v2", "abc", removals=1)
            pos = 0
        sender, count = "abc"[at % 3], random.randint(1, 9)
        last = first[sender] + count - 1
        tale.submit(sender, first[sender], last).send(sender, first[sender], last)
        tale.deliver("abc", sender, first[sender], last, pos=pos, batch=at).receipts(sender, last)
        first[sender] += count
        pos += count
    return tale.stop().rows


def out_of_order(rows: Sequence[ev.Event]) -> list[ev.Event]:
    """c delivers two messages the other way round."""
    at = [i for i, row in enumerate(rows) if isinstance(row, ev.Deliver) and row.member == "c"][:2]
    changed = list(rows)
    for here, there in (at, reversed(at)):
        same = {name: getattr(rows[here], name) for name in ("lseq", "step", "t_ns", "sim_ns")}
        changed[here] = msgspec.structs.replace(rows[there], **same)
    return changed


def copy_group(folder: Path, name: str, into: Path) -> None:
    """The journals of a group once more, under another name."""
    into.mkdir(parents=True, exist_ok=True)
    for number, path in enumerate(sorted(folder.glob("*.phj"))):
        data = path.read_bytes()
        head, begin = header_of(path, data[:HEADER_BYTES_MAX])
        head = msgspec.structs.replace(head, group=name, journal=f"{name}{number}".rjust(32, "0"))
        made = into / file_name(name, head.member, head.incarnation, head.number)
        made.write_bytes(header_bytes(head) + data[begin:])


class Wanted(msgspec.Struct):
    """A command, and what it must print and return."""

    command: list[str]
    code: int
    told: Any
    only: list[str]
    """What is compared of the object it prints; everything if there is none."""

    def check(self, code: int, out: str, err: str) -> None:
        assert code == self.code, f"exit {code}: {err[-3000:]}"
        found = json.loads(out)
        found = {name: found[name] for name in self.only} if self.only else found
        assert found == self.told


Made = Callable[[bool], Wanted]
"""Whether something is wrong in it."""


@pytest.fixture(scope="module")
def audits(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Of groups in which nothing is wrong, or of the same with one in which something is."""
    place = tmp_path_factory.mktemp("audits")
    rows = busy_group()

    @cache
    def made(broken: bool) -> Wanted:
        folder, right = place / f"groups-{broken}", keep(place / f"right-{broken}", rows)
        for number in range(GROUPS):
            copy_group(right, f"{number:08x}", folder)
        if broken:
            copy_group(keep(place / "wrong", out_of_order(rows)), f"{GROUPS:08x}", folder)
        found = audit_groups(read_groups([folder]))
        assert bool(found.violated) == broken
        command = ["audit", str(folder), "--json"]
        return Wanted(command, int(broken), json.loads(found.to_json()), [])

    return made


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Of the protocol, or of one with a rule broken."""

    @cache
    def made(broken: bool) -> Wanted:
        chosen = Campaign("membership", *MEMBERS, MUTANT if broken else None)
        code = code_version()
        rows = [msgspec.to_builtins(play(chosen, code, seed)) for seed in range(SEEDS)]
        folder = tmp_path_factory.mktemp("campaign")
        wave = Wave(chosen.name, code, 0, SEEDS)
        store.publish(folder, wave, arrow().Table.from_pylist(rows, schema=schema()), 1)
        found = summary(folder, [wave])
        assert found.failed == broken
        command = ["campaign", "run", "--seeds", f"0:{SEEDS}", "--json"]
        command += ["--members", f"{chosen.lo}:{chosen.hi}"]
        command += ["--mutant", MUTANT] if broken else []
        told = {"digest": found.digest, "seeds": SEEDS, "status": found.status}
        return Wanted(command, int(broken), told, list(told))

    return made


# ---------------------------------------------------------------------- the kill


class Command:
    """A command that runs on a cluster."""

    def __init__(self, wanted: Wanted, url: str, log: Path) -> None:
        self._wanted, self._log = wanted, log
        environment = os.environ | {"PYTHONPATH": str(PACKAGES), LOG: str(log)}
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "phalanx.cli.main", *wanted.command, "--master", url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )

    def until(self, true: Callable[[], bool]) -> None:
        while not true():
            assert self.process.poll() is None, "it ended before"
            assert time.monotonic() < self.began + SECONDS_MAX, "waited too long"
            time.sleep(0.01)

    def check(self) -> float:
        """Waits for its end, which must be right; how long it took."""
        try:
            out, err = self.process.communicate(timeout=SECONDS_MAX)
        except subprocess.TimeoutExpired:
            pytest.fail(f"it has not ended; Spark says:\n{self._log.read_text()[-6000:]}")
        self._wanted.check(self.process.returncode, out, err)
        return time.monotonic() - self.began

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)  # Java too
        self.process.communicate()


@contextmanager
def command_on(machines: Standalone, wanted: Wanted) -> Iterator[Command]:
    """Afterwards the cluster has two workers again."""
    made = Command(wanted, machines.url, machines.folder / "driver.log")
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.kill()
        machines.replace()


def check_kill_at_work(machines: Standalone, wanted: Wanted) -> None:
    with command_on(machines, wanted) as command:
        at_work = [-1]

        def one_is_at_work() -> bool:
            found = (w for w in (0, 1) if any("pyspark" in c for c in machines.below(w)[1:]))
            at_work[0] = next(found, -1)
            return at_work[0] >= 0

        command.until(one_is_at_work)
        killed = machines.kill(at_work[0])
        assert any("CoarseGrainedExecutorBackend" in c for c in killed)
        command.check()


def check_random_kills(machines: Standalone, wanted: Made, name: str) -> None:
    with command_on(machines, wanted(False)) as command:
        undisturbed = command.check()
    print(f"\n{name}: {undisturbed:.1f} s undisturbed", flush=True)
    at_work = 0
    for seed in range(KILLS):
        random = chance.Random(seed)
        victim, moment = random.randrange(2), random.uniform(0.0, 1.0)
        killed = None
        while killed is None:
            with command_on(machines, wanted(seed % 2 == 1)) as command:
                at = moment * undisturbed
                with suppress(subprocess.TimeoutExpired):  # the moment itself is what is tested
                    command.process.wait(at)
                if command.process.poll() is None:
                    killed = machines.kill(victim)
                took = command.check()
            if killed is None:  # it had ended by then: earlier, and again
                undisturbed = min(undisturbed, took)
        executors = sum("CoarseGrainedExecutorBackend" in c for c in killed)
        tasks = sum("pyspark" in c for c in killed) - executors
        at_work += tasks > 0
        what = f"worker {victim + 1}, {executors} executors, {tasks} Python processes"
        end = f"exit {seed % 2} after {took:.1f} s"
        print(f"{name}: seed {seed}, killed at {at:.1f} s: {what}; {end}", flush=True)
    assert at_work, "no kill hit a task"


def test_an_audit_survives_the_kill_of_a_worker(machines: Standalone, audits: Made) -> None:
    check_kill_at_work(machines, audits(False))


def test_a_campaign_survives_the_kill_of_a_worker(machines: Standalone, campaigns: Made) -> None:
    check_kill_at_work(machines, campaigns(False))


@pytest.mark.slow
def test_an_audit_survives_kills_at_random_moments(machines: Standalone, audits: Made) -> None:
    check_random_kills(machines, audits, "audit")


@pytest.mark.slow
def test_a_campaign_survives_kills_at_random_moments(machines: Standalone, campaigns: Made) -> None:
    check_random_kills(machines, campaigns, "campaign")
