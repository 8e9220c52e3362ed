"""One member of a benchmark: a process that sends, delivers everything, and prints its result.

It joins, prints each view, and reads a line `FROM UNTIL` (nanoseconds of CLOCK_MONOTONIC). Then one
thread sends and another reads every batch and touches every body, as an application would; the
result counts the deliveries between the two times. At the end of its input it leaves.
`process_group.py` starts it; `python -m phalanx.benchmark.worker` takes a `WorkerPlan` as JSON.
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
"""The size of one call when flooding: the capacity of a frame."""
STAMP_BYTES = 8
QUIET_SECONDS = 0.3
DRAIN_SECONDS = 5.0


class WorkerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The task of one member."""

    task: Trial
    i: int
    group: str
    config: Config
    journal: str | None = None


class Worker:
    """Counts sent messages in one thread and delivered messages in another."""

    def __init__(self, group: Group, plan: WorkerPlan) -> None:
        self._group = group
        self._task = plan.task
        self._rate = plan.task.rate_of(plan.i)
        self._service = Service[plan.task.service.upper()]
        self._begin = self._end = 0
        self._over = False
        self._messages = self._bytes = self._sent = 0
        self._latencies: list[int] = []

    def run(self) -> None:
        """Run until the input ends."""
        reader = threading.Thread(target=self._guarded, args=(self._read,), daemon=True)
        reader.start()
        line = sys.stdin.readline()
        if line:
            self._measure(*map(int, line.split()))
        sys.stdin.read()
        self._drain()

    def _drain(self) -> None:
        """Wait until no more messages arrive, so that all journals have all of them."""
        until = time.monotonic() + DRAIN_SECONDS
        before = -1
        while before != self._messages and time.monotonic() < until:
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
        _print({"result": result})

    # ------------------------------------------------------------------ sending

    def _flood(self) -> None:
        size = self._task.size
        count = max(1, BURST_BYTES // size)
        bodies = [bytes([k & 255]) * size for k in range(count)]
        while not self._over:
            self._group.send_many(bodies, self._service)
            self._sent += count

    def _trickle(self) -> None:
        """Send at random intervals, half to one and a half times the mean, so that the senders are
        synchronised neither with each other nor with the protocol's timers."""
        if not self._rate:
            return
        rng = random.Random()
        every = 1e9 / self._rate
        padding = bytes(max(0, self._task.size - STAMP_BYTES))
        due = time.monotonic_ns()
        while not self._over:
            due += int(every * (0.5 + rng.random()))
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
                    _print({"view": [member.name for member in run.members], "at": at})

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
        """End the process if a thread fails: a trial without it would measure nothing."""
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


def _print(message: dict[str, Any]) -> None:
    sys.stdout.write(msgspec.json.encode(message).decode() + "\n")
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
