"""Clocks that go back inside one journal: history and measures rely on a clock that only grows."""

from __future__ import annotations

import numpy as np

from phalanx.pipeline.audit.number_ranges import group_starts
from phalanx.pipeline.audit.row_coder import RowCoder
from phalanx.pipeline.group_tables import GroupTables
from phalanx.verify.evidence import clock_jump_line

UNREADABLE = ("gap", "corrupt")
"""Nobody knows the clock of rows that are missing."""


def clock_jumps(tables: GroupTables) -> dict[str, str]:
    """Per member whose clock goes back between two rows, a line about the largest jump."""
    coder = RowCoder()
    labels = {j.journal: f"{j.member}.{j.incarnation}" for j in tables.journals}
    rank = {journal: i for i, journal in enumerate(labels)}
    who, lseq, t_ns = [], [], []
    for name in tables.names:
        table = tables[name]
        if name not in UNREADABLE and table.num_rows:
            code, journals = coder.coded(table, "journal")
            who.append(np.array([rank[journal] for journal in journals])[code])
            lseq.append(coder.longs(table, "lseq"))
            t_ns.append(coder.longs(table, "t_ns"))
    if not who:
        return {}
    member, row, time = (np.concatenate(columns) for columns in (who, lseq, t_ns))
    order = np.lexsort((row, member))
    member, row, time = member[order], row[order], time[order]
    back = np.zeros(len(time), dtype=np.int64)
    back[1:] = time[:-1] - time[1:]
    back[group_starts(member)] = 0
    found = {}
    for i in np.unique(member[back > 0]).tolist():
        mine = np.flatnonzero(member == i)
        worst = mine[np.argmax(back[mine])]
        label = labels[list(rank)[i]]
        found[label] = clock_jump_line(label, int(row[worst]), int(back[worst]))
    return found
