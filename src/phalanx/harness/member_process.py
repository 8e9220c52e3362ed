"""A member process that does what it is told: JSON lines in, JSON lines out.

    python -m phalanx.harness.member_process '{"group": "demo", "name": "ada", "journal": "/tmp/j"}'

It joins at once and tells `joined`; then every view as it is installed, and an answer to each
order. Orders: `send` (count, size, service, to), `flood` (seconds, size, service), `cut` and
`cut_from` (addresses), `lose` (share), `heal`, `rest` (stop reading events for so many
seconds), `step_clock` (by), `report`, `leave`. The end of its input is the order to leave.
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
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from phalanx import blocking
from phalanx.config import lan
from phalanx.core.effects import Service
from phalanx.errors import EventsUnread, PhalanxError
from phalanx.journal.settings import JournalSettings
from phalanx.runtime.events import EventsLost, Merged, Messages, View

FRAME = 60_000


class ControlledMember:
    def __init__(self, part: dict[str, Any]) -> None:
        given = part.get("config", {})
        # JSON has lists; settings of several values are tuples.
        config = lan(**{k: tuple(v) if isinstance(v, list) else v for k, v in given.items()})
        more: dict[str, Any] = {
            key: part[key] for key in ("name", "state", "journal") if key in part
        }
        if "journal_settings" in part:
            more["journal_settings"] = JournalSettings(**part["journal_settings"])
        self._lock = threading.Lock()
        self.group = blocking.join(part["group"], config=config, **more)
        self._delivered: Counter[str] = Counter()
        self._lost = 0
        self._reader = threading.Thread(target=self._read, name="reader", daemon=True)
        self._resting = threading.Event()
        self._resting.set()
        self._work: queue.Queue[dict[str, Any]] = queue.Queue()
        self._worker = threading.Thread(target=self._toil, name="worker", daemon=True)
        self.tell(
            "joined",
            me=str(self.group.me),
            address=self.group.address,
            pid=os.getpid(),
            window=self.group.config.window_bytes_max,
        )
        self._reader.start()
        self._worker.start()

    def tell(self, told: str, **more: Any) -> None:
        line = json.dumps({"told": told, "t_ns": time.monotonic_ns(), **more})
        with self._lock, contextlib.suppress(BrokenPipeError):
            print(line, flush=True)

    # -------------------------------------------------------------- what it sees

    def _read(self) -> None:
        try:
            for batch in self.group.batches():
                self._resting.wait()
                for run in batch.runs:
                    if isinstance(run, Messages):
                        self._delivered[run.service.name] += len(run.bodies)
                    elif isinstance(run, View):
                        self.tell(
                            "view",
                            id=str(run.id),
                            members=[m.name for m in run.members],
                            merged=len(run.sides) if isinstance(run, Merged) else 0,
                        )
                    elif isinstance(run, EventsLost):
                        self._lost += run.count
        except PhalanxError as error:
            self.tell("stopped", error=str(error))

    # -------------------------------------------------------------- what it does

    def obey(self, lines: Iterable[str]) -> None:
        for line in lines:
            order = json.loads(line)
            do = order.pop("do")
            if do == "leave":
                break
            if do in ("send", "flood"):
                self._work.put({"do": do, **order})
                continue
            getattr(self, f"_{do}")(**order)
        self.group.leave()
        self._reader.join(5)
        self._report("left")

    def _toil(self) -> None:
        while True:
            order = self._work.get()
            do = order.pop("do")
            try:
                getattr(self, f"_{do}")(**order)
            except PhalanxError as error:
                self.tell("failed", do=do, error=str(error))

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
        self.tell("sent", count=count, service=service)

    def _flood(self, seconds: float, size: int = 100, service: str = "agreed") -> None:
        bodies = [bytes([i % 251]) * size for i in range(max(1, FRAME // size))]
        until = time.monotonic() + seconds
        sent = 0
        while time.monotonic() < until:
            try:
                self.group.send_many(bodies, Service[service.upper()])
            except EventsUnread:  # it rests
                time.sleep(0.01)
                continue
            sent += len(bodies)
        self.tell("sent", count=sent, service=service)

    def _cut(self, addresses: list[str]) -> None:
        self.group.faults.cut(*addresses)
        self.tell("obeyed", do="cut")

    def _cut_from(self, addresses: list[str]) -> None:
        self.group.faults.cut_from(*addresses)
        self.tell("obeyed", do="cut_from")

    def _lose(self, share: float) -> None:
        self.group.faults.lose(share)
        self.tell("obeyed", do="lose")

    def _heal(self) -> None:
        self.group.faults.heal()
        self.tell("obeyed", do="heal")

    def _rest(self, period: float) -> None:
        """Stop reading; the group goes on, or waits, as it was configured."""
        self._resting.clear()
        threading.Timer(period, self._resting.set).start()
        self.tell("obeyed", do="rest")

    def _step_clock(self, by: float) -> None:
        """Set the wall clock, as this process sees it."""
        shift, real = int(by * 1e9), time.time_ns
        time.time_ns = lambda: real() + shift
        self.tell("obeyed", do="step_clock")

    def _report(self, told: str = "report") -> None:
        self.tell(
            told,
            delivered=dict(self._delivered),
            lost=self._lost,
            members=[m.name for m in self.group.view.members],
            refused=self.group.refused,
            rss_kb=resident_kb(),
            waiting_bytes=self.group._runner.buffer.waiting_bytes,
        )


def resident_kb() -> int:
    """What the process holds in memory now, in thousands of bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def main() -> None:
    try:
        puppet = ControlledMember(json.loads(sys.argv[1]))
    except PhalanxError as error:
        print(json.dumps({"told": "refused", "error": str(error)}), flush=True)
        sys.exit(2)
    puppet.obey(sys.stdin)


if __name__ == "__main__":
    main()
