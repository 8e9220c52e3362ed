"""What judging causality with vectors costs, where the induction over direct causes fails.

    python bench/bench_past.py --senders 1000 --sends 1000000 --shape wide|chain

One member delivers all messages in order. `wide`: senders send in rounds, each message depends on
eight of the round before. `chain`: each message depends on the one before, of another sender.
Prints the processor time and the most memory of this process.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time

import numpy as np

from phalanx.pipeline.audit.member_masks import MaskSpace
from phalanx.pipeline.audit.number_ranges import NONE, Longs
from phalanx.pipeline.audit.past import Past, PastDeliveries, PastSends, judge

DEPENDENCIES = 8


def dependencies(shape: str, senders: int, rounds: int) -> tuple[Longs, Longs, Longs]:
    """How many each send row has, by sender and round; their senders and numbers."""
    counts = np.zeros((senders, rounds), dtype=np.int64)
    number = np.broadcast_to(np.arange(rounds), (senders, rounds))
    if shape == "wide":
        random = np.random.default_rng(18)
        counts[:, 1:] = DEPENDENCIES
        dep_s = random.integers(0, senders, int(counts.sum()))
        return counts.ravel(), dep_s, np.repeat(number.ravel(), counts.ravel())
    counts[:, :] = 1
    counts[0, 0] = 0
    before = np.broadcast_to(np.arange(senders)[:, None] - 1, counts.shape).copy()
    there = number + 1
    before[0], there = senders - 1, np.where(before < 0, number, there)
    there[0] = number[0]
    keep = counts.ravel() > 0
    return counts.ravel(), before.ravel()[keep], there.ravel()[keep]


def columns(shape: str, senders: int, sends: int) -> tuple[Past, PastDeliveries]:
    rounds = sends // senders
    size = senders * rounds
    s = np.repeat(np.arange(senders), rounds)
    first = np.tile(np.arange(1, rounds + 1), senders)
    counts, dep_s, dep_n = dependencies(shape, senders, rounds)
    space = MaskSpace(senders)
    past = PastSends(
        senders=senders,
        s=s,
        first=first,
        last=first,
        lseq=np.arange(size),
        basic=np.zeros(size, dtype=bool),
        home=np.zeros(size, dtype=np.int64),
        t=np.full(size, -1),
        dep_at=np.concatenate([[0], np.cumsum(counts)]),
        dep_s=dep_s,
        dep_n=dep_n,
    )
    order = np.lexsort((s, first))
    rows = PastDeliveries(
        k=0,
        s=s[order],
        first=first[order],
        last=first[order],
        lseq=np.arange(size),
        v=np.zeros(size, dtype=np.int64),
        frame=np.zeros(size, dtype=np.int64),
        batch=np.full(size, NONE),
        basic=np.zeros(size, dtype=bool),
    )
    return Past(past, meant=space.everybody(1), bits=space.bits), rows


def main() -> None:
    parser = argparse.ArgumentParser(description="What causality with vectors costs.")
    parser.add_argument("--senders", type=int, default=1000)
    parser.add_argument("--sends", type=int, default=1_000_000)
    parser.add_argument("--shape", choices=("wide", "chain"), default="wide")
    chosen = parser.parse_args()
    past, rows = columns(chosen.shape, chosen.senders, chosen.sends)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, cpu = time.perf_counter(), time.process_time()
    judged = judge(past, rows)
    facts = {
        "shape": chosen.shape,
        "senders": chosen.senders,
        "sends": len(rows.s),
        "checked": judged.causal,
        "late": len(judged.late),
        "cpu_s": round(time.process_time() - cpu, 1),
        "wall_s": round(time.perf_counter() - began, 1),
        "load": round(os.getloadavg()[0], 1),
        "columns_mb": before // 1024,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
