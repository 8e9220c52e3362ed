"""ToTo on vectors, with pointers that only move forward (rule O-10): the form for a hot path.

    python models/toto_fast.py [seconds] [seed]

Compares every decision with the slow reference in toto_check.py, on random DAGs that are revealed
in random orders, then measures the cost per frame under a flood (every member sends at once).

At most one candidate per sender: its first pending agreed frame, `head[s]`. `first[q][s]` is the
index of q's first frame that follows head[s]; it only grows as heads advance. The vote of q is then
{s : first[q][s] == min over candidates of first[q][.]}: no graph, past set or rescan is needed.
"""

import random
import sys
import time

from toto_check import random_dag, random_extension, toto_decide

NONE = 1 << 60


class ToTo:
    __slots__ = ("n", "vectors", "agreed", "head", "first", "cursor", "none")

    def __init__(self, n):
        self.n = n
        self.vectors = [[] for _ in range(n)]  # vectors[q][j-1]: what q's frame j follows
        self.agreed = [[] for _ in range(n)]  # indices of q's agreed frames, not delivered
        self.head = [NONE] * n  # first pending agreed frame of each sender
        self.cursor = [0] * n  # how many of agreed[s] are delivered
        self.first = [[NONE] * n for _ in range(n)]  # first[q][s]
        self.none = [NONE] * n

    def insert(self, q, vector, is_agreed):
        """q's next frame arrived, its past is here. Returns the frames to deliver now, in order."""
        frames = self.vectors[q]
        frames.append(vector)
        j = len(frames)
        head, first_q = self.head, self.first[q]
        moved = False
        if is_agreed:
            self.agreed[q].append(j)
            if head[q] == NONE:
                head[q] = j  # nothing here follows it yet but itself:
                first_q[q] = j  # a frame enters after all that it follows
                moved = True
        for s in range(self.n):
            if first_q[s] == NONE and vector[s] >= head[s]:
                first_q[s] = j
                moved = True
        if not moved or 2 * self._speakers() <= self.n:
            return ()
        done = []
        while True:
            batch = self._decide()
            if not batch:
                return done
            for s in batch:  # by sender: the lexicographic order of a batch
                done.append((s, head[s]))
                self._advance(s)

    def _speakers(self):
        """Members with a frame that follows some pending head: at least those that voted."""
        none = self.none
        return sum(row != none for row in self.first)

    def _advance(self, s):
        self.cursor[s] += 1
        pending = self.agreed[s]
        if self.cursor[s] == len(pending):
            self.head[s] = NONE
            for row in self.first:
                row[s] = NONE
            return
        h = self.head[s] = pending[self.cursor[s]]
        for q in range(self.n):
            row, frames = self.first[q], self.vectors[q]
            j = row[s]
            if j == NONE:
                continue
            end = len(frames)
            while j <= end and frames[j - 1][s] < h:  # monotone: amortised one step a frame
                j += 1
            row[s] = j if j <= end else NONE

    def _decide(self):
        n, head, vectors, first = self.n, self.head, self.vectors, self.first
        cand = []
        for s in range(n):
            h = head[s]
            if h != NONE:
                v = vectors[s][h - 1]
                for t in range(n):
                    if t != s and v[t] >= head[t]:
                        break
                else:
                    cand.append(s)
        if not cand:
            return ()
        voters = dict.fromkeys(cand, 0)  # candidate -> bit mask of the members that vote for it
        known = 0
        for q in range(n):
            row = first[q]
            best = min(row[s] for s in cand)
            if best != NONE:
                known += 1
                bit = 1 << q
                for s in cand:
                    if row[s] == best:
                        voters[s] |= bit
        if 2 * known <= n:
            return ()  # no clause of the criterion can hold yet
        if len(cand) == 1:
            return cand
        room = n - known
        source, rest = [], []
        for c in cand:
            not_c = ~voters[c]
            for o in cand:
                if o != c and 2 * (room + (voters[o] & not_c).bit_count()) > n:
                    rest.append(c)  # o can still beat c
                    break
            else:
                source.append(c)
        if not source:
            return ()
        for c in rest:  # internal stability: someone has beaten it for good
            not_c = ~voters[c]
            if not any(2 * (voters[o] & not_c).bit_count() > n for o in cand):
                return ()
        if known == n:  # external stability (b), then (a)
            return source
        if any(2 * voters[s].bit_count() > n for s in source) and all(
            2 * sum(row[s] != NONE for row in first) >= n for s in source
        ):
            return source
        return ()


def vectors_of(dag):
    out = []
    for m in range(dag.N):
        v, p = [0] * dag.n, dag.past[m]
        while p:
            i = (p & -p).bit_length() - 1
            p &= p - 1
            v[dag.sender[i]] += 1
        out.append(v)
    return out


def compare(rng):
    n = rng.randrange(2, 6)
    dag = random_dag(rng, n, rng.randrange(4, 26))
    vec = vectors_of(dag)
    for _ in range(2):
        fast, seen, delivered = ToTo(n), 0, 0
        for m in random_extension(rng, dag):
            seen |= 1 << m
            slow = []
            while batch := toto_decide(dag, seen, delivered, n / 2):
                for b in batch:
                    delivered |= 1 << b
                    slow.append((dag.sender[b], dag.idx[b] + 1))
            got = list(fast.insert(dag.sender[m], vec[m], dag.kind[m] == "A"))
            assert got == slow, (n, m, got, slow)
    return 1


def flood(n, rounds=4000):
    """Every member sends a frame each round, having received all up to the round before last."""
    toto, t0, delivered = ToTo(n), time.perf_counter(), 0
    for r in range(1, rounds + 1):
        for q in range(n):
            v = [max(0, r - 2)] * n
            v[q] = r
            delivered += len(toto.insert(q, v, True))
    cost = (time.perf_counter() - t0) / (rounds * n)
    return cost * 1e6, delivered / (rounds * n)


if __name__ == "__main__":
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    end, cases = time.time() + seconds, 0
    while time.time() < end:
        cases += compare(rng)
    print(f"{cases} random DAGs, 2 reveal orders each: every decision equal to the reference")
    for n in (2, 4, 8, 16, 32):
        us, share = flood(n, 4000 if n < 16 else 800)
        print(f"flood n={n}: {us:.1f} us per frame, {share:.3f} of the frames delivered")
