"""Checks ToTo's delivery criterion (rules O-1 to O-9) on random causal DAGs.

    python models/toto_check.py paper 10        the criterion, 10 seconds, seed 1
    python models/toto_check.py all 10 7        also broken variants and latencies, seed 7

The first argument is paper, relaxed (rule O-8), broken, latency or all. Exits with 1 if observers
of one DAG disagree under the criterion, or if a broken variant is not caught.

The criterion is implemented from its definition (Dolev, Kramer, Malki, FTCS-23 1993, section 4),
simplified to one vote per processor.

Model
  * n processors; every message m has a sender, a per-sender index, a kind ('A' agreed, 'C' other:
    causal, ack, heartbeat) and a causal past (bitmask, includes m itself).
  * An observer is shown the messages of one DAG in some linear extension; after every message it
    re-evaluates the criterion as often as it holds and appends the delivered batch.
  * All observers of a DAG must produce the same batch sequence.
"""

import random
import sys
import time
from collections import defaultdict


# ----------------------------------------------------------------------------- DAG generation
class Dag:
    __slots__ = ("n", "sender", "idx", "kind", "past", "N")

    def __init__(self, n):
        self.n = n
        self.sender, self.idx, self.kind, self.past = [], [], [], []
        self.N = 0

    def add(self, s, past, kind):
        i = self.N
        self.sender.append(s)
        self.idx.append(sum(1 for x in self.sender[:-1] if x == s))
        self.kind.append(kind)
        self.past.append(past | (1 << i))
        self.N += 1
        return i

    def key(self, m):  # lexicographic identity used inside a batch
        return (self.sender[m], self.idx[m])


def random_dag(rng, n, nmsgs, p_agreed=None, wide=None):
    """Simulate an execution: processors send and receive (causally) at random."""
    d = Dag(n)
    know = [0] * n  # bitmask of received messages per processor
    p_agreed = rng.choice([0.3, 0.6, 1.0]) if p_agreed is None else p_agreed
    send_bias = rng.choice([0.15, 0.3, 0.5, 0.8]) if wide is None else wide
    speed = [rng.choice([1, 1, 1, 4, 12]) for _ in range(n)]  # slow receivers
    rate = [rng.choice([1, 1, 3]) for _ in range(n)]
    procs = list(range(n))
    while nmsgs > d.N:
        if rng.random() < send_bias or d.N == 0:
            s = rng.choices(procs, rate)[0]
            m = d.add(s, know[s], "A" if rng.random() < p_agreed else "C")
            know[s] = d.past[m]
        else:
            r = rng.choices(procs, [1.0 / x for x in speed])[0]
            cand = [
                m
                for m in range(d.N)
                if not know[r] >> m & 1 and (d.past[m] & ~(1 << m)) & ~know[r] == 0
            ]
            if cand:
                know[r] |= 1 << rng.choice(cand)
    return d


def random_extension(rng, d, members=None, greedy=None):
    """A random linear extension (optionally strongly biased towards one sender at a time)."""
    seen, order = 0, []
    left = set(range(d.N)) if members is None else set(members)
    bias = rng.random() < 0.5 if greedy is None else greedy
    favour = rng.randrange(d.n)
    while left:
        en = [m for m in left if (d.past[m] & ~(1 << m)) & ~seen == 0]
        if bias:
            if rng.random() < 0.25:
                favour = rng.randrange(d.n)
            fav = [m for m in en if d.sender[m] == favour]
            m = rng.choice(fav or en)
        else:
            m = rng.choice(en)
        seen |= 1 << m
        left.discard(m)
        order.append(m)
    return order


# ----------------------------------------------------------------------------- the criterion
def bitcount(x):
    return bin(x).count("1")


def round_state(d, seen, delivered, defunct=0):
    """Candidates, votes and tails for the current round.

    vote[q]  = bitmask of candidates in the past of q's FIRST message that follows any candidate
               (0 = q has not voted, i.e. q not in Tail)
    tail[c]  = bitmask of processors that sent any message following candidate c
    """
    pend = [m for m in range(d.N) if seen >> m & 1 and d.kind[m] == "A" and not delivered >> m & 1]
    pmask = 0
    for m in pend:
        pmask |= 1 << m
    cands = [m for m in pend if d.past[m] & pmask == 1 << m]
    cmask = 0
    for m in cands:
        cmask |= 1 << m
    vote = [0] * d.n
    tail = dict.fromkeys(cands, 0)
    for m in range(d.N):  # generation order is a linear extension
        if seen >> m & 1:
            hit = d.past[m] & cmask
            if hit:
                s = d.sender[m]
                if not vote[s]:
                    vote[s] = hit
                h = hit
                while h:
                    c = (h & -h).bit_length() - 1
                    h &= h - 1
                    tail[c] |= 1 << s
    return cands, cmask, vote, tail


def toto_decide(d, seen, delivered, phi, variant="paper", defunct=0):
    """Return the batch to deliver now (sorted) or None.  phi >= n/2 is the threshold."""
    n = d.n
    cands, _cmask, vote, tail = round_state(d, seen, delivered, defunct)
    if not cands:
        return None
    voted = 0
    for q in range(n):
        if vote[q]:
            voted |= 1 << q
    known = voted | defunct  # Tail_p extended with Defunc_p
    ntail = bitcount(known)

    def votes(c):
        return sum(1 for q in range(n) if vote[q] >> c & 1)

    def beats_now(a, b):  # number of voters for a and not for b
        return sum(1 for q in range(n) if vote[q] >> a & 1 and not vote[q] >> b & 1)

    def can_win(a, b):  # 1 in Future(a,b)
        lost = sum(
            1
            for q in range(n)
            if known >> q & 1 and not (vote[q] >> a & 1 and not vote[q] >> b & 1)
        )
        return n - lost > phi

    src = [c for c in cands if not any(can_win(o, c) for o in cands if o != c)]
    if not src:
        return None
    sset = set(src)
    internal = all(
        any(beats_now(o, c) > phi for o in cands if o != c) for c in cands if c not in sset
    )
    if variant == "nointernal":
        internal = True
    if not internal:
        return None
    a1 = any(votes(s) > phi for s in src)
    a2 = all(bitcount(tail[s]) >= n - phi for s in src)
    if variant in ("paper", "nointernal"):
        ext = (a1 and a2) or ntail == n
    elif variant == "relaxed":  # clause (a) without the second conjunct
        ext = a1 or ntail == n
    elif variant == "noext":
        ext = ntail >= n - phi
    else:
        raise ValueError(variant)
    if not ext:
        return None
    return sorted(src, key=d.key)


def majority_decide(d, seen, delivered, phi, variant=None, defunct=0):
    """Strawman: deliver any candidate with a simple majority of votes."""
    cands, _cmask, vote, _tail = round_state(d, seen, delivered)
    out = [c for c in cands if sum(1 for v in vote if v >> c & 1) > phi]
    return sorted(out, key=d.key) or None


def allack_decide(d, seen, delivered, phi=None, variant=None, defunct=0):
    """Wait until every processor (not defunct) has followed a candidate, deliver all candidates."""
    cands, _cmask, vote, _tail = round_state(d, seen, delivered)
    if not cands:
        return None
    known = defunct
    for q in range(d.n):
        if vote[q]:
            known |= 1 << q
    if bitcount(known) < d.n:
        return None
    return sorted(cands, key=d.key)


def lamport_times(d):
    ts = []
    for m in range(d.N):
        p = d.past[m] & ~(1 << m)
        t = 0
        while p:
            x = (p & -p).bit_length() - 1
            p &= p - 1
            t = max(t, ts[x])
        ts.append(t + 1)
    return ts


def run(d, order, decide, phi, variant="paper", crash_at=None):
    """Incremental run.  crash_at: {position in order: processor mask that becomes defunct}."""
    seen = delivered = defunct = 0
    batches, when = [], {}
    for pos, m in enumerate(order):
        seen |= 1 << m
        if crash_at and pos in crash_at:
            defunct |= crash_at[pos]
        while True:
            b = decide(d, seen, delivered, phi, variant, defunct)
            if not b:
                break
            for x in b:
                delivered |= 1 << x
                when[x] = pos
            batches.append(tuple(b))
    return batches, when, delivered


def run_lamport(d, order, ts):
    last = [0] * d.n
    pend, when, out = [], {}, []
    for pos, m in enumerate(order):
        last[d.sender[m]] = ts[m]
        if d.kind[m] == "A":
            pend.append(m)
        pend.sort(key=lambda x: (ts[x], d.sender[x]))
        # m=(t,s) is final when every processor q has shown a clock with (clock,q) > (t,s)
        while pend and all((last[q], q) >= (ts[pend[0]], d.sender[pend[0]]) for q in range(d.n)):
            x = pend.pop(0)
            when[x] = pos
            out.append(x)
    return out, when


# ----------------------------------------------------------------------------- phases
def phase_random(
    seconds, rng, decide, variant, nset=(2, 3, 4, 5), phis="half", observers=3, stop_at=None
):
    t0 = time.process_time()
    cases = bad = 0
    first = None
    while time.process_time() - t0 < seconds and (stop_at is None or cases < stop_at):
        n = rng.choice(nset)
        d = random_dag(rng, n, rng.randint(n + 1, 5 + 4 * n))
        phi = n / 2 if phis == "half" else rng.choice([x / 2 for x in range(n, 2 * n)])
        ref = None
        for _ in range(observers):
            b, _, _ = run(d, random_extension(rng, d), decide, phi, variant)
            if ref is None:
                ref = b
            elif b != ref:
                bad += 1
                if first is None:
                    first = (n, phi, ref, b)
                break
        # causal consistency of the agreed order
        flat = [x for batch in ref for x in batch]
        pos = {x: i for i, x in enumerate(flat)}
        for x in flat:
            for y in flat:
                assert not (x != y and d.past[x] >> y & 1 and pos[y] > pos[x]), (
                    "causal order broken"
                )
        cases += 1
    return cases, bad, first


def phase_cuts(seconds, rng, variant, nset=(2, 3, 4)):
    """Stronger: for every DAG, EVERY consistent cut reachable with the same delivered prefix must
    either not decide or decide the same batch (covers all reveal orders of that DAG)."""
    t0 = time.process_time()
    dags = cuts = bad = 0
    while time.process_time() - t0 < seconds:
        n = rng.choice(nset)
        d = random_dag(rng, n, rng.randint(n + 1, 11))
        phi = n / 2
        # enumerate all ideals
        ideals, frontier = {0}, [0]
        while frontier:
            nxt = []
            for s in frontier:
                for m in range(d.N):
                    if not s >> m & 1 and (d.past[m] & ~(1 << m)) & ~s == 0:
                        t = s | 1 << m
                        if t not in ideals:
                            ideals.add(t)
                            nxt.append(t)
            frontier = nxt
            if len(ideals) > 4000:
                break
        if len(ideals) > 4000:
            continue
        delivered = 0
        while True:
            dec = set()
            for s in ideals:
                if delivered & ~s:
                    continue
                b = toto_decide(d, s, delivered, phi, variant)
                cuts += 1
                if b:
                    dec.add(tuple(b))
            if not dec:
                break
            if len(dec) > 1:
                bad += 1
                break
            for x in next(iter(dec)):
                delivered |= 1 << x
        dags += 1
    return dags, cuts, bad


def phase_crash(seconds, rng, variant, nset=(2, 3, 4, 5)):
    """The close of a view (rule O-12). D is the set of messages under the cut; a set F of
    processors is removed. Crash(q) reaches an observer only after it holds all messages of q in D.
    When every processor has voted in D or is removed, all of D must be deliverable, in the same
    order at all survivors, also at those that decided early."""
    t0 = time.process_time()
    cases = bad = notempty = 0
    while time.process_time() - t0 < seconds:
        n = rng.choice(nset)
        d = random_dag(rng, n, rng.randint(n + 1, 4 + 4 * n))
        phi = n / 2
        ref = None
        all_agreed = 0
        for m in range(d.N):
            if d.kind[m] == "A":
                all_agreed |= 1 << m
        for _ in range(3):
            order = random_extension(rng, d)
            # some processors crash early (legal once their last message was revealed); the rest are
            # closed by the flush at the end of the configuration
            lastpos = {}
            for pos, m in enumerate(order):
                lastpos[d.sender[m]] = pos
            crash = defaultdict(int)
            for q in range(n):
                lo = lastpos.get(q, 0)
                p = rng.randint(lo, len(order) - 1) if rng.random() < 0.5 else len(order) - 1
                crash[p] |= 1 << q
            b, _, dl = run(d, order, toto_decide, phi, variant, crash)
            if dl != all_agreed:
                notempty += 1
            if ref is None:
                ref = b
            elif b != ref:
                bad += 1
                break
        cases += 1
    return cases, bad, notempty


def phase_liveness(seconds, rng, phi_of, nset=(3, 4, 5)):
    """All processors known to have voted (or defunct) but undelivered agreed messages remain?"""
    t0 = time.process_time()
    cases = stuck = 0
    while time.process_time() - t0 < seconds:
        n = rng.choice(nset)
        d = random_dag(rng, n, rng.randint(n + 1, 4 + 4 * n))
        order = random_extension(rng, d)
        _, _, dl = run(d, order, toto_decide, phi_of(n), "paper", {len(order) - 1: (1 << n) - 1})
        stuck += any(d.kind[m] == "A" and not dl >> m & 1 for m in range(d.N))
        cases += 1
    return cases, stuck


# ---- timed latency: n processors broadcasting on a network with random per-receiver delays
def timed_run(rng, n, interval, delay, periodic, total):
    """Every processor sends agreed messages (inter-send time `interval`, Poisson or periodic).
    Returns the DAG and, per processor, its causal receive order with times."""
    import heapq

    d = Dag(n)
    know = [0] * n
    log = [[] for _ in range(n)]  # (time, msg)
    buf = [[] for _ in range(n)]
    sent_at = {}
    ev = []
    seq = 0
    for p in range(n):
        heapq.heappush(ev, (rng.random() * interval, seq, "s", p, None))
        seq += 1
    while ev:
        t, _, k, p, m = heapq.heappop(ev)
        if k == "s":
            if total <= d.N:
                continue
            m = d.add(p, know[p], "A")
            know[p] = d.past[m]
            sent_at[m] = t
            log[p].append((t, m))
            for q in range(n):
                if q != p:
                    heapq.heappush(ev, (t + delay * (0.5 + rng.expovariate(2.0)), seq, "r", q, m))
                    seq += 1
            gap = interval if periodic else rng.expovariate(1.0 / interval)
            heapq.heappush(ev, (t + gap, seq, "s", p, None))
            seq += 1
        else:
            buf[p].append(m)
            again = True
            while again:
                again = False
                for x in list(buf[p]):
                    if (d.past[x] & ~(1 << x)) & ~know[p] == 0:
                        buf[p].remove(x)
                        know[p] |= 1 << x
                        log[p].append((t, x))
                        again = True
    return d, log, sent_at


def phase_latency(seconds, rng):
    rows = []
    for label, periodic, ratio in (
        ("periodic narrow", True, 0.02),
        ("Poisson  narrow", False, 0.02),
        ("Poisson  medium", False, 0.2),
        ("Poisson  wide  ", False, 1.0),
    ):
        for n in (3, 5, 8):
            t0 = time.process_time()
            acc = defaultdict(lambda: [0, 0.0])
            while time.process_time() - t0 < seconds / 12:
                d, log, sent = timed_run(rng, n, 1.0, ratio, periodic, 10 * n)
                p = rng.randrange(n)
                order = [m for _, m in log[p]]
                tm = [t for t, _ in log[p]]
                ts = lamport_times(d)
                res = {
                    "toto": run(d, order, toto_decide, n / 2, "paper")[1],
                    "relaxed": run(d, order, toto_decide, n / 2, "relaxed")[1],
                    "allack": run(d, order, allack_decide, n / 2)[1],
                    "lamport": run_lamport(d, order, ts)[1],
                }
                own = [
                    m
                    for m in range(2 * n, 7 * n)
                    if d.sender[m] == p and all(m in r for r in res.values())
                ]
                for k, r in res.items():
                    for m in own:  # latency at the sender, in units of the send interval
                        acc[k][0] += 1
                        acc[k][1] += tm[r[m]] - sent[m]
            rows.append((label, n, {k: (v[1] / max(1, v[0]), v[0]) for k, v in acc.items()}))
    return rows


def check_broken(secs, rng):
    """Broken variants: how many were not caught."""
    print("== broken variants (the checker must find disagreements)")
    missed = 0
    for name, decide, variant in (
        ("simple majority", majority_decide, None),
        ("no internal stability", toto_decide, "nointernal"),
        ("no external stability", toto_decide, "noext"),
    ):
        cases, bad, _ = phase_random(secs / 4, rng, decide, variant)
        missed += not bad
        print(f"   {name:24s} cases={cases} disagreements={bad}")
    cases, stuck = phase_liveness(secs / 8, rng, lambda n: n / 2 - 1)
    missed += not stuck
    print(f"   phi=n/2-1 (illegal)      cases={cases} stuck with all votes known={stuck}")
    cases, stuck = phase_liveness(secs / 8, rng, lambda n: n / 2)
    print(f"   phi=n/2   (legal)        cases={cases} stuck with all votes known={stuck}")
    return missed + stuck


def check_sound(secs, rng, var):
    """A sound variant: how many disagreements there were."""
    cases, bad, first = phase_random(secs, rng, toto_decide, var)
    print(
        f"== {var}: phi=n/2, n=2..5, 3 observers: cases={cases} disagreements={bad} {first or ''}"
    )
    total = bad
    cases, bad, first = phase_random(secs / 4, rng, toto_decide, var, phis="any")
    print(f"== {var}: n/2<=phi<n: cases={cases} disagreements={bad} {first or ''}")
    total += bad
    dags, cuts, bad = phase_cuts(secs / 4, rng, var)
    print(f"== {var}: every consistent cut: dags={dags} cuts={cuts} with two decisions={bad}")
    total += bad
    cases, bad, rest = phase_crash(secs / 4, rng, var)
    print(f"== {var}: close: cases={cases} disagreements={bad} with an undelivered rest={rest}")
    return total + bad + rest


def show_latency(secs, rng):
    print("== mean latency at the sender, in send intervals of one processor (agreed only)")
    for label, n, r in phase_latency(secs, rng):
        base = r["allack"][0]
        print(
            f"   {label} n={n} "
            + "  ".join(f"{k}:{v[0]:.3f}" for k, v in r.items())
            + f"  speedup allack/toto={base / r['toto'][0]:.2f}  samples={r['toto'][1]}"
        )


def main(argv):
    what = argv[0] if argv else "all"
    secs = float(argv[1]) if len(argv) > 1 else 10
    rng = random.Random(int(argv[2]) if len(argv) > 2 else 1)
    wrong = 0
    if what in ("broken", "all"):
        wrong += check_broken(secs, rng)
    for var in ("paper", "relaxed"):
        if what in (var, "all"):
            wrong += check_sound(secs, rng, var)
    if what in ("latency", "all"):
        show_latency(secs, rng)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
