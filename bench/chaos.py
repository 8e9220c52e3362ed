"""Real members through minutes of real faults, and an account of every message.

    python bench/chaos.py --minutes 10 --mode flow --out chaos-flow
    python bench/chaos.py --minutes 10 --mode hold --out chaos-hold --seed 2 --json

Five members in network namespaces send all the time, with all services, to all and to some.
Meanwhile they are killed, stopped and continued, leave, come back with and without their state
directory, stop reading, change their address; links are cut one way and both ways, the network is
split, packets are lost. Every member writes down each message that it sent with what its receipt
said, each NotSent and each message that it read. At the end all heals and all must be in one view;
then:

- every message that was accepted has an outcome, unless its sender was killed: nobody hangs;
- a member that a receipt names as having delivered a message has read it, if it lived to the end;
- `phalanx check` finds nothing in the journals.

Needs root and the packages that `make bench` installs. Exit 1 if something does not hold.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.namespaces import Lan, available

import phalanx
from phalanx import blocking
from phalanx.errors import PhalanxError, SubmissionError, TimedOut
from phalanx.harness.controller import MemberProcess, ProcessFailed, all_in_view

NAMES = ("ada", "bea", "cyd", "dov", "eli")
OUTCOME_SECONDS = 90.0
"""A receipt that says nothing for so long hangs."""
SETTLE_SECONDS = 60.0


# ---------------------------------------------------------------------------- a member


class Talker:
    """One member: sends, waits for receipts, reads, and writes all of it down."""

    def __init__(self, part: dict[str, Any]) -> None:
        self._chance = random.Random(part["seed"])
        self._out = Path(part["log"]).open("a", buffering=1, encoding="utf-8")  # noqa: SIM115
        self._lock = threading.Lock()
        self._reading = threading.Event()
        self._reading.set()
        self._talking = True
        self._open: list[tuple[str, float, blocking.Receipt]] = []
        self._state = part.get("state")
        config = phalanx.lan(mode=part["mode"], buffer_bytes_max=1 << 20)
        self.group = blocking.join(
            part["group"],
            name=part["name"],
            config=config,
            state=self._state,
            journal=part["journal"],
        )
        self.report("joined", me=str(self.group.me), address=self.group.address)
        self._write("me", str(self.group.me))
        self._threads = [
            threading.Thread(target=work, daemon=True)
            for work in (self._read, self._talk, self._await_receipts)
        ]
        for thread in self._threads:
            thread.start()

    def report(self, event: str, **more: Any) -> None:
        with self._lock, contextlib.suppress(BrokenPipeError):
            print(json.dumps({"event": event, "t_ns": time.monotonic_ns(), **more}), flush=True)

    def _write(self, *row: Any) -> None:
        self._out.write(json.dumps(row) + "\n")

    def _read(self) -> None:
        try:
            for event in self.group:
                self._reading.wait()
                match event:
                    case phalanx.Message(body=body):
                        self._write("read", body.decode().rstrip("."))
                    case phalanx.NotSent(first, last, members, rest):
                        self._write("not_sent", first, last, [str(m) for m in members], rest)
                    case phalanx.View(members=members):
                        self.report("view", members=[m.name for m in members])
        except PhalanxError as error:
            self.report("stopped", error=str(error))
            self._write("stopped", str(error))

    def _talk(self) -> None:
        count = 0
        while self._talking:
            count += 1
            name = f"{self.group.me}/{count}"
            body = name.encode().ljust(self._chance.choice((20, 100, 3000)), b".")
            service = self._chance.choice(list(phalanx.Service))
            to: list[phalanx.MemberId] | None = None
            members = self.group.view.members
            if self._chance.random() < 0.3:
                to = self._chance.sample(members, self._chance.randrange(1, len(members) + 1))
            try:
                receipt = self.group.send(body, service, to=to, timeout=OUTCOME_SECONDS)
            except SubmissionError:
                time.sleep(0.05)
                continue
            except TimedOut:
                self._write("hangs", name, "send")
                continue
            except PhalanxError:
                return
            self._write("sent", name)
            self._open.append((name, time.monotonic(), receipt))
            time.sleep(self._chance.choice((0.002, 0.01, 0.05)))

    def _await_receipts(self) -> None:
        """Each receipt is asked for what became of its message; seldom more than one is late."""
        while self._talking or self._open:
            if not self._open:
                time.sleep(0.01)
                continue
            name, since, receipt = self._open[0]
            try:
                left = max(0.1, since + OUTCOME_SECONDS - time.monotonic())
                outcome = receipt.delivered(left, allow_missing=True)
                self._write("outcome", name, [str(m) for m in outcome.members])
            except TimedOut:
                self._write("hangs", name, "delivered")
            except PhalanxError as error:
                self._write("failed", name, type(error).__name__)
            self._open.pop(0)

    def obey(self) -> None:
        for line in sys.stdin:
            given = json.loads(line)
            match given["command"]:
                case "rest":
                    self._reading.clear()
                    threading.Timer(given["period"], self._reading.set).start()
                case "hush":
                    self._talking = False
                    self._reading.set()
                    self._threads[1].join(OUTCOME_SECONDS)
                    self._threads[2].join(OUTCOME_SECONDS)
                    self.report("hushed", open=len(self._open))
                case "leave":
                    break
        self._talking = False
        self._threads[1].join(5)
        self.group.leave()
        self._threads[2].join(5)
        self._threads[0].join(5)
        self._write("left")
        self.report("left")


# ---------------------------------------------------------------------------- the faults


class Chaos:
    def __init__(self, lan: Lan, folder: Path, mode: str, seed: int) -> None:
        self.lan, self.folder, self.mode = lan, folder, mode
        self._chance = random.Random(seed)
        self.done: Counter[str] = Counter()
        self._lives = 0
        self._killed: set[str] = set()
        self.members = [self._start(i, state=True) for i in range(len(NAMES))]
        for member in self.members:
            member.joined()

    def _start(self, i: int, state: bool) -> MemberProcess:
        self._lives += 1
        part: dict[str, Any] = {
            "group": "chaos",
            "name": NAMES[i],
            "mode": self.mode,
            "seed": self._chance.randrange(1 << 30),
            "journal": str(self.folder / "journals" / NAMES[i]),
            "log": str(self.folder / f"{NAMES[i]}-{self._lives}.jsonl"),
        }
        if state:
            part["state"] = str(self.folder / "state" / NAMES[i])
        prefix = ["ip", "netns", "exec", self.lan.namespace(i)]
        with (self.folder / f"{NAMES[i]}.log").open("a") as errors:  # the process has its own
            return MemberProcess(part, prefix, errors, (sys.executable, __file__, "--member"))

    def go_on(self, seconds: float) -> None:
        until, told = time.monotonic() + seconds, 0.0
        while time.monotonic() < until:
            self._one_fault()
            time.sleep(self._chance.uniform(0.2, 3.0))
            if self._chance.random() < 0.3:
                self.lan.heal()
            if time.monotonic() - told > 30:
                told = time.monotonic()
                print(f"{until - told:5.0f} s left: {dict(self.done)}", file=sys.stderr, flush=True)

    def _one_fault(self) -> None:
        i = self._chance.randrange(len(NAMES))
        fault = self._chance.choice(
            ("kill", "stop", "cut", "one_way", "split", "lose", "leave", "rest", "address", "heal")
        )
        self.done[fault] += 1
        getattr(self, f"_{fault}")(i)

    def _again(self, i: int) -> None:
        """The member comes back, with its state directory or without it."""
        self.members[i].close()
        time.sleep(self._chance.choice((0.0, 0.3, 1.5)))
        kept = self._chance.random() < 0.7
        if not kept:
            self.done["state lost"] += 1
            shutil.rmtree(self.folder / "state" / NAMES[i], ignore_errors=True)
        self.members[i] = self._start(i, kept)
        self.members[i].joined()

    def _kill(self, i: int) -> None:
        self._killed.add(self.members[i].part["log"])
        self.members[i].kill()
        self._again(i)

    def _stop(self, i: int) -> None:
        self.members[i].freeze()
        time.sleep(self._chance.choice((0.1, 0.5, 2.0, 4.0)))
        self.members[i].thaw()

    def _other(self, i: int) -> int:
        return self._chance.choice([j for j in range(len(NAMES)) if j != i])

    def _cut(self, i: int) -> None:
        self.lan.cut(i, self._other(i))

    def _one_way(self, i: int) -> None:
        self.lan.cut_one_way(i, self._other(i))

    def _split(self, i: int) -> None:
        order = self._chance.sample(range(len(NAMES)), len(NAMES))
        at = self._chance.randrange(1, len(NAMES))
        self.lan.partition(order[:at], order[at:])

    def _lose(self, i: int) -> None:
        self.lan.lose(i, self._chance.choice((0.02, 0.1, 0.3)))

    def _leave(self, i: int) -> None:
        self.members[i].do("leave")
        self.members[i].wait(lambda t: t["event"] in ("left", "ended"), 30, why="left")
        self._again(i)

    def _rest(self, i: int) -> None:
        self.members[i].do("rest", period=self._chance.choice((0.5, 2.0)))

    def _address(self, i: int) -> None:
        """The interface gets another address."""
        ip = ["ip", "netns", "exec", self.lan.namespace(i), "ip"]
        address = f"10.77.{self._chance.randrange(1, 200)}.{i + 1}/16"
        for arguments in (
            ("-4", "addr", "flush", "dev", "eth0"),
            ("addr", "add", address, "brd", "+", "dev", "eth0"),
        ):
            subprocess.run([*ip, *arguments], check=True, timeout=10)

    def _heal(self, i: int) -> None:
        self.lan.heal()

    # -------------------------------------------------------------- the end

    def end(self) -> list[str]:
        """All heals, all are quiet, in one view, and leave; what is wrong."""
        self.lan.heal()
        try:
            for i, member in enumerate(self.members):
                if any(event["event"] in ("stopped", "ended") for event in member.events):
                    self.done["stopped for its name"] += 1
                    self._again(i)
            all_in_view(self.members, SETTLE_SECONDS)
            for member in self.members:
                member.do("hush")
            for member in self.members:
                member.wait(lambda t: t["event"] == "hushed", 2 * OUTCOME_SECONDS, why="hushed")
            for member in self.members:
                member.do("leave")
            for member in self.members:
                member.wait(lambda t: t["event"] == "left", 30, why="left")
        except (ProcessFailed, TimedOut) as error:
            return [f"the end: {error}"]
        finally:
            for member in self.members:
                with contextlib.suppress(ProcessLookupError):
                    member.process.send_signal(signal.SIGCONT)
                member.close()
        return []

    def account(self) -> tuple[dict[str, int], list[str]]:
        """What became of every message."""
        rows = {log: _rows(log) for log in sorted(self.folder.glob("*.jsonl"))}
        at_end = {Path(member.part["log"]) for member in self.members}
        read: dict[str, set[str]] = {}
        for log, found in rows.items():
            me = next((row[1] for row in found if row[0] == "me"), log.name)
            if log in at_end:
                read[me] = {row[1] for row in found if row[0] == "read"}
        counts: Counter[str] = Counter()
        wrong: list[str] = []
        for log, found in rows.items():
            told = {row[1] for row in found if row[0] in ("outcome", "failed", "hangs")}
            counts.update(row[0] for row in found)
            wrong += [f"{row[1]}: {row[2]} hangs" for row in found if row[0] == "hangs"]
            if str(log) not in self._killed:
                silent = [row[1] for row in found if row[0] == "sent" and row[1] not in told]
                wrong += [f"{name}: nothing was said of it" for name in silent]
            for row in found:
                if row[0] == "outcome":
                    for member in row[2]:
                        if member in read and row[1] not in read[member]:
                            wrong.append(f"{row[1]}: {member} should have read it")
        return dict(counts), wrong


def _rows(log: Path) -> list[list[Any]]:
    out = []
    for line in log.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(json.JSONDecodeError):  # the last line of one that was killed
            out.append(json.loads(line))
    return out


def play(minutes: float, mode: str, seed: int, folder: Path) -> dict[str, Any]:
    """Chaos for so long; what was done, counted, and found wrong."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with Lan(len(NAMES)) as lan:
        chaos = Chaos(lan, folder.resolve(), mode, seed)
        chaos.go_on(60 * minutes)
        wrong = chaos.end()
    counts, found = chaos.account()
    checked = subprocess.run(
        [sys.executable, "-m", "phalanx", "check", str(folder / "journals"), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if checked.returncode:
        wrong.append(f"phalanx check: exit {checked.returncode}: {checked.stderr[:500]}")
    return {
        "mode": mode,
        "seed": seed,
        "minutes": minutes,
        "faults": dict(chaos.done),
        "counts": counts,
        "wrong": wrong + found,
    }


def main() -> None:
    if sys.argv[1:2] == ["--member"]:
        Talker(json.loads(sys.argv[2])).obey()
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--mode", choices=("flow", "hold"), default="flow")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("chaos"))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    reason = available()
    if reason:
        sys.exit(f"chaos: {reason}")
    found = play(given.minutes, given.mode, given.seed, given.out)
    if given.json:
        print(json.dumps(found, indent=2))
    else:
        print(f"faults: {found['faults']}\nmessages: {found['counts']}")
        print("\n".join(found["wrong"][:50]) or "all is accounted for")
    sys.exit(bool(found["wrong"]))


if __name__ == "__main__":
    main()
