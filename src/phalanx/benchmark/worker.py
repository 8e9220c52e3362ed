"""One member of a benchmark: a process that sends, delivers everything, and says what it saw.

It joins, prints each view, and waits to be told `FROM UNTIL` (nanoseconds of CLOCK_MONOTONIC).
From then on one thread sends and another reads every batch and touches every body, as an
application would; what was delivered between the two times is the result. At the end of its input
it leaves. `crew.py` runs it; `python -m phalanx.benchmark.worker` takes a `WorkerPlan` as JSON.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
import traceback
from typing import Any

import msgspec

from phalanx import Batch, Message, Messages, PhalanxError, Service, View
from phalanx.benchmark.trial import Trial
from phalanx.blocking import Group, join
from phalanx.config import Config

BURST_BYTES = 60_000
"""Handed over in one call when flooding: what one frame carries at most."""
STAMP_BYTES = 8
QUIET_SECONDS = 0.3
DRAIN_SECONDS = 5.0


class WorkerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What one member is to do."""

    task: Trial
    i: int
    group: str
    config: Config
    journal: str | None = None


class Worker:
    """Counts in one thread what was sent, in another what came."""

    def __init__(self, group: Group, plan: WorkerPlan) -> None:
        self._group = group
        self._task = plan.task
        self._rate = plan.task.rate_of(plan.i)
        self._service = Service[plan.task.service.upper()]
        self._begin = self._end = 1 << 62
        self._over = False
        self._messages = self._bytes = self._sent = 0
        self._latencies: list[int] = []

    def run(self) -> None:
        """Until the input ends."""
        reader = threading.Thread(target=self._guarded, args=(self._read,), daemon=True)
        reader.start()
        line = sys.stdin.readline()
        if line:
            self._measure(*map(int, line.split()))
        sys.stdin.read()
        self._drain()

    def _drain(self) -> None:
        """What was sent comes to all before anybody leaves, so that journals are whole."""
        give_up = time.monotonic() + DRAIN_SECONDS
        before = -1
        while before != self._messages and time.monotonic() < give_up:
            before = self._messages
            time.sleep(QUIET_SECONDS)

    def _measure(self, begin: int, end: int) -> None:
        self._begin, self._end = begin, end
        send = {"flood": self._flood, "latency": self._trickle}.get(self._task.mode)
        if send is not None:
            threading.Thread(target=self._guarded, args=(send,), daemon=True).start()
        _sleep_until(begin)
        before, messages, size = time.monotonic_ns(), self._messages, self._bytes
        _sleep_until(end)
        after, messages, size = time.monotonic_ns(), self._messages - messages, self._bytes - size
        self._over = True
        result = {
            "messages": messages,
            "bytes": size,
            "sent": self._sent,
            "ns": after - before,
            "latencies_ns": self._latencies,
        }
        _say({"result": result})

    # ------------------------------------------------------------------ sending

    def _flood(self) -> None:
        size = self._task.size
        count = max(1, BURST_BYTES // size)
        bodies = [bytes([k & 255]) * size for k in range(count)]
        while not self._over:
            self._group.send_many(bodies, self._service)
            self._sent += count

    def _trickle(self) -> None:
        """Half to one and a half times the mean distance: the senders fall in step neither with
        each other nor with the protocol's own timers."""
        if not self._rate:
            return
        chance = random.Random()
        every = 1e9 / self._rate
        padding = bytes(max(0, self._task.size - STAMP_BYTES))
        due = time.monotonic_ns()
        while not self._over:
            due += int(every * (0.5 + chance.random()))
            _sleep_until(due)
            stamp = time.monotonic_ns().to_bytes(STAMP_BYTES, "little")
            self._group.send(stamp + padding, self._service)
            self._sent += 1

    # ------------------------------------------------------------------ reading

    def _read(self) -> None:
        timed = self._task.mode == "latency"
        for batch in self._group.batches():
            bodies = batch.bodies()
            self._bytes += sum(map(len, bodies))
            self._messages += len(bodies)
            if timed:
                self._time(batch)
            for run in batch.runs:
                if isinstance(run, View):
                    at = time.monotonic_ns()
                    _say({"view": [member.name for member in run.members], "at": at})

    def _time(self, batch: Batch) -> None:
        now, me = time.monotonic_ns(), self._group.me
        for run in batch.runs:
            if isinstance(run, Messages | Message) and run.sender == me:
                bodies = run.bodies if isinstance(run, Messages) else [run.body]
                for body in bodies:
                    stamp = int.from_bytes(body[:STAMP_BYTES], "little")
                    if self._begin <= stamp < self._end:
                        self._latencies.append(now - stamp)

    def _guarded(self, work: Any) -> None:
        """A thread that fails ends the process: a trial without it would measure nothing."""
        try:
            work()
        except PhalanxError as error:
            if not self._over:
                _fail(str(error))
        except BaseException:
            traceback.print_exc()
            _fail("a thread failed")


def _sleep_until(at: int) -> None:
    time.sleep(max(0, at - time.monotonic_ns()) / 1e9)


def _say(what: dict[str, Any]) -> None:
    sys.stdout.write(msgspec.json.encode(what).decode() + "\n")
    sys.stdout.flush()


def _fail(message: str) -> None:
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()
    os._exit(1)


def main() -> None:
    plan = msgspec.json.decode(sys.argv[1], type=WorkerPlan)
    more = {} if plan.journal is None else {"journal": plan.journal}
    options: dict[str, Any] = {"name": f"m{plan.i}", "config": plan.config, **more}
    try:
        with join(plan.group, **options) as group:
            Worker(group, plan).run()
    except PhalanxError as error:
        _fail(str(error))


if __name__ == "__main__":
    main()
