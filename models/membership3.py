"""A model of the membership protocol: rules R1 to R5, N, J, T, Cut and Early delivery.

docs/protocol/membership.md has the rules. The model has its own properties, mutants and random
walks, and shares no code with the product. Run it with

    python models/membership3_run.py walk 1000

That program also explores small cases exhaustively.

A proposal and the view that it makes are one value (C, X): components and left-out entries
(member, component). Frames: ISSUE a proposal, TAG (first word from a view), DATA. `causal`: a
frame enters with its past. Else (exhaustive cases) each frame enters alone, in any order: the
weakest network, enough for P.1.
"""

import random

ISSUE, TAG, DATA = "issue", "tag", "data"


class Bad(Exception):
    """A property was violated."""


class Views:
    """All proposals, interned. `at[v]` maps each member's name to the component it comes from."""

    def __init__(self):
        self.ids, self.key, self.at, self.epoch, self.live = {}, [], [], [], []

    def boot(self, members):
        return self._new(("boot", frozenset(members)), dict.fromkeys(members, -1), 0, ())

    def of(self, comps, out):
        key = (frozenset(comps), frozenset(out))
        if key in self.ids:
            return self.ids[key]
        at, live, epoch = {}, [], 0
        for c in sorted(comps, key=lambda c: (self.epoch[c], c)):
            stay = [m for m in self.at[c] if (m, c) not in key[1]]
            if stay:
                live.append(c)
            epoch = max(epoch, self.epoch[c])
            at.update(dict.fromkeys(stay, c))
        return self._new(key, at, epoch + 1, tuple(live))

    def _new(self, key, at, epoch, live):
        if key not in self.ids:
            self.ids[key] = len(self.key)
            self.key.append(key)
            self.at.append(at)
            self.epoch.append(epoch)
            self.live.append(live)
        return self.ids[key]


class Member:
    def __init__(self, me, base):
        self.me, self.base, self.issued, self.have, self.past = me, base, (), 0, frozenset([base])
        self.phase, self.ok, self.newest, self.did, self.dead = 0, 0, {}, 0, False

    def copy(self):
        m = Member.__new__(Member)
        m.__dict__.update(self.__dict__)
        m.newest = dict(self.newest)
        return m

    def state(self):
        return self.base, self.issued, self.have, self.past, tuple(sorted(self.newest.items()))


class World:
    def __init__(self, boots, causal=True, mutant=""):
        self.v, self.frames = Views(), []  # frame: (sender, base, phase, kind, proposal)
        self.reach, self.index, self.causal, self.mutant = [], {}, causal, set(mutant.split("+"))
        self.content, self.first, self.m, self.moves, self.cut, self.seen_in = (
            {},
            {},
            {},
            {},
            {},
            {},
        )
        self.installs = self.noise = 0
        for members in boots:
            b = self.v.boot(members)
            for p in members:
                self.m[p], self.seen_in[p, b] = Member(p, b), -1
        for p in self.m.values():
            if causal or len(boots) > 1:
                self.say(p, TAG)

    # ------------------------------------------------------------------ frames

    def say(self, p, kind, prop=None):
        frame = (p.me, p.base, p.phase if self.causal else 0, kind, prop)
        f = None if self.causal else self.content.get(frame)
        if f is None:
            f = len(self.frames)
            self.frames.append(frame)
            self.content[frame] = f
            self.reach.append(p.have | 1 << f)
            if kind == ISSUE:
                assert (p.me, p.base, prop) not in self.index, "a proposal twice"
                self.index[p.me, p.base, prop] = f
                self.first.setdefault((p.me, p.base), f)
        p.have |= 1 << f
        if kind != ISSUE and (not p.issued):
            p.ok |= 1 << f
        return f

    def enter(self, p, f, direct=True):
        """A frame comes to p, in the causal model with its past; `direct`: from its sender."""
        new = (self.reach[f] if self.causal else 1 << f) & ~p.have
        while new:
            x = (new & -new).bit_length() - 1
            new &= new - 1
            p.have |= 1 << x
            self.entered(p, x)
            self.handle(p, x, direct and x == f)
            self.check(p)

    def entered(self, p, x):
        """Colour, and what may be delivered at once in the view (cut rule)."""
        sender, base, phase, kind, _ = self.frames[x]
        if base == p.base and (kind == ISSUE or phase):
            p.phase = 1
        if not p.issued or "early" in self.mutant:
            p.ok |= 1 << x
        elif base == p.base and self.entries(p).get(sender) == base:
            if (phase == 0 and kind != ISSUE) or self.first.get((sender, base)) == x:
                p.ok |= self.reach[x]

    def entries(self, p):
        return self.v.at[p.issued[-1]] if p.issued else dict.fromkeys(self.v.at[p.base], p.base)

    # ------------------------------------------------------------------ the rules

    def current(self, p):
        return self.v.key[p.issued[-1]] if p.issued else (frozenset([p.base]), frozenset())

    def normal(self, p, comps, out):
        """Rule N: none of my past; live components are disjoint (the older goes, never my own)."""
        v, out = self.v, set(out)
        if "byname" in self.mutant:
            gone = {m for m, _ in out if (p.me != m)}
            out |= {(m, c) for c in comps for m in v.at[c] if m in gone}
        for c in comps if "nonorm" not in self.mutant else ():
            if c != p.base and (p.me in v.at[c] or (c in p.past and "norepeat" not in self.mutant)):
                out |= {(m, c) for m in v.at[c]}
        order = sorted(comps, key=lambda c: (c == p.base, v.epoch[c], c))
        for i, c in enumerate(order):
            stay = {m for m in v.at[c] if (m, c) not in out}
            for d in order[i + 1 :]:
                if not stay or all((m, d) in out for m in v.at[d]):
                    continue
                if "overlap" in self.mutant:
                    both = stay & {m for m in v.at[d] if (m, d) not in out}
                    out |= {(m, c) for m in both}
                    stay -= both
                elif v.at[c].keys() & v.at[d].keys():
                    out |= {(m, c) for m in v.at[c]}
                    break
        return v.of(comps, out)

    def unite(self, p, comps, out, foreign=None):
        """R1: issue the union of what I said and what I hear."""
        c0, x0 = self.current(p)
        new = self.normal(p, c0 | frozenset(comps), x0 | frozenset(out))
        if foreign is not None and foreign not in self.v.live[new]:
            return
        if new in p.issued or self.v.key[new] == (c0, x0):
            return
        key = self.v.key[new]
        assert c0 <= key[0]
        assert x0 <= key[1]
        assert self.v.at[new].get(p.me) == p.base
        if (
            not p.issued
            and self.v.live[new] == (p.base,)
            and len(self.v.at[new]) == len(self.v.at[p.base])
        ):
            return  # nothing to change
        self.issue(p, new)

    def issue(self, p, new):
        p.issued += (new,)
        p.phase = 1
        self.say(p, ISSUE, new)
        self.check(p)

    def leave_out(self, p, member, base):
        if member != p.me:
            self.unite(p, (base,), ((member, base),))

    def suspect(self, p, member):
        if member in self.entries(p):
            self.leave_out(p, member, self.entries(p)[member])

    def abandon(self, p):
        """Mutant: give up the other components."""
        comps, out = self.current(p)
        new = self.v.of([p.base], {e for e in out if e[1] == p.base})
        if len(comps) > 1 and len(self.v.at[new]) < len(self.v.at[p.base]) and new not in p.issued:
            self.issue(p, new)

    def handle(self, p, x, fresh=False):
        sender, base, _, kind, prop = self.frames[x]
        v = self.v
        if sender == p.me or v.epoch[base] < v.epoch[p.newest.get(sender, base)]:
            return None
        p.newest[sender] = base
        if kind == DATA:
            return None
        at = self.entries(p).get(sender)
        if "r3any" in self.mutant and base in p.issued:
            return self.install(p, base)
        if at is None or (at != base and v.epoch[base] >= v.epoch[at]):
            if at is not None:  # it moved
                if base in p.issued and v.at[base].get(sender) == at:
                    return None if "nor3" in self.mutant else self.install(p, base)  # R3
            comps, out = v.key[prop] if kind == ISSUE else ((base,), ())
            odd = (sender, base) in self.current(p)[1] or base in p.past or (p.me, p.base) in out
            if fresh and not odd and p.me not in v.at[base]:  # fresh contact: join, or follow
                gone = () if at is None else ((sender, at),)
                self.unite(p, {base, *comps}, {*out, *gone}, foreign=base)
            if at is not None and self.entries(p).get(sender) == at:
                self.leave_out(p, sender, at)  # R4
        elif at == base and kind == ISSUE:
            comps, out = v.key[prop]
            if (p.me, p.base) in out:
                self.leave_out(p, sender, base)
            else:
                self.unite(p, comps, out)
        return None

    def closed(self, p, prop):
        return all(
            p.have >> self.index[m, c, prop] & 1 if (m, c, prop) in self.index else False
            for m, c in self.v.at[prop].items()
        )

    def check(self, p):
        if p.issued and self.closed(p, p.issued[-1]):
            return self.install(p, p.issued[-1])  # R2
        if {"old", "barred"} & self.mutant:
            for old in p.issued[:-1]:
                same = self.v.key[old][0] == self.v.key[p.issued[-1]][0]
                if (same or "old" in self.mutant) and self.closed(p, old):
                    return self.install(p, old)
        return None

    def eligible(self, base, mask):
        """Data frames that view `base` delivers: sent in it in phase 0, or carried into it."""
        at = self.v.at[base]
        return sum(
            1 << x
            for x, (sender, b, phase, kind, _) in enumerate(self.frames)
            if kind == DATA
            and mask >> x & 1
            and ((b == base and not phase) or (phase and at.get(sender) == b))
        )

    def install(self, p, new):
        base, v = p.base, self.v
        if self.causal:
            below, last = 0, "last" in self.mutant
            for m, c in v.at[new].items():
                if c == base:
                    f = self.index[m, c, new]
                    if last:
                        f = max(
                            i
                            for (s, b, _), i in self.index.items()
                            if (s, b) == (m, c) and p.have >> i & 1
                        )
                    below |= self.reach[f]
            if below & ~p.have:
                raise Bad("P.2: closing past missing")
            cut = self.eligible(base, below)
            if self.eligible(base, p.ok & p.have) & ~cut:
                raise Bad("P.2: delivered beyond the cut")
            if self.cut.setdefault((base, new), cut) != cut:
                raise Bad("P.2: two cuts")
            if cut & p.did:
                raise Bad("duplicate delivery")
            p.did |= cut
        self.audit(p, base, new)
        p.base, p.issued, p.phase = new, (), 0
        p.past |= {new, base, *v.live[new]}
        self.installs += 1
        self.noise += v.live[new] == (base,) and len(v.at[new]) == len(v.at[base])
        p.ok = p.have
        p.phase = int(
            any(
                b == new and (k == ISSUE or ph) and p.have >> i & 1
                for i, (_, b, ph, k, _) in enumerate(self.frames)
            )
        )
        self.say(p, TAG)
        self.again(p)

    def again(self, p):
        """Look once more at what was heard, from the new view."""
        base = p.base
        for x, frame in enumerate(list(self.frames)):
            if p.base != base:
                return
            if frame[1] == base and frame[0] != p.me and p.have >> x & 1:
                self.handle(p, x)
        if p.base == base:
            self.check(p)

    # ------------------------------------------------------------------ properties

    def audit(self, p, base, new):
        v, me = self.v, p.me
        if me not in v.at[new] or v.at[new][me] != base:
            raise Bad("self-inclusion")
        if (me, new) in self.seen_in:
            raise Bad("a view twice")
        self.seen_in[me, new] = base
        for (q, old), to in self.moves.items():
            if q == me or to == new:
                continue
            if v.at[new].get(q) == old and v.at[to].get(me) == base:
                raise Bad("P.1 over entries")
            if old == base and q in v.at[new] and me in v.at[to]:
                raise Bad("P.1")
            if old in v.live[new] and base in v.live[to] and q in v.at[new] and me in v.at[to]:
                raise Bad("P.1 over components")
        for q in v.at[new]:
            old = self.seen_in.get((q, new), base)
            if old != base and ((q, base) in self.seen_in or (me, old) in self.seen_in):
                raise Bad("chain")
        self.moves[me, base] = new


# ---------------------------------------------------------------------- random walks


def settle(w, rng, groups, calm=False, bound=40):
    """From now on frames flow within each group and time-outs fire: everybody must reach one view
    per group, with a bounded number of installs, and stay there."""
    before = w.installs
    group = {p: g for g in groups for p in g}
    for _ in range(4000):
        busy = False
        order = [p for p in w.m if not w.m[p].dead]
        rng.shuffle(order)
        for name in order:
            p, mates = w.m[name], group[name]
            lacks = 0
            for q in mates:
                lacks |= w.m[q].have & ~p.have
            if lacks:
                todo = [x for x in range(len(w.frames)) if lacks >> x & 1]
                x = todo[0] if rng.random() < 0.6 else rng.choice(todo)
                w.enter(
                    p, x, w.frames[x][0] in mates and w.frames[x][1] == w.m[w.frames[x][0]].base
                )
                busy = True
        if w.installs - before > bound * len(w.m):
            raise Bad("liveness: views without end")
        if busy:
            continue
        for name in order:  # quiet: what a failure detector and the timers would do
            p = w.m[name]
            gone = [m for m in w.entries(p) if m != name and m not in group[name]]
            if gone:
                w.suspect(p, rng.choice(gone))
                busy = True
        if busy:
            continue
        late = {}
        for name in order:
            p = w.m[name]
            if p.issued:
                prop = p.issued[-1]
                late[name] = [
                    m
                    for m, c in w.v.at[prop].items()
                    if m != name
                    and not (
                        w.index.get((m, c, prop), -1) >= 0 and p.have >> w.index[m, c, prop] & 1
                    )
                ]
            else:
                late[name] = [m for m in w.v.at[p.base] if m != name and w.m[m].base != p.base]
        said = len(w.frames)
        for name in order:  # HELLO: who is near and not in my proposal is heard afresh
            p = w.m[name]
            for q in group[name]:
                if q not in w.entries(p):
                    last = [
                        x
                        for x, f in enumerate(w.frames)
                        if f[:2] == (q, w.m[q].base) and f[3] != DATA and w.m[q].have >> x & 1
                    ]
                    if last:
                        w.handle(p, last[-1], True)
                        w.check(p)
        if len(w.frames) > said:
            continue
        slow = [n for n in order if late[n]]
        if slow:
            name = rng.choice(slow)
            if calm:
                raise Bad("needless: a time-out among the living")
            w.suspect(w.m[name], rng.choice(late[name]))
            continue
        apart = [n for n in order if set(w.v.at[w.m[n].base]) != set(group[n])]
        if not apart:
            for g in groups:
                if len({w.m[p].base for p in g}) > 1:
                    raise Bad("liveness: one group, two views of the same members")
            return w.installs - before
        for p in w.m.values():  # the exhaustive cases start without a word: HELLO
            if not p.dead and (p.me, p.base, 0, TAG, None) not in [
                f for x, f in enumerate(w.frames) if p.have >> x & 1
            ]:
                w.say(p, TAG)
    raise Bad("liveness: stuck")


def walk(seed, mutant="", n=None, causal=True, mode=None):
    """Modes: mixed; wild, with many false suspicions; calm, in which only the dead are suspected
    and no link fails: then nobody may need a time-out against a living member."""
    rng = random.Random(seed)
    mode = mode or rng.choice(("mixed", "mixed", "wild", "calm"))
    calm = mode == "calm"
    n = n or rng.choice((4, 4, 4, 5, 5, 6))
    names = list(range(n))
    style = rng.choice(("one", "one", "pairs", "singles", "two"))
    if style == "two":
        k = rng.randint(1, n - 1)
        boots = [names[:k], names[k:]]
    else:
        k = {"one": n, "singles": 1, "pairs": 2}[style]
        boots = [names[i : i + k] for i in range(0, n, k)]
    w = World(boots, causal, mutant)
    false = 0 if calm else rng.randint(4, 12) if mode == "wild" else rng.randint(0, 4)
    crashes = rng.choice((0, 0, 1, 2)) if n > 2 else 0
    sends = rng.randint(0, 8) if causal else 0
    linked = {(p, q): True for p in names for q in names}
    # PCT-like: links have priorities, changed at a few points; low ones starve for long stretches
    prio = {link: rng.random() for link in linked}
    steps = rng.randint(10, (60 if mode == "wild" else 30) * n)
    turns = {rng.randrange(steps) for _ in range(rng.randint(0, 6))}
    bias = rng.choice((0.0, 0.5, 0.9, 0.97))
    for step in range(steps):
        if step in turns:
            for link in rng.sample(sorted(prio), max(1, len(prio) // 3)):
                prio[link] = rng.random()
            if rng.random() < 0.3 and not calm:
                side = {p for p in names if rng.random() < 0.5}
                heal = rng.random() < 0.5
                for p, q in linked:
                    linked[p, q] = heal or (p in side) == (q in side)
        alive = [p for p in names if not w.m[p].dead]
        roll = rng.random()
        if roll < 0.1 and calm and len(alive) < n:
            w.suspect(w.m[rng.choice(alive)], rng.choice([p for p in names if w.m[p].dead]))
        elif roll < 0.05 and false:
            false -= 1
            p = w.m[rng.choice(alive)]
            w.suspect(p, rng.choice(names))
            if rng.random() < 0.5 and len(alive) > 1:  # two say the same, as real faults do
                w.suspect(w.m[rng.choice(alive)], rng.choice(names))
        elif roll < 0.07 and crashes and len(alive) > 1:
            crashes -= 1
            w.m[rng.choice(alive)].dead = True
        elif roll < 0.16 and sends:
            sends -= 1
            w.say(w.m[rng.choice(alive)], DATA)
        elif roll < 0.2 and "nonmono" in w.mutant:
            w.abandon(w.m[rng.choice(alive)])
        else:
            ways = [
                (p, q)
                for p, q in linked
                if linked[p, q] and not w.m[q].dead and w.m[p].have & ~w.m[q].have
            ]
            if not ways:
                continue
            p, q = max(ways, key=prio.get) if rng.random() < bias else rng.choice(ways)
            lacks = w.m[p].have & ~w.m[q].have
            todo = [x for x in range(len(w.frames)) if lacks >> x & 1]
            own = [x for x in todo if w.frames[x][0] == p] or todo
            x = own[0] if rng.random() < 0.7 else rng.choice(own)
            w.enter(w.m[q], x, w.frames[x][0] == p)
    alive = [p for p in names if not w.m[p].dead]
    cut = rng.randint(0, len(alive)) if rng.random() < 0.4 and not calm else 0
    groups = [frozenset(g) for g in (alive[:cut], alive[cut:]) if g]
    late = settle(w, rng, groups, calm)
    if causal:
        for p in alive:
            member = w.m[p]
            mine = sum(1 << x for x, f in enumerate(w.frames) if f[0] == p and f[3] == DATA)
            if mine & ~(member.did | w.eligible(member.base, member.ok & member.have)):
                raise Bad("self-delivery")
    return w, late
