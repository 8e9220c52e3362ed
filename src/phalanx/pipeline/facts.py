"""What is known of a journal as a whole: one row of the table `journals`.

`mode`, `settled`, `undisturbed_ns` and `changes_max` come from the settings in its header. The
last three only a simulator knows, and writes there under `truth`; real journals never say that a
group has settled, so liveness is not asked of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from phalanx.journal.events import Corrupt, Event, Gap, Life
from phalanx.journal.segment import Header
from phalanx.journal.truth import truth_of


class JournalFacts(msgspec.Struct, frozen=True):
    """One journal. The numbers of its rows run from 1 to `last` if nothing is missing."""

    cluster: str
    journal: str
    run: str
    group: str
    node: str
    inc: int
    boot_id: str
    wall_ns: int
    """What the wall clock said when the clock of the rows said `mono_ns`."""
    mono_ns: int
    mode: str | None
    settled: int
    undisturbed_ns: int
    changes_max: int | None
    rows: int
    last: int
    end_t_ns: int
    end_sim_ns: int | None
    torn: int
    """1 if rows are missing before the last one."""
    stopped: int
    """1 if it ends with a STOP: its member ended as intended, and all it did is here."""


def facts_of(header: Header, rows: Sequence[Event]) -> JournalFacts:
    """Of a journal that is all in memory, in the order of its rows."""
    truth = truth_of(header.config)
    last = rows[-1]
    whole = [row.lseq for row in rows] == list(range(1, len(rows) + 1))
    lost = any(isinstance(row, Corrupt | Gap) for row in rows)
    return JournalFacts(
        cluster=header.cluster,
        journal=header.journal,
        run=rows[0].run,
        group=header.group,
        node=header.node,
        inc=header.inc,
        boot_id=header.boot_id,
        wall_ns=header.wall_ns,
        mono_ns=header.mono_ns,
        mode=header.config.get("mode"),
        settled=int(truth.settled),
        undisturbed_ns=truth.undisturbed_ns,
        changes_max=truth.changes_max,
        rows=len(rows),
        last=last.lseq,
        end_t_ns=last.t_ns,
        end_sim_ns=last.sim_ns,
        torn=int(not whole or lost),
        stopped=int(any(isinstance(row, Life) and row.op == "STOP" for row in rows)),
    )
