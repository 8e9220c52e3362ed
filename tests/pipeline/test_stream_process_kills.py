"""kill -9 of a process that runs batches as Spark does, many times: nothing lost or doubled.

Without Java there can be many kills (`batch_runner`). `test_stream_kills.py` kills Spark itself.
"""

from __future__ import annotations

import os
import signal
import time
from multiprocessing import get_context
from pathlib import Path
from random import Random

import msgspec
import pytest
from tests.journal.journal_folder import journal
from tests.pipeline.batch_runner import rows_in, run_batches
from tests.pipeline.message_stream.simulated_group import Output, Truth, item_of

from phalanx.journal import schema as ev
from phalanx.journal.reader import read_all
from phalanx.sim.generators import scenario_of
from phalanx.sim.journal_export import journals as journals_of
from phalanx.sim.run import run

KILLS = 20


@pytest.mark.parametrize(("table", "seed"), [("deliver", 58), ("messages", 58), ("messages", 31)])
def test_twenty_kills_lose_and_double_nothing(tmp_path: Path, table: str, seed: int) -> None:
    random = Random(seed)
    result = run(scenario_of(seed, 3, 5, "membership"))
    journals = {
        head.journal: [msgspec.structs.replace(row, group="g") for row in rows]
        for head, rows in journals_of(result)
    }
    source, place = tmp_path / "journals", tmp_path / "sink"
    place.mkdir()
    writers = {
        name: journal(source, rows[0].member, rows[0].incarnation, segment_bytes=4096)
        for name, rows in journals.items()
    }
    for kill in range(KILLS):
        process = get_context("fork").Process(
            target=run_batches, args=(str(source), place, table, False)
        )
        process.start()
        for name, writer in writers.items():
            rows = journals[name]
            begin, end = (len(rows) * k // KILLS for k in (kill, kill + 1))
            writer.write(rows[begin:end])
        time.sleep(random.uniform(0.0, 0.5))
        assert process.pid is not None
        assert process.is_alive()
        os.kill(process.pid, signal.SIGKILL)
        process.join(10)
    for writer in writers.values():
        writer.close()
    run_batches(str(source), place, table, end=True)
    found = rows_in(place)
    assert sum(1 for _ in place.glob("*.rows")) > KILLS / 2
    if table == "deliver":
        written = read_all([source]).journals
        expected = [
            (n, r.lseq) for n, rs in written.items() for r in rs if isinstance(r, ev.Deliver)
        ]
        assert sorted((row["journal"], row["lseq"]) for row in found) == sorted(expected)
    else:
        assert [row["seq"] for row in found] == [*range(1, len(found) + 1)]
        output = Output([item_of(row) for row in found], found[-1]["view"])
        assert Truth(journals).problems(output) == []
        assert len(found) > 40, "which side of a partition is followed is not certain"
