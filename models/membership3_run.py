"""Runs the model of the membership protocol (`membership3.py`).

    python models/membership3_run.py walk 200000 1000000   random walks from a seed on, n = 4..6
    python models/membership3_run.py all [seconds each]    exhaustive: frames in any order, or never
    python models/membership3_run.py mutants [walks]       every mutant, until it is caught

Exits with 1 if a walk or a search of the unbroken protocol violates a property.
"""

import random
import sys
import time

from membership3 import ISSUE, Bad, World, settle, walk

# ---------------------------------------------------------------------- exhaustive small cases


def idle(w, p, x):
    """Whether this frame can do nothing at p but be stored: its sender is left out or has spoken
    from a newer view, and p is no entry of its proposal. Such frames are treated as lost."""
    sender, base, _, kind, prop = w.frames[x]
    old = w.v.epoch[base] < w.v.epoch[p.newest.get(sender, base)]
    if (not old and sender in w.entries(p)) or (p.me in w.v.at[base] and base not in p.past):
        return False
    return kind != ISSUE or w.v.at[prop].get(p.me) != p.base


def explore(boots, suspicions, dead=(), mutant="", limit=4_000_000, seconds=600):
    """Every order of receiving (each frame alone, at any time or never) and of suspecting; who was
    removed comes back only where there are several boot views. In every state with nothing left
    to receive, settle."""
    root = World(boots, causal=False, mutant=mutant)
    for p in dead:
        root.m[p].dead = True
    start, seen, stack, ends, top = time.time(), set(), [(root, suspicions)], 0, 0

    def copy(w):
        c = World.__new__(World)
        c.__dict__.update(w.__dict__)
        c.m = {p: m.copy() for p, m in w.m.items()}
        c.moves, c.seen_in = dict(w.moves), dict(w.seen_in)
        return c

    def sent(w):
        got = 0
        for m in w.m.values():
            got |= m.have
        return got

    while stack:
        w, left = stack.pop()
        key = (tuple(w.m[p].state() for p in w.m), left, tuple(sorted(w.moves.items())))
        if key in seen:
            continue
        seen.add(key)
        if len(seen) > limit or time.time() - start > seconds:
            return len(seen), ends, top, "cut off"
        all_sent, moved = sent(w), False
        for name, m in w.m.items():
            if m.dead:
                continue
            lacks = all_sent & ~m.have
            x = 0
            while lacks >> x:
                if lacks >> x & 1 and not (len(boots) == 1 and idle(w, m, x)):
                    c = copy(w)
                    c.enter(c.m[name], x, len(boots) > 1)
                    stack.append((c, left))
                    moved = True
                x += 1
            for i, (who, whom) in enumerate(left):
                if who == name:
                    c = copy(w)
                    c.suspect(c.m[name], whom)
                    stack.append((c, left[:i] + left[i + 1 :]))
        if not moved:
            ends += 1
            c = copy(w)
            alive = [p for p in c.m if not c.m[p].dead]
            top = max(top, settle(c, random.Random(ends), [frozenset(alive)]))
    return len(seen), ends, top, f"complete, {time.time() - start:.0f} s"


CASES = {
    "n=3, 0 and 1 suspect 2": ([[0, 1, 2]], ((0, 2), (1, 2)), ()),
    "n=3, 0 and 1 suspect 2, 2 suspects 0": ([[0, 1, 2]], ((0, 2), (1, 2), (2, 0)), ()),
    "n=3, each suspects another, 0 twice": ([[0, 1, 2]], ((0, 1), (1, 2), (2, 0), (0, 2)), ()),
    "n=3, 2 dead, then 0 suspects 1": ([[0, 1, 2]], ((0, 2), (1, 2), (0, 1)), (2,)),
    "n=4, 2 and 3 dead, three suspicions": ([[0, 1, 2, 3]], ((0, 3), (1, 2), (0, 2)), (2, 3)),
    "n=4, 3 dead, 0 and 1 name 2": ([[0, 1, 2, 3]], ((0, 3), (0, 2), (1, 2)), (3,)),
    "n=4, 0 names 3, 1 names 2, 2 names 3": ([[0, 1, 2, 3]], ((0, 3), (1, 2), (2, 3)), ()),
    "two singletons join": ([[0], [1]], (), ()),
    "two singletons, one suspicion": ([[0], [1]], ((0, 1),), ()),
    "a pair and a singleton join": ([[0, 1], [2]], (), ()),
    "a pair and a dead singleton": ([[0, 1], [2]], ((0, 2),), (2,)),
    "three singletons join": ([[0], [1], [2]], (), ()),
    "a pair and a singleton, one suspicion": ([[0, 1], [2]], ((0, 1),), ()),
}


def walks(runs, seed):
    """Random walks from a seed on; how many of them violated a property."""
    tally, failed = {}, 0
    for s in range(seed, seed + runs):
        try:
            w, late = walk(s)
            what = "ok"
            tally["installs"] = tally.get("installs", 0) + w.installs
            tally["same members"] = tally.get("same members", 0) + w.noise
            tally["most after settling"] = max(tally.get("most after settling", 0), late)
        except Bad as bad:
            what = str(bad)
            failed += 1
            if tally.get(what, 0) < 3:
                print("seed", s, what, flush=True)
        tally[what] = tally.get(what, 0) + 1
    print(runs, "walks from seed", seed, tally)
    return failed


def caught(mutant, mode, runs):
    """The first walk that catches a mutant and the property it violates; None if none does."""
    for s in range(runs):
        try:
            walk(s, mutant, mode=mode)
        except Bad as bad:
            return s + 1, str(bad)
    return None


def main(argv):
    what = argv[0] if argv else "walk"
    number = float(argv[1]) if len(argv) > 1 else 0
    if what == "walk":
        return 1 if walks(int(number) or 1000, int(argv[2]) if len(argv) > 2 else 0) else 0
    if what == "all":
        for name, (boots, suspicions, dead) in CASES.items():
            try:
                print(name, *explore(boots, suspicions, dead, seconds=number or 240), flush=True)
            except Bad as bad:
                print(name, "violated:", bad)
                return 1
        return 0
    for mutant, mode in MUTANTS:
        found = caught(mutant, mode, int(number) or 100_000)
        told = "not caught" if found is None else f"caught in walk {found[0]}: {found[1]}"
        print(f"{mutant:16} {told}", flush=True)
    return 0


MUTANTS = [
    ("old", None),
    ("barred", None),
    ("r3any", None),
    ("nonmono", None),
    ("last", None),
    ("early", None),
    ("norepeat", None),
    ("nonorm+overlap", "wild"),
    ("overlap", None),
    ("nor3", "calm"),
    ("byname", "calm"),
]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
