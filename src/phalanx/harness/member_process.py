"""A member process that is controlled by JSON lines: commands in, events out.

    python -m phalanx.harness.member_process '{"group": "demo", "name": "ada", "journal": "/tmp/j"}'

It joins at once and reports `joined`, then every view as it is installed, and an answer to each
command. Commands: `send` (count, size, service, to), `flood` (seconds, size, service), `trickle`
(count, pause, service; receivers report the latencies of these messages), `cut` and `cut_from`
(addresses), `lose` (share), `heal`, `rest` (stop reading events for `period` seconds), `step_clock`
(by), `report`, `leave`. At the end of its input it leaves.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from phalanx import blocking
from phalanx.config import Config, checked
from phalanx.core.effects import Service
from phalanx.errors import EventsUnread, PhalanxError
from phalanx.journal.settings import JournalSettings
from phalanx.runtime.events import EventsLost, Merged, Messages, View

FRAME = 60_000
STAMP = b"sent at "


class ControlledMember:
    def __init__(self, part: dict[str, Any]) -> None:
        config = checked(msgspec.convert(part.get("config", {}), Config))
        more: dict[str, Any] = {
            key: part[key] for key in ("name", "state", "journal") if key in part
        }
        if "journal_settings" in part:
            more["journal_settings"] = JournalSettings(**part["journal_settings"])
        self._lock = threading.Lock()
        self.group = blocking.join(part["group"], config=config, **more)
        self._delivered: Counter[str] = Counter()
        self._lost = 0
        self._latencies: dict[str, list[int]] = {}
        """Of the messages of `trickle`, by sender, since the last report."""
        self._latencies_lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, name="reader", daemon=True)
        self._resting = threading.Event()
        self._resting.set()
        self._work: queue.Queue[dict[str, Any]] = queue.Queue()
        self._worker = threading.Thread(target=self._run_slow, name="worker", daemon=True)
        self.report(
            "joined",
            me=str(self.group.me),
            address=self.group.address,
            pid=os.getpid(),
            window=self.group.config.window_bytes_max,
        )
        self._reader.start()
        self._worker.start()

    def report(self, event: str, **more: Any) -> None:
        line = json.dumps({"event": event, "t_ns": time.monotonic_ns(), **more})
        with self._lock, contextlib.suppress(BrokenPipeError):
            print(line, flush=True)

    # -------------------------------------------------------------- events

    def _read(self) -> None:
        try:
            for batch in self.group.batches():
                self._resting.wait()
                for run in batch.runs:
                    if isinstance(run, Messages):
                        bodies = run.bodies
                        self._delivered[run.service.name] += len(bodies)
                        if bodies[0].startswith(STAMP):
                            self._time(run.sender.name, bodies)
                    elif isinstance(run, View):
                        self.report(
                            "view",
                            id=str(run.id),
                            members=[m.name for m in run.members],
                            merged=len(run.sides) if isinstance(run, Merged) else 0,
                        )
                    elif isinstance(run, EventsLost):
                        self._lost += run.count
        except PhalanxError as error:
            self.report("stopped", error=str(error))

    def _time(self, sender: str, bodies: Sequence[bytes]) -> None:
        now = time.monotonic_ns()
        stamps = [int.from_bytes(body[len(STAMP) :], "big") for body in bodies]
        with self._latencies_lock:
            self._latencies.setdefault(sender, []).extend(now - stamp for stamp in stamps)

    # -------------------------------------------------------------- commands

    def run(self, lines: Iterable[str]) -> None:
        """Carry out the commands until one says to leave or the input ends."""
        for line in lines:
            arguments = json.loads(line)
            command = arguments.pop("command")
            if command == "leave":
                break
            if command in ("send", "flood", "trickle"):
                self._work.put({"command": command, **arguments})
                continue
            getattr(self, f"_{command}")(**arguments)
        self.group.leave()
        self._reader.join(5)
        self._report("left")

    def _run_slow(self) -> None:
        while True:
            arguments = self._work.get()
            command = arguments.pop("command")
            try:
                getattr(self, f"_{command}")(**arguments)
            except PhalanxError as error:
                self.report("failed", command=command, error=str(error))

    def _send(
        self,
        count: int = 1,
        size: int = 20,
        service: str = "agreed",
        to: list[str] | None = None,
        stable: bool = False,
    ) -> None:
        bodies = [f"{self.group.me} {i}".encode().ljust(size, b".") for i in range(count)]
        receipt = self.group.send_many(bodies, Service[service.upper()], to=to)
        if stable:
            receipt.stable(30, allow_missing=True)
        self.report("sent", count=count, service=service)

    def _trickle(self, count: int, pause: float, service: str = "agreed") -> None:
        """Send messages that hold the time, one by one, and wait until all members have them."""
        for _ in range(count):
            stamp = time.monotonic_ns().to_bytes(8, "big")
            receipt = self.group.send(STAMP + stamp, Service[service.upper()])
            time.sleep(pause)
        receipt.delivered(30)
        self.report("sent", count=count, service=service)

    def _flood(self, seconds: float, size: int = 100, service: str = "agreed") -> None:
        bodies = [bytes([i % 251]) * size for i in range(max(1, FRAME // size))]
        until = time.monotonic() + seconds
        sent = 0
        while time.monotonic() < until:
            try:
                self.group.send_many(bodies, Service[service.upper()])
            except EventsUnread:  # the reader rests
                time.sleep(0.01)
                continue
            sent += len(bodies)
        self.report("sent", count=sent, service=service)

    def _cut(self, addresses: list[str]) -> None:
        self.group.faults.cut(*addresses)
        self.report("done", command="cut")

    def _cut_from(self, addresses: list[str]) -> None:
        self.group.faults.cut_from(*addresses)
        self.report("done", command="cut_from")

    def _lose(self, share: float) -> None:
        self.group.faults.lose(share)
        self.report("done", command="lose")

    def _heal(self) -> None:
        self.group.faults.heal()
        self.report("done", command="heal")

    def _rest(self, period: float) -> None:
        """Stop reading events; the group continues or waits, as configured."""
        self._resting.clear()
        threading.Timer(period, self._resting.set).start()
        self.report("done", command="rest")

    def _step_clock(self, by: float) -> None:
        """Move the wall clock of this process."""
        shift, real = int(by * 1e9), time.time_ns
        time.time_ns = lambda: real() + shift
        self.report("done", command="step_clock")

    def _report(self, event: str = "report") -> None:
        with self._latencies_lock:
            latencies, self._latencies = self._latencies, {}
        self.report(
            event,
            delivered=dict(self._delivered),
            lost=self._lost,
            members=[m.name for m in self.group.view.members],
            refused=self.group.refused,
            network=self.group.network_counts,
            rss_kb=resident_kb(),
            waiting_bytes=self.group._runner.buffer.waiting_bytes,
            latencies=latencies,
        )


def resident_kb() -> int:
    """The resident memory of the process in kB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def main() -> None:
    try:
        member = ControlledMember(json.loads(sys.argv[1]))
    except PhalanxError as error:
        print(json.dumps({"event": "refused", "error": str(error)}), flush=True)
        sys.exit(2)
    member.run(sys.stdin)


if __name__ == "__main__":
    main()
