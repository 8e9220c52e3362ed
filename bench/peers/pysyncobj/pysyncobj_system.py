"""PySyncObj (Raft in Python) as a peer in throughput trials: every member floods replicated
operations, and the result is the number that each member applies.

It runs with an interpreter that has the package, given to `bench_mesh.py --pysyncobj PYTHON`.
Settings are its defaults, but for quicker reconnection at the start and later log compaction.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from phalanx.benchmark.phalanx_system import BenchPlace
from phalanx.benchmark.process_group import ProcessGroup
from phalanx.benchmark.trial import Trial

CLIENT = Path(__file__).with_name("client.py")
PORT = 7300
AHEAD = 2000
"""Operations that one member may have under way: its best of 200 to 20,000."""
_ports = count(PORT)


class PySyncObjSystem:
    services = ("agreed",)

    def __init__(self, name: str, place: BenchPlace, python: str, ahead: int = AHEAD) -> None:
        self.name = name
        self.n = place.n
        self._place = place
        self._python = python
        self._ahead = ahead

    @contextmanager
    def start_group(self, task: Trial) -> Iterator[ProcessGroup]:
        port = next(_ports)
        nodes = [f"{self._place.address(i)}:{port}" for i in range(self.n)]

        def start(i: int, **popen: Any) -> subprocess.Popen[Any]:
            plan = {"i": i, "nodes": nodes, "size": task.size, "ahead": self._ahead}
            return self._place.run(i, [self._python, str(CLIENT), json.dumps(plan)], **popen)

        with ProcessGroup(self.n, start) as group:
            yield group
